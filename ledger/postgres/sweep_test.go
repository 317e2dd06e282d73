package postgres_test

import (
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

func fillExpired(t testing.TB, b *bench, n int) {
	t.Helper()
	b.exec(t, `INSERT INTO ackledger.scope (name) VALUES ('s') ON CONFLICT DO NOTHING`)
	b.exec(t, `INSERT INTO ackledger.message (token, at, expiry, scope, state, attempts, crashes, key, fingerprint, id)
		SELECT 1, now() - interval '2 days', now() - interval '1 day', 1, 2, 0, 0, gen_random_uuid(), gen_random_uuid(), convert_to('topic-1-' || i, 'UTF8')
		FROM generate_series(1, $1::integer) i`, n)
}

func TestSweepX(t *testing.T) {
	b := newBench(t, variant{})
	fillExpired(t, b, 500_000)
	began := time.Now()
	r, err := b.Sweep(t.Context(), ledger.MaintainConfig{})
	t.Logf("%+v %v %v", r, err, time.Since(began))
	began = time.Now()
	r, err = b.Sweep(t.Context(), ledger.MaintainConfig{})
	t.Logf("%+v %v %v", r, err, time.Since(began))
	s, err := b.Stats(t.Context())
	t.Logf("%+v %v", s, err)
}
