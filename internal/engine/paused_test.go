package engine_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
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
	"go.opentelemetry.io/otel/sdk/metric"
)

var operator = ledger.By{Actor: "alice", Reason: "the bank is away"}

func pauseOf(t *testing.T, b ledger.Board, scope string) {
	t.Helper()
	if err := b.Pause(context.Background(), scope, operator); err != nil {
		t.Fatal(err)
	}
}

func resumeOf(t *testing.T, b ledger.Board, scope string) {
	t.Helper()
	if was, err := b.Resume(context.Background(), scope, operator); err != nil || !was {
		t.Fatalf("resume %q: %t, %v", scope, was, err)
	}
}

func pausedStall(h consumer.Health) (why string) {
	for _, s := range h.Stalled {
		if s.Reason == consumer.StallPaused {
			why = s.Why
		}
	}
	return why
}

// clerk is a handler that takes its time and counts.
type clerk struct {
	takes  time.Duration
	begun  atomic.Int64
	worst  atomic.Int64 // the highest attempt
	during atomic.Bool  // nothing is to begin
	late   atomic.Int64 // what began all the same
}

func (c *clerk) Handle(ctx context.Context, m *consumer.Message) error {
	c.begun.Add(1)
	if c.during.Load() {
		c.late.Add(1)
	}
	c.worst.Store(max(c.worst.Load(), int64(m.Attempt)))
	select {
	case <-time.After(c.takes):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A pause begins within a beat: nothing starts, what is claimed and not begun is given back uncounted, what runs comes to its end, the
// lease and the worker stay well. Then each message runs once.
func TestPausedByAnOperator(t *testing.T) {
	for name, c := range map[string]struct {
		scope  string
		change func(*consumer.Options)
		home   []string
	}{
		"the worker's scope":   {scope, nil, []string{scope}},
		"a scope of what came": {scope, nil, nil},
		"all":                  {"", nil, nil},
		"park":                 {scope, func(o *consumer.Options) { o.Park = true }, []string{scope}},
		"one at a time":        {scope, func(o *consumer.Options) { o.Concurrency = 1 }, []string{scope}},
		"with a breaker":       {"", func(o *consumer.Options) { o.Breaker = consumer.Breaker{Failures: 1} }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, o, reader, h := memory.New(), options(), metric.NewManualReader(), &clerk{takes: 5 * time.Second}
				o.MeterProvider = metric.NewMeterProvider(metric.WithReader(reader))
				if c.change != nil {
					c.change(&o)
				}
				e, b := begin(t, l, o, h.Handle, func(cfg *engine.Config) { cfg.Shown.Scopes = c.home })
				in := items(20, noLane)
				e.Offer(in)
				pass(time.Second)
				pauseOf(t, l, c.scope)
				pass(o.Lease / 3)
				h.during.Store(true)
				begun := h.begun.Load()
				pass(10 * o.Lease)
				if h.begun.Load() != begun || h.late.Load() != 0 {
					t.Errorf("%d began in the pause", h.late.Load())
				}
				if n := wantNoneHeld(t, l, in); n != int(begun) {
					t.Errorf("%d came to their end, %d had begun", n, begun)
				}
				health := e.Health()
				if why := "paused by alice: the bank is away"; !health.Ready || !health.Alive || pausedStall(health) != why || health.LastError != "" || e.Open() {
					t.Errorf("health in the pause: %+v, open for polls: %t", health, e.Open())
				}
				if m := read(t, reader); m["ackledger.paused"] != 1 || m["ackledger.stalled paused"] != 1 || m["ackledger.ready"] != 1 {
					t.Errorf("metrics: %v", m)
				}
				h.during.Store(false)
				resumeOf(t, l, c.scope)
				pass(time.Minute + 20*h.takes)
				b.wantAcked(t, in...)
				if h.begun.Load() != int64(len(in)) || h.worst.Load() != 1 {
					t.Errorf("%d runs of %d messages, up to attempt %d", h.begun.Load(), len(in), h.worst.Load())
				}
				if health := e.Health(); pausedStall(health) != "" || !e.Open() || read(t, reader)["ackledger.paused"] != 0 {
					t.Errorf("health after the pause: %+v", health)
				}
				end(t, e)
			})
		})
	}
}

