package engine_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// chunked is an engine with one goroutine whose handlers were fast so far, so that it takes many messages at once; the
// handler of the message "slow" then waits for release, or for its context.
type chunked struct {
	*engine.Engine
	*broker
	t       *testing.T
	l       *memory.Ledger
	net     *link
	release chan struct{}
	in      []*engine.Item // "slow" and what was taken with it

	mu   sync.Mutex
	runs map[string]int
	slow func(ctx context.Context) error
}

func newChunked(t *testing.T, o consumer.Options) *chunked {
	t.Helper()
	c := &chunked{t: t, l: memory.New(), release: make(chan struct{}), runs: map[string]int{}}
	c.net = &link{Ledger: c.l}
	c.Engine, c.broker = begin(t, c.net, o, c.handle)
	warm := items(1000, noLane)
	c.Offer(warm)
	pass(time.Second)
	c.wantAcked(t, warm...)
	c.in = []*engine.Item{item("slow", "")}
	for _, it := range items(20, noLane) {
		it.Key.ID = append([]byte("chunk "), it.Key.ID...)
		it.Msg.ID = string(it.Key.ID)
		c.in = append(c.in, it)
	}
	return c
}

func (c *chunked) handle(ctx context.Context, m *consumer.Message) error {
	c.mu.Lock()
	c.runs[m.ID]++
	c.mu.Unlock()
	if m.ID != "slow" {
		return nil
	}
	if c.slow != nil {
		return c.slow(ctx)
	}
	select {
	case <-c.release:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// begun says how many of the chunk's messages were handled, "slow" included.
func (c *chunked) begun() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, it := range c.in {
		if c.runs[it.Msg.ID] > 0 {
			n++
		}
	}
	return n
}

// offer has the one goroutine take everything at once, and stops in the slow message's handler: no time has passed, so
// nothing was given to others yet.
func (c *chunked) offer() {
	c.t.Helper()
	c.Offer(c.in)
	synctest.Wait()
	if n := c.begun(); n != 1 || c.Load().Running != 1 || c.Load().Queued != 20 {
		c.t.Fatalf("%d began, %+v", n, c.Load())
	}
}

func one() consumer.Options {
	o := options()
	o.Concurrency = 1
	return o
}

// Fast handlers take many messages at once. A slow one among them must not hold up what was taken with it, nor keep what
// is over from being settled.
func TestSlowMessageCostsItsNeighboursNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChunked(t, options())
		c.in[0], c.in[10] = c.in[10], c.in[0] // some are over before it
		c.Offer(c.in)
		pass(5 * time.Millisecond)
		for i, it := range c.in {
			if i != 10 && !c.acked(t, it) {
				t.Errorf("message %s waits for the slow one", it.Msg.ID)
			}
		}
		if load := c.Load(); load != (engine.Load{Held: 1, Running: 1}) {
			t.Errorf("%+v", load)
		}
		close(c.release)
		pass(time.Second)
		c.wantAcked(t, c.in...)
		end(t, c.Engine)
	})
}

// With no goroutine free, what stands behind a slow message waits; it is run by whoever is free next, once.
func TestChunkIsTakenBackFromTheOnlyGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChunked(t, one())
		c.offer()
		pass(time.Hour / 2)
		if c.begun() != 1 {
			t.Errorf("%d began", c.begun())
		}
		close(c.release)
		pass(time.Second)
		c.wantAcked(t, c.in...)
		for _, it := range c.in {
			if c.runs[it.Msg.ID] != 1 {
				t.Errorf("message %s ran %d times", it.Msg.ID, c.runs[it.Msg.ID])
			}
		}
		end(t, c.Engine)
	})
}

// What a goroutine has taken and not begun does not begin any more when it must not: each of these comes before the
// goroutine gets there.
func TestTakenMessagesDoNotBegin(t *testing.T) {
	for name, stop := range map[string]struct {
		do    func(c *chunked)
		after func(c *chunked) // when the slow one has ended: nothing else began
	}{
		"pause": {
			func(c *chunked) { c.Pause() },
			func(c *chunked) { c.Resume(); pass(time.Second); c.wantAcked(c.t, c.in...) },
		},
		"revoke": {
			func(c *chunked) { c.Drop(everything, time.Minute) },
			func(c *chunked) { c.wantKept(c.t, c.in[1:]...); c.wantAcked(c.t, c.in[0]) },
		},
		"revoke of some": {
			func(c *chunked) { c.Drop(func(it *engine.Item) bool { return it != c.in[0] }, time.Minute) },
			func(c *chunked) { c.wantKept(c.t, c.in[1:]...); c.wantAcked(c.t, c.in[0]) },
		},
		"drain": {
			func(c *chunked) { go func() { _ = c.Drain(context.Background()) }() },
			func(c *chunked) { c.wantKept(c.t, c.in[1:]...); c.wantAcked(c.t, c.in[0]) },
		},
		"outage": {
			func(c *chunked) {
				c.net.set(down, nil)
				c.Offer([]*engine.Item{item("a claim that fails", "")})
			},
			func(c *chunked) { c.net.set(nil, nil); pass(time.Minute); c.wantAcked(c.t, c.in...) },
		},
		"lost lease": {
			func(c *chunked) {
				c.l.Declare(c.net.owner())
				c.Offer([]*engine.Item{item("a claim that is told", "")})
			},
			func(c *chunked) { pass(time.Minute); c.wantAcked(c.t, c.in...) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newChunked(t, one())
				c.slow = func(context.Context) error { <-c.release; return nil }
				c.offer()
				stop.do(c)
				synctest.Wait() // no time has passed
				close(c.release)
				synctest.Wait()
				if c.begun() != 1 {
					t.Errorf("%d began", c.begun())
				}
				stop.after(c)
				for _, it := range c.in[1:] {
					if c.runs[it.Msg.ID] > 1 {
						t.Errorf("message %s ran %d times", it.Msg.ID, c.runs[it.Msg.ID])
					}
				}
				if name != "drain" {
					if err := c.Drain(t.Context()); err != nil {
						t.Error(err)
					}
				}
				if err := c.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// The process was frozen while a goroutine had many messages: those whose turn comes after the lease do not begin on it.
func TestTakenMessagesDoNotBeginAfterTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChunked(t, one())
		hold := make(chan struct{})
		c.slow = func(context.Context) error { <-c.release; return nil }
		c.offer()
		c.net.frozen.Store(&hold) // beats do not come through, nobody is told
		c.slow = nil
		pass(time.Minute)
		close(c.release)
		synctest.Wait()
		if c.begun() != 1 {
			t.Errorf("%d began after the end of the lease", c.begun())
		}
		c.net.frozen.Store(nil)
		close(hold)
		pass(time.Minute)
		c.wantAcked(t, c.in...)
		end(t, c.Engine)
	})
}

// A handler that ends its goroutine, or panics, in the middle of what was taken with it.
func TestChunkWhoseHandlerBreaks(t *testing.T) {
	for name, breaks := range map[string]func(){"goexit": runtime.Goexit, "panic": func() { panic("ouch") }} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newChunked(t, one())
				var once sync.Once
				c.slow = func(context.Context) error { once.Do(breaks); return nil }
				c.in[0], c.in[10] = c.in[10], c.in[0]
				c.Offer(c.in)
				pass(time.Minute)
				c.wantAcked(t, c.in...)
				for _, it := range c.in {
					want := 1
					if it.Msg.ID == "slow" {
						want = 2
					}
					if c.runs[it.Msg.ID] != want {
						t.Errorf("message %s ran %d times", it.Msg.ID, c.runs[it.Msg.ID])
					}
				}
				end(t, c.Engine)
			})
		})
	}
}

