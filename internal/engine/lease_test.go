package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// link is one process' connection to a shared ledger. It can fail calls before or after they are carried out.
type link struct {
	ledger.Ledger
	mu     sync.Mutex
	before func(memory.Op) error // nil: the call goes through
	after  func(memory.Op) error
	owners []string
	// stretches says that owners take stretches, as Kafka's do.
	stretches bool
	dice      *rand.Rand                    // of which stretches the ledger leaves alone; nil: of none
	frozen    atomic.Pointer[chan struct{}] // calls wait until it is closed
	lag       atomic.Int64                  // nanoseconds that each Settle takes
	settles   atomic.Int64                  // calls of Settle
}

func (l *link) set(before, after func(memory.Op) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.before, l.after = before, after
}

func (l *link) owner() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.owners[len(l.owners)-1]
}

func (l *link) ask(op memory.Op, carryOut func() error) error {
	if f := l.frozen.Load(); f != nil {
		<-*f
	}
	if op == memory.Settle {
		l.settles.Add(1)
		time.Sleep(time.Duration(l.lag.Load()))
	}
	if err := l.fault(op, false); err != nil {
		return err
	}
	err := carryOut()
	if err == nil {
		err = ledger.MarkUnknown(l.fault(op, true))
	}
	return err
}

func (l *link) fault(op memory.Op, after bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.before
	if after {
		f = l.after
	}
	if f == nil {
		return nil
	}
	return f(op)
}

func (l *link) Join(ctx context.Context, lease time.Duration) (o ledger.Owner, err error) {
	err = l.ask(memory.Join, func() (err error) { o, err = l.Ledger.Join(ctx, lease); return err })
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.owners = append(l.owners, o.ID())
	l.mu.Unlock()
	if l.stretches {
		return &stretchLink{&linkOwner{ledger.Ungroup(o), l}}, nil
	}
	return &linkOwner{o, l}, nil
}

// CountDeliveries implements ledger.DeliveryCounter.
func (l *link) CountDeliveries(ctx context.Context, more []ledger.Deliveries) error {
	return l.ask(memory.Count, func() error { return l.Ledger.(ledger.DeliveryCounter).CountDeliveries(ctx, more) })
}

type linkOwner struct {
	ledger.Owner
	link *link
}

func (o *linkOwner) Unwrap() ledger.Owner { return o.Owner }

func (o *linkOwner) Claim(ctx context.Context, entries []ledger.Entry) (c []ledger.Claim, err error) {
	err = o.link.ask(memory.Claim, func() (err error) { c, err = o.Owner.Claim(ctx, entries); return err })
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (o *linkOwner) Settle(ctx context.Context, s []ledger.Settlement) (errs []error, err error) {
	err = o.link.ask(memory.Settle, func() (err error) { errs, err = o.Owner.Settle(ctx, s); return err })
	if err != nil {
		return nil, err
	}
	return errs, nil
}

func (o *linkOwner) Beat(ctx context.Context) (d time.Duration, err error) {
	err = o.link.ask(memory.Beat, func() (err error) { d, err = o.Owner.Beat(ctx); return err })
	return d, err
}

func (o *linkOwner) Leave(ctx context.Context) error {
	return o.link.ask(memory.Leave, func() error { return o.Owner.Leave(ctx) })
}

var errDown = errors.New("connection refused")

func down(memory.Op) error { return errDown }

func only(op memory.Op, err error) func(memory.Op) error {
	return func(o memory.Op) error {
		if o == op {
			return err
		}
		return nil
	}
}

// obedient runs until its context is cancelled the first time, and notes why; then it succeeds.
type obedient struct {
	mu     sync.Mutex
	causes []error
	tokens []uint64
	runs   atomic.Int64

	cancelled chan struct{}
}

func newObedient() *obedient { return &obedient{cancelled: make(chan struct{})} }

func (o *obedient) Handle(ctx context.Context, _ *consumer.Message) error {
	o.mu.Lock()
	o.tokens = append(o.tokens, consumer.Token(ctx))
	o.mu.Unlock()
	if o.runs.Add(1) > 1 {
		return nil
	}
	<-ctx.Done()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.causes = append(o.causes, context.Cause(ctx))
	close(o.cancelled)
	return ctx.Err()
}

// The last call of a worker is to leave. Where its answer takes longer than one call may, the worker asks again while its
// lease runs: it ends cleanly, and is nobody's dead.
func TestLeaveAnsweredLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		net := &link{Ledger: l}
		e, b := begin(t, net, options(), func(context.Context, *consumer.Message) error { return nil })
		it := item("one", "")
		e.Offer([]*engine.Item{it})
		pass(time.Second)
		b.wantAcked(t, it)
		asked := 0
		net.set(func(op memory.Op) error {
			if op != memory.Leave {
				return nil
			}
			if asked++; asked == 1 {
				time.Sleep(options().Lease/3 + 100*time.Millisecond)
				return context.DeadlineExceeded
			}
			return nil
		}, nil)
		end(t, e)
		if asked != 2 {
			t.Errorf("asked to leave %d times, want 2: the first answer came too late", asked)
		}
	})
}

