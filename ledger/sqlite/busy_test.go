package sqlite_test

import (
	"context"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

// locked holds the write lock, as the InTx of another process does, while during runs.
func locked(t *testing.T, a *app, during func()) {
	t.Helper()
	tx, err := a.main.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	during()
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
}

// soon is the time of one call.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// A settle of records in ranges, and of messages with rows beside them, did not get the write lock in time: the answer was one
// error for the whole call, an outage. Each is to be repeated, by itself, and holds then.
func TestSettlesInRangesAreBusy(t *testing.T) {
	t.Parallel()
	l, a := openAt(t, sqlite.Fresh(t), nil)
	o, at := rangedBatch(t, l, 10, 14)
	claims, err := o.Claim(t.Context(), []ledger.Entry{message("row")})
	if err != nil || claims[0].Answer != ledger.Run {
		t.Fatalf("claim: %+v, %v", claims, err)
	}
	tickets := append(at.Tickets(), claims[0].Ticket)
	settlements := make([]ledger.Settlement, len(tickets))
	for i, ticket := range tickets {
		settlements[i] = ledger.Settlement{Ticket: ticket, Kind: ledger.Succeed}
	}
	settlements[1].Kind = ledger.Release
	locked(t, a, func() {
		for range 2 {
			errs, err := o.Settle(soon(t), settlements)
			if err != nil || len(errs) != len(settlements) {
				t.Fatalf("settle: %v, %v", errs, err)
			}
			for i, err := range errs {
				if err == nil || ledger.IsLost(err) || ledger.Unknown(err) {
					t.Errorf("settlement %d: %v; want one that is to be repeated", i, err)
				}
			}
		}
		asks := append(records(14, 16), message("another"))
		claims, err := o.Claim(soon(t), asks)
		if err != nil || len(claims) != len(asks) {
			t.Fatalf("claim: %+v, %v", claims, err)
		}
		for i, c := range claims {
			if c.Answer != ledger.Busy || c.Err != nil {
				t.Errorf("claim %d: %+v, want Busy", i, c)
			}
		}
	})
	errs, err := o.Settle(t.Context(), settlements)
	for i := range errs {
		if errs[i] != nil {
			t.Errorf("settlement %d, again: %v", i, errs[i])
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	claims, err = o.Claim(t.Context(), append(records(10, 14), message("row")))
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range claims {
		if want := map[bool]ledger.Answer{true: ledger.Run, false: ledger.Done}[i == 1]; c.Answer != want {
			t.Errorf("message %d: %v, want %v", i, c.Answer, want)
		}
	}
}

// The same of a stretch.
func TestSettleOfAStretchIsBusy(t *testing.T) {
	t.Parallel()
	l, a := openAt(t, sqlite.Fresh(t), nil)
	o, _ := rangedBatch(t, l, 0, 4) // the log is known
	of := o.(ledger.StretchOwner)
	tokens, err := of.ClaimStretches(t.Context(), []ledger.Stretch{{First: record(4), Last: 9}})
	if err != nil || tokens[0] == 0 {
		t.Fatalf("claim: %v, %v", tokens, err)
	}
	done := []ledger.StretchDone{{Ticket: ledger.NewTicket(record(4).Key.Sum(), tokens[0]), Last: 9, Messages: 6}}
	locked(t, a, func() {
		errs, err := of.SettleStretches(soon(t), done)
		if err != nil || errs[0] == nil || ledger.IsLost(errs[0]) || ledger.Unknown(errs[0]) {
			t.Errorf("settle: %v, %v; want one that is to be repeated", errs, err)
		}
	})
	if errs, err := of.SettleStretches(t.Context(), done); err != nil || errs[0] != nil {
		t.Errorf("settle, again: %v, %v", errs, err)
	}
	claims, err := o.Claim(t.Context(), records(4, 10))
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range claims {
		if c.Answer != ledger.Done {
			t.Errorf("message %d: %+v", i, c)
		}
	}
}
