package engine_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger/memory"
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
					s.Offer(later(1).Items(0, 1, nil))
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
					s.Offer(r.Items(0, 10, nil))
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
		it := r.Items(0, 1, nil)[0]
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

// A handler's transaction that commits after the handler has returned: the ledger asks for the stretch message by
// message, and each is acknowledged.
func TestStretchIsSettledInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var left context.Context
		s := newStretches(t, func(ctx context.Context, offset int64) error {
			switch offset {
			case 50:
				left = ctx
			case 109:
				if err := memory.InTx(left, func(context.Context) error { return nil }); err != nil {
					t.Error(err)
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
