package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
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

// parks lets an engine park messages.
func parks(c *engine.Config) {
	c.Shown.Scopes = []string{scope}
	c.Shown.Revive = func(p *ledger.Parked) *consumer.Message {
		return &consumer.Message{ID: string(p.Key.ID), Source: p.Source, Body: p.Body, Headers: p.Headers, SentAt: p.SentAt}
	}
}

// parkingLink is a link to a ledger that parks.
type parkingLink struct {
	*link
	ledger.Parking
}

// fails is a handler that puts each message off once, and counts its runs.
type fails struct {
	mu    sync.Mutex
	runs  map[string]int
	keys  map[string]string
	after time.Duration
	times int // that it fails; 0: once
}

func (h *fails) handle(ctx context.Context, m *consumer.Message) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.runs == nil {
		h.runs, h.keys = map[string]int{}, map[string]string{}
	}
	h.runs[m.ID]++
	key := consumer.ChildKey(ctx, "effect")
	if was, ok := h.keys[m.ID]; ok && was != key {
		return consumer.Terminal(errors.New("another child key"))
	}
	h.keys[m.ID] = key
	if string(m.Body) != "body of "+m.ID || m.Attempt != h.runs[m.ID] {
		return consumer.Terminal(fmt.Errorf("attempt %d of %q", m.Attempt, m.Body))
	}
	m.Body[0] = 'X' // what it does to its message is nobody else's matter
	if h.runs[m.ID] <= max(h.times, 1) {
		return consumer.RetryAfter(errors.New("not yet"), h.after)
	}
	return nil
}

func (h *fails) ran(id string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.runs[id]
}

func wantParked(t *testing.T, l *memory.Ledger, n int64) {
	t.Helper()
	if s, err := l.ParkedIn(context.Background(), scope); err != nil || s.Messages != n {
		t.Errorf("%+v, %v; want %d parked", s, err, n)
	}
}

// A retry that waits for long waits in the ledger: its broker may forget it at once, nothing of it is in hand, and it runs when it is due,
// as if its broker had brought it again.
func TestRetryWaitsInTheLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, h, o := memory.New(), &fails{after: 5 * 24 * time.Hour, times: 2}, options()
		o.Lease = time.Hour
		e, b := begin(t, l, o, h.handle, parks)
		in := items(3, noLane)
		pass(time.Second)
		e.Offer(in)
		pass(time.Second)
		b.wantAcked(t, in...)
		if load := e.Load(); load.Held != 0 {
			t.Errorf("%+v", load)
		}
		wantParked(t, l, 3)
		again := items(3, noLane) // the broker had not heard of it
		e.Offer(again)
		pass(time.Second)
		b.wantAcked(t, again...)
		if n := h.ran("m00000"); n != 1 {
			t.Errorf("%d runs while it is parked", n)
		}
		pass(5*24*time.Hour + time.Hour)
		wantParked(t, l, 3)
		if rec := state(t, l, in[0]); h.ran("m00000") != 2 || rec.State != ledger.Pending || rec.Attempts != 2 || rec.Owner != "" {
			t.Errorf("%d runs, %+v", h.ran("m00000"), rec)
		}
		pass(5*24*time.Hour + time.Hour)
		wantParked(t, l, 0)
		for _, it := range in {
			if rec := state(t, l, it); h.ran(it.Msg.ID) != 3 || rec.State != ledger.Succeeded || rec.Token != 3 {
				t.Errorf("%d runs, %+v", h.ran(it.Msg.ID), rec)
			}
		}
		end(t, e)
	})
}

// What has an order, waits for less, or is too large waits in memory, as ever.
func TestRetryWaitsInMemory(t *testing.T) {
	for name, c := range map[string]struct {
		lane   string
		after  time.Duration
		change func(*consumer.Options)
		limits ledger.Limits
	}{
		"ordered": {lane: "lane", after: time.Hour}, "soon": {after: 59 * time.Second},
		"off":       {after: time.Hour, change: func(o *consumer.Options) { o.NoParking = true }},
		"later":     {after: time.Hour, change: func(o *consumer.Options) { o.ParkAfter = 2 * time.Hour }},
		"too large": {after: time.Hour, limits: ledger.Limits{Archive: 5, Errors: 1000}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, h, o := memory.New(), &fails{after: c.after}, options()
				if c.limits.Archive > 0 {
					l = memory.New(memory.WithLimits(c.limits))
				}
				if c.change != nil {
					c.change(&o)
				}
				e, b := begin(t, l, o, h.handle, parks)
				it := item("a", c.lane)
				pass(time.Second)
				e.Offer([]*engine.Item{it})
				pass(30 * time.Second)
				if _, done := b.verdict(t, it); done || e.Load().Held != 1 {
					t.Errorf("it is not held: %+v", e.Load())
				}
				wantParked(t, l, 0)
				pass(2 * time.Hour)
				b.wantAcked(t, it)
				end(t, e)
			})
		})
	}
}

