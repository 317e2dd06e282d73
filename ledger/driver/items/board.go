package items

import (
	"context"
	"encoding/json"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
)

// attrReport is, of an owner's item, what its worker said last: so a beat stays one write.
const attrReport = attrData

// metaPauses is the item of the pauses that hold, which a worker reads with each beat.
var metaPauses = Name{placeMeta, "pauses"}

// Workers implements [driver.Owners].
func (s *Store) Workers(ctx context.Context, rest time.Duration) (all []driver.Worker, err error) {
	now := s.Now()
	for i, err := range s.table.Query(ctx, Query{Place: placeOwners}) {
		if err != nil {
			return nil, err
		}
		o := s.sees(ownerOf(i), i, now)
		if o.Fate != driver.Live && now.Sub(getTime(i, Over)) > rest {
			continue
		}
		all = append(all, driver.Worker{ID: ownerOf(i), Fate: o.Fate, Lease: o.Lease.Sub(now), Report: getBytes(i, attrReport)})
	}
	return all, nil
}

// Pauses implements [driver.Reader].
func (t *tx) Pauses() ([]ledger.Pause, error) {
	var stored json.RawMessage
	if _, err := t.meta(metaPauses, &stored); err != nil {
		return nil, err
	}
	return driver.DecodePauses(stored)
}

// PutPauses implements [driver.Tx].
func (t *tx) PutPauses(hold []ledger.Pause) error {
	stored, err := driver.EncodePauses(hold)
	if err != nil {
		return err
	}
	c, err := t.read(metaPauses)
	if err != nil {
		return err
	}
	return t.putMeta(c, json.RawMessage(stored))
}
