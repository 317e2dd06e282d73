package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// slowDeletes lets each DELETE of more than so many messages take longer by so many seconds, as on a slow disk.
func slowDeletes(t *testing.T, b *bench, rows, seconds string) {
	t.Helper()
	b.exec(t, `CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF (SELECT count(*) FROM gone) > `+rows+` THEN PERFORM pg_sleep(`+seconds+`); END IF; RETURN NULL; END $$`)
	b.exec(t, `CREATE TRIGGER slow AFTER DELETE ON ackledger.message REFERENCING OLD TABLE AS gone
		FOR EACH STATEMENT EXECUTE FUNCTION slow()`)
}

// TestSweepShrinks: transactions of a sweep that take longer than they should make the next ones smaller.
func TestSweepShrinks(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	fillMessages(t, b, 4000, -time.Hour)
	slowDeletes(t, b, "400", "0.3")
	r, err := b.Sweep(t.Context(), ledger.MaintainConfig{Batch: 1600})
	if err != nil || r.Messages != 4000 {
		t.Fatalf("%+v, %v", r, err)
	}
	t.Logf("%d transactions, the longest %s", r.Transactions, r.Longest)
	if r.Transactions < 5 { // of one size they would be two or three
		t.Errorf("%d transactions: those after a slow one are as large as it was", r.Transactions)
	}
}

// TestSweepBreaksUp: a transaction that the database ends because it takes far too long is made again, smaller.
func TestSweepBreaksUp(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	fillMessages(t, b, 1500, -time.Hour)
	slowDeletes(t, b, "500", "30")
	r, err := b.Sweep(t.Context(), ledger.MaintainConfig{Batch: 1000})
	if err != nil || r.Messages != 1500 {
		t.Fatalf("%+v, %v", r, err)
	}
	if r.Longest > 25*time.Second {
		t.Errorf("the longest transaction took %s", r.Longest)
	}
}

// TestSweepRests: a worker's own sweep that finds nothing to remove leaves the database to others four fifths of the time.
func TestSweepRests(t *testing.T) {
	t.Parallel()
	const work = 20 * time.Millisecond
	b := newBench(t, variant{})
	fillMessages(t, b, 5000, time.Hour)
	b.exec(t, `CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.02); RETURN NEW; END $$`)
	b.exec(t, `CREATE TRIGGER slow BEFORE UPDATE ON ackledger.maintenance FOR EACH ROW EXECUTE FUNCTION slow()`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var r ledger.SweepReport
	err := b.Maintain(ctx, ledger.MaintainConfig{Batch: 500, Report: func(got ledger.SweepReport) { r = got; cancel() }})
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if r.Rows != 5000 || r.Transactions < 5 {
		t.Fatalf("%+v, want 5000 rows in several transactions", r)
	}
	rested := 4 * work * time.Duration(r.Transactions-1)
	if least := work*time.Duration(r.Transactions) + rested; r.Took < least {
		t.Errorf("a pass of %d transactions took %s, want %s at least: it did not rest", r.Transactions, r.Took, least)
	}
}
