package replay_test

import (
	"context"
	"iter"
	"testing"
	"testing/synctest"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/replay"
)

// slowLists is an operator whose lists take for ever.
type slowLists struct{ ledger.Operator }

func (slowLists) DeadLetters(ctx context.Context, _ ledger.Filter) iter.Seq2[ledger.DeadLetter, error] {
	return func(yield func(ledger.DeadLetter, error) bool) {
		<-ctx.Done()
		yield(ledger.DeadLetter{}, ctx.Err())
	}
}

// An archive's dead letters are counted as far as the filter selects them, unless that takes long.
func TestArchiveIsCounted(t *testing.T) {
	l := memory.New()
	failed(t, l, 5)
	for want, src := range map[int64]replay.Source{2: replay.Archive(l), -1: replay.Renewals(l)} {
		n, err := src.Count(t.Context(), &ledger.Filter{IDs: [][]byte{[]byte("id-1"), []byte("id-3")}})
		if err != nil || n != want {
			t.Errorf("%s: %d, %v, want %d", src, n, err, want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		if n, err := replay.Archive(slowLists{l}).Count(t.Context(), &ledger.Filter{}); err != nil || n != -1 {
			t.Errorf("a long list: %d, %v", n, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if n, err := replay.Archive(slowLists{l}).Count(ctx, &ledger.Filter{}); err == nil {
			t.Errorf("a count that was ended: %d", n)
		}
	})
}
