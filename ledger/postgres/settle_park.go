package postgres

import (
	"context"
	"strconv"
	"time"

	"github.com/ackledger/ackledger/internal/checks"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// checkSettlement refuses what the schema cannot hold.
func (l *Ledger) checkSettlement(s *ledger.Settlement) error {
	if s.Kind == ledger.Park && !l.parks.Load() {
		return &ledger.InvalidError{Field: "Settlement.Kind", Bound: "another kind, before version " + strconv.Itoa(parkVersion) + " of the schema: " + runMigrate,
			Value: ledger.Park.String()}
	}
	return checks.Settlement(s, l.cfg.Limits)
}

// parkArgs lines up the parameters of sqlPark.
func (c *settleCall) parkArgs(part []int32) []any {
	n := len(part)
	keys, prints, tokens := make(keyArray, n), make(keyArray, n), make([]int64, n)
	afters, counted, lists := make([]int64, n), make([]int16, n), make(byteArray, n)
	scopes, attempts, weights := make([]int32, n), make([]int32, n), make([]int64, n)
	deliveries, ids, bodies, headers := make(byteArray, n), make(byteArray, n), make(byteArray, n), make(byteArray, n)
	sources, groups, positions := make(byteArray, n), make(byteArray, n), make(byteArray, n)
	sentAt, keeps := make([]time.Time, n), make([]int64, n)
	lanes, places := make(byteArray, n), make([]int64, n)
	for at, i := range part {
		s := &c.settlements[i]
		d := s.Dead
		keys[at], tokens[at], prints[at] = uuid(c.sums[i]), int64(s.Ticket.Token()), uuid(d.Fingerprint)
		if afters[at] = max(s.After.Microseconds(), 1); s.Count {
			counted[at], lists[at] = 1, c.appended(i)
		}
		scopes[at], attempts[at], weights[at] = c.scopes[d.Key.Scope], int32(min(max(d.Attempts, 0), 1<<31-1)), parkedWeight(d)
		deliveries[at], ids[at], bodies[at], headers[at] = d.Delivery, orEmpty(d.Key.ID), d.Body, storage.EncodeHeaders(d.Headers)
		sources[at], groups[at], positions[at] = []byte(d.Source), []byte(d.Group), encodePosition(d.Key.Pos, d.Delivery)
		sentAt[at], keeps[at] = storable(d.SentAt), d.Keep.Microseconds()
		if s.Lane != nil {
			lanes[at], places[at] = s.Lane.Name, s.Lane.Place
		}
	}
	return []any{
		keys, tokens, afters, counted, lists, deliveries, scopes, ids, prints, bodies, headers, sources, groups, positions,
		attempts, sentAt, keeps, weights, lanes, places,
	}
}

// parkedWeight is what counts of a message that is parked, whose errors its row has.
func parkedWeight(a *ledger.Archive) int64 {
	plain := *a
	plain.Errors = nil
	return plain.Weight()
}

// findParked fills in which of the rows of items that park are parked.
func (c *settleCall) findParked(ctx context.Context, items []int32, rows map[[ledger.KeySize]byte]*ledger.Row) error {
	var keys keyArray
	for _, i := range items {
		if c.settlements[i].Kind == ledger.Park {
			keys = append(keys, uuid(c.sums[i]))
		}
	}
	if len(keys) == 0 {
		return nil
	}
	var key [ledger.KeySize]byte
	return c.owner.ledger.read(ctx, sqlFindParked, []any{keys}, []any{&key}, func() {
		if row := rows[key]; row != nil {
			row.Parked = true
		}
	})
}
