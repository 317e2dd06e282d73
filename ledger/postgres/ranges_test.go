package postgres_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/ledgertest"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// records are n records of a log from an offset on, that may be held in ranges.
func records(scope string, partition int, from int64, n int) []ledger.Entry {
	keys := ledger.LogKeys{Scope: scope, Log: fmt.Sprint("cluster uuid ", partition)}
	entries := make([]ledger.Entry, n)
	for i := range entries {
		at := from + int64(i)
		id := fmt.Appendf(nil, "topic-%d-%d", partition, at)
		entries[i] = ledger.Entry{
			Key:         keys.Key(id, &ledger.Position{Log: keys.Log, Epoch: 3, Offset: at, Prev: at - 1}),
			Fingerprint: ledger.BodyFingerprint(id), Delivery: id, Window: time.Hour, Ranged: true,
		}
	}
	return entries
}

func claimsOf(t *testing.T, o ledger.Owner, entries []ledger.Entry, want ledger.Answer) []ledger.Claim {
	t.Helper()
	claims, err := o.Claim(t.Context(), entries)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range claims {
		if c.Answer != want || c.Err != nil {
			t.Fatalf("claim %d: %+v, want %v", i, c, want)
		}
	}
	return claims
}

func succeedAll(t *testing.T, o ledger.Owner, claims []ledger.Claim) {
	t.Helper()
	settlements := make([]ledger.Settlement, len(claims))
	for i, c := range claims {
		settlements[i] = ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed}
	}
	errs, err := o.Settle(t.Context(), settlements)
	if err != nil {
		t.Fatal(err)
	}
	for i, err := range errs {
		if err != nil {
			t.Fatalf("settle %d: %v", i, err)
		}
	}
}

// TestRanges: a log's messages come and go without rows, and are known afterwards, one by one.
func TestRanges(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]variant{"18": {}, "14": {old: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, v)
			o, peer := join(t, b, time.Minute), join(t, b, time.Minute)
			for batch := range 5 {
				entries := append(records("s", 0, int64(batch*100), 100), records("s", 1, int64(batch*50), 50)...)
				claims := claimsOf(t, o, entries, ledger.Run)
				claimsOf(t, peer, entries, ledger.Busy)
				if r, err := b.Get(t.Context(), entries[3].Key); err != nil || r.State != ledger.Pending || r.Owner != o.ID() {
					t.Fatalf("%+v, %v", r, err)
				}
				succeedAll(t, o, claims)
				claimsOf(t, peer, entries, ledger.Done)
			}
			for what, want := range map[string]int{"message": 0, "claim_range": 0, "segment": 2, "range_log": 2} {
				if n := b.number(t, "SELECT count(*) FROM ackledger."+what); n != want {
					t.Errorf("%d rows in %s, want %d", n, what, want)
				}
			}
			r, err := b.Get(t.Context(), records("s", 0, 321, 1)[0].Key)
			if err != nil || r.State != ledger.Succeeded || string(r.ID) != "topic-0-321" || r.Scope != "s" ||
				r.In == nil || r.In.From != 0 || r.In.To != 500 {
				t.Fatalf("%+v, %v", r, err)
			}
			if r, err = b.Get(t.Context(), records("s", 1, 77, 1)[0].Key); err != nil || string(r.ID) != "topic-1-77" {
				t.Errorf("%+v, %v", r, err)
			}
			if found, err := b.Find(t.Context(), "s", r.ID); err != nil || len(found) != 1 || found[0].Key != r.Key || found[0].State != ledger.Succeeded {
				t.Errorf("found %+v, %v", found, err)
			}
			claimsOf(t, o, records("other", 0, 0, 5), ledger.Run) // what one log has finished says nothing of another
		})
	}
}

// TestRanged runs the suites of ranges on real servers, in every way to send a statement.
func TestRanged(t *testing.T) { t.Parallel(); ledgertest.RunRanged(t, shared(t, variant{})) }

