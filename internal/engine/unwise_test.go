package engine_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// pooled is a ledger with a pool for InTx.
type pooled struct {
	ledger.Ledger
	conns int
}

func (p pooled) TxConns() int { return p.conns }

// What is unwise stands in Health as long as the worker runs, and once in the log; the pool's size is the ledger's to say.
func TestUnwiseSettingsAreSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen, logged := observer.New(zap.WarnLevel)
		o := options()
		o.Lease, o.Logger = 100*time.Millisecond, zap.New(seen)
		e, _ := begin(t, pooled{memory.New(), 3}, o, func(context.Context, *consumer.Message) error { return nil })
		pass(time.Minute)
		got := e.Health().Warnings
		if len(got) != 2 || !strings.Contains(got[0], "Lease: is 100ms") || !strings.Contains(got[1], "4 handlers run at once, and the pool that InTx uses has 3") {
			t.Errorf("Health says %q", got)
		}
		var lines []string
		for _, line := range logged.All() {
			lines = append(lines, line.Message)
		}
		if !slices.Equal(lines, got) {
			t.Errorf("the log says %q, Health %q", lines, got)
		}
		end(t, e)
	})
}
