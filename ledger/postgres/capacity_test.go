package postgres_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger"
)

// TestWAL measures what a message writes to the WAL, as docs/operations-capacity.md says, in calls of 500.
func TestWAL(t *testing.T) {
	t.Parallel()
	if os.Getenv("ACKLEDGER_LONG") == "" {
		t.Skip("SKIPPED: it needs a server of its own: ACKLEDGER_LONG=1")
	}
	services.NeedServers(t)
	server, err := services.StartPostgres(t.Context(), services.PostgresOptions{Conf: map[string]string{"autovacuum": "off"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	migrate(t, server.URL(), nil)
	b := openBench(t, server.URL(), variant{})
	for name, most := range map[string]float64{"rows": 600, "ranges": 2, "failures": 2000} {
		o, err := b.Join(t.Context(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		const calls, each = 40, 500
		before := b.lsn(t)
		for c := range calls {
			entries := make([]ledger.Entry, each)
			for i := range entries {
				n := int64(c*each + i)
				id := fmt.Appendf(nil, "orders-0-%d", n)
				entries[i] = ledger.Entry{Key: ledger.Key{Scope: name, ID: id}, Fingerprint: ledger.BodyFingerprint(id), Delivery: id, Window: time.Hour}
				if name == "ranges" {
					entries[i].Ranged, entries[i].Key.Pos = true, &ledger.Position{Log: "cluster/topic/0", Offset: n, Prev: n - 1}
				}
			}
			claims, err := o.Claim(t.Context(), entries)
			if err != nil {
				t.Fatal(err)
			}
			done := make([]ledger.Settlement, each)
			for i := range claims {
				done[i] = ledger.Settlement{Ticket: claims[i].Ticket, Kind: ledger.Succeed}
				if name == "failures" {
					done[i].Kind, done[i].Dead = ledger.Fail, &ledger.Archive{Key: entries[i].Key, Fingerprint: entries[i].Fingerprint, Delivery: entries[i].Delivery,
						Kind: ledger.KindTerminal, Source: "orders", Body: make([]byte, 200), Attempts: 1, SentAt: time.Now(), Keep: time.Hour,
						Errors: []ledger.AttemptError{{Attempt: 1, Kind: ledger.KindTerminal, Error: "no such SKU", At: time.Now()}}}
				}
			}
			if _, err := o.Settle(t.Context(), done); err != nil {
				t.Fatal(err)
			}
		}
		if got := float64(b.lsn(t)-before) / (calls * each); got > most {
			t.Errorf("a message in %s writes %.1f B of WAL, more than %.0f", name, got, most)
		} else {
			t.Logf("a message in %s writes %.2f B of WAL", name, got)
		}
	}
}

// lsn is how many bytes of WAL the server has written.
func (b *bench) lsn(t *testing.T) (n int64) {
	t.Helper()
	if err := b.pool.QueryRow(t.Context(), "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
