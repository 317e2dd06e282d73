package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// asked is what a ledger that parks is asked about lanes; it fails if that is set.
type asked struct {
	*memory.Ledger
	lanes, all atomic.Int64
	fails      atomic.Bool
	during     func() // called while all lanes are asked for; nil: nothing is
}

func (a *asked) ParkedLane(ctx context.Context, scope string, lane []byte) (ledger.LaneStats, error) {
	a.lanes.Add(1)
	if a.fails.Load() {
		return ledger.LaneStats{}, errors.New("away")
	}
	return a.Ledger.ParkedLane(ctx, scope, lane)
}

func (a *asked) ParkedLanes(ctx context.Context, scope string, prefix []byte, most int) ([][]byte, bool, error) {
	a.all.Add(1)
	if a.during != nil {
		a.during()
	}
	if a.fails.Load() {
		return nil, false, errors.New("away")
	}
	return a.Ledger.ParkedLanes(ctx, scope, prefix, most)
}

// ordered is a handler of messages "KEY/PLACE": it puts those of later off when they come first, and notes in which order they end.
type ordered struct {
	mu    sync.Mutex
	later map[string]time.Duration
	runs  map[string]int
	done  []string
	tries map[string]int // of the last run
}

func (h *ordered) handle(_ context.Context, m *consumer.Message) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.runs == nil {
		h.runs, h.tries = map[string]int{}, map[string]int{}
	}
	h.runs[m.ID]++
	h.tries[m.ID] = m.Attempt
	if after := h.later[m.ID]; after > 0 && h.runs[m.ID] == 1 {
		return consumer.RetryAfter(errors.New("not yet"), after)
	}
	h.done = append(h.done, m.ID)
	return nil
}

func (h *ordered) wantDone(t *testing.T, want ...string) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Equal(h.done, want) {
		t.Errorf("%q are done, want %q", h.done, want)
	}
}

// are are the messages that are done.
func (h *ordered) are() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.done)
}

// inKey is the message of a key at a place of an assignment's log.
func inKey(lanes *engine.Lanes, key uint64, place int64) *engine.Item {
	it := item(fmt.Sprintf("%d/%d", key, place), fmt.Sprint("key ", key))
	it.Lane = engine.Lane{Of: lanes, Key: key, Place: place}
	return it
}

func ofKey(lanes *engine.Lanes, key uint64, from, to int64) (list []*engine.Item) {
	for i := from; i < to; i++ {
		list = append(list, inKey(lanes, key, i))
	}
	return list
}

// A key of which a message is parked is parked: those behind it wait in the ledger, uncounted, and run after it, while other keys go on.
// Once all of it have run it is a key like others, and the ledger is not asked any more.
func TestKeyIsParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &asked{Ledger: memory.New()}
		h := &ordered{later: map[string]time.Duration{"1/0": time.Hour}}
		e, b := begin(t, l, options(), h.handle, parks)
		pass(time.Second)
		lanes := engine.NewLanes(scope, "log")
		in := append(ofKey(lanes, 1, 0, 4), ofKey(lanes, 2, 10, 13)...)
		e.Offer(in)
		pass(10 * time.Second)
		b.wantAcked(t, in...)
		h.wantDone(t, "2/10", "2/11", "2/12")
		wantParked(t, l.Ledger, 4)
		if n := e.Load().Held; n != 0 {
			t.Errorf("%d are held", n)
		}
		pass(time.Hour)
		wantParked(t, l.Ledger, 0)
		h.wantDone(t, "2/10", "2/11", "2/12", "1/0", "1/1", "1/2", "1/3")
		if h.tries["1/0"] != 2 || h.tries["1/1"] != 1 || h.runs["1/3"] != 1 {
			t.Errorf("attempts %v, runs %v", h.tries, h.runs)
		}
		more := ofKey(lanes, 1, 20, 22)
		e.Offer(more)
		pass(time.Second)
		b.wantAcked(t, more...)
		asks := l.lanes.Load()
		more = ofKey(lanes, 1, 22, 30)
		e.Offer(more)
		pass(time.Second)
		b.wantAcked(t, more...)
		if n := l.lanes.Load() - asks; n != 0 || l.all.Load() != 1 {
			t.Errorf("the ledger is asked %d times about a key of which nothing is parked, %d times for all", n, l.all.Load())
		}
		end(t, e)
	})
}

