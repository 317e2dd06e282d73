package engine

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
	"github.com/ackledger/ackledger/ledger"
)

type contextKey string

// pair is a run beside the contexts that it stands for; what is derived from one is derived from the other.
type pair struct {
	t        *testing.T
	run      *run
	real     context.Context
	cancel   context.CancelCauseFunc
	stop     context.CancelFunc
	over     bool
	children [][2]context.Context
	calls    [2]atomic.Int64 // of AfterFunc
	log      []string
}

func newPair(t *testing.T, limit time.Duration) *pair {
	base := context.WithoutCancel(context.WithValue(t.Context(), contextKey("user"), "value"))
	h := &calling{born: time.Now(), base: base, timeout: limit}
	time.Sleep(time.Hour) // an engine that is older than the limit
	c := newChunk(h, make([]consumer.Message, 1))
	p := &pair{t: t, run: &c.runs[0]}
	p.run.item = &Item{Msg: &consumer.Message{ID: "one"}}
	p.run.prepare(h.now())
	p.real, p.cancel = context.WithCancelCause(base)
	p.real, p.stop = context.WithDeadlineCause(p.real, time.Now().Add(limit), consumer.ErrTimeout)
	p.children = [][2]context.Context{{p.run, p.real}}
	return p
}

// derive makes a child of both; now and then one that is cancelled by itself.
func (p *pair) derive(rng *rand.Rand) {
	parent := p.children[rng.IntN(len(p.children))]
	var c [2]context.Context
	kind := rng.IntN(6)
	d := time.Duration(rng.IntN(3000)) * time.Millisecond
	for i, ctx := range parent {
		switch kind {
		case 0:
			c[i] = context.WithValue(ctx, contextKey("child"), kind)
		case 1:
			ctx, cancel := context.WithCancelCause(ctx)
			context.AfterFunc(ctx, func() { cancel(nil) })
			c[i] = ctx
		case 2:
			ctx, cancel := context.WithTimeout(ctx, d)
			context.AfterFunc(ctx, cancel)
			c[i] = ctx
		case 3:
			c[i] = context.WithoutCancel(ctx)
		case 4:
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(d, func() { cancel(ledger.ErrSettled) })
			c[i] = ctx
		case 5:
			c[i] = ctx
			context.AfterFunc(ctx, func() { p.calls[i].Add(1) })
		}
	}
	p.log = append(p.log, fmt.Sprint("derive ", kind, d))
	p.children = append(p.children, c)
}

func isDone(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	default:
		return false
	}
}

// agree asks one thing of a context and of what it stands for.
func (p *pair) agree(rng *rand.Rand) {
	c := p.children[rng.IntN(len(p.children))]
	var got [2]string
	what := rng.IntN(5)
	for i, ctx := range c {
		switch what {
		case 0:
			got[i] = fmt.Sprint(isDone(ctx))
		case 1:
			got[i] = fmt.Sprint(ctx.Err())
		case 2:
			got[i] = fmt.Sprint(context.Cause(ctx))
		case 3:
			at, ok := ctx.Deadline()
			got[i] = fmt.Sprint(at.Sub(p.run.of.born), ok)
		case 4:
			got[i] = fmt.Sprint(ctx.Value(contextKey("user")), ctx.Value(contextKey("child")), ctx.Value("no key"))
		}
	}
	p.log = append(p.log, fmt.Sprint("ask ", what))
	if got[0] != got[1] || p.calls[0].Load() != p.calls[1].Load() {
		p.t.Fatalf("question %d: the run says %s (%d calls), the context %s (%d calls), after %q", what, got[0], p.calls[0].Load(), got[1], p.calls[1].Load(), p.log)
	}
}

func (p *pair) step(rng *rand.Rand) {
	switch n := rng.IntN(20); {
	case n < 5:
		d := time.Duration(rng.IntN(700)) * time.Millisecond
		p.log = append(p.log, fmt.Sprint("pass ", d))
		time.Sleep(d)
	case n < 8:
		p.derive(rng)
	case n == 8 && !p.over:
		cause := []error{ledger.ErrLost, consumer.ErrRevoked, consumer.ErrShutdown}[rng.IntN(3)]
		p.log = append(p.log, fmt.Sprint("cancel ", cause))
		p.run.stopFor(cause)
		p.cancel(cause)
	case n == 9 && !p.over && rng.IntN(2) == 0:
		p.log = append(p.log, "return")
		p.over = true
		want := context.Cause(p.real)
		if _, got := p.run.finish(); fmt.Sprint(got) != fmt.Sprint(want) {
			p.t.Fatalf("finish says %v, the context %v, after %q", got, want, p.log)
		}
		p.cancel(nil)
		p.stop()
	default:
		p.agree(rng)
	}
	synctest.Wait()
}