// wantNoneHeld fails for what an owner holds, and for what counts an attempt or a crash. It returns how many succeeded.
func wantNoneHeld(t *testing.T, l *memory.Ledger, in []*engine.Item) (done int) {
	t.Helper()
	for _, it := range in {
		r, err := l.Get(context.Background(), it.Key)
		switch {
		case errors.Is(err, ledger.ErrNotFound):
		case err != nil:
			t.Fatal(err)
		case r.State == ledger.Succeeded:
			done++
		case r.Owner != "" || r.Attempts != 0 || r.Crashes != 0:
			t.Errorf("%s: held by %q, %d attempts, %d crashes", it.Msg.ID, r.Owner, r.Attempts, r.Crashes)
		}
	}
	return done
}

// Another scope's pause is nobody's, until something of that scope comes.
func TestPauseOfAnotherScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, h := memory.New(), &clerk{}
		e, b := begin(t, l, options(), h.Handle)
		pauseOf(t, l, "tests/other")
		pass(5 * time.Second)
		in := items(10, noLane)
		e.Offer(in)
		pass(time.Second)
		b.wantAcked(t, in...)
		stray := item("stray", "")
		stray.Key.Scope = "tests/other"
		e.Offer([]*engine.Item{stray})
		pass(time.Minute)
		if pausedStall(e.Health()) == "" || h.begun.Load() != 10 {
			t.Errorf("%+v, %d began", e.Health(), h.begun.Load())
		}
		resumeOf(t, l, "tests/other")
		pass(5 * time.Second)
		b.wantAcked(t, stray)
		end(t, e)
	})
}

// A worker that was started under a pause ran for a third of a lease until its first beat told it. In a loop of crashes, or a rollout, that
// is all the time.
func TestPitfall199_StartedUnderAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, h := memory.New(), &clerk{}
		pauseOf(t, l, scope)
		e, b := begin(t, l, options(), h.Handle, func(c *engine.Config) { c.Shown.Scopes = []string{scope} })
		in := items(10, noLane)
		e.Offer(in)
		pass(time.Minute)
		if h.begun.Load() != 0 || pausedStall(e.Health()) == "" {
			t.Errorf("%d began, %+v", h.begun.Load(), e.Health())
		}
		resumeOf(t, l, scope)
		pass(5 * time.Second)
		b.wantAcked(t, in...)
		end(t, e)
	})
}

// A worker that cannot reach its ledger, or loses its lease and joins anew, goes by what it knew last of the pauses.
func TestPauseThroughAnOutage(t *testing.T) {
	for name, outage := range map[string]func(l *memory.Ledger, link *link){
		"no answers": func(_ *memory.Ledger, link *link) {
			link.set(func(memory.Op) error { return errDown }, nil)
			pass(4 * time.Second)
			link.set(nil, nil)
		},
		"lost lease": func(l *memory.Ledger, link *link) {
			link.set(func(memory.Op) error { return errDown }, nil)
			pass(time.Minute)
			link.set(nil, nil)
		},
		"declared dead": func(l *memory.Ledger, link *link) { l.Declare(link.owner()) },
		"beats are lost": func(_ *memory.Ledger, link *link) {
			link.set(nil, lostOf(memory.Beat))
			pass(5 * time.Second)
			link.set(nil, nil)
		},
		"settlements are": func(_ *memory.Ledger, link *link) {
			link.set(nil, lostOf(memory.Settle))
			pass(5 * time.Second)
			link.set(nil, nil)
		},
		"claims are, at once": func(_ *memory.Ledger, link *link) {
			link.set(nil, lostOf(memory.Claim))
			pass(time.Second)
			link.set(nil, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, h := memory.New(), &clerk{takes: time.Second}
				link := &link{Ledger: l}
				e, b := begin(t, link, options(), h.Handle)
				in := items(40, noLane)
				e.Offer(in)
				pass(1500 * time.Millisecond)
				pauseOf(t, l, scope)
				pass(4 * time.Second)
				h.during.Store(true)
				outage(l, link)
				pass(time.Minute)
				if h.late.Load() != 0 || pausedStall(e.Health()) == "" || !e.Health().Ready {
					t.Errorf("%d began, %+v", h.late.Load(), e.Health())
				}
				wantNoneHeld(t, l, in)
				h.during.Store(false)
				resumeOf(t, l, scope)
				pass(2 * time.Minute)
				b.wantAcked(t, in...)
				if h.worst.Load() != 1 {
					t.Errorf("up to attempt %d", h.worst.Load())
				}
				end(t, e)
			})
		})
	}
}

