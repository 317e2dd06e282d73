package items

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
)

// The attributes of an owner's item.
const (
	attrBeat  = "t" // grows with each beat
	attrLease = "e" // microseconds
)

// The attributes of an owner's fate ([driver.Fate]), and of when it was sealed, in microseconds since 1970. They are for tests of engines.
const (
	Fate = "s"
	Over = "u"
)

// OwnerName is the name of an owner's item. It is for tests of engines.
func OwnerName(id driver.OwnerID) Name {
	return Name{placeOwners, string(binary.BigEndian.AppendUint64(nil, uint64(id)))}
}

func ownerOf(i Item) driver.OwnerID {
	return driver.OwnerID(binary.BigEndian.Uint64(getBytes(i, attrSort)))
}

// life is an owner of this process.
type life struct {
	until time.Time     // until when it may take itself to be live
	item  Item          // as this process left it
	turn  chan struct{} // to write it: beats at once would only be in each other's way
}

// Join implements [driver.Owners]. Ids are counted, so that none is given twice.
func (s *Store) Join(ctx context.Context, lease time.Duration) (driver.OwnerID, error) {
	sent := time.Now()
	counter, err := s.table.Add(ctx, metaOwners, Item{attrToken: Number(1)}, nil)
	if err != nil {
		return 0, err
	}
	id := getNumber[driver.OwnerID](counter, attrToken)
	is := OwnerName(id).Item()
	is[Fate], is[attrBeat], is[attrLease] = Number(driver.Live), Number(1), Number(lease.Microseconds())
	written, _, err := s.writeOwner(ctx, id, nil, is)
	if err == nil && !written {
		err = fmt.Errorf("owner %d was there already", id)
	}
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lives[id] = &life{until: sent.Add(lease), item: is, turn: make(chan struct{}, 1)}
	return id, nil
}

// writeOwner writes an owner's item, if it is as it was. Else it may say what stands there.
func (s *Store) writeOwner(ctx context.Context, id driver.OwnerID, was, is Item) (written bool, stands Item, err error) {
	is[attrVersion] = newVersion()
	set := &Set{Changes: []Change{{Name: OwnerName(id), Was: was, Is: is}}}
	err = s.table.Write(ctx, []*Set{set})
	return set.Written, set.Stands, err
}

// live changes the item of an owner while it lives, and says whether it did. As it was left by this process it need not be read.
func (s *Store) live(ctx context.Context, id driver.OwnerID, change func(Item)) (is Item, err error) {
	s.mu.Lock()
	mine := s.lives[id]
	s.mu.Unlock()
	var was Item
	if mine != nil {
		select {
		case mine.turn <- struct{}{}:
			defer func() { <-mine.turn }()
		case <-ctx.Done():
			return nil, conflict(context.Cause(ctx))
		}
		s.mu.Lock()
		was = mine.item
		s.mu.Unlock()
	}
	for n := 0; ; n++ {
		if was == nil {
			found, err := s.table.Get(ctx, []Name{OwnerName(id)})
			if err != nil {
				return nil, err
			}
			was = found[OwnerName(id)]
		}
		if was == nil || getNumber[driver.Fate](was, Fate) != driver.Live {
			return nil, nil
		}
		is = maps.Clone(was)
		change(is)
		written, stands, err := s.writeOwner(ctx, id, was, is)
		s.left(mine, is, written)
		if err != nil || written {
			return is, err
		}
		if was = stands; n == 0 {
			continue
		}
		if why := Rest(ctx, n); why != nil {
			return nil, conflict(why)
		}
	}
}

