package engine_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
)

// A partition's records of two leader epochs are of two logs for the ledger, and of one lane: those of the new one run
// behind those of the old, as items and as stretches.
func TestStretchKeepsTheOrderAcrossLeaderEpochs(t *testing.T) {
	for _, whole := range []bool{false, true} {
		t.Run(map[bool]string{false: "items", true: "stretch"}[whole], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStretches(t, func(_ context.Context, offset int64) error {
					if offset == 110 {
						time.Sleep(500 * time.Microsecond) // less than what it is rescued after
					}
					return nil
				})
				later := func(n int) *stormRecords {
					r := s.records(n)
					r.epoch = 1
					return r
				}
				if whole { // the ledger knows the new log already
					s.Offer(later(1).Items(0, 1))
					pass(time.Second)
				} else {
					s.next++
				}
				for s.next < 100 {
					s.next++
				}
				s.OfferStretch(s.records(100).stretch())
				time.Sleep(100 * time.Microsecond) // it is in 110
				if r := later(10); whole {
					s.OfferStretch(r.stretch())
				} else {
					s.Offer(r.Items(0, 10))
				}
				pass(time.Minute)
				for lane := range int64(10) {
					var ran []int64
					for _, o := range s.ran {
						if o%10 == lane {
							ran = append(ran, o)
						}
					}
					if !slices.IsSorted(ran) {
						t.Errorf("the records of lane %d ran in the order %v", lane, ran)
					}
				}
				end(t, s.Engine)
			})
		})
	}
}

// A copy of another message that came back to the partition (a stamped record) has a key of its own, and its place in the
// partition's order.
func TestStretchKeepsTheOrderBeforeAStampedRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStretches(t, func(_ context.Context, offset int64) error {
			if offset == 50 {
				time.Sleep(500 * time.Microsecond)
			}
			return nil
		})
		s.offer(100)
		time.Sleep(100 * time.Microsecond) // it is in 50
		r := s.records(1)                  // 110
		it := r.Items(0, 1)[0]
		it.Log, it.Key, it.Ranged = "a", stormLog("b").key(110), false
		s.Offer([]*engine.Item{it})
		pass(time.Minute)
		var ran []int64
		for _, o := range s.ran {
			if o%10 == 0 {
				ran = append(ran, o)
			}
		}
		if !slices.IsSorted(ran) {
			t.Errorf("the records of lane 0 ran in the order %v", ran)
		}
		end(t, s.Engine)
	})
}

// A message of a stretch that is settled by another way than the stretch: the ledger asks for the stretch message by message,
// and each is acknowledged.
func TestStretchIsSettledInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var left context.Context
		s := newStretches(t, func(ctx context.Context, offset int64) error {
			switch offset {
			case 50:
				left = ctx
			case 109:
				a, _ := ledger.AttemptFrom(left)
				errs, err := a.Owner().Settle(ctx, []ledger.Settlement{{Ticket: a.Ticket(), Kind: ledger.Succeed}})
				if err != nil || errs[0] != nil {
					t.Error(errs, err)
				}
			}
			return nil
		})
		s.offer(100)
		pass(time.Minute)
		s.want(0, nil)
		if load := s.Load(); load != (engine.Load{}) {
			t.Errorf("left: %+v", load)
		}
		end(t, s.Engine)
	})
}

// acked is how many records are acknowledged.
func (s *stretches) acked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.acks)
}

// takes is how long it takes until n records are acknowledged.
func (s *stretches) takes(n int) time.Duration {
	s.t.Helper()
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		synctest.Wait()
		if took := time.Since(began); s.acked() >= n || took > time.Minute {
			return took
		}
	}
}

// A lane that was half through when its stretch was split was settled one record a call, for as long as that took: a drain
// in the middle left hundreds of successes behind, whose handlers ran again.
func TestSplitStretchSettlesItsLaneTogether(t *testing.T) {
	begin := func(t *testing.T, h func(offset int64) error) *stretches {
		s := newStretches(t, func(_ context.Context, offset int64) error { return h(offset) })
		s.net.lag.Store(int64(5 * time.Millisecond))
		s.net.settles.Store(0)
		r := s.records(2000)
		r.lane = func(string) string { return "p" }
		s.OfferStretch(r.stretch())
		return s
	}
	synctest.Test(t, func(t *testing.T) {
		failed := false
		s := begin(t, func(offset int64) error {
			if offset != 1900 || failed {
				return nil
			}
			failed = true
			return consumer.RetryAfter(errBoom, time.Second)
		})
		if took := s.takes(1900); took > 100*time.Millisecond || s.net.settles.Load() > 20 {
			t.Errorf("1,890 records took %s and %d calls", took, s.net.settles.Load())
		}
		pass(time.Minute)
		s.want(0, map[int64]int{1900: 2})
		end(t, s.Engine)
	})
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, func(offset int64) error {
			if offset == 1900 {
				time.Sleep(500 * time.Microsecond)
			}
			return nil
		})
		time.Sleep(300 * time.Microsecond) // it is in 1900
		if err := s.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if ran, acked := len(s.ran), s.acked(); ran != acked || ran < 1000 {
			t.Errorf("%d ran, %d are acknowledged", ran, acked)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// What Pause had split lay in the queue after Resume until the next beat, if it was the stretches' turn.
func TestResumeAfterASplit(t *testing.T) {
	for turn := range 4 {
		synctest.Test(t, func(t *testing.T) {
			s := newStretches(t, func(_ context.Context, offset int64) error {
				if offset >= 50 && offset%100 == int64(50+turn) {
					time.Sleep(300 * time.Microsecond)
				}
				return nil
			})
			n := 5 + turn
			for range n {
				st := s.records(100).stretch()
				st.Records.(*stormRecords).lane, st.Ordered = func(string) string { return "" }, false
				s.OfferStretch(st)
			}
			time.Sleep(100 * time.Microsecond)
			s.Pause()
			pass(100 * time.Millisecond)
			s.Resume()
			if took := s.takes(10 + 100*n); took > 100*time.Millisecond {
				t.Errorf("the rest took %s", took)
			}
			end(t, s.Engine)
		})
	}
}

// A stamped record that waits keeps stretches of its key's partition waiting no longer than one of that partition does.
func TestStretchBesideAStampedRecordThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStretches(t, func(_ context.Context, offset int64) error {
			if offset == 11 {
				return consumer.RetryAfter(errBoom, time.Hour)
			}
			return nil
		})
		it := s.records(2).Items(1, 2)[0] // 11
		it.Log, it.OrderingKey, it.Ranged = "z", "", false
		s.Offer([]*engine.Item{it})
		pass(time.Second)
		s.offer(100)
		if took := s.takes(110); took > 100*time.Millisecond {
			t.Errorf("100 records took %s", took)
		}
		_ = s.Drain(t.Context()) // it waits for an hour
		_ = s.Close(t.Context())
	})
}
