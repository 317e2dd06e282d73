package postgres_test

import (
	"os"
	"testing"
	"time"
)

const (
	// maxRowBytes is what a succeeded message may take where the ledger works, with its part of the indexes and of the room
	// that updates need and leave behind: 212.4 were measured.
	maxRowBytes = 220
	// maxPackedBytes is what it may take of a table that was just written anew: no more than rows and indexes need.
	maxPackedBytes = 184
)

// fillRows lets batches be claimed and settled, with what autovacuum does between them, and says what a message takes.
func fillRows(t *testing.T, b *bench, batches, size, vacuumEvery int) func() float64 {
	t.Helper()
	b.exec(t, "ALTER TABLE ackledger.message SET (autovacuum_enabled = off)")
	o := join(t, b, time.Hour)
	for i := range batches {
		if err := claimAndSettle(t.Context(), o, kafkaEntries(0, 1_000_000+i*size, size)); err != nil {
			t.Fatal(err)
		}
		if (i+1)%vacuumEvery == 0 {
			b.exec(t, "VACUUM ackledger.message")
		}
	}
	if n := b.number(t, "SELECT count(*) FROM ackledger.message WHERE state = 2"); n != batches*size {
		t.Fatalf("%d succeeded rows, want %d", n, batches*size)
	}
	return func() float64 {
		const sizes = "SELECT pg_relation_size('ackledger.message') + pg_indexes_size('ackledger.message')"
		return float64(b.number(t, sizes)) / float64(batches*size)
	}
}

// TestRowBytes: rows of 362 bytes made a table of which half as much stayed in memory. One more column on each row, a
// longer one, or another index breaks the bound.
func TestRowBytes(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	bytes := fillRows(t, b, 5, 2000, 5)
	b.exec(t, "VACUUM FULL ackledger.message")
	packed := bytes()
	t.Logf("%.1f bytes a succeeded message, packed, indexes included", packed)
	if packed > maxPackedBytes {
		t.Errorf("%.1f bytes a succeeded message, want at most %d", packed, maxPackedBytes)
	}
	b.exec(t, "UPDATE ackledger.message SET due = now()") // which succeeded rows do not have
	b.exec(t, "VACUUM FULL ackledger.message")
	if wider := bytes(); wider <= maxPackedBytes {
		t.Errorf("%.1f bytes with eight more on each row: the bound of %d sees nothing", wider, maxPackedBytes)
	}
	if os.Getenv("ACKLEDGER_LONG") == "" {
		return
	}
	worked := fillRows(t, newBench(t, variant{}), 50, 2000, 1)()
	t.Logf("%.1f bytes a succeeded message where the ledger works, indexes included", worked)
	if worked > maxRowBytes {
		t.Errorf("%.1f bytes a succeeded message, want at most %d", worked, maxRowBytes)
	}
}
