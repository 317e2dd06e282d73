package memory

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
)

// parked is the messages in the ledger's care.
type parked map[driver.Key]*ledger.Parked

var _ driver.Parker = (*tx)(nil)

// Park implements [driver.Parker].
func (t *tx) Park(p *ledger.Parked) error {
	one := *p
	one.Archive = p.Clone()
	if l := p.Lane; l != nil {
		one.Lane = &ledger.ParkLane{Name: bytes.Clone(l.Name), Place: l.Place}
	}
	t.rows.scope(p.Key.Scope)
	t.parked[p.Key.Sum()] = &one
	return nil
}

// Postpone implements [driver.Parker].
func (t *tx) Postpone(key driver.Key, due time.Time) error {
	if p := t.parked[key]; p != nil {
		p.Due = due
	}
	return nil
}

// Unpark implements [driver.Parker].
func (t *tx) Unpark(key driver.Key) error {
	delete(t.parked, key)
	return nil
}

// ReadParked implements [driver.Parker].
func (t *tx) ReadParked(key driver.Key, bodies bool) (*ledger.Parked, error) {
	p := t.parked[key]
	if p == nil {
		return nil, nil
	}
	one := shown(p, bodies)
	return &one, nil
}

// shown is a copy of what is parked.
func shown(p *ledger.Parked, bodies bool) ledger.Parked {
	one := *p
	if one.Archive = p.Clone(); !bodies {
		one.Body, one.Headers, one.BodyBytes = nil, nil, len(p.Body)
	}
	return one
}

// InLane implements [driver.Parker]. It looks at all that are parked.
func (t *tx) InLane(scope string, lane []byte, n int) (list []driver.LanePlace, err error) {
	for key, p := range t.parked {
		if p.Lane != nil && p.Key.Scope == scope && bytes.Equal(p.Lane.Name, lane) {
			list = append(list, driver.LanePlace{Key: key, Place: p.Lane.Place, Due: p.Due})
		}
	}
	slices.SortFunc(list, func(a, b driver.LanePlace) int { return cmp.Compare(a.Place, b.Place) })
	return list[:min(n, len(list))], nil
}

// LastInLane implements [driver.Parker]. It looks at all that are parked.
func (t *tx) LastInLane(scope string, lane []byte) (place int64, err error) {
	place = ledger.PlaceLast
	for _, p := range t.parked {
		if p.Lane != nil && p.Key.Scope == scope && bytes.Equal(p.Lane.Name, lane) {
			place = max(place, p.Lane.Place)
		}
	}
	return place, nil
}

// Lanes implements [driver.Parker].
func (t *tx) Lanes(scope string, prefix []byte, n int) (list [][]byte, err error) {
	for _, p := range t.parked {
		if p.Lane != nil && p.Key.Scope == scope && bytes.HasPrefix(p.Lane.Name, prefix) {
			list = append(list, p.Lane.Name)
		}
	}
	slices.SortFunc(list, bytes.Compare)
	list = slices.CompactFunc(list, bytes.Equal)
	return list[:min(n, len(list))], nil
}

// ListParked implements [driver.Parker].
func (t *tx) ListParked(scope string, behind driver.ParkedPlace, n int, bodies bool) ([]ledger.Parked, error) {
	var all []*ledger.Parked
	for _, p := range t.parked {
		if p.Key.Scope == scope && behind.Behind(p) {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b *ledger.Parked) int {
		x, y := a.Key.Sum(), b.Key.Sum()
		return cmp.Or(a.Due.Compare(b.Due), bytes.Compare(x[:], y[:]))
	})
	list := make([]ledger.Parked, min(n, len(all)))
	for i := range list {
		list[i] = shown(all[i], bodies)
	}
	return list, nil
}

// IsParked implements [driver.Parker].
func (t *tx) IsParked(key driver.Key) (bool, error) { return t.parked[key] != nil, nil }

// DueParked implements [driver.Parker]. It looks at all that are parked.
func (t *tx) DueParked(scope string, n int, size int64) (list []ledger.Parked, next time.Time, err error) {
	var due []*ledger.Parked
	for _, p := range t.parked {
		switch {
		case p.Key.Scope != scope:
		case !p.Due.After(t.now):
			due = append(due, p)
		case next.IsZero() || p.Due.Before(next):
			next = p.Due
		}
	}
	slices.SortFunc(due, func(a, b *ledger.Parked) int {
		return cmp.Or(a.Due.Compare(b.Due), bytes.Compare(a.Key.ID, b.Key.ID))
	})
	for _, p := range due {
		size -= int64(p.Size())
		if len(list) == n || len(list) > 0 && size < 0 {
			return list, p.Due, nil
		}
		one := *p
		one.Archive = p.Clone()
		list = append(list, one)
	}
	return list, next, nil
}

// SumParked implements [driver.Parker].
func (t *tx) SumParked(scope string) (n, weight int64, first time.Time, err error) {
	for _, p := range t.parked {
		if p.Key.Scope != scope {
			continue
		}
		if n == 0 || p.Due.Before(first) {
			first = p.Due
		}
		n, weight = n+1, weight+p.Weight()
	}
	return n, weight, first, nil
}
