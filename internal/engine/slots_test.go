package engine_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// sources are engines that share slots, each with a backlog; runs are whose handlers began, in order.
type sources struct {
	mu   sync.Mutex
	runs []string
	all  map[string]*engine.Engine
}

func (s *sources) begin(t *testing.T, l ledger.Ledger, name string, limiter *consumer.Limiter, n int) {
	o := options()
	o.Limiter, o.Concurrency = limiter, 8
	e, _ := begin(t, l, o, func(context.Context, *consumer.Message) error {
		s.mu.Lock()
		s.runs = append(s.runs, name)
		s.mu.Unlock()
		time.Sleep(10 * time.Millisecond)
		return nil
	})
	in := items(n, noLane)
	for _, it := range in {
		it.Key.ID = fmt.Append(it.Key.ID, name)
	}
	e.Offer(in)
	if s.all == nil {
		s.all = map[string]*engine.Engine{}
	}
	s.all[name] = e
}

func (s *sources) count(name string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, run := range s.runs {
		if run == name {
			n++
		}
	}
	return n
}

func (s *sources) end(t *testing.T) {
	for _, e := range s.all {
		end(t, e)
	}
}

// Three workers of one process with a backlog each: two of one level run by their weights, one of a lower level has every 17th slot; once
// the others have nothing left, it has all.
func TestWorkersShareSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots, s, l := consumer.NewSlots(4), &sources{}, memory.New()
		s.begin(t, l, "low", slots.Limiter(consumer.Share{Level: 1}), 600)
		s.begin(t, l, "heavy", slots.Limiter(consumer.Share{Weight: 3}), 3000)
		s.begin(t, l, "light", slots.Limiter(consumer.Share{Weight: 1}), 1000)
		pass(8500 * time.Millisecond) // 3400 runs
		heavy, light, low := s.count("heavy"), s.count("light"), s.count("low")
		if all := heavy + light + low; all < 3380 || heavy < 3*light-60 || heavy > 3*light+60 || low < all/17-10 || low > all/17+10 {
			t.Errorf("%d, %d and %d of %d runs", heavy, light, low, all)
		}
		pass(2500 * time.Millisecond)
		if n := s.count("low") - low; s.count("heavy") < 3000 || n < 190 {
			t.Errorf("the first level has done %d of 4000, and the lower one %d since", s.count("heavy")+s.count("light"), n)
		}
		pass(time.Minute)
		s.end(t)
		if n := len(s.runs); n != 4600 {
			t.Errorf("%d have run", n)
		}
	})
}

// A worker that is drained while it waits for slots gives up its turns; the others go on with all slots.
func TestDrainedWorkerGivesUpItsTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots, s, l := consumer.NewSlots(2), &sources{}, memory.New()
		s.begin(t, l, "stays", slots.Limiter(consumer.Share{}), 1000)
		s.begin(t, l, "goes", slots.Limiter(consumer.Share{Weight: 5}), 1000)
		pass(time.Second)
		end(t, s.all["goes"])
		gone, n := s.count("goes"), s.count("stays")
		delete(s.all, "goes")
		pass(time.Second)
		if more := s.count("stays") - n; more < 195 || s.count("goes") != gone {
			t.Errorf("%d of 200 have run in a second, and %d of the one that was drained", more, s.count("goes")-gone)
		}
		pass(time.Minute)
		s.end(t)
	})
}

// What is due again goes ahead of a long backlog: it waits for what was claimed before, about a second's work, and not for all that is in
// hand; with the tenants' turns, too.
func TestDueRetryGoesAheadOfABacklog(t *testing.T) {
	for name, change := range map[string]func(*consumer.Options){
		"plain": func(*consumer.Options) {}, "tenants": func(o *consumer.Options) { o.FairShare = 2 },
		"slots": func(o *consumer.Options) { o.Limiter = consumer.NewSlots(4).Limiter(consumer.Share{}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := options()
				change(&o)
				began, begun := time.Now(), []time.Duration(nil)
				e, _ := begin(t, memory.New(), o, func(_ context.Context, m *consumer.Message) error {
					if m.ID == "m00000" {
						if begun = append(begun, time.Since(began)); len(begun) == 1 {
							return consumer.RetryAfter(errBoom, 5*time.Second)
						}
					}
					time.Sleep(10 * time.Millisecond)
					return nil
				})
				in := items(8000, noLane)
				for _, it := range in {
					it.Tenant = "one"
				}
				e.Offer(in)
				pass(10 * time.Second)
				if !slices.ContainsFunc(begun, func(at time.Duration) bool { return at >= 5*time.Second && at < 8*time.Second }) {
					t.Errorf("it ran after %v, and was due after 5s", begun)
				}
				pass(5 * time.Minute)
				end(t, e)
			})
		})
	}
}
