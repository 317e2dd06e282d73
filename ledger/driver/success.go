package driver

import (
	"context"

	"github.com/ackledger/ackledger/internal/checks"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// Successes implements [ledger.SuccessReader].
func (l *Ledger) Successes(ctx context.Context, keys []ledger.Key) ([]ledger.Success, error) {
	if err := checks.Successes(keys); err != nil {
		return nil, err
	}
	ctx, cancel := storage.WithDeadline(ctx)
	defer cancel()
	out := make([]ledger.Success, len(keys))
	err := l.store.View(ctx, reads(keys, func(k *ledger.Key) Key { return k.Sum() }), func(r Reader) error {
		for i := range keys {
			m, err := r.Message(keys[i].Sum(), nil)
			if err != nil {
				return err
			}
			if m != nil && m.State == ledger.Succeeded {
				out[i] = ledger.Success{Succeeded: true, Fingerprint: m.Fingerprint, Result: m.Result}
			}
		}
		return nil
	})
	if err != nil {
		return nil, l.named("successes", err)
	}
	return out, nil
}
