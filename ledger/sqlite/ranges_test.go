package sqlite_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

// record asks for an offset of one log, which may be held in a range.
func record(offset int64) ledger.Entry {
	m := message(fmt.Sprint("topic-0-", offset))
	m.Key.Pos, m.Ranged = &ledger.Position{Log: "log", Offset: offset, Prev: offset - 1}, true
	return m
}

func records(from, to int64) (all []ledger.Entry) {
	for o := from; o < to; o++ {
		all = append(all, record(o))
	}
	return all
}

// rangedBatch claims the records from <= offset < to, and makes the attempt of their handler.
func rangedBatch(t *testing.T, l *sqlite.Ledger, from, to int64) (ledger.Owner, *ledger.Attempt) {
	t.Helper()
	o, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	claims, err := o.Claim(t.Context(), records(from, to))
	if err != nil {
		t.Fatal(err)
	}
	var tickets []ledger.Ticket
	for i, c := range claims {
		if c.Answer != ledger.Run {
			t.Fatalf("claim %d: %+v", i, c)
		}
		tickets = append(tickets, c.Ticket)
	}
	return o, ledger.NewBatchAttempt(o, tickets)
}

// The answer of a COMMIT that marked messages of a range as done is lost: the range is read, and tells what became of it.
func TestRanges_CommitAnswerLost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		commit func(driver.Tx) error
		state  ledger.AttemptState
		again  ledger.Answer
	}{
		"committed": {func(tx driver.Tx) error { return errors.Join(errWire, tx.Commit()) }, ledger.AttemptSucceeded, ledger.Done},
		"aborted":   {func(tx driver.Tx) error { return errors.Join(errWire, tx.Rollback()) }, ledger.AttemptOpen, ledger.Run},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, app := openAt(t, sqlite.Fresh(t), broken(0, c.commit))
			o, a := rangedBatch(t, l, 10, 14)
			err := sqlite.InTx(ledger.WithAttempt(t.Context(), a), func(ctx context.Context, tx *sql.Tx) error {
				return errors.Join(a.SetResultAt(2, []byte("receipt")), effect(ctx, tx))
			})
			if state, _ := a.State(); state != c.state || (err == nil) != (state == ledger.AttemptSucceeded) || ledger.Unknown(err) {
				t.Fatalf("state %d, %v; want %d", state, err, c.state)
			}
			if got, err := effects(t.Context(), app.main); err != nil || (got["m"] == 1) != (c.state == ledger.AttemptSucceeded) {
				t.Fatalf("effects %v, %v", got, err)
			}
			if _, err := o.Beat(t.Context()); err != nil { // which closes what is over
				t.Fatal(err)
			}
			if err := o.Leave(t.Context()); err != nil {
				t.Fatal(err)
			}
			b, err := l.Join(t.Context(), time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			claims, err := b.Claim(t.Context(), records(10, 14))
			if err != nil {
				t.Fatal(err)
			}
			for i, got := range claims {
				result := c.again == ledger.Done && i == 2
				if got.Answer != c.again || (string(got.Outcome.Result) == "receipt") != result {
					t.Fatalf("claim %d: %+v", i, got)
				}
			}
		})
	}
}

// A file that has been in use by workers with a row for each message: what they made stays rows, and goes on as before.
func TestRanges_RowsOfBefore(t *testing.T) {
	t.Parallel()
	path := sqlite.Fresh(t)
	old, _ := openAt(t, path, nil)
	if err := sqlite.MigrateTo(t.Context(), path, 3); err != nil {
		t.Fatal(err)
	}
	if err := old.PlayFirst(t.Context()); err != nil {
		t.Fatal(err)
	}
	o, err := old.JoinFirst(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	before := records(100, 110)
	claims, err := o.Claim(t.Context(), before)
	if err != nil {
		t.Fatal(err)
	}
	var half []ledger.Settlement
	for _, c := range claims[:5] {
		half = append(half, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed})
	}
	if errs, err := o.Settle(t.Context(), half); err != nil || errs[0] != nil {
		t.Fatal(errs, err)
	}
	l, _ := openAt(t, path, nil)
	n, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	again, err := n.Claim(t.Context(), records(100, 120))
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range again {
		want, crashes := ledger.Run, 0
		if i < 5 {
			want = ledger.Done
		}
		if c.Answer != want || c.Crashes != crashes || c.TookOver != (i >= 5 && i < 10) {
			t.Fatalf("offset %d: %+v, want %v", 100+i, c, want)
		}
		rec, err := l.Get(t.Context(), record(int64(100+i)).Key)
		if err != nil || (rec.In != nil) != (i >= 10) {
			t.Fatalf("offset %d: in %+v, %v", 100+i, rec.In, err)
		}
	}
}

// However many messages went through, the file keeps one segment, and what the sweep counts are messages.
func TestRanges_OneSegment(t *testing.T) {
	t.Parallel()
	l, app := openAt(t, sqlite.Fresh(t), nil)
	o, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	const batches, size = 50, 1000
	for i := range int64(batches) {
		claims, err := o.Claim(t.Context(), records(i*size, (i+1)*size))
		if err != nil {
			t.Fatal(err)
		}
		settlements := make([]ledger.Settlement, len(claims))
		for i, c := range claims {
			settlements[i] = ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed}
		}
		if _, err := o.Settle(t.Context(), settlements); err != nil {
			t.Fatal(err)
		}
	}
	for table, want := range map[string]int{"segment": 1, "claim_range": 0, "message": 0, "range_log": 1} {
		var n int
		if err := app.main.QueryRowContext(t.Context(), "SELECT count(*) FROM ackledger_"+table).Scan(&n); err != nil || n != want {
			t.Errorf("%s: %d rows, %v; want %d", table, n, err, want)
		}
	}
	if _, err := l.Sweep(t.Context(), ledger.MaintainConfig{}); err != nil {
		t.Fatal(err)
	}
	if s, err := l.Stats(t.Context()); err != nil || len(s.Scopes) != 1 || s.Scopes[0].Succeeded != batches*size {
		t.Errorf("%+v, %v", s.Scopes, err)
	}
}
