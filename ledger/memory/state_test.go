package memory

import (
	"context"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
)

// write is one transaction.
func (s *store) write(t *testing.T, fn func(driver.Tx) error) {
	t.Helper()
	if err := s.Update(context.Background(), driver.Call{Op: driver.Operate}, fn); err != nil {
		t.Fatal(err)
	}
}

// The extent of a log is that of its own rows, and ends with the latest of them.
func TestExtentIsOfOneLog(t *testing.T) {
	s := newStore(time.Now, 0)
	log := driver.LogID{1}
	s.write(t, func(tx driver.Tx) error {
		if all, _, err := tx.Extent(log); err != nil || all.Len() != 0 {
			t.Errorf("of no row: %+v, %v", all, err)
		}
		insert := func(key driver.Key, window time.Duration) {
			if _, err := tx.Insert(&driver.Message{Key: key, State: ledger.Succeeded, At: s.begin, Expiry: s.begin.Add(window)}); err != nil {
				t.Fatal(err)
			}
		}
		for offset, window := range map[int64]time.Duration{7: time.Hour, 20: 3 * time.Hour, 12: 2 * time.Hour} {
			insert(driver.JoinKey(log, offset), window)
		}
		insert(driver.JoinKey(driver.LogID{2}, 500), 9*time.Hour)
		all, expiry, err := tx.Extent(log)
		if want := (driver.Span{From: 7, To: 21}); err != nil || all != want || !expiry.Equal(s.begin.Add(3*time.Hour)) {
			t.Errorf("%+v until %s, %v", all, expiry, err)
		}
		return nil
	})
}

// The owner of a range is forgotten with it, whether it was settled or its log was dropped.
func TestOwnersAreForgottenWithTheirRanges(t *testing.T) {
	log := driver.LogID{1}
	for name, end := range map[string]func(*store, driver.Tx) error{
		"closed":  func(_ *store, tx driver.Tx) error { return tx.DropRange(log, 1) },
		"dropped": func(s *store, _ driver.Tx) error { s.dropLog(log); return nil },
	} {
		s := newStore(time.Now, 0)
		id, err := s.Join(t.Context(), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		s.write(t, func(tx driver.Tx) error {
			r := &driver.Range{Span: driver.Span{To: 10}, Token: 1, Owner: id}
			if err := tx.PutRange(log, r); err != nil {
				return err
			}
			return tx.PutRange(log, r) // once more is the same range
		})
		if err := s.Leave(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if s.rows.owners[id] == nil {
			t.Fatalf("%s: forgotten before its range is", name)
		}
		s.write(t, func(tx driver.Tx) error { return end(s, tx) })
		if s.rows.owners[id] != nil {
			t.Errorf("%s: %d owners are known", name, len(s.rows.owners))
		}
	}
}

// Names of scopes are kept once.
func TestScopesAreKeptOnce(t *testing.T) {
	rows := newRows()
	for i, name := range []string{"a", "b", "a", "b", "a"} {
		if n := rows.scope(name); n != uint32(i%2) {
			t.Errorf("%s is number %d", name, n)
		}
	}
	if len(rows.names) != 2 {
		t.Errorf("%d names for 2", len(rows.names))
	}
}
