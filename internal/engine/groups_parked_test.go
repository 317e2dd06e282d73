package engine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
	table "github.com/ackledger/ackledger/ledger/driver/items"
	"github.com/ackledger/ackledger/ledger/driver/items/itemstest"
	"github.com/ackledger/ackledger/ledger/memory"
)

// TestPitfall261_AheadInAGroup: of a FIFO group one worker had parked a message, and another, which got the next one from the queue, ran it
// ahead.
func TestPitfall261_AheadInAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, h := memory.New(), &ordered{later: map[string]time.Duration{"1/0": time.Hour}}
		one, a := begin(t, l, options(), h.handle, parks)
		two, b := begin(t, l, options(), h.handle, parks)
		pass(time.Second)
		here, there := engine.NewSharedLanes(scope, "group"), engine.NewSharedLanes(scope, "group")
		of := func(lanes *engine.Lanes, key uint64, n int64) *engine.Item {
			it := inKey(lanes, key, n)
			it.Lane.Place = ledger.PlaceLast
			return it
		}
		runs := of(there, 2, 0)
		two.Offer([]*engine.Item{runs})
		first, last := of(here, 1, 0), of(here, 1, 3)
		one.Offer([]*engine.Item{first})
		pass(time.Second)
		wantParked(t, l, 1)
		behind := []*engine.Item{of(there, 1, 1), of(there, 1, 2)}
		two.Offer(behind)
		pass(10 * time.Second)
		one.Offer([]*engine.Item{last})
		pass(10 * time.Second)
		a.wantAcked(t, first, last)
		b.wantAcked(t, append(behind, runs)...)
		wantParked(t, l, 4)
		h.wantDone(t, "2/0")
		pass(time.Hour)
		h.wantDone(t, "2/0", "1/0", "1/1", "1/2", "1/3")
		wantParked(t, l, 0)
		end(t, one)
		end(t, two)
	})
}

// A group whose ledger parks nothing waits in memory, as ever.
func TestGroupWhereNothingIsParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := driver.New(table.New(itemstest.NewTable(0, 1)), driver.Config{Limits: ledger.DefaultLimits, Keys: table.Messages, Parts: table.Parts})
		h := &ordered{later: map[string]time.Duration{"1/0": time.Hour}}
		e, b := begin(t, l, options(), h.handle, parks)
		in := ofKey(engine.NewSharedLanes(scope, "group"), 1, 0, 3)
		e.Offer(in)
		pass(time.Minute)
		h.wantDone(t)
		pass(time.Hour)
		h.wantDone(t, "1/0", "1/1", "1/2")
		b.wantAcked(t, in...)
		end(t, e)
	})
}

// Operators are told of a key that stands still, and of none that is parked or waits for a moment.
func TestKeyThatStandsStillIsSaid(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration
		lanes *engine.Lanes
		said  int
	}{
		"an hour":   {after: time.Hour, said: 1},
		"a moment":  {after: time.Second},
		"is parked": {after: time.Hour, lanes: engine.NewLanes(scope, "log")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				core, logs := observer.New(zap.InfoLevel)
				o := options()
				o.Logger = zap.New(core)
				h := &ordered{later: map[string]time.Duration{"1/0": c.after}}
				e, _ := begin(t, memory.New(), o, h.handle, parks)
				pass(time.Second)
				e.Offer(ofKey(c.lanes, 1, 0, 2))
				pass(2 * time.Hour)
				h.wantDone(t, "1/0", "1/1")
				all := logs.FilterMessageSnippet("ordered behind it waits").All()
				if len(all) != c.said || c.said > 0 && (all[0].Level != zap.WarnLevel || all[0].ContextMap()["after"] != time.Hour) {
					t.Errorf("%+v", all)
				}
				end(t, e)
			})
		})
	}
}

// slowCount is a ledger whose first count of what is parked takes a while.
type slowCount struct {
	*memory.Ledger
	asked atomic.Bool
}

func (l *slowCount) ParkedIn(ctx context.Context, scope string) (ledger.ParkedStats, error) {
	if !l.asked.Swap(true) {
		time.Sleep(5 * time.Second)
	}
	return l.Ledger.ParkedIn(ctx, scope)
}

// TestPitfall263_HeldAfterAStart: what was put off for long before the ledger had said how much is parked waited in memory, for hours.
func TestPitfall263_HeldAfterAStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &slowCount{Ledger: memory.New()}
		h := &ordered{later: map[string]time.Duration{"1/0": time.Hour}}
		e, b := begin(t, l, options(), h.handle, parks)
		in := ofKey(engine.NewLanes(scope, "log"), 1, 0, 1)
		e.Offer(in)
		pass(time.Second)
		b.wantAcked(t, in...)
		wantParked(t, l.Ledger, 1)
		pass(time.Hour)
		h.wantDone(t, "1/0")
		end(t, e)
	})
}