// Messages whose broker took them back, among others that were taken with them.
func TestChunkWithMessagesThatAreNotAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChunked(t, one())
		for i, it := range c.in {
			it.Alive = func(*engine.Item) bool { return i%3 > 0 }
		}
		c.Offer(c.in)
		pass(time.Minute)
		for i, it := range c.in {
			if acked := c.acked(t, it); acked != (i%3 > 0) || c.runs[it.Msg.ID] > 0 != acked {
				t.Errorf("message %d: acknowledged %v, %d runs", i, acked, c.runs[it.Msg.ID])
			}
			if rec := state(t, c.l, it); rec.Attempts != 0 || rec.Owner != "" {
				t.Errorf("message %d: %+v", i, rec)
			}
		}
		end(t, c.Engine)
	})
}

// Health tells of the one that is slow, and not of what was taken with it.
func TestHealthOfAChunk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChunked(t, one())
		c.in[0], c.in[10] = c.in[10], c.in[0]
		c.Offer(c.in)
		pass(10 * time.Minute)
		h := c.Health()
		if len(h.Stalled) != 1 || h.Stalled[0].What != "slow" || !h.Alive {
			t.Errorf("%+v", h)
		}
		c.slow = nil
		close(c.release)
		pass(time.Minute)
		if h = c.Health(); len(h.Stalled) != 0 {
			t.Errorf("%+v", h)
		}
		end(t, c.Engine)
	})
}

// crashTwice makes a suspect of a message: two processes that had it in hand have died.
func crashTwice(t *testing.T, l *memory.Ledger, it *engine.Item) {
	t.Helper()
	for range 2 {
		dying, err := l.Join(t.Context(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		entry := ledger.Entry{Key: it.Key, Fingerprint: it.Fingerprint, Delivery: it.Delivery, Window: time.Hour, Solo: true}
		if _, err := dying.Claim(t.Context(), []ledger.Entry{entry}); err != nil {
			t.Fatal(err)
		}
		l.Declare(dying.ID())
	}
}

// A suspect that is claimed when the worker is paused does not begin.
func TestSuspectDoesNotBeginInAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		it := item("suspect", "")
		crashTwice(t, l, it)
		net := &link{Ledger: l}
		ran := false
		e, b := begin(t, net, options(), func(context.Context, *consumer.Message) error { ran = true; return nil })
		var claims int
		net.set(nil, func(op memory.Op) error {
			if op == memory.Claim {
				if claims++; claims == 2 { // the first is told that it is a suspect
					e.Pause()
				}
			}
			return nil
		})
		e.Offer([]*engine.Item{it})
		pass(time.Minute)
		if ran || claims < 2 {
			t.Errorf("ran in a pause: %v, %d claims", ran, claims)
		}
		if rec := state(t, l, it); rec.Owner != "" || rec.Attempts != 0 {
			t.Errorf("%+v", rec)
		}
		net.set(nil, nil)
		e.Resume()
		pass(time.Minute)
		b.wantAcked(t, it)
		end(t, e)
	})
}

// Rate and limiter are asked for each message, however fast the handlers are.
func TestFastHandlersKeepTheLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options()
		o.Limiter, o.Rate, o.Concurrency = consumer.NewLimiter(1), 100, 8
		l := memory.New()
		var g gauge
		e, b := begin(t, l, o, func(context.Context, *consumer.Message) error { g.hold(0); return nil })
		in := items(1000, noLane)
		e.Offer(in)
		pass(5 * time.Second)
		if n := g.total.Load(); n < 490 || n > 515 || g.most.Load() != 1 {
			t.Errorf("%d starts in 5 s at 100 a second, %d at once", n, g.most.Load())
		}
		pass(time.Minute)
		b.wantAcked(t, in...)
		if err := o.Limiter.Acquire(t.Context()); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		end(t, e)
	})
}
