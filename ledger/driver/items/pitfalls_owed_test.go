package items_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
	"github.com/ackledger/ackledger/ledger/driver/items"
	"github.com/ackledger/ackledger/ledger/driver/items/itemstest"
)

// owes lets an owner die that has records in a range, more than a transaction has room for as rows. Whoever asks for them next makes
// their log owe these.
func (w *world) owes(entries []ledger.Entry) (names []items.Name) {
	w.Helper()
	dead := join(w.T, w.table)
	w.claim(dead, entries...)
	if err := w.hooks.Declare(w.Context(), dead.ID()); err != nil {
		w.Fatal(err)
	}
	for i := range entries {
		names = append(names, items.MessageName(entries[i].Key.Sum()))
	}
	return names
}

// inserts says whether a change makes an item.
func inserts(n items.Name) func(*items.Query, *items.Change) bool {
	return func(_ *items.Query, c *items.Change) bool { return c != nil && c.Was == nil && c.Name == n }
}

// Two processes carried out the rows that a log owed, in two parts. One died behind the first part. The other found that somebody had been
// ahead, and struck out all of them: the messages of the second part had neither a row nor a range.
func TestPitfall205_OwedRowsInTwoParts(t *testing.T) {
	t.Parallel()
	w, entries := newWorld(t), records("log", 150)
	names := w.owes(entries)
	dies := &frozen{Table: w.table, stops: inserts(names[120])}
	dies.then = func() { dies.fails = errNoAnswer }
	other := join(t, dies)
	w.way.stops = inserts(names[0])
	w.way.then = func() {
		if claims, err := other.Claim(t.Context(), entries); err == nil {
			t.Errorf("a process that died has claimed %d messages", len(claims))
		}
	}
	claims := w.claim(w.joins(), entries...)
	if w.way.then != nil || dies.then != nil {
		t.Fatal("they did not freeze")
	}
	there, err := w.table.Get(t.Context(), names)
	if err != nil || len(there) != len(names) {
		t.Errorf("%d messages have rows, %v; want %d", len(there), err, len(names))
	}
	for i, c := range claims {
		if c.Answer != ledger.Run || c.Crashes != 1 {
			t.Fatalf("message %d of an owner that died: %v after %d crashes", i, c.Answer, c.Crashes)
		}
	}
}

// Of rows that a log owes somebody has one already, as when two carry them out at once. It stays as it is, and the others are written.
func TestOwedRowsThatAreThere(t *testing.T) {
	t.Parallel()
	w, entries := newWorld(t), records("log", 150)
	names := w.owes(entries)
	w.way.stops = inserts(names[120])
	w.way.then = func() { w.way.fails = errNoAnswer }
	if _, err := w.joins().Claim(t.Context(), entries); err == nil {
		t.Fatal("a process that died has claimed messages")
	}
	before, err := w.table.Get(t.Context(), names)
	if err != nil || len(before) == 0 || len(before) == len(names) {
		t.Fatalf("%d messages have rows, %v; want a part of %d", len(before), err, len(names))
	}
	for i, c := range w.claim(w.other, entries...) {
		if c.Answer != ledger.Run || c.Crashes != 1 {
			t.Fatalf("message %d of an owner that died: %v after %d crashes", i, c.Answer, c.Crashes)
		}
	}
}

