package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/ledgertest"
	"github.com/ackledger/ackledger/ledger/postgres"
)

func TestPitfall252_LaneStaysParked(t *testing.T) {
	t.Parallel()
	ledgertest.Pitfall252(t, shared(t, variant{}))
}
func TestPitfall253_LaneByArrival(t *testing.T) {
	t.Parallel()
	ledgertest.Pitfall253(t, shared(t, variant{}))
}

func TestPitfall260_PlacesOfALane(t *testing.T) {
	t.Parallel()
	ledgertest.Pitfall260(t, shared(t, variant{}))
}

// lane is a lane of a database of its own, in which transactions are held open by hand.
type lane struct {
	*testing.T
	*bench
	owner ledger.Owner
}

func newLane(t *testing.T) *lane {
	t.Helper()
	b := newBench(t, variant{})
	return &lane{t, b, join(t, b, time.Minute)}
}

// claims claims message i, to be parked at place i.
func (l *lane) claims(i int) ledger.Settlement {
	l.Helper()
	m := entry(fmt.Sprint("m", i))
	return ledger.Settlement{Ticket: claimOne(l.T, l.owner, m, ledger.Run).Ticket, Kind: ledger.Park, After: time.Microsecond,
		Lane: &ledger.ParkLane{Name: []byte("lane"), Place: int64(i)},
		Dead: &ledger.Archive{Key: m.Key, Fingerprint: m.Fingerprint, Delivery: m.Delivery, Body: []byte("body"), Keep: time.Hour}}
}

// parks parks messages one after the other.
func (l *lane) parks(list ...int) {
	l.Helper()
	for _, i := range list {
		if err := settleOne(l.T, l.owner, l.claims(i)); err != nil {
			l.Fatal(err)
		}
	}
}

// held is a transaction that is held open.
type held struct {
	*lane
	tx   pgx.Tx
	done chan error
}

func (l *lane) begin() *held {
	l.Helper()
	conn, err := pgx.Connect(l.Context(), l.url)
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { _ = conn.Close(l.Context()) })
	tx, err := conn.Begin(l.Context())
	if err != nil {
		l.Fatal(err)
	}
	return &held{l, tx, make(chan error, 1)}
}

// runs begins a statement.
func (h *held) runs(sql string, args ...any) {
	go func() {
		_, err := h.tx.Exec(h.Context(), sql, args...)
		h.done <- err
	}()
}

// ran waits for the statement.
func (h *held) ran() {
	h.Helper()
	if err := <-h.done; err != nil {
		h.Fatal(err)
	}
}

func (h *held) commits() {
	h.Helper()
	if err := h.tx.Commit(h.Context()); err != nil {
		h.Fatal(err)
	}
}

// parksHeld has a transaction park a message, uncommitted.
func (l *lane) parksHeld(i int) *held {
	l.Helper()
	s := postgres.ParkStatement(l.T, l.owner, []ledger.Settlement{l.claims(i)}, time.Now().Add(time.Hour))
	h := l.begin()
	h.runs(s.SQL, s.Args...)
	h.ran()
	return h
}

// ends has a transaction end a message, as any program does.
func (l *lane) ends(i int) *held {
	h := l.begin()
	h.runs("UPDATE ackledger.message SET state = 2, owner = NULL, due = NULL WHERE id = $1", fmt.Append(nil, "m", i))
	return h
}

