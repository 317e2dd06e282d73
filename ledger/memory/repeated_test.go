package memory_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/ledgertest"
	"github.com/ackledger/ackledger/ledger/memory"
)

// repeatedIn opens a ledger whose calls are split by so many keys, and each part of which is run twice.
func repeatedIn(keys int) ledgertest.Store {
	var passed atomic.Int64
	s := openLedger(memory.NewRepeated(keys, memory.WithClock(func() time.Time { return time.Now().Add(time.Duration(passed.Load())) })),
		func(l ledger.Ledger) ledger.Ledger { return l })
	s.InTx, s.Effect, s.Effects = nil, nil, nil // it is bound to the type of the store
	s.Age = func(_ context.Context, d time.Duration) error {
		passed.Add(int64(d))
		return nil
	}
	return s
}

func openSplit(*testing.T) ledgertest.Store { return repeatedIn(3) }

func TestSplit(t *testing.T)        { t.Parallel(); ledgertest.Run(t, openSplit) }
func TestSplitOperate(t *testing.T) { t.Parallel(); ledgertest.RunOperate(t, openSplit) }

// Calls are whole here: between the parts of one, rows whose time is over may go, of which the model does not know.
func TestRepeatedDifferential(t *testing.T) {
	t.Parallel()
	ledgertest.Differential(t, ledgertest.Ranged(func(*testing.T) ledgertest.Store { return repeatedIn(0) }), 60)
}