func lostOf(op memory.Op) func(memory.Op) error {
	return func(is memory.Op) error {
		if is == op {
			return errDown
		}
		return nil
	}
}

// A pause that is set while a take-over runs counts no second crash, and loses nothing: the message is given back as it was taken over.
func TestPauseWhileATakeOverRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, h := memory.New(), &clerk{takes: 10 * time.Second}
		dead, err := l.Join(t.Context(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		in := items(8, noLane)
		for _, it := range in {
			if c, err := dead.Claim(t.Context(), []ledger.Entry{{Key: it.Key, Fingerprint: it.Fingerprint, Delivery: it.Delivery, Window: time.Hour}}); err != nil || c[0].Answer != ledger.Run {
				t.Fatal(c, err)
			}
		}
		l.Declare(dead.ID())
		o := options()
		o.Concurrency = 2
		e, b := begin(t, l, o, h.Handle)
		e.Offer(in)
		pass(time.Second)
		pauseOf(t, l, scope)
		pass(time.Minute)
		running := h.begun.Load()
		for _, it := range in {
			if r := state(t, l, it); r.Attempts != 0 || r.Crashes > 1 || r.Owner != "" && (r.Owner != dead.ID() || r.Crashes != 0) {
				t.Errorf("%s: %d crashes, %d attempts, held by %q", it.Msg.ID, r.Crashes, r.Attempts, r.Owner)
			}
		}
		if running != 2 {
			t.Errorf("%d began", running)
		}
		resumeOf(t, l, scope)
		pass(5 * time.Minute)
		b.wantAcked(t, in...)
		end(t, e)
	})
}

