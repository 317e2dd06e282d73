package postgres_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// slowRows lets the database take 50 ms for each row of a message that is written, and for ever for these.
func slowRows(t *testing.T, b *bench, ids ...string) {
	t.Helper()
	b.exec(t, fmt.Sprintf(`CREATE OR REPLACE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		PERFORM pg_sleep(CASE WHEN convert_from(NEW.id, 'UTF8') IN ('%s') THEN 60 ELSE 0.05 END); RETURN NEW; END $$`,
		strings.Join(ids, "', '")))
	b.exec(t, `CREATE OR REPLACE TRIGGER slow BEFORE INSERT OR UPDATE ON ackledger.message FOR EACH ROW EXECUTE FUNCTION slow()`)
}

// TestStatementTimeout: a batch that takes longer than the role's statement_timeout was sent whole, seven times, and none of its
// messages ever got on. It goes in halves now, and one message that is slow alone costs its neighbours nothing.
func TestStatementTimeout(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	o := ledger.Unwrap(join(t, b, time.Hour))
	claimOne(t, o, entry("first"), ledger.Run)
	slowRows(t, b, "m-7", "n-0", "n-1")
	b.setting(t, "statement_timeout", "400ms")
	b.ResetConns()
	entries := manyEntries("m", 12)
	claims, err := o.Claim(t.Context(), entries)
	if err != nil {
		t.Fatalf("a claim of %d messages: %v", len(entries), err)
	}
	var tickets []ledger.Settlement
	for i, c := range claims {
		want := ledger.Run
		if i == 7 {
			want = ledger.Busy
		}
		if c.Answer != want || c.Err != nil {
			t.Fatalf("claim %d: %+v, want %v", i, c, want)
		}
		if i != 7 {
			tickets = append(tickets, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed})
		}
	}
	if _, err := o.Claim(t.Context(), manyEntries("n", 2)); err == nil || ledger.Unknown(err) || !strings.Contains(err.Error(), "57014") {
		t.Errorf("a claim whose messages are all too slow: %v", err)
	}
	slowRows(t, b, "m-9")
	errs, err := o.Settle(t.Context(), tickets)
	if err != nil {
		t.Fatal(err)
	}
	for i, err := range errs {
		if i != 8 && err == nil { // m-9, without m-7
			continue
		}
		var bad *ledger.InvalidError
		if i != 8 || err == nil || ledger.Unknown(err) || ledger.IsLost(err) || errors.As(err, &bad) || !strings.Contains(err.Error(), "57014") {
			t.Errorf("settlement %d: %v", i, err)
		}
	}
	slowRows(t, b)
	if err := settleOne(t, o, tickets[8]); err != nil {
		t.Errorf("settled again: %v", err)
	}
	claimOne(t, o, entries[7], ledger.Run)
}