// TestPitfall255_AheadOfWhatOthersParked: a new owner of a partition, which begins behind what the one before it had parked, ran a message
// ahead of those of its key.
func TestPitfall255_AheadOfWhatOthersParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, h := memory.New(), &ordered{later: map[string]time.Duration{"1/0": time.Hour}}
		one, b := begin(t, l, options(), h.handle, parks)
		pass(time.Second)
		one.Offer(ofKey(engine.NewLanes(scope, "log"), 1, 0, 1))
		pass(time.Second)
		wantParked(t, l, 1)
		two, c := begin(t, l, options(), h.handle, parks)
		pass(time.Second)
		next := engine.NewLanes(scope, "log")
		in := append(ofKey(next, 1, 1, 3), inKey(next, 2, 3))
		two.Offer(in)
		pass(10 * time.Second)
		c.wantAcked(t, in...)
		h.wantDone(t, "2/3")
		pass(time.Hour)
		h.wantDone(t, "2/3", "1/0", "1/1", "1/2")
		wantParked(t, l, 0)
		_ = b
		end(t, one)
		end(t, two)
	})
}

// TestPitfall256_AheadOfWhatWasParkedSince: an owner of before parked a message when the new one had asked what is parked. The new one
// met the message, left it to the ledger, and ran the next one of its key ahead of it.
func TestPitfall256_AheadOfWhatWasParkedSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, h := memory.New(), &ordered{later: map[string]time.Duration{"1/0": time.Hour}}
		one, _ := begin(t, l, options(), h.handle, parks)
		two, c := begin(t, l, options(), h.handle, parks)
		pass(time.Second)
		next := engine.NewLanes(scope, "log")
		two.Offer(ofKey(next, 2, 3, 4))
		pass(time.Second)
		one.Offer(ofKey(engine.NewLanes(scope, "log"), 1, 0, 1))
		pass(time.Second)
		wantParked(t, l, 1)
		in := ofKey(next, 1, 0, 3)
		two.Offer(in)
		pass(10 * time.Second)
		c.wantAcked(t, in...)
		h.wantDone(t, "2/3")
		pass(time.Hour)
		h.wantDone(t, "2/3", "1/0", "1/1", "1/2")
		end(t, one)
		end(t, two)
	})
}

// TestPitfall257_AheadWithoutRoom: where what is behind a parked message could not be parked as well, it ran ahead. It is held, also
// by a worker that parks nothing, and while the ledger does not say what is parked.
func TestPitfall257_AheadWithoutRoom(t *testing.T) {
	for name, change := range map[string]func(*consumer.Options, *asked){
		"no room":       func(o *consumer.Options, _ *asked) { o.ParkedMost = 1 },
		"parks nothing": func(o *consumer.Options, _ *asked) { o.NoParking = true },
		"not sealed":    func(o *consumer.Options, _ *asked) { o.Cipher = mirror{func() error { return errors.New("no key") }} },
		"away":          func(_ *consumer.Options, l *asked) { l.fails.Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &asked{Ledger: memory.New()}
				h := &ordered{later: map[string]time.Duration{"1/0": time.Hour}}
				one, _ := begin(t, l, options(), h.handle, parks)
				pass(time.Second)
				one.Offer(ofKey(engine.NewLanes(scope, "log"), 1, 0, 1))
				pass(time.Second)
				o := options()
				core, logs := observer.New(zap.WarnLevel)
				o.Logger = zap.New(core)
				change(&o, l)
				two, c := begin(t, l, o, h.handle, parks)
				pass(time.Second)
				in := ofKey(engine.NewLanes(scope, "log"), 1, 1, 3)
				two.Offer(in)
				pass(50 * time.Minute)
				h.wantDone(t)
				wantParked(t, l.Ledger, 1)
				if _, done := c.verdict(t, in[0]); done || two.Load().Held != 2 {
					t.Errorf("%+v", two.Load())
				}
				if n := logs.FilterMessageSnippet("Options.NoParking").Len(); (n == 1) != o.NoParking || n > 1 {
					t.Errorf("%d warnings of NoParking", n)
				}
				l.fails.Store(false)
				pass(20 * time.Minute)
				h.wantDone(t, "1/0", "1/1", "1/2")
				c.wantAcked(t, in...)
				end(t, one)
				end(t, two)
			})
		})
	}
}

// What waits for its key may be all that may be in hand: there is room for what it waits for.
func TestHeldBehindALaneWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, h, o := memory.New(), &ordered{later: map[string]time.Duration{"1/0": time.Hour}}, options()
		o.ParkedMost, o.MaxHeld = 1, 2
		e, b := begin(t, l, o, h.handle, parks)
		pass(time.Second)
		lanes := engine.NewLanes(scope, "log")
		in := ofKey(lanes, 1, 0, 3)
		e.Offer(in[:1])
		pass(time.Second)
		e.Offer(in[1:])
		pass(30 * time.Minute)
		h.wantDone(t)
		if n := e.Load().Held; n != 2 {
			t.Errorf("%d are held, want 2", n)
		}
		pass(40 * time.Minute)
		h.wantDone(t, "1/0", "1/1", "1/2")
		b.wantAcked(t, in...)
		end(t, e)
	})
}