// A worker that was declared dead while it runs learns it from its beat (0 rows): each handler is cancelled with
// ErrLost, the worker joins anew, and the message runs again under a higher token.
func TestPitfall04_DeclaredDeadWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		net := &link{Ledger: l}
		h := newObedient()
		e, b := begin(t, net, options(), h.Handle)
		it := item("one", "")
		e.Offer([]*engine.Item{it})
		pass(time.Second)
		l.Declare(net.owner())
		declared := time.Now()
		<-h.cancelled
		if waited := time.Since(declared); waited > 2*time.Second {
			t.Errorf("cancelled after %s, a beat comes every 2s", waited)
		}
		pass(time.Minute)
		b.wantAcked(t, it)
		rec := state(t, l, it)
		if len(h.causes) != 1 || !errors.Is(h.causes[0], ledger.ErrLost) || fmt.Sprint(h.tokens) != "[1 2]" {
			t.Errorf("causes %v, tokens %v", h.causes, h.tokens)
		}
		if rec.State != ledger.Succeeded || rec.Attempts != 0 || len(net.owners) != 2 {
			t.Errorf("%+v, owners %v", rec, net.owners)
		}
		end(t, e)
	})
}

// No beat is confirmed: before its lease ends the worker cancels its handlers, leaves on its return, joins anew and
// takes its own row back under a new token; its old one is dead. No crash is counted, since it left.
func TestPitfall05_LeaseRunsOutAndRejoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		net := &link{Ledger: l}
		h := newObedient()
		e, b := begin(t, net, options(), h.Handle)
		it := item("one", "")
		e.Offer([]*engine.Item{it})
		pass(time.Second)
		began := time.Now()
		net.set(only(memory.Beat, errDown), nil)
		<-h.cancelled
		if waited := time.Since(began); waited > 6*time.Second {
			t.Errorf("cancelled after %s, the lease is 6s", waited)
		}
		net.set(nil, nil)
		pass(time.Minute)
		b.wantAcked(t, it)
		if rec := state(t, l, it); rec.State != ledger.Succeeded || rec.Crashes != 0 || rec.Attempts != 0 || fmt.Sprint(h.tokens) != "[1 2]" {
			t.Errorf("%+v, tokens %v", rec, h.tokens)
		}
		if !errors.Is(h.causes[0], ledger.ErrLost) || len(net.owners) != 2 {
			t.Errorf("cause %v, owners %v", h.causes, net.owners)
		}
		end(t, e)
	})
}

// A frozen process wakes up after its lease with messages claimed but not started: they are not started on the old
// claim. A peer ran them meanwhile, and each ran once.
func TestFrozenProcessStartsNothingOnAnOldLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		frozen := make(chan struct{})
		var asleep atomic.Bool
		net := &link{Ledger: l}
		var mu sync.Mutex
		runs := map[string]int{}
		count := func(id string) { mu.Lock(); runs[id]++; mu.Unlock() }
		o := options()
		o.Concurrency = 1
		hold := make(chan struct{})
		e, b := begin(t, net, o, func(ctx context.Context, m *consumer.Message) error {
			if m.ID == "first" {
				<-hold
				return ctx.Err()
			}
			count(m.ID)
			return nil
		}, func(c *engine.Config) { c.HoldMax = time.Hour })
		behind := []*engine.Item{item("behind 1", ""), item("behind 2", "")}
		for _, it := range behind { // what a SIGSTOP between the check and the start would do
			it.Alive = func(*engine.Item) bool {
				if asleep.Load() {
					<-frozen
				}
				return true
			}
		}
		e.Offer(append([]*engine.Item{item("first", "")}, behind...))
		pass(time.Second)
		asleep.Store(true)
		net.frozen.Store(&frozen)
		close(hold) // the handler's slot is free: the next message is on its way to be started
		peer, pb := begin(t, l, options(), func(_ context.Context, m *consumer.Message) error { count(m.ID); return nil })
		pass(time.Minute) // the frozen one is declared dead
		copies := []*engine.Item{item("behind 1", ""), item("behind 2", "")}
		peer.Offer(copies)
		pass(time.Minute)
		pb.wantAcked(t, copies...)
		asleep.Store(false)
		close(frozen)
		pass(time.Minute)
		b.wantAcked(t, behind...)
		if runs["behind 1"] != 1 || runs["behind 2"] != 1 {
			t.Errorf("runs %v", runs)
		}
		end(t, e)
		end(t, peer)
	})
}

