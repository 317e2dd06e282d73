package dynamodb

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
)

// The attributes of an owner's item.
const (
	attrFate  = "s"
	attrBeat  = "t" // grows with each beat
	attrLease = "e" // microseconds
	attrOver  = "u" // when its fate was sealed
)

func ownerName(id driver.OwnerID) name {
	return name{placeOwners, string(binary.BigEndian.AppendUint64(nil, uint64(id)))}
}

func ownerOf(i item) driver.OwnerID {
	return driver.OwnerID(binary.BigEndian.Uint64(getBytes(i, attrSort)))
}

// Join implements [driver.Owners]. Ids are counted, so that none is given twice.
func (s *store) Join(ctx context.Context, lease time.Duration) (driver.OwnerID, error) {
	sent := time.Now()
	n, err := s.count(ctx, metaOwners)
	if err != nil {
		return 0, err
	}
	id := driver.OwnerID(n)
	c := &cell{name: ownerName(id)}
	i := c.name.key()
	i[attrFate], i[attrBeat], i[attrLease] = number(uint8(driver.Live)), number(1), number(lease.Microseconds())
	c.write(i)
	lost, err := s.writeBatch(ctx, []*unit{{changes: []change{{c}}}})
	if err == nil && len(lost) > 0 {
		err = fmt.Errorf("owner %d was there already", id)
	}
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lives[id] = sent.Add(lease)
	return id, nil
}

// count makes a counter grow by one, and returns it.
func (s *store) count(ctx context.Context, counter name) (n int64, err error) {
	var out *sdk.UpdateItemOutput
	if err := s.send(ctx, func(ctx context.Context) (err error) {
		out, err = s.db.UpdateItem(ctx, &sdk.UpdateItemInput{TableName: &s.table, Key: counter.key(),
			UpdateExpression: aws.String("ADD " + attrToken + " :one"), ExpressionAttributeValues: item{":one": number(1)},
			ReturnValues: types.ReturnValueUpdatedNew}, once)
		return err
	}); err != nil {
		return 0, writeError(err)
	}
	s.clock.heard(out.ResultMetadata)
	return getNumber[int64](out.Attributes, attrToken), nil
}

// owner changes an owner's item, if the owner lives and the condition holds, and says whether it did.
func (s *store) owner(ctx context.Context, id driver.OwnerID, update, condition string, values item) (bool, error) {
	values[":live"] = number(uint8(driver.Live))
	err := s.send(ctx, func(ctx context.Context) error {
		_, err := s.db.UpdateItem(ctx, &sdk.UpdateItemInput{TableName: &s.table, Key: ownerName(id).key(),
			UpdateExpression: &update, ExpressionAttributeValues: values,
			ConditionExpression: aws.String(attrFate + " = :live" + condition)}, once)
		return err
	})
	if _, is := errors.AsType[*types.ConditionalCheckFailedException](err); is {
		return false, nil
	}
	return err == nil, writeError(err)
}

// Beat implements [driver.Owners].
func (s *store) Beat(ctx context.Context, id driver.OwnerID, lease time.Duration) error {
	sent := time.Now()
	live, err := s.owner(ctx, id, "ADD "+attrBeat+" :one SET "+attrLease+" = :lease", "", item{":one": number(1), ":lease": number(lease.Microseconds())})
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		return err
	case !live:
		delete(s.lives, id)
		return ledger.ErrLost
	}
	if _, mine := s.lives[id]; mine {
		s.lives[id] = sent.Add(lease)
	}
	return nil
}

// Leave implements [driver.Owners].
func (s *store) Leave(ctx context.Context, id driver.OwnerID) error {
	s.mu.Lock()
	delete(s.lives, id)
	s.mu.Unlock()
	_, err := s.seal(ctx, id, driver.Left, "", item{})
	return err
}

// seal ends an owner's life, if it lives.
func (s *store) seal(ctx context.Context, id driver.OwnerID, fate driver.Fate, condition string, values item) (bool, error) {
	values[":fate"], values[":now"] = number(uint8(fate)), number(s.clock.now().UnixMicro())
	return s.owner(ctx, id, "SET "+attrFate+" = :fate, "+attrOver+" = :now", condition, values)
}

// Seal implements [driver.Owners]. An owner is overdue when this process has seen one beat of it for its lease and more; its item
// decides whether it has beaten since.
func (s *store) Seal(ctx context.Context, caller driver.OwnerID) error {
	live := map[driver.OwnerID]bool{}
	for i, err := range s.all(ctx, &query{place: placeOwners}) {
		if err != nil {
			return err
		}
		if seen, ok := sighted(i); ok && seen.Owner != caller {
			live[seen.Owner] = true
			s.look(seen)
		}
	}
	s.mu.Lock()
	s.watch.Keep(func(id driver.OwnerID) bool { return live[id] })
	overdue := s.watch.Overdue(time.Since(s.began))
	s.mu.Unlock()
	var failed error
	for _, o := range overdue {
		if o.Owner == caller {
			continue
		}
		_, err := s.seal(ctx, o.Owner, driver.Dead, " AND "+attrBeat+" = :beat", item{":beat": number(o.Beat)})
		failed = errors.Join(failed, err)
	}
	return failed
}

// sighted is an owner's item, if it is live.
func sighted(i item) (driver.Sighting, bool) {
	return driver.Sighting{Owner: ownerOf(i), Beat: getNumber[uint64](i, attrBeat), Lease: getNumber[time.Duration](i, attrLease) * time.Microsecond},
		getNumber[driver.Fate](i, attrFate) == driver.Live
}

// look notes a live owner that was read, and says how long its beat must stay the same until it is overdue.
func (s *store) look(seen driver.Sighting) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watch.Note(seen, time.Since(s.began))
}

// alive says whether an owner of this process may take itself to be live.
func (s *store) alive(id driver.OwnerID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.lives[id])
}

// own is an owner of this process, or one that is known to be sealed.
func (s *store) own(id driver.OwnerID) (driver.Owner, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if until, mine := s.lives[id]; mine && time.Now().Before(until) {
		return driver.Owner{Fate: driver.Live, Lease: s.clock.now().Add(time.Until(until))}, true
	}
	o, known := s.sealed[id]
	return o, known
}

// sealedMost bounds how many sealed owners are remembered: a fate never changes.
const sealedMost = 1000

// sees is an owner's item as a transaction sees it. One without an item has left.
func (s *store) sees(id driver.OwnerID, i item, now time.Time) driver.Owner {
	o := driver.Owner{Fate: driver.Left}
	if i != nil {
		if seen, live := sighted(i); live {
			return driver.Owner{Fate: driver.Live, Lease: now.Add(s.look(seen))}
		}
		o.Fate = getNumber[driver.Fate](i, attrFate)
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
func (s *store) CountOwners(ctx context.Context) (n ledger.OwnerStats, err error) {
	for i, err := range s.all(ctx, &query{place: placeOwners}) {
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
func (s *store) RemoveOwners(ctx context.Context, before time.Time, named func(driver.OwnerID) bool) (removed int64, err error) {
	var gone []name
	for i, err := range s.all(ctx, &query{place: placeOwners}) {
		if err != nil {
			return 0, err
		}
		if getNumber[driver.Fate](i, attrFate) != driver.Live && getTime(i, attrOver).Before(before) && !named(ownerOf(i)) {
			gone = append(gone, nameOf(i))
		}
	}
	return int64(len(gone)), s.drop(ctx, gone)
}