func TestRangedMaintain(t *testing.T)  { t.Parallel(); ledgertest.RunRangedMaintain(t, open) }
func TestRangedReopen(t *testing.T)    { t.Parallel(); ledgertest.RunRangedReopen(t, open) }
func TestRangedProcesses(t *testing.T) { t.Parallel(); ledgertest.RunRangedProcesses(t, open) }
func TestRangedOldest(t *testing.T) {
	t.Parallel()
	ledgertest.RunRanged(t, shared(t, variant{old: true}))
}

func TestRangedModes(t *testing.T) {
	t.Parallel()
	for _, mode := range modes() {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			open := ledgertest.Ranged(shared(t, variant{mode: mode}))
			ledgertest.Run(t, open)
			ledgertest.RunInTx(t, open)
		})
	}
	t.Run("sql", func(t *testing.T) {
		t.Parallel()
		ledgertest.RunInTx(t, ledgertest.Ranged(shared(t, variant{sql: true})))
	})
	t.Run("repeatable read", func(t *testing.T) {
		t.Parallel()
		ledgertest.RunInTx(t, ledgertest.Ranged(shared(t, variant{cfg: &postgres.Config{Isolation: pgx.RepeatableRead}})))
	})
}

func TestRangedDifferential(t *testing.T) {
	t.Parallel()
	ledgertest.Differential(t, ledgertest.Ranged(shared(t, variant{})), 40)
}

// TestRangedDifferentialModes: the same in the ways to send a statement that poolers need, one of them on the oldest
// PostgreSQL. The long run has all of them.
func TestRangedDifferentialModes(t *testing.T) {
	t.Parallel()
	variants := map[string]variant{"oldest, simple protocol": {old: true, mode: pgx.QueryExecModeSimpleProtocol}}
	if os.Getenv("ACKLEDGER_LONG") != "" {
		for _, mode := range modes() {
			variants[mode.String()] = variant{mode: mode}
		}
	}
	for name, v := range variants {
		t.Run(name, func(t *testing.T) { ledgertest.Differential(t, ledgertest.Ranged(shared(t, v)), 20) })
	}
}

// TestRangesDoNotBloat: what ranges leave behind when they come and go is used again after each vacuum, and segments grow
// in place: the tables are as large after many rounds as after the first. ACKLEDGER_LONG=1 makes a million ranges.
func TestRangesDoNotBloat(t *testing.T) {
	t.Parallel()
	const logs, calls = 8, 250
	rounds := 4
	if os.Getenv("ACKLEDGER_LONG") != "" {
		rounds = 1_000_000 / logs / calls
	}
	b := newBench(t, variant{})
	o := ledger.Ungroup(join(t, b, time.Hour))
	var sizes []int
	for round := range rounds {
		for call := range calls {
			var entries []ledger.Entry
			for log := range logs {
				entries = append(entries, records("s", log, int64(10*(calls*round+call)), 10)...)
			}
			succeedAll(t, o, claimsOf(t, o, entries, ledger.Run))
		}
		sizes = append(sizes, b.number(t, `SELECT sum(pg_total_relation_size(c)) FROM unnest(ARRAY['ackledger.range_log',
			'ackledger.claim_range', 'ackledger.segment']::regclass[]) c`))
		b.exec(t, "VACUUM ackledger.range_log, ackledger.claim_range, ackledger.segment") // as autovacuum does every minute
	}
	t.Logf("%d ranges a round: the tables took %d bytes after the first, %d after the last", calls*logs, sizes[0], sizes[rounds-1])
	if last := sizes[rounds-1]; 2*last > 5*sizes[0] { // what is never used again would be four times as much, or more
		t.Errorf("%d bytes after the first round, %d after the last", sizes[0], last)
	}
	for what, want := range map[string]int{"claim_range": 0, "segment": logs, "message": 0} {
		if n := b.number(t, "SELECT count(*) FROM ackledger."+what); n != want {
			t.Errorf("%d rows in %s, want %d", n, what, want)
		}
	}
	if n := b.number(t, "SELECT sum(messages) FROM ackledger.segment"); n != rounds*calls*logs*10 {
		t.Errorf("%d messages, want %d", n, rounds*calls*logs*10)
	}
}
