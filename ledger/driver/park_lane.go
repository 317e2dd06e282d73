package driver

import (
	"context"

	"github.com/ackledger/ackledger/internal/checks"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// Of a lane only the head is due before storage.Behind. A transaction sees all of a lane, and nobody changes it meanwhile, so whoever
// parks a message or removes one keeps that true.

// lineUp has a message that is to be parked wait behind those of its lane that come before it, and those that come after it wait for it.
// Who has no place for it gets the next one.
func lineUp(p Parker, m *ledger.Parked) error {
	if m.Lane == nil {
		return nil
	}
	if m.Lane.Place == ledger.PlaceLast {
		last, err := p.LastInLane(m.Key.Scope, m.Lane.Name)
		if err != nil {
			return err
		}
		m.Lane = &ledger.ParkLane{Name: m.Lane.Name, Place: last + 1}
	}
	first, err := p.InLane(m.Key.Scope, m.Lane.Name, 1)
	switch {
	case err != nil || len(first) == 0:
		return err
	case first[0].Place < m.Lane.Place:
		m.Due = storage.Behind
		return nil
	default:
		return p.Postpone(first[0].Key, storage.Behind)
	}
}

// behind says whether another message of its lane comes before one.
func behind(p Parker, m *ledger.Parked) (bool, error) {
	if m.Lane == nil {
		return false, nil
	}
	first, err := p.InLane(m.Key.Scope, m.Lane.Name, 1)
	return len(first) > 0 && first[0].Place < m.Lane.Place, err
}

// leave removes a parked message, and has the next of its lane be due.
func leave(tx Tx, p Parker, key Key) error {
	m, err := p.ReadParked(key, false)
	if err != nil || m == nil {
		return err
	}
	if err := p.Unpark(key); err != nil || m.Lane == nil {
		return err
	}
	first, err := p.InLane(m.Key.Scope, m.Lane.Name, 1)
	if err != nil || len(first) == 0 || !first[0].Due.Equal(storage.Behind) {
		return err
	}
	return p.Postpone(first[0].Key, tx.Now())
}

// ParkedLane implements [ledger.Parking].
func (l *Ledger) ParkedLane(ctx context.Context, scope string, lane []byte) (s ledger.LaneStats, err error) {
	if err := checks.ParkedLane(scope, lane); err != nil || !l.cfg.Parks {
		return s, err
	}
	err = l.store.View(ctx, Call{Op: Read}, func(r Reader) error {
		p, err := l.parker(r)
		if err != nil {
			return err
		}
		list, err := p.InLane(scope, lane, ledger.MaxInLane)
		if s = (ledger.LaneStats{Messages: len(list)}); err != nil || len(list) == 0 {
			return err
		}
		m, err := r.Message(list[0].Key, nil)
		if err == nil && m != nil && !m.Due.IsZero() {
			s.Wait = max(m.Due.Sub(r.Now()), 0)
		}
		return err
	})
	if err != nil {
		return ledger.LaneStats{}, l.named("what is parked of a lane", err)
	}
	return s, nil
}

// ParkedLanes implements [ledger.Parking].
func (l *Ledger) ParkedLanes(ctx context.Context, scope string, prefix []byte, most int) (lanes [][]byte, more bool, err error) {
	if err := checks.ParkedLanes(scope, prefix, most); err != nil || !l.cfg.Parks {
		return nil, false, err
	}
	err = l.store.View(ctx, Call{Op: Read}, func(r Reader) error {
		p, err := l.parker(r)
		if err == nil {
			lanes, err = p.Lanes(scope, prefix, most+1)
		}
		return err
	})
	if err != nil {
		return nil, false, l.named("the lanes of what is parked", err)
	}
	return lanes[:min(len(lanes), most)], len(lanes) > most, nil
}