// waits polls until so many transactions wait for a lock.
func (l *lane) waits(n int) {
	l.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; {
		is := l.number(l.T, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
		if is == n {
			return
		}
		if time.Now().After(deadline) {
			l.Fatalf("%d transactions wait, want %d", is, n)
		}
	}
}

// wantDue polls until a message is due, alone: for longer than what is put off is.
func (l *lane) wantDue(i int) {
	l.Helper()
	const hide = 200 * time.Millisecond
	for deadline := time.Now().Add(10 * time.Second); ; {
		reply, err := l.Due(l.Context(), ledger.DueRequest{Scope: "scope", Most: 10, Bytes: 1 << 20, Hide: hide})
		if err != nil {
			l.Fatal(err)
		}
		if len(reply.Messages) == 1 && reply.Messages[0].Lane.Place == int64(i) {
			return
		}
		if len(reply.Messages) > 0 {
			l.Fatalf("%d messages are due, the first is %v; want %d", len(reply.Messages), reply.Messages[0].Key, i)
		}
		if time.Now().After(deadline) {
			l.Fatalf("%d is never due", i)
		}
	}
}

// TestPitfall254_ParkedBehindWhatGoes: a message was parked behind another while that ended in another transaction: neither saw the other,
// and the message was parked for good.
func TestPitfall254_ParkedBehindWhatGoes(t *testing.T) {
	t.Parallel()
	t.Run("parked before the end", func(t *testing.T) {
		t.Parallel()
		l := newLane(t)
		l.parks(1)
		parks := l.parksHeld(2)
		ends := l.ends(1)
		l.waits(1)
		parks.commits()
		ends.ran()
		ends.commits()
		l.wantDue(2)
	})
	for _, first := range []string{"the end", "the parking"} {
		t.Run("parked after the end, and committed first is "+first, func(t *testing.T) {
			t.Parallel()
			l := newLane(t)
			l.parks(1)
			ends := l.ends(1)
			ends.ran()
			parks := l.parksHeld(2)
			if first == "the end" {
				ends.commits()
				parks.commits()
			} else {
				parks.commits()
				if reply, err := l.Due(t.Context(), ledger.DueRequest{Scope: "scope", Most: 10, Bytes: 1 << 20, Hide: 100 * time.Millisecond}); err != nil || len(reply.Messages) != 0 {
					t.Errorf("%+v, %v: the one before it has not ended", reply, err)
				}
				ends.commits()
			}
			l.wantDue(2)
		})
	}
	t.Run("parked before the end, and undone", func(t *testing.T) {
		t.Parallel()
		l := newLane(t)
		l.parks(1, 2)
		parks := l.parksHeld(3)
		ends := l.ends(1)
		l.waits(1) // the second is the next one
		if err := parks.tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		ends.ran()
		ends.commits()
		l.wantDue(2)
	})
}

// TestPitfall259_EndOfTwoInALane: the first of a lane and the one behind it ended at the same time, while a third was parked behind
// them: it was parked for good.
func TestPitfall259_EndOfTwoInALane(t *testing.T) {
	t.Parallel()
	l := newLane(t)
	l.parks(1, 2)
	parks := l.parksHeld(3) // behind the second
	second := l.ends(2)
	l.waits(1)
	first := l.ends(1) // its successor is the second
	l.waits(2)
	parks.commits()
	second.ran()
	second.commits()
	first.ran()
	first.commits()
	l.wantDue(3)
}

// Many messages of a lane are parked and end in any order at the same time: none is left, and nothing waits for good.
func TestLaneOfManyAtOnce(t *testing.T) {
	t.Parallel()
	l := newLane(t)
	const n, lanes = 120, 4
	sets := make([]ledger.Settlement, n)
	for i := range sets {
		sets[i] = l.claims(i)
		sets[i].Lane = &ledger.ParkLane{Name: fmt.Append(nil, "lane", i%lanes), Place: int64(i)}
	}
	errs := make(chan error)
	for w := range lanes {
		go func() {
			for i := w; i < n; i += lanes {
				if _, err := l.owner.Settle(l.Context(), sets[i:i+1]); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
		go func() { // any of them end, also behind others
			for i := n - 1 - w; i >= 0; i -= 2 * lanes {
				_, err := l.pool.Exec(l.Context(), "UPDATE ackledger.message SET state = 2, owner = NULL, due = NULL WHERE id = $1 AND parked", fmt.Append(nil, "m", i))
				if err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range 2 * lanes {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(30 * time.Second); ; {
		reply, err := l.Due(t.Context(), ledger.DueRequest{Scope: "scope", Most: 10, Bytes: 1 << 20, Hide: 100 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, p := range reply.Messages {
			if seen[string(p.Lane.Name)] {
				t.Fatalf("two of %q are due", p.Lane.Name)
			}
			seen[string(p.Lane.Name)] = true
			l.exec(t, fmt.Sprintf("UPDATE ackledger.message SET state = 2, owner = NULL, due = NULL WHERE id = '%s'", p.Key.ID))
		}
		s, err := l.ParkedIn(t.Context(), "scope")
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("%+v are left, %v", s, err)
		}
		if s.Messages == 0 {
			return
		}
	}
}
