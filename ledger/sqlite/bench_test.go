package sqlite_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

// BenchmarkClaimSettle claims new messages and settles them as succeeded, in batches of 500; one op is one message. The
// folder can be named (ACKLEDGER_BENCH_DIR) to measure another disk.
func BenchmarkClaimSettle(b *testing.B) {
	dir := os.Getenv("ACKLEDGER_BENCH_DIR")
	if dir == "" {
		dir = b.TempDir()
	} else {
		var err error
		if dir, err = os.MkdirTemp(dir, "ackledger-bench"); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = os.RemoveAll(dir) })
	}
	l, err := sqlite.Open(b.Context(), filepath.Join(dir, "ledger.db"), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	o, err := l.Join(b.Context(), time.Minute)
	if err != nil {
		b.Fatal(err)
	}
	const size = 500
	entries, settlements := make([]ledger.Entry, size), make([]ledger.Settlement, size)
	b.ResetTimer()
	for done := 0; done < b.N; done += size {
		for i := range entries {
			id := binary.BigEndian.AppendUint64(nil, uint64(done+i))
			entries[i] = ledger.Entry{Key: ledger.Key{Scope: "bench", ID: id}, Fingerprint: ledger.BodyFingerprint(id),
				Delivery: id, Window: time.Hour}
		}
		claims, err := o.Claim(b.Context(), entries)
		if err != nil {
			b.Fatal(err)
		}
		for i, c := range claims {
			settlements[i] = ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed}
		}
		if _, err := o.Settle(b.Context(), settlements); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
}