// A worker reports with each beat what its health and its metrics say.
func TestReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, h := memory.New(), &clerk{takes: time.Minute}
		lag := []ledger.Lag{{Source: "topic-0", Waiting: 7}}
		o := options()
		o.Concurrency = 5
		e, b := begin(t, l, o, func(ctx context.Context, m *consumer.Message) error {
			switch m.ID {
			case "m00000":
				return consumer.Terminal(errors.New("no"))
			case "m00001":
				if m.Attempt == 1 {
					return errors.New("again")
				}
				return nil
			case "m00002", "m00003", "m00004":
				return nil
			}
			return h.Handle(ctx, m)
		}, func(c *engine.Config) {
			c.Shown.Scopes, c.Shown.Lag = []string{scope, "tests/b"}, func() []ledger.Lag { return lag }
		})
		began := time.Now()
		pass(time.Second) // who is killed before a third of a lease has passed was nobody's
		if all, err := l.Workers(t.Context()); err != nil || len(all) != 1 || !all[0].Report.Started.Equal(began) {
			t.Errorf("who has just joined: %+v, %v", all, err)
		}
		again := item("m00004", "")
		e.Offer(append(items(9, noLane), again))
		pass(50 * time.Second)
		b.wantAcked(t, again)
		all, err := l.Workers(t.Context())
		if err != nil || len(all) != 1 || all[0].Fate != ledger.Live || all[0].Lease <= 0 {
			t.Fatalf("%+v, %v", all, err)
		}
		r := all[0].Report
		if r.Scope != scope || !slices.Equal(r.Scopes, []string{scope, "tests/b"}) || !slices.Equal(r.Lag, lag) || r.PID == 0 || r.Host == "" || !r.Started.Equal(began) {
			t.Errorf("it is %+v", r)
		}
		if r.Held != 4 || r.Running != 4 || r.Waiting != 0 || r.Oldest < 40*time.Second || r.Oldest > 50*time.Second {
			t.Errorf("in hand: %+v", r)
		}
		if r.Succeeded != 4 || r.Failed != 1 || r.Retried != 1 || r.Duplicates != 1 || !r.Alive || !r.Ready || r.Paused != "" || len(r.Stalled) != 0 {
			t.Errorf("counted: %+v", r)
		}
		pauseOf(t, l, "")
		pass(7 * time.Second)
		all, _ = l.Workers(t.Context())
		if r := all[0].Report; !strings.HasPrefix(r.Paused, "paused by alice") || !r.Ready {
			t.Errorf("paused: %+v", r)
		}
		resumeOf(t, l, "")
		pass(2 * time.Minute)
		end(t, e)
		if all, err := l.Workers(t.Context()); err != nil || len(all) != 1 || all[0].Fate != ledger.Left {
			t.Errorf("after its end: %+v, %v", all, err)
		}
	})
}

// Operators who pause and resume at any moment, beside handlers that fail, and lanes: nothing is lost or run twice after it succeeded,
// nothing counts that was given back.
func TestPausesAtAnyMoment(t *testing.T) {
	t.Parallel()
	l, o := memory.New(), options()
	o.Lease, o.Concurrency, o.BackoffBase, o.BackoffMax, o.Breaker.Off = 100*time.Millisecond, 8, time.Millisecond, 2*time.Millisecond, true
	var mu sync.Mutex
	ended := map[string]int{}
	e, b := begin(t, l, o, func(_ context.Context, m *consumer.Message) error {
		time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond)
		if m.ID[len(m.ID)-1] == '7' && m.Attempt == 1 {
			return errors.New("once more")
		}
		mu.Lock()
		defer mu.Unlock()
		ended[m.ID]++
		if m.Attempt > 2 {
			t.Errorf("%s: attempt %d", m.ID, m.Attempt)
		}
		return nil
	})
	in := items(2000, func(i int) string { return []string{"", "a", "b"}[i%3] })
	over := make(chan struct{})
	go func() {
		defer close(over)
		for range 15 {
			pauseOf(t, l, []string{"", scope}[rand.IntN(2)])
			time.Sleep(time.Duration(rand.IntN(40)) * time.Millisecond)
			for _, p := range []string{"", scope} {
				if _, err := l.Resume(context.Background(), p, operator); err != nil {
					t.Error(err)
				}
			}
			time.Sleep(time.Duration(rand.IntN(40)) * time.Millisecond)
		}
	}()
	for part := range slices.Chunk(in, 50) {
		e.Offer(part)
		time.Sleep(time.Duration(rand.IntN(10)) * time.Millisecond)
	}
	<-over
	deadline := time.Now().Add(time.Minute)
	done := func() bool { return !slices.ContainsFunc(in, func(it *engine.Item) bool { return !b.acked(t, it) }) }
	for !done() && time.Now().Before(deadline) {
		time.Sleep(5 * time.Millisecond)
	}
	b.wantAcked(t, in...)
	end(t, e)
	mu.Lock()
	defer mu.Unlock()
	for id, n := range ended {
		if n != 1 {
			t.Errorf("%s succeeded %d times", id, n)
		}
	}
}
