package sqlite

import (
	"bytes"
	"database/sql"
	"fmt"
	"math"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
	"github.com/ackledger/ackledger/ledger/storage"
)

var _ driver.Parker = (*tx)(nil)

const (
	sqlPark = `INSERT OR REPLACE INTO ackledger_parked
		(key, scope, due, at, weight, id, position, fingerprint, delivery, source, grp, attempts, sent_at, keep, lane, place, headers, body)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	sqlPostpone = `UPDATE ackledger_parked SET due = ? WHERE key = ?`
	sqlUnpark   = `DELETE FROM ackledger_parked WHERE key = ?`
	sqlIsParked = `SELECT 1 FROM ackledger_parked WHERE key = ?`

	sqlInLane = `SELECT key, place, due FROM ackledger_parked INDEXED BY ackledger_parked_lane
		WHERE scope = (SELECT id FROM ackledger_scope WHERE name = ?) AND lane = ? ORDER BY place LIMIT ?`
	sqlLastInLane = `SELECT place FROM ackledger_parked INDEXED BY ackledger_parked_lane
		WHERE scope = (SELECT id FROM ackledger_scope WHERE name = ?) AND lane = ? ORDER BY place DESC LIMIT 1`
	sqlLaneFrom = `SELECT lane FROM ackledger_parked INDEXED BY ackledger_parked_lane
		WHERE scope = (SELECT id FROM ackledger_scope WHERE name = ?) AND lane >= ? ORDER BY lane LIMIT 1`

	// sqlDue reads sizes alone, so that no body is read that is not asked for.
	sqlDue = `SELECT key, due, coalesce(length(body), 0) + coalesce(length(headers), 0) FROM ackledger_parked INDEXED BY ackledger_parked_due
		WHERE scope = (SELECT id FROM ackledger_scope WHERE name = ?) ORDER BY due LIMIT ?`
	sqlParked = `SELECT s.name, p.id, p.position, p.fingerprint, p.delivery, p.source, p.grp, p.attempts, p.sent_at, p.keep, p.due, p.at, p.lane, p.place,
		CASE WHEN ?1 THEN p.headers END, CASE WHEN ?1 THEN p.body END, CASE WHEN ?1 THEN 0 ELSE coalesce(length(p.body), 0) END
		FROM ackledger_parked p CROSS JOIN ackledger_scope s ON s.id = p.scope WHERE p.key = ?2`
	sqlListParked = `SELECT key, due FROM ackledger_parked
		WHERE scope = (SELECT id FROM ackledger_scope WHERE name = ?) AND (due, key) > (?, ?) ORDER BY due, key LIMIT ?`
	sqlSumParked = `SELECT count(*), coalesce(sum(weight), 0), min(due) FROM ackledger_parked INDEXED BY ackledger_parked_due
		WHERE scope = (SELECT id FROM ackledger_scope WHERE name = ?)`
)

// Park implements [driver.Parker].
func (t *tx) Park(p *ledger.Parked) error {
	scope, err := t.scope(p.Key.Scope)
	if err != nil {
		return err
	}
	key, lane, place := p.Key.Sum(), []byte(nil), sql.NullInt64{}
	if l := p.Lane; l != nil {
		lane, place = l.Name, sql.NullInt64{Int64: l.Place, Valid: true}
	}
	_, err = t.exec(sqlPark, key[:], scope, p.Due.UnixMicro(), p.At.UnixMicro(), p.Weight(), p.Key.ID, encodePosition(p.Key.Pos),
		p.Fingerprint[:], p.Delivery, []byte(p.Source), []byte(p.Group), p.Attempts, micros(p.SentAt), p.Keep.Microseconds(), lane, place,
		storage.EncodeHeaders(p.Headers), p.Body)
	if err != nil {
		return fmt.Errorf("parking %v: %w", p.Key, err)
	}
	return nil
}

// Postpone implements [driver.Parker].
func (t *tx) Postpone(key driver.Key, due time.Time) error {
	_, err := t.exec(sqlPostpone, due.UnixMicro(), key[:])
	return err
}

// Unpark implements [driver.Parker].
func (t *tx) Unpark(key driver.Key) error {
	_, err := t.exec(sqlUnpark, key[:])
	return err
}

// IsParked implements [driver.Parker].
func (t *tx) IsParked(key driver.Key) (is bool, err error) {
	err = t.one(sqlIsParked, []any{key[:]}, &is)
	return is, err
}

// DueParked implements [driver.Parker].
func (t *tx) DueParked(scope string, n int, size int64) (list []ledger.Parked, next time.Time, err error) {
	type place struct {
		key driver.Key
		due time.Time
	}
	var due []place
	err = t.each(sqlDue, []any{[]byte(scope), n + 1}, func(row scanner) error {
		var key []byte
		var at, bytes int64
		if err := row.Scan(&key, &at, &bytes); err != nil || !next.IsZero() {
			return err
		}
		p := place{driver.Key(key), moment(at)}
		if size -= bytes; len(due) == n || p.due.After(t.now) || len(due) > 0 && size < 0 {
			next = p.due
			return nil
		}
		due = append(due, p)
		return nil
	})
	for i := 0; i < len(due) && err == nil; i++ {
		var p ledger.Parked
		if p, err = t.readParked(due[i].key, true); err == nil {
			list = append(list, p)
		}
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	return list, next, nil
}

// ReadParked implements [driver.Parker].
func (t *tx) ReadParked(key driver.Key, bodies bool) (*ledger.Parked, error) {
	if is, err := t.IsParked(key); err != nil || !is {
		return nil, err
	}
	p, err := t.readParked(key, bodies)
	return &p, err
}

// ListParked implements [driver.Parker].
func (t *tx) ListParked(scope string, behind driver.ParkedPlace, n int, bodies bool) (list []ledger.Parked, err error) {
	from := int64(math.MinInt64)
	if !behind.Due.IsZero() {
		from = behind.Due.UnixMicro()
	}
	var keys []driver.Key
	err = t.each(sqlListParked, []any{[]byte(scope), from, behind.Key[:], n}, func(row scanner) error {
		var key []byte
		var due int64
		err := row.Scan(&key, &due)
		if err == nil {
			keys = append(keys, driver.Key(key))
		}
		return err
	})
	for i := 0; i < len(keys) && err == nil; i++ {
		var p *ledger.Parked
		if p, err = t.ReadParked(keys[i], bodies); err == nil && p != nil {
			list = append(list, *p)
		}
	}
	return list, err
}

// readParked reads one that is there. The length of a body is known without reading it.
func (t *tx) readParked(key driver.Key, bodies bool) (p ledger.Parked, err error) {
	var (
		scope, fingerprint, source, group []byte
		id, headers, body, position, lane blob
		sentAt, place                     sql.NullInt64
		keep, due, at                     int64
	)
	err = t.one(sqlParked, []any{bodies, key[:]}, &scope, &id, &position, &fingerprint, &p.Delivery, &source, &group, &p.Attempts, &sentAt, &keep,
		&due, &at, &lane, &place, &headers, &body, &p.BodyBytes)
	if err != nil {
		return p, err
	}
	p.Key = ledger.Key{Scope: string(scope), ID: id}
	if p.Key.Pos, err = decodePosition(position); err != nil {
		return p, err
	}
	if of := p.Key.Sum(); !bytes.Equal(of[:], key[:]) {
		return p, fmt.Errorf("what is parked under %x is of %v", key, p.Key)
	}
	copy(p.Fingerprint[:], fingerprint)
	p.Source, p.Group, p.Body, p.Keep = string(source), string(group), body, time.Duration(keep)*time.Microsecond
	p.Due, p.At = moment(due), moment(at)
	if sentAt.Valid {
		p.SentAt = moment(sentAt.Int64)
	}
	if place.Valid {
		p.Lane = &ledger.ParkLane{Name: lane, Place: place.Int64}
	}
	p.Headers, err = storage.DecodeHeaders(headers)
	return p, err
}

// InLane implements [driver.Parker].
func (t *tx) InLane(scope string, lane []byte, n int) (list []driver.LanePlace, err error) {
	err = t.each(sqlInLane, []any{[]byte(scope), lane, n}, func(row scanner) error {
		var key []byte
		var place, due int64
		err := row.Scan(&key, &place, &due)
		if err == nil {
			list = append(list, driver.LanePlace{Key: driver.Key(key), Place: place, Due: moment(due)})
		}
		return err
	})
	return list, err
}

// LastInLane implements [driver.Parker].
func (t *tx) LastInLane(scope string, lane []byte) (place int64, err error) {
	place = ledger.PlaceLast
	err = t.one(sqlLastInLane, []any{[]byte(scope), lane}, &place)
	return place, err
}

// Lanes implements [driver.Parker]. It goes from lane to lane along the index.
func (t *tx) Lanes(scope string, prefix []byte, n int) (list [][]byte, err error) {
	for from := append([]byte{}, prefix...); len(list) < n && err == nil; {
		var lane []byte
		err = t.each(sqlLaneFrom, []any{[]byte(scope), from}, func(row scanner) error { return row.Scan(&lane) })
		if lane == nil || !bytes.HasPrefix(lane, prefix) {
			break
		}
		list = append(list, lane)
		from = append(bytes.Clone(lane), 0)
	}
	return list, err
}

// SumParked implements [driver.Parker].
func (t *tx) SumParked(scope string) (n, weight int64, first time.Time, err error) {
	var due sql.NullInt64
	if err = t.one(sqlSumParked, []any{[]byte(scope)}, &n, &weight, &due); due.Valid {
		first = moment(due.Int64)
	}
	return n, weight, first, err
}
