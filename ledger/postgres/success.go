package postgres

import (
	"context"

	"github.com/ackledger/ackledger/internal/checks"
	"github.com/ackledger/ackledger/ledger"
)

var _ ledger.SuccessReader = (*Ledger)(nil)

// sqlSuccesses reads which of the keys have succeeded. It locks nothing, so it has no transaction id and its end waits for no disk, but
// where there is a synchronous standby: sqlMark, after what was read, has it wait for that.
const sqlSuccesses = `
WITH sure AS MATERIALIZED (SELECT {durable}, {mark})
SELECT k.place, m.fingerprint, m.result
FROM sure, unnest($1::uuid[]) WITH ORDINALITY AS k(key, place)
CROSS JOIN LATERAL (SELECT m.fingerprint, m.result FROM {s}.message m WHERE m.key = k.key AND m.state = 2 OFFSET 0) m`

// Successes implements [ledger.SuccessReader].
func (l *Ledger) Successes(ctx context.Context, keys []ledger.Key) ([]ledger.Success, error) {
	if err := checks.Successes(keys); err != nil {
		return nil, err
	}
	out := make([]ledger.Success, len(keys))
	var place int64
	var print [16]byte
	var result []byte
	err := l.list(ctx, sqlSuccesses, []any{keysOf(keys, ledger.Key.Sum)}, into([]any{&place, &print, &result}, func() {
		out[place-1] = ledger.Success{Succeeded: true, Fingerprint: print, Result: result}
	}))
	if err != nil {
		return nil, named("successes", err)
	}
	return out, nil
}