// TestPitfall220_AcknowledgedBeforeItIsParked: a message was acknowledged when the ledger was told to park it, not when it had answered.
func TestPitfall220_AcknowledgedBeforeItIsParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, h := memory.New(), &fails{after: time.Hour}
		net := &link{Ledger: l}
		e, b := begin(t, parkingLink{net, l}, options(), h.handle, parks)
		it := item("a", "")
		pass(time.Second)
		lost := errors.New("reset")
		net.set(func(op memory.Op) error {
			if op == memory.Settle {
				return lost
			}
			return nil
		}, nil)
		e.Offer([]*engine.Item{it})
		pass(3 * time.Second)
		if _, done := b.verdict(t, it); done {
			t.Error("it is acknowledged, and not parked")
		}
		net.set(nil, func(op memory.Op) error { // from now on it is parked, and the answer is lost
			if op == memory.Settle {
				return lost
			}
			return nil
		})
		pass(3 * time.Second)
		if _, done := b.verdict(t, it); done {
			t.Error("it is acknowledged without an answer")
		}
		net.set(nil, nil)
		pass(time.Minute)
		b.wantAcked(t, it)
		wantParked(t, l, 1)
		pass(2 * time.Hour)
		if rec := state(t, l, it); rec.State != ledger.Succeeded || h.ran("a") != 2 {
			t.Errorf("%d runs, %+v", h.ran("a"), rec)
		}
		end(t, e)
	})
}

// TestPitfall221_ParkedSealedWithoutItsBody: what was too large once it was sealed was parked without its body, as a dead letter may be, and its broker
// was told to forget it. And what a broken cipher cannot seal waits in memory.
func TestPitfall221_ParkedSealedWithoutItsBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		broken.Store(true)
		l, h, o := memory.New(memory.WithLimits(ledger.Limits{Archive: 1000, Errors: 1000})), &fails{after: time.Hour}, options()
		o.Cipher = mirror{func() error {
			if broken.Load() {
				return errors.New("no key")
			}
			return nil
		}}
		retained := func(c *engine.Config) { c.Retained = true }
		e, b := begin(t, l, o, h.handle, parks, retained)
		pass(time.Second)
		waits, sealed, large := item("waits", ""), item("sealed", ""), item("large", "")
		e.Offer([]*engine.Item{waits})
		pass(time.Minute)
		broken.Store(false)
		large.Original = func(*engine.Item) engine.Content {
			return engine.Content{Body: bytes.Repeat([]byte("x"), 1000)}
		}
		e.Offer([]*engine.Item{sealed, large})
		pass(time.Minute)
		b.wantAcked(t, sealed)
		for _, it := range []*engine.Item{waits, large} {
			if _, done := b.verdict(t, it); done {
				t.Errorf("%s is let go of, and not whole anywhere", it.Msg.ID)
			}
		}
		wantParked(t, l, 1)
		reply, err := l.Due(t.Context(), ledger.DueRequest{Scope: scope, Most: 1, Bytes: 1, Hide: time.Hour})
		if err != nil || len(reply.Messages) != 0 {
			t.Fatalf("%+v, %v", reply, err)
		}
		pass(2 * time.Hour)
		b.wantAcked(t, waits, sealed, large)
		if h.ran("sealed") != 2 || h.ran("waits") != 2 || h.ran("large") != 2 || state(t, l, sealed).State != ledger.Succeeded {
			t.Errorf("%v", h.runs)
		}
		wantParked(t, l, 0)
		end(t, e)
	})
}