// A handler cannot tell its context from one of package context, whenever it first asks for what: differential, against
// that package, with children, timers, cancelling and returning in random order.
func TestRunIsAContext(t *testing.T) {
	for seed := range uint64(400) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 7))
			p := newPair(t, 3*time.Second)
			for range 80 {
				p.step(rng)
			}
			if !p.over {
				_, _ = p.run.finish()
				p.cancel(nil)
				p.stop()
			}
			time.Sleep(time.Minute) // for the children's timers
			for range 20 {
				p.agree(rng)
			}
		})
	}
}

// What a handler's context has is the same for all who ask at once; who asks first when the handler has returned begins nothing.
func TestAttemptOfARunThatIsOver(t *testing.T) {
	e, _ := watched(t)
	sess := e.joins(nil)
	for _, asked := range []bool{true, false} {
		c := newChunk(&e.pool.handlers.calling, make([]consumer.Message, 2))
		c.claim = &claim{sess: &sess.flow, first: ledger.Key{Scope: "s", Pos: &ledger.Position{Log: "a", Offset: 3}}.Sum(), token: 9}
		r := &c.runs[1]
		r.id, r.offset = "a-4", 4
		if asked {
			var seen [8]*ledger.Attempt
			var wait sync.WaitGroup
			for i := range seen {
				wait.Go(func() { seen[i], _ = ledger.AttemptFrom(r) })
			}
			wait.Wait()
			for _, a := range seen {
				if a == nil || a != seen[0] {
					t.Errorf("attempts %p and %p of one run", a, seen[0])
				}
			}
		}
		if a, err := r.finish(); (a != nil) != asked || err != nil {
			t.Errorf("asked %v: the attempt is %v, %v", asked, a, err)
		} else if asked {
			_, _ = a.Conclude()
		}
		a, _ := ledger.AttemptFrom(r)
		want := ledger.NewTicket(ledger.Key{Scope: "s", Pos: &ledger.Position{Log: "a", Offset: 4}}.Sum(), 9)
		if err := a.Begin(); !errors.Is(err, ledger.ErrSettled) || a.Ticket() != want || consumer.Token(r) != 9 {
			t.Errorf("asked %v: a transaction begins after the handler: %v, %v", asked, err, a.Ticket())
		}
	}
}

// What is printed of a handler's context is not the message.
func TestRunIsPrintedByItsID(t *testing.T) {
	r := &run{item: &Item{Msg: &consumer.Message{Body: []byte("secret")}}}
	r.item.Key.ID = []byte("one")
	if s := fmt.Sprintf("%v %+v %s", r, context.Context(r), r); s != "ackledger handler of one ackledger handler of one ackledger handler of one" {
		t.Error(s)
	}
}

// An asked-for context is found again by package context, so that children of it need no goroutine.
func TestChildrenOfARunCostNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, time.Second)
		if _, ok := p.run.Value(cancelKey).(context.Context); !ok || cancelKey == nil {
			t.Errorf("the key of package context is %v, and nothing answers to it", cancelKey)
		}
		_, _ = p.run.finish()
		p.cancel(nil)
		p.stop()
	})
}

// The clock is not asked again after a run that went well: the next one of its goroutine begins where it ended.
func TestNextRunBeginsAtTheEndOfTheLast(t *testing.T) {
	h := &shared{calling: &calling{born: time.Now().Add(-time.Second)}}
	if at := (&run{of: h, stop: ending{ended: 1}}).after(); at != 1 {
		t.Errorf("after a success: %s", at)
	}
	if at := (&run{of: h, stop: ending{ended: 1}, end: &end{}}).after(); at <= 1 {
		t.Errorf("after a failure, which took its time to be judged: %s", at)
	}
}
