package memory_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/ledgertest"
	"github.com/ackledger/ackledger/ledger/memory"
)

// effects is a table of effects, for InTx: what fn inserts counts once InTx returned nil.
type effects struct {
	mu    sync.Mutex
	count map[string]int
}

type pendingEffects struct{}

func (f *effects) inTx(ctx context.Context, fn func(context.Context) error) error {
	var ids []string
	if err := memory.InTx(context.WithValue(ctx, pendingEffects{}, &ids), fn); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range ids {
		f.count[id]++
	}
	return nil
}

func (f *effects) insert(ctx context.Context, id string) error {
	ids := ctx.Value(pendingEffects{}).(*[]string)
	*ids = append(*ids, id)
	return nil
}

func (f *effects) all(context.Context) (map[string]int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count, nil
}

func open(*testing.T) ledgertest.Store {
	var passed atomic.Int64
	s := openLedger(memory.New(memory.WithClock(func() time.Time { return time.Now().Add(time.Duration(passed.Load())) })),
		func(l ledger.Ledger) ledger.Ledger { return l })
	s.Age = func(_ context.Context, d time.Duration) error {
		passed.Add(int64(d))
		return nil
	}
	return s
}

// openGrouped opens a ledger whose owners group their calls.
func openGrouped(*testing.T) ledgertest.Store {
	return openLedger(memory.New(), func(l ledger.Ledger) ledger.Ledger { return groupedLedger{l, l.(ledger.Parking)} })
}

func openLedger(l *memory.Ledger, wrap func(ledger.Ledger) ledger.Ledger) ledgertest.Store {
	table := &effects{count: map[string]int{}}
	return ledgertest.Store{
		Ledger: wrap(l),
		Get:    l.Get,
		Declare: func(_ context.Context, id string) error {
			l.Declare(id)
			return nil
		},
		Drop: func(_ context.Context, key ledger.Key) error {
			l.Drop(key)
			return nil
		},
		DropOwner: func(_ context.Context, id string) error {
			l.DropOwner(id)
			return nil
		},
		Rest: func(context.Context) error {
			l.RestOwners()
			return nil
		},
		Lose: func(lose bool) {
			if !lose {
				l.FailAfter(nil)
				return
			}
			l.FailAfter(func(context.Context, memory.Op) error { return errors.New("reset") })
		},
		InTx: table.inTx, Effect: table.insert, Effects: table.all,
	}
}

func TestLedger(t *testing.T)  { t.Parallel(); ledgertest.Run(t, open) }
func TestGrouped(t *testing.T) { t.Parallel(); ledgertest.Run(t, openGrouped) }
func TestInTx(t *testing.T)    { t.Parallel(); ledgertest.RunInTx(t, open) }
func TestSteps(t *testing.T) {
	t.Parallel()
	ledgertest.RunSteps(t, open)
	ledgertest.RunStepsOperate(t, open)
}
func TestStepsGrouped(t *testing.T)       { t.Parallel(); ledgertest.RunSteps(t, openGrouped) }
func TestParked(t *testing.T)             { t.Parallel(); ledgertest.RunParked(t, open) }
func TestParkedGrouped(t *testing.T)      { t.Parallel(); ledgertest.RunParked(t, openGrouped) }
func TestParkedOperate(t *testing.T)      { t.Parallel(); ledgertest.RunParkedOperate(t, open) }
func TestPitfall227_Dropped(t *testing.T) { t.Parallel(); ledgertest.Pitfall227(t, open) }

func TestDifferential(t *testing.T) { t.Parallel(); ledgertest.Differential(t, open, 60) }

func TestPitfall280_DroppedInPart(t *testing.T) { t.Parallel(); ledgertest.Pitfall280(t, open) }
func TestPitfall222_BroughtAgainWhileParked(t *testing.T) {
	t.Parallel()
	ledgertest.Pitfall222(t, open)
}
func TestPitfall223_ParkedByARelease(t *testing.T)   { t.Parallel(); ledgertest.Pitfall223(t, open) }
func TestPitfall224_ParkedAndFailed(t *testing.T)    { t.Parallel(); ledgertest.Pitfall224(t, open) }
func TestPitfall252_LaneStaysParked(t *testing.T)    { t.Parallel(); ledgertest.Pitfall252(t, open) }
func TestPitfall253_LaneByArrival(t *testing.T)      { t.Parallel(); ledgertest.Pitfall253(t, open) }
func TestPitfall260_PlacesOfALane(t *testing.T)      { t.Parallel(); ledgertest.Pitfall260(t, open) }
func TestPitfall225_ParkedAndCommitted(t *testing.T) { t.Parallel(); ledgertest.Pitfall225(t, open) }
