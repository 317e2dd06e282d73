package engine_test

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// One message spoils what it is in, in every way that there is: the batch counts for nobody, each message runs alone, and
// only the culprit's attempts grow.
func TestSpoiltBatchCostsTheNeighboursNothing(t *testing.T) {
	inTx := func(ctx context.Context, err error) error {
		return memory.InTx(ctx, func(context.Context) error { return err })
	}
	for name, spoil := range map[string]func(ctx context.Context, batch []*consumer.Message) []error{
		"panic":                  func(context.Context, []*consumer.Message) []error { panic("ouch") },
		"goexit":                 func(context.Context, []*consumer.Message) []error { runtime.Goexit(); return nil },
		"too few errors":         func(_ context.Context, b []*consumer.Message) []error { return make([]error, len(b)-1) },
		"too many errors":        func(_ context.Context, b []*consumer.Message) []error { return make([]error, len(b)+1) },
		"error that panics":      func(_ context.Context, b []*consumer.Message) []error { return each(b, (*brokenError)(nil)) },
		"rolled back":            func(ctx context.Context, b []*consumer.Message) []error { return each(b, inTx(ctx, errBoom)) },
		"rolled back, swallowed": func(ctx context.Context, _ []*consumer.Message) []error { _ = inTx(ctx, errBoom); return nil },
		"panic in the transaction": func(ctx context.Context, _ []*consumer.Message) []error {
			_ = memory.InTx(ctx, func(context.Context) error { panic("ouch") })
			return nil
		},
		"all fail": func(ctx context.Context, b []*consumer.Message) []error {
			err := inTx(ctx, errBoom)
			return slices.Repeat([]error{err}, len(b))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, h := memory.New(), &batches{}
				h.f = func(ctx context.Context, batch []*consumer.Message) []error {
					if hasPoison(batch) {
						return spoil(ctx, batch)
					}
					if err := inTx(ctx, nil); err != nil {
						t.Error(err)
					}
					return nil
				}
				core, logs := observer.New(zap.WarnLevel)
				o := oneByOne()
				o.Logger = zap.New(core)
				e, b := beginBatch(t, l, o, 8, h)
				in := items(8, noLane)
				e.Offer(in)
				synctest.Wait() // at once, without any delay
				wantKind := spoilKind(name)
				if said := logs.FilterMessageSnippet("a batch came to nothing").All(); len(said) != 1 || said[0].ContextMap()["kind"] != wantKind {
					t.Errorf("want one line with the kind %s: %+v", wantKind, said)
				}
				for _, it := range in {
					if all, alone := h.runs(it.Msg.ID); all != 2 || alone != 1 {
						t.Errorf("message %s: %d runs, %d alone", it.Msg.ID, all, alone)
					}
					if rec := state(t, l, it); rec.Token != 1 {
						t.Errorf("message %s was claimed %d times", it.Msg.ID, rec.Token)
					}
				}
				pass(time.Hour)
				wantInnocent(t, l, b, in)
				rec := state(t, l, in[3])
				if rec.State != ledger.Failed || len(rec.Archived) != 1 || rec.Archived[0].Attempts != 3 {
					t.Errorf("poison: %+v", rec)
				}
				for _, failure := range rec.Archived[0].Errors {
					if string(failure.Kind) != wantKind {
						t.Errorf("attempt %d is of kind %q, want %s", failure.Attempt, failure.Kind, wantKind)
					}
				}
				end(t, e)
			})
		})
	}
}

// spoilKind is the kind of failure of one of the ways in which a message spoils its batch.
func spoilKind(way string) string {
	switch way {
	case "panic", "error that panics", "panic in the transaction":
		return string(ledger.KindPanic)
	case "goexit":
		return string(ledger.KindGoexit)
	}
	return string(ledger.KindError)
}

// brokenError panics when it is asked for its text.
type brokenError struct{ text string }

func (b *brokenError) Error() string { return b.text }