// A key that will soon be done with is not parked on and on: what comes meanwhile waits for it, and runs from memory.
func TestKeyComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, h := memory.New(), &ordered{later: map[string]time.Duration{"1/0": time.Minute}}
		slow := func(ctx context.Context, m *consumer.Message) error {
			if m.ID != "1/0" {
				time.Sleep(2 * time.Second)
			}
			return h.handle(ctx, m)
		}
		e, b := begin(t, l, options(), slow, parks)
		pass(time.Second)
		lanes := engine.NewLanes(scope, "log")
		first := ofKey(lanes, 1, 0, 10)
		e.Offer(first)
		pass(10 * time.Second)
		b.wantAcked(t, first...)
		wantParked(t, l, 10)
		pass(55 * time.Second)
		more := ofKey(lanes, 1, 10, 14)
		e.Offer(more)
		pass(5 * time.Second)
		if n := e.Load().Held; n < 4 {
			t.Errorf("%d are held, want 4 and what runs", n)
		}
		pass(time.Minute)
		b.wantAcked(t, more...)
		var want []string
		for i := range 14 {
			want = append(want, fmt.Sprintf("1/%d", i))
		}
		h.wantDone(t, want...)
		for _, it := range more {
			if rec := state(t, l, it); rec.State != ledger.Succeeded || rec.Attempts != 0 {
				t.Errorf("%+v", rec)
			}
		}
		end(t, e)
	})
}

// TestPitfall258_LaneWaitsForTheNextLook: a worker looked for the next message of a key when it would have looked anyway, seconds after
// the one before had ended: a key of many parked messages took hours.
func TestPitfall258_LaneWaitsForTheNextLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, h, o := memory.New(), &ordered{later: map[string]time.Duration{"1/0": time.Minute}}, options()
		o.Lease = 5 * time.Minute
		e, b := begin(t, l, o, h.handle, parks)
		pass(time.Second)
		in := ofKey(engine.NewLanes(scope, "log"), 1, 0, 200)
		e.Offer(in)
		pass(50 * time.Second)
		b.wantAcked(t, in...)
		wantParked(t, l, 200)
		pass(15 * time.Second)
		wantParked(t, l, 0)
		if done := h.are(); len(done) != 200 || done[199] != "1/199" {
			t.Errorf("%d are done", len(done))
		}
		end(t, e)
	})
}

// Of a batch those wait whose key is parked, and the others run.
func TestBatchOfAParkedKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, h := memory.New(), &ordered{later: map[string]time.Duration{"1/0": time.Hour}}
		e, b := begin(t, l, options(), nil, parks, func(c *engine.Config) {
			c.Handler = consumer.Batch(20, func(ctx context.Context, all []*consumer.Message) []error {
				errs := make([]error, len(all))
				for i, m := range all {
					errs[i] = h.handle(ctx, m)
				}
				return errs
			})
		})
		pass(time.Second)
		lanes := engine.NewLanes(scope, "log")
		in := ofKey(lanes, 1, 0, 3)
		for key := range uint64(10) {
			in = append(in, inKey(lanes, 10+key, 10+int64(key)))
		}
		e.Offer(in)
		pass(10 * time.Second)
		b.wantAcked(t, in...)
		wantParked(t, l, 3)
		first := h.are()
		if len(first) != 10 {
			t.Errorf("%q are done", first)
		}
		pass(time.Hour)
		wantParked(t, l, 0)
		h.wantDone(t, append(first, "1/0", "1/1", "1/2")...)
		end(t, e)
	})
}

// What was asked about begins no more where the worker has paused, or drains, when the answer is there.
func TestNothingBeginsAfterALook(t *testing.T) {
	for name, batch := range map[string]bool{"one by one": false, "batches": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, h := &asked{Ledger: memory.New()}, &ordered{}
				e, b := begin(t, l, options(), h.handle, parks, func(c *engine.Config) {
					if batch {
						c.Handler = consumer.Batch(20, func(ctx context.Context, all []*consumer.Message) []error {
							for _, m := range all {
								_ = h.handle(ctx, m)
							}
							return nil
						})
					}
				})
				pass(time.Second)
				l.during = e.Pause
				in := append(ofKey(engine.NewLanes(scope, "log"), 1, 0, 2), item("2/0", ""))
				e.Offer(in[:2])
				pass(time.Minute)
				h.wantDone(t)
				l.during = nil
				e.Offer(in[2:])
				e.Resume()
				pass(time.Second)
				b.wantAcked(t, in...)
				l.during = func() {
					go func() { _ = e.Drain(context.Background()) }()
					time.Sleep(time.Second)
				}
				last := ofKey(engine.NewLanes(scope, "log"), 1, 5, 6)
				e.Offer(last)
				pass(time.Minute)
				if b.wantKept(t, last...); len(h.are()) != 3 {
					t.Errorf("%q are done", h.are())
				}
				end(t, e)
			})
		})
	}
}