// left notes what this process has left of an owner of its own; what was not answered may be there, or not.
func (s *Store) left(mine *life, is Item, written bool) {
	if mine == nil {
		return
	}
	if !written {
		is = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	mine.item = is
}

// Beat implements [driver.Owners].
func (s *Store) Beat(ctx context.Context, id driver.OwnerID, lease time.Duration, report []byte) error {
	sent := time.Now()
	is, err := s.live(ctx, id, func(i Item) {
		i[attrBeat], i[attrLease] = Number(getNumber[uint64](i, attrBeat)+1), Number(lease.Microseconds())
		i[attrReport] = Bytes(report)
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		return err
	}
	if is == nil {
		delete(s.lives, id)
		return ledger.ErrLost
	}
	if until, l := sent.Add(lease), s.lives[id]; l != nil && until.After(l.until) {
		l.until = until
	}
	return nil
}

// Leave implements [driver.Owners]. From the moment at which it is asked the owner claims nothing any more, unless it is certain that it
// has not left.
func (s *Store) Leave(ctx context.Context, id driver.OwnerID) error {
	s.mu.Lock()
	mine := s.lives[id]
	delete(s.lives, id)
	s.mu.Unlock()
	err := s.seal(ctx, id, driver.Left)
	if err != nil && !ledger.Unknown(err) && mine != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lives[id] = mine
	}
	return err
}

// Declare declares an owner dead, however long its lease lasts, as peers do with one that is overdue. It is for tests of engines.
func (s *Store) Declare(ctx context.Context, id driver.OwnerID) error {
	s.mu.Lock()
	delete(s.lives, id)
	s.mu.Unlock()
	return s.seal(ctx, id, driver.Dead)
}

// seal ends an owner's life, if it lives.
func (s *Store) seal(ctx context.Context, id driver.OwnerID, fate driver.Fate) error {
	_, err := s.live(ctx, id, func(i Item) { i[Fate], i[Over] = Number(fate), Number(s.Now().UnixMicro()) })
	return err
}

// Seal implements [driver.Owners]. An owner is overdue when this process has seen one beat of it for its lease and more; its item
// decides whether it has beaten since.
func (s *Store) Seal(ctx context.Context, caller driver.OwnerID) error {
	there := map[driver.OwnerID]Item{}
	for i, err := range s.table.Query(ctx, Query{Place: placeOwners}) {
		if err != nil {
			return err
		}
		if seen, ok := sighted(i); ok && seen.Owner != caller {
			there[seen.Owner] = i
			s.look(seen)
		}
	}
	s.mu.Lock()
	s.watch.Keep(func(id driver.OwnerID) bool { return there[id] != nil })
	overdue := s.watch.Overdue(time.Since(s.began))
	s.mu.Unlock()
	var failed error
	for _, o := range overdue {
		was := there[o.Owner] // if it has beaten since, it has another version
		is := maps.Clone(was)
		is[Fate], is[Over] = Number(driver.Dead), Number(s.Now().UnixMicro())
		_, _, err := s.writeOwner(ctx, o.Owner, was, is)
		failed = errors.Join(failed, err)
	}
	return failed
}

// sighted is an owner's item, if it is live.
func sighted(i Item) (driver.Sighting, bool) {
	return driver.Sighting{Owner: ownerOf(i), Beat: getNumber[uint64](i, attrBeat), Lease: getNumber[time.Duration](i, attrLease) * time.Microsecond},
		getNumber[driver.Fate](i, Fate) == driver.Live
}

// look notes a live owner that was read, and says how long its beat must stay the same until it is overdue.
func (s *Store) look(seen driver.Sighting) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watch.Note(seen, time.Since(s.began))
}

// alive says whether an owner of this process may take itself to be live.
func (s *Store) alive(id driver.OwnerID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lives[id]
	return l != nil && time.Now().Before(l.until)
}

// own is an owner of this process, or one that is known to be sealed.
func (s *Store) own(id driver.OwnerID) (driver.Owner, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.lives[id]; l != nil && time.Now().Before(l.until) {
		return driver.Owner{Fate: driver.Live, Lease: s.Now().Add(time.Until(l.until))}, true
	}
	o, known := s.sealed[id]
	return o, known
}

// sealedMost bounds how many sealed owners are remembered: a fate never changes.
const sealedMost = 1000

// sees is an owner's item as a transaction sees it. One without an item has left.
func (s *Store) sees(id driver.OwnerID, i Item, now time.Time) driver.Owner {
	o := driver.Owner{Fate: driver.Left}
	if i != nil {
		if seen, live := sighted(i); live {
			return driver.Owner{Fate: driver.Live, Lease: now.Add(s.look(seen))}
		}
		o.Fate = getNumber[driver.Fate](i, Fate)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sealed) >= sealedMost {
		clear(s.sealed)
	}
	s.sealed[id] = o
	return o
}

// CountOwners implements [driver.Owners].
func (s *Store) CountOwners(ctx context.Context) (n ledger.OwnerStats, err error) {
	for i, err := range s.table.Query(ctx, Query{Place: placeOwners}) {
		if err != nil {
			return n, err
		}
		switch o := s.sees(ownerOf(i), i, time.Time{}); {
		case o.Fate == driver.Left:
			n.Left++
		case o.Fate == driver.Dead:
			n.Dead++
		case !o.Lease.After(time.Time{}):
			n.Overdue++
			fallthrough
		default:
			n.Live++
		}
	}
	return n, nil
}

// RemoveOwners implements [driver.Owners].
func (s *Store) RemoveOwners(ctx context.Context, before time.Time, named func(driver.OwnerID) bool) (removed int64, err error) {
	var gone []Name
	for i, err := range s.table.Query(ctx, Query{Place: placeOwners}) {
		if err != nil {
			return 0, err
		}
		if getNumber[driver.Fate](i, Fate) != driver.Live && getTime(i, Over).Before(before) && !named(ownerOf(i)) {
			gone = append(gone, NameOf(i))
		}
	}
	return int64(len(gone)), s.table.Delete(ctx, gone)
}
