package dynamodb

import (
	"context"
	"maps"
	"strconv"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
)

// Declare seals a live owner dead, and lets its lease be over in this process.
func (l *Ledger) Declare(ctx context.Context, owner string) error {
	id := ownerID(owner)
	l.store.mu.Lock()
	delete(l.store.lives, id)
	l.store.mu.Unlock()
	_, err := l.store.seal(ctx, id, driver.Dead, "", item{})
	return err
}

func ownerID(owner string) driver.OwnerID {
	n, _ := strconv.ParseInt(owner, 10, 64)
	return driver.OwnerID(n)
}

// DropOwner removes an owner that left or died.
func (l *Ledger) DropOwner(ctx context.Context, owner string) error {
	return l.store.drop(ctx, []name{ownerName(ownerID(owner))})
}

// Drop removes a message's row, and with a position all that is known of its log.
func (l *Ledger) Drop(ctx context.Context, key ledger.Key) error {
	names := []name{messageName(key.Sum())}
	if key.Pos != nil {
		id, _ := driver.SplitKey(key.Sum())
		names = append(names, logName(id), name{placeLogs, string(id[:])})
	}
	return l.store.drop(ctx, names)
}

// Rest makes fates and the lease of the sweep look older.
func (l *Ledger) Rest(ctx context.Context) error {
	s := l.store
	for i, err := range s.all(ctx, &query{place: placeOwners}) {
		if err != nil {
			return err
		}
		if at := getTime(i, attrOver); !at.IsZero() {
			is := maps.Clone(i)
			is[attrOver] = number(at.Add(-2 * ledger.OwnerRest).UnixMicro())
			c := s.newTx(ctx, driver.Sweep, map[name]item{}).saw(i)
			c.write(is)
			if _, err := s.writeBatch(ctx, []*unit{{changes: []change{{c}}}}); err != nil {
				return err
			}
		}
	}
	return s.Update(ctx, driver.Call{Op: driver.Sweep}, func(t driver.Tx) error {
		turn, err := t.Turn()
		if err != nil {
			return err
		}
		turn.Lease = time.Time{}
		return t.PutTurn(turn)
	})
}

// Age makes all that was written look older.
func (l *Ledger) Age(d time.Duration) {
	c := &l.store.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shift += d
}
