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

// openRepeated opens a ledger whose calls are split, and each part of which is run twice.
func openRepeated(*testing.T) ledgertest.Store {
	var passed atomic.Int64
	s := openLedger(memory.NewRepeated(3, memory.WithClock(func() time.Time { return time.Now().Add(time.Duration(passed.Load())) })),
		func(l ledger.Ledger) ledger.Ledger { return l })
	s.InTx, s.Effect, s.Effects = nil, nil, nil // it is bound to the type of the store
	s.Age = func(_ context.Context, d time.Duration) error {
		passed.Add(int64(d))
		return nil
	}
	return s
}

func TestRepeated(t *testing.T)        { t.Parallel(); ledgertest.Run(t, openRepeated) }
func TestRepeatedOperate(t *testing.T) { t.Parallel(); ledgertest.RunOperate(t, openRepeated) }

func TestRepeatedDifferential(t *testing.T) {
	t.Parallel()
	ledgertest.Differential(t, ledgertest.Ranged(openRepeated), 60)
}