// Two workers run what is due once; what one of them had in hand when it died, the other takes over, and counts the crash.
func TestParkedRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, h := memory.New(), &fails{after: 10 * time.Minute}
		one, b := begin(t, l, options(), h.handle, parks)
		var stuck atomic.Int64
		net := &link{Ledger: l}
		two, _ := begin(t, parkingLink{net, l}, options(), func(ctx context.Context, m *consumer.Message) error {
			stuck.Add(1)
			<-ctx.Done()
			return ctx.Err()
		}, parks)
		in := items(1000, noLane)
		pass(time.Second)
		one.Offer(in)
		pass(time.Minute)
		b.wantAcked(t, in...)
		wantParked(t, l, 1000)
		pass(10 * time.Minute)
		if stuck.Load() == 0 {
			t.Fatal("the second worker got nothing")
		}
		l.Declare(net.owner())
		net.frozen.Store(new(make(chan struct{})))
		pass(10 * time.Minute)
		wantParked(t, l, 0)
		crashed := 0
		for _, it := range in {
			rec := state(t, l, it)
			if crashed += rec.Crashes; rec.State != ledger.Succeeded || h.ran(it.Msg.ID) != 2 || rec.Crashes > 1 {
				t.Fatalf("%d runs, %+v", h.ran(it.Msg.ID), rec)
			}
		}
		if crashed == 0 {
			t.Error("no crash was counted")
		}
		close(*net.frozen.Swap(nil))
		end(t, one)
		end(t, two)
	})
}

// At the bound of what is parked retries wait in memory, and Health says so; once there is room they are parked.
func TestParkedMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, h, o := memory.New(), &fails{after: time.Hour, times: 2}, options()
		o.ParkedMost = 2
		e, b := begin(t, l, o, h.handle, parks)
		pass(time.Second)
		in := items(5, noLane)
		e.Offer(in)
		pass(time.Minute)
		wantParked(t, l, 2)
		if n := e.Load().Held; n != 3 {
			t.Errorf("%d are held, want 3", n)
		}
		if all := strings.Join(e.Health().Warnings, "\n"); !strings.Contains(all, "Options.ParkedMost is 2") {
			t.Errorf("warnings %q", all)
		}
		pass(4 * time.Hour)
		b.wantAcked(t, in...)
		wantParked(t, l, 0)
		if all := strings.Join(e.Health().Warnings, "\n"); strings.Contains(all, "ParkedMost") {
			t.Errorf("warnings %q", all)
		}
		end(t, e)
	})
}

// When what is in hand is half used up, shorter retries are parked as well.
func TestParkedWhenCrowded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, h, o := memory.New(), &fails{after: 20 * time.Second}, options()
		o.MaxHeld = 10
		e, b := begin(t, l, o, h.handle, parks)
		pass(time.Second)
		in := items(9, noLane)
		e.Offer(in)
		pass(time.Second)
		if n := e.Load().Held; n > 5 {
			t.Errorf("%d are held, want half at most", n)
		}
		pass(time.Minute)
		b.wantAcked(t, in...)
		for _, it := range in {
			if n := h.ran(it.Msg.ID); n != 2 {
				t.Errorf("%d runs", n)
			}
		}
		end(t, e)
	})
}

// What its broker forgets before it is due is parked, and not archived as past its deadline; a failure for good of what is parked is archived, and published.
func TestParkedBeyondItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		to := &target{}
		o := options()
		o.DeadLetter, o.Lease = to, time.Hour
		runs := 0
		e, b := begin(t, l, o, func(context.Context, *consumer.Message) error {
			if runs++; runs == 1 {
				return consumer.RetryAfter(errors.New("not yet"), 48*time.Hour)
			}
			return consumer.Terminal(errors.New("never"))
		}, parks)
		pass(time.Second)
		it := item("a", "")
		it.Deadline = time.Now().Add(24 * time.Hour)
		e.Offer([]*engine.Item{it})
		pass(time.Minute)
		b.wantAcked(t, it)
		wantParked(t, l, 1)
		pass(48 * time.Hour)
		wantParked(t, l, 0)
		rec := state(t, l, it)
		if rec.State != ledger.Failed || len(rec.Archived) != 1 || string(rec.Archived[0].Body) != "body of a" || !rec.Archived[0].Sent || runs != 2 ||
			len(rec.Archived[0].Errors) != 2 || string(rec.Archived[0].Delivery) != "delivery a" {
			t.Errorf("%d runs, %+v", runs, rec)
		}
		end(t, e)
	})
}
