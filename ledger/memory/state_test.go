package memory

import (
	"context"
	"errors"
	"maps"
	"slices"
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

// An owner that left goes with a sweep an hour later, unless a pending row or a range names it.
func TestOwnersGoWithASweep(t *testing.T) {
	now, log := time.Unix(1_800_000_000, 0), driver.LogID{1}
	s := newStore(func() time.Time { return now }, 0)
	l := driver.New(s, driver.Config{})
	var ids [4]driver.OwnerID
	for i := range ids {
		id, err := s.Join(t.Context(), time.Hour)
		if err == nil && i > 0 {
			err = s.Leave(t.Context(), id)
		}
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = id
	}
	sweep := func(want ...driver.OwnerID) {
		t.Helper()
		if _, err := l.Sweep(t.Context(), ledger.MaintainConfig{}); err != nil {
			t.Fatal(err)
		}
		if got := slices.Sorted(maps.Keys(s.owners)); !slices.Equal(got, want) {
			t.Errorf("owners %v, want %v", got, want)
		}
	}
	key := driver.Key{2}
	s.write(t, func(tx driver.Tx) error {
		if _, err := tx.Insert(&driver.Message{Key: key, State: ledger.Pending, Owner: ids[1], At: now, Expiry: now.Add(9 * time.Hour)}); err != nil {
			return err
		}
		if err := tx.PutLog(&driver.Log{Info: driver.Info{Log: log}}); err != nil {
			return err
		}
		return tx.PutRange(log, &driver.Range{Span: driver.Span{To: 10}, Token: 1, Owner: ids[2], At: now.Add(time.Hour), Window: time.Hour})
	})
	sweep(ids[:]...)
	now = now.Add(ledger.OwnerRest + time.Second)
	sweep(ids[0], ids[1], ids[2])
	s.write(t, func(tx driver.Tx) error {
		return errors.Join(tx.Remove([]driver.Key{key}), tx.DropRange(log, 1))
	})
	sweep(ids[0])
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
