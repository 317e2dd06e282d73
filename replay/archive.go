package replay

import (
	"context"
	"iter"

	"github.com/ackledger/ackledger/ledger"
)

// Archive is the ledger's own archive as a source: failed messages, and those that are pending and nobody's, such as what a
// killed replay in place left behind. Nothing is removed from it.
func Archive(op ledger.Operator) Source { return &archive{op: op} }

type archive struct{ op ledger.Operator }

func (a *archive) String() string                          { return "the ledger's archive" }
func (a *archive) Address(context.Context) (string, error) { return "", nil }
func (a *archive) Count(context.Context) (int64, error)    { return -1, nil }
func (a *archive) Done(context.Context, []*Letter) error   { return nil }
func (a *archive) Warnings() []string                      { return nil }
func (a *archive) Letters(ctx context.Context, f *ledger.Filter) iter.Seq2[*Letter, error] {
	return func(func(*Letter, error) bool) {}
}
