package storage

import (
	"context"
	"fmt"

	"github.com/ackledger/ackledger/ledger"
)

// WithDeadline gives a context that has no deadline one of [ledger.CallTimeout].
func WithDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, ledger.CallTimeout)
}

// MarkPartly is the error of a call that writes several times, wrote among them: what was written has no answer, so the
// whole is unknown then. [ledger.ErrLost] stays what it is. Nil stays nil.
func MarkPartly(wrote bool, err error) error {
	if !wrote || ledger.IsLost(err) {
		return err
	}
	return ledger.MarkUnknown(err)
}

// CutResult bounds a handler's result: one longer than limit is cut and ends in a marker that says so. Nil stays nil
// and empty stays empty.
func CutResult(result []byte, limit int) []byte {
	if len(result) <= limit {
		return result
	}
	marker := fmt.Sprintf("…[cut from %d bytes]", len(result))
	keep := max(limit-len(marker), 0)
	out := make([]byte, 0, keep+len(marker))
	out = append(out, result[:keep]...)
	return append(out, marker...)
}
