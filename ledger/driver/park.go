package driver

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/ackledger/ackledger/internal/checks"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// Parker is a [Tx] of a store that holds parked messages: copies of whole messages, in a table of their own beside the rows. What
// becomes of a message its row says alone.
type Parker interface {
	// Park writes a parked message, in the place of one under its key.
	Park(p *ledger.Parked) error
	// Postpone makes a parked message due at a time; without one it does nothing.
	Postpone(key Key, due time.Time) error
	// Unpark removes a parked message, if there is one.
	Unpark(key Key) error
	// InLane returns the messages of a lane by their places: at most n.
	InLane(scope string, lane []byte, n int) ([]LanePlace, error)
	// LastInLane returns the last place of a lane; ledger.PlaceLast: it is empty.
	LastInLane(scope string, lane []byte) (place int64, err error)
	// Lanes returns the lanes of a scope whose names begin with prefix, by their names: at most n.
	Lanes(scope string, prefix []byte, n int) ([][]byte, error)
	// IsParked says whether a message is parked.
	IsParked(key Key) (bool, error)
	// ReadParked returns a parked message, with or without its body and headers; nil: there is none.
	ReadParked(key Key, bodies bool) (*ledger.Parked, error)
	// ListParked returns at most n parked messages of a scope that lie behind a place, by when they are due and by their keys.
	ListParked(scope string, behind ParkedPlace, n int, bodies bool) ([]ledger.Parked, error)
	// DueParked returns the parked messages of a scope that are due by now, those first that have been due for longest: at most n,
	// and of more than one no more than so many bytes of bodies and headers. next is when the one behind these is due; zero: there
	// is none. Two transactions that ask at once may both be given one, or the later one none of them.
	DueParked(scope string, n int, bytes int64) (list []ledger.Parked, next time.Time, err error)
	// SumParked counts what is parked of a scope: how many, [ledger.Archive.Weight] of all, and when the first is due.
	SumParked(scope string) (n, weight int64, first time.Time, err error)
}

// LanePlace is a parked message in its lane.
type LanePlace struct {
	Key   Key
	Place int64
	Due   time.Time
}

// ParkedPlace is a place in a list of parked messages. The zero value is before all.
type ParkedPlace struct {
	Due time.Time
	Key Key
}

// Behind says whether a parked message lies behind the place.
func (a ParkedPlace) Behind(p *ledger.Parked) bool {
	key := p.Key.Sum()
	return a.Due.IsZero() || p.Due.After(a.Due) || p.Due.Equal(a.Due) && bytes.Compare(key[:], a.Key[:]) > 0
}

// errNoParking is for whoever asks for what is parked.
var errNoParking error = &ledger.InvalidError{Field: "Ledger", Bound: "one that parks messages: PostgreSQL, SQLite or memory", Value: "another"}

// errParksNothing is for a ledger whose store is no [Parker].
var errParksNothing error = &ledger.InvalidError{Field: "Settlement.Kind", Bound: "another kind: this ledger parks nothing", Value: ledger.Park.String()}

// parker is the part of a transaction that parks.
func (l *Ledger) parker(tx any) (Parker, error) {
	if p, ok := tx.(Parker); ok && l.cfg.Parks {
		return p, nil
	}
	return nil, errParksNothing
}

// parkedOf is what is parked of a record's message.
func (l *Ledger) parkedOf(r Reader, rec *ledger.Record, bodies bool) error {
	if !l.cfg.Parks || rec.State != ledger.Pending {
		return nil
	}
	p, err := l.parker(r)
	if err == nil {
		rec.Parked, err = p.ReadParked(rec.Key, bodies)
	}
	return err
}

// Parks implements [ledger.Parking].
func (l *Ledger) Parks() bool { return l.cfg.Parks }

// Due implements [ledger.Parking].
func (l *Ledger) Due(ctx context.Context, r ledger.DueRequest) (reply ledger.DueReply, err error) {
	if err := checks.Due(&r); err != nil {
		return reply, err
	}
	err = l.operate(ctx, Call{}, func(tx Tx) error {
		p, err := l.parker(tx)
		if err == nil {
			reply, err = due(tx, p, &r)
		}
		return err
	})
	if err != nil {
		return ledger.DueReply{}, l.named("what is due of what is parked", err)
	}
	return reply, nil
}