// One transaction settled many messages that had rows, and one of the same log that lay in a range. What it wrote of the rows was taken for
// new rows that the log owes, which are not written where there are some: these messages ran again.
func TestPitfall206_RowsThatWereThere(t *testing.T) {
	t.Parallel()
	table := itemstest.NewTable(0, 1)
	s := &store{items.New(table), table}
	l := driver.New(s, driver.Config{Name: "items", Limits: ledger.DefaultLimits, Keys: items.Messages, Parts: items.Parts})
	o, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	entries := records("log", 60)
	for i := range entries {
		entries[i].Ranged = false
	}
	far := entries[0]
	far.Key.ID, far.Key.Pos, far.Ranged = fmt.Append(nil, "log-", 500_000), &ledger.Position{Log: "log", Offset: 500_000, Prev: 499_999}, true
	var tickets []ledger.Ticket
	for _, part := range [][]ledger.Entry{entries, {far}} {
		claims, err := o.Claim(t.Context(), part)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range claims {
			if c.Answer != ledger.Run || c.Ranged != part[i].Ranged {
				t.Fatalf("record %d: %v, in a range: %v", i, c.Answer, c.Ranged)
			}
			tickets = append(tickets, c.Ticket)
		}
	}
	ctx := ledger.WithAttempt(t.Context(), ledger.NewBatchAttempt(o, tickets))
	if err := inTx(ctx, func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	claims, err := join(t, table).Claim(t.Context(), append(entries, far))
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range claims {
		if c.Answer != ledger.Done {
			t.Fatalf("record %d, which has succeeded: %v", i, c.Answer)
		}
	}
}

// owing lets a process die that has noted what rows a log owes, and written none of them.
func (w *world) owing() []ledger.Entry {
	w.Helper()
	entries := records("log", 150)
	names := w.owes(entries)
	w.way.stops = inserts(names[0])
	w.way.then = func() { w.way.fails = errNoAnswer }
	if _, err := w.joins().Claim(w.Context(), entries); err == nil {
		w.Fatal("a process that died has claimed messages")
	}
	if before, err := w.table.Get(w.Context(), names); err != nil || len(before) != 0 {
		w.Fatalf("%d messages have rows, %v; want all of them owed", len(before), err)
	}
	return entries
}

// What a log owes are rows to whoever asks: one is found, and none is made in its place.
func TestPitfall205_OwedRowsAreRows(t *testing.T) {
	t.Parallel()
	for name, is := range map[string]func(w *world, s *items.Store, key driver.Key) (bool, error){
		"to a claim of a row": func(w *world, s *items.Store, key driver.Key) (there bool, err error) {
			err = s.Update(w.Context(), driver.Call{Op: driver.Sweep}, func(tx driver.Tx) error {
				made, err := tx.Insert(&driver.Message{Key: key, Scope: "s", State: ledger.Pending, Token: 1, Logged: true})
				there = !made
				return err
			})
			return there, err
		},
		"to a settlement": func(w *world, s *items.Store, key driver.Key) (there bool, err error) {
			_, err = s.Each(w.Context(), driver.Call{Op: driver.Settle, Keys: slices.Values([]driver.Key{key}), Messages: 1}, func(tx driver.Tx, _ int) error {
				m, err := tx.Message(key, nil)
				there = m != nil
				return err
			})
			return there, err
		},
		"to who looks": func(w *world, s *items.Store, key driver.Key) (there bool, err error) {
			err = s.View(w.Context(), driver.Call{Op: driver.Read}, func(r driver.Reader) error {
				m, err := r.Message(key, nil)
				there = m != nil
				return err
			})
			return there, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			entries := w.owing()
			if there, err := is(w, items.New(w.table), entries[7].Key.Sum()); err != nil || !there {
				t.Errorf("a row that is owed is there: %v, %v", there, err)
			}
		})
	}
}

// A row is made in a log that owes others: these are written first, and it is.
func TestRowBesideThoseThatAreOwed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := logOf(&w.owing()[0])
	key := driver.JoinKey(id, 500_000)
	err := items.New(w.table).Update(t.Context(), driver.Call{Op: driver.Sweep}, func(tx driver.Tx) error {
		made, err := tx.Insert(&driver.Message{Key: key, Scope: "s", State: ledger.Pending, Token: 1, Logged: true})
		if !made {
			t.Error("a row that nobody has made is there")
		}
		return err
	})
	if there, failed := w.table.Get(t.Context(), []items.Name{items.MessageName(key)}); err != nil || failed != nil || len(there) != 1 {
		t.Errorf("%d rows, %v, %v; want the one that was made", len(there), err, failed)
	}
}

// A transaction that makes a row, and has not read whether there is one, finds out.
func TestRowThatIsThereIsNotMade(t *testing.T) {
	t.Parallel()
	w, e := newWorld(t), message()
	w.claim(w.other, e)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	made := true
	err := items.New(w.table).Update(ctx, driver.Call{Op: driver.Sweep}, func(tx driver.Tx) (err error) {
		made, err = tx.Insert(&driver.Message{Key: e.Key.Sum(), Scope: "s", State: ledger.Pending, Token: 1})
		return err
	})
	if err != nil || made {
		t.Errorf("made anew: %v, %v", made, err)
	}
}