// Two deploys and a 90 s outage of the database under one-hour handlers: no attempt and no crash is counted. The engine's
// part: interrupted handlers are released uncounted, and a session that was lost in the outage is left, by the worker's
// return as well as by its end.
func TestPitfall110_OutageAndDeploysCountNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		hour := func(ctx context.Context, _ *consumer.Message) error {
			select {
			case <-time.After(time.Hour):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		all := func() []*engine.Item { return items(3, noLane) }
		o := options()
		o.HandlerTimeout = 2 * time.Hour
		first := &link{Ledger: l}
		e, _ := begin(t, first, o, hour) // first deploy
		e.Offer(all())
		pass(10 * time.Minute)
		_ = e.Drain(t.Context())
		if err := e.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		second := &link{Ledger: l}
		e, _ = begin(t, second, o, hour)
		e.Offer(all())
		pass(10 * time.Minute)
		second.set(down, nil)
		pass(90 * time.Second)
		second.set(nil, nil)
		pass(10 * time.Minute)
		second.set(down, nil) // the second deploy comes while the database is away again
		pass(30 * time.Second)
		_ = e.Drain(t.Context())
		time.AfterFunc(time.Second, func() { second.set(nil, nil) })
		if err := e.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		e, b := begin(t, l, o, hour)
		in := all()
		e.Offer(in)
		pass(3 * time.Hour)
		b.wantAcked(t, in...)
		for _, it := range in {
			if rec := state(t, l, it); rec.State != ledger.Succeeded || rec.Attempts != 0 || rec.Crashes != 0 {
				t.Errorf("message %s: %d attempts, %d crashes, %v", it.Msg.ID, rec.Attempts, rec.Crashes, rec.State)
			}
		}
		end(t, e)
	})
}

func TestLiveFollowsTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := &link{Ledger: memory.New()}
		e, _ := begin(t, net, options(), func(context.Context, *consumer.Message) error { return nil })
		pass(time.Hour)
		if !e.Live() || !e.Open() {
			t.Error("not live after an hour of beats")
		}
		net.set(down, nil)
		pass(6*time.Second + time.Millisecond)
		if e.Live() || e.Open() {
			t.Error("live without a confirmed beat for a whole lease")
		}
		net.set(nil, nil)
		pass(20 * time.Second)
		if !e.Live() || !e.Open() {
			t.Error("not live after the outage")
		}
		end(t, e)
	})
}

func TestStartReturnsWhatCannotHeal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := &link{Ledger: memory.New()}
		o, _ := options().WithDefaults()
		build := func() *engine.Engine {
			e, err := engine.New(engine.Config{Options: o, Ledger: net, Handler: consumer.HandlerFunc(nothing), Sink: &broker{}})
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		net.set(only(memory.Join, ledger.MarkUnusable(errBoom)), nil)
		e := build()
		if err := e.Start(t.Context()); !errors.Is(err, errBoom) {
			t.Errorf("start: %v", err)
		}
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
		net.set(down, nil)
		e = build()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if err := e.Start(ctx); err == nil || time.Since(began) != time.Minute {
			t.Errorf("start: %v after %s", err, time.Since(began))
		}
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
		time.AfterFunc(time.Minute, func() { net.set(nil, nil) })
		e = build()
		if err := e.Start(t.Context()); err != nil || !e.Open() {
			t.Errorf("start: %v, open %v", err, e.Open())
		}
		end(t, e)
	})
}

func nothing(context.Context, *consumer.Message) error { return nil }

func TestNewRefusesNil(t *testing.T) {
	o, _ := options().WithDefaults()
	full := engine.Config{Options: o, Ledger: memory.New(), Handler: consumer.HandlerFunc(nothing), Sink: &broker{}}
	for name, change := range map[string]func(*engine.Config){
		"ledger":                func(c *engine.Config) { c.Ledger = nil },
		"handler":               func(c *engine.Config) { c.Handler = nil },
		"function in a handler": func(c *engine.Config) { c.Handler = consumer.HandlerFunc(nil) },
		"sink":                  func(c *engine.Config) { c.Sink = nil },
	} {
		c := full
		change(&c)
		if _, err := engine.New(c); err == nil {
			t.Errorf("an engine without %s", name)
		}
	}
	if _, err := engine.New(full); err != nil {
		t.Errorf("an engine with all of them: %v", err)
	}
}