// due is one look at what is due. What runs is looked at again later: its owner may die.
func due(tx Tx, p Parker, r *ledger.DueRequest) (reply ledger.DueReply, err error) {
	list, next, err := p.DueParked(r.Scope, r.Most, r.Bytes)
	if err != nil {
		return reply, err
	}
	for i := range list {
		key := list[i].Key.Sum()
		m, err := tx.Message(key, nil)
		if err != nil {
			return reply, err
		}
		waits, err := behind(p, &list[i])
		if err != nil {
			return reply, err
		}
		if waits { // one that comes before it was parked when it was in hand
			if err := p.Postpone(key, storage.Behind); err != nil {
				return reply, err
			}
			continue
		}
		runs, over := false, m != nil && m.State != ledger.Pending
		if m != nil && !over {
			holder, _, err := holds(tx, Nobody, m.Owner)
			if err != nil {
				return reply, err
			}
			runs = holder == ledger.Live
		}
		if over {
			err = leave(tx, p, key)
		} else {
			err = p.Postpone(key, tx.Now().Add(r.Hide))
		}
		if err != nil {
			return reply, fmt.Errorf("%v: %w", list[i].Key, err)
		}
		if !over && !runs {
			reply.Messages = append(reply.Messages, list[i])
		}
	}
	if reply.Wait = -1; !next.IsZero() && !next.Equal(storage.Behind) {
		reply.Wait = min(max(next.Sub(tx.Now()), 0), ledger.MaxPark)
	}
	return reply, nil
}

// ParkedIn implements [ledger.Parking].
func (l *Ledger) ParkedIn(ctx context.Context, scope string) (s ledger.ParkedStats, err error) {
	err = l.store.View(ctx, Call{Op: Read}, func(r Reader) error {
		p, err := l.parker(r)
		if err != nil {
			return err
		}
		s, err = parkedIn(r, p, scope)
		return err
	})
	if err != nil {
		return ledger.ParkedStats{}, l.named("what is parked", err)
	}
	return s, nil
}

// parkedIn counts what is parked of a scope.
func parkedIn(r Reader, p Parker, scope string) (s ledger.ParkedStats, err error) {
	n, weight, first, err := p.SumParked(scope)
	if s = (ledger.ParkedStats{Messages: n, Bytes: weight}); n > 0 {
		s.Overdue = max(r.Now().Sub(first), 0)
	}
	return s, err
}

// isParked says whether a pending message is parked.
func (o *owner) isParked(tx Tx, m *Message) (bool, error) {
	if !o.l.cfg.Parks || m.State != ledger.Pending {
		return false, nil
	}
	p, err := o.l.parker(tx)
	if err != nil {
		return false, err
	}
	return p.IsParked(m.Key)
}

// park puts a message that is released beside its row. The row is there for as long as an archived delivery would be.
func (o *owner) park(tx Tx, m *Message, s *ledger.Settlement) error {
	p, err := o.l.parker(tx)
	if err != nil {
		return err
	}
	outlive(m, s.Dead.Keep)
	parked := ledger.Parked{Archive: s.Dead.Clone(), Due: m.Due, At: tx.Now(), Lane: s.Lane}
	parked.Kind, parked.Errors, parked.Sent = "", nil, false
	if s.Lane != nil {
		outlive(m, s.Dead.Keep+ledger.MaxPark) // it may wait behind others
	}
	if err := leave(tx, p, m.Key); err != nil { // what is left of it
		return err
	}
	if err := lineUp(p, &parked); err != nil {
		return err
	}
	return p.Park(&parked)
}

// unpark is for a message that has ended, or was given back, after a claim with Entry.Parked.
func (o *owner) unpark(tx Tx, t ledger.Ticket, m *Message) error {
	if !t.IsParked() {
		return nil
	}
	p, err := o.l.parker(tx)
	switch {
	case err != nil:
		return err
	case m == nil || m.State != ledger.Pending:
		return leave(tx, p, t.Sum())
	case m.Due.IsZero():
		return p.Postpone(t.Sum(), tx.Now())
	}
	parked, err := p.ReadParked(t.Sum(), false)
	if err != nil || parked == nil {
		return err
	}
	outlive(m, parked.Keep)
	return p.Postpone(t.Sum(), m.Due)
}

// outlive has a row stay past the time at which its message is due for as long as an archived delivery would.
func outlive(m *Message, keep time.Duration) {
	if last := m.Due.Add(keep); last.After(m.Expiry) {
		m.Expiry = last
	}
}
