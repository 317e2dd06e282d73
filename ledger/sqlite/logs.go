package sqlite

import (
	"database/sql"
	"fmt"
	"math"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
)

// The kinds of segments, as stored.
const (
	kindFinished = 1
	kindRows     = 2
)

const (
	logColumns = `SELECT g.log, g.version, g.token, g.top, s.name, g.epoch, g.name, g.prefix, g.low, g.start, g.start_at
		FROM ackledger_range_log g CROSS JOIN ackledger_scope s ON s.id = g.scope `
	sqlLog    = logColumns + `WHERE g.log = ?`
	sqlPutLog = `INSERT INTO ackledger_range_log (log, version, token, top, scope, epoch, name, prefix, low, start, start_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (log) DO UPDATE SET version = excluded.version, token = excluded.token,
		top = excluded.top, low = excluded.low, start = excluded.start, start_at = excluded.start_at`
	sqlTrim = `DELETE FROM ackledger_segment WHERE log IN (SELECT g.log FROM ackledger_range_log g JOIN ackledger_scope s ON s.id = g.scope
		WHERE s.name = ? AND g.name = ?) AND last <= ? AND until < ?`

	sqlRanges = `SELECT token, first, last, owner, messages, keep, at, done, back FROM ackledger_claim_range
		WHERE log = ? ORDER BY token`
	sqlPutRange = `INSERT INTO ackledger_claim_range (log, token, first, last, owner, messages, keep, at, done, back)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (log, token) DO UPDATE SET done = excluded.done, back = excluded.back,
		messages = excluded.messages`
	sqlDropRange = `DELETE FROM ackledger_claim_range WHERE log = ? AND token = ?`

	sqlSegments = `SELECT first, last, messages, since, until, expiry, kind FROM ackledger_segment WHERE log = ?1 AND first <= ?3
		AND first >= coalesce((SELECT max(first) FROM ackledger_segment WHERE log = ?1 AND first < ?2), ?2) AND last >= ?2
		ORDER BY first`
	sqlPutSegment = `INSERT INTO ackledger_segment (log, first, last, messages, since, until, expiry, kind)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
	sqlDropSegment = `DELETE FROM ackledger_segment WHERE log = ? AND first = ?`

	sqlRows = `SELECT key FROM ackledger_message WHERE key >= ? AND key < ?`
	// sqlNext is what comes next in a log (?1) at or behind an offset (?2), below its top (?3), and the key of the next row
	// between ?4 and ?5. A segment or range that reaches beyond the offset is there already.
	sqlNext = `SELECT min(?3,
			coalesce((SELECT ?2 FROM (SELECT last FROM ackledger_segment WHERE log = ?1 AND first < ?2 ORDER BY first DESC LIMIT 1) WHERE last > ?2), ?3),
			coalesce((SELECT first FROM ackledger_segment WHERE log = ?1 AND first >= ?2 ORDER BY first LIMIT 1), ?3),
			coalesce((SELECT min(max(first, ?2)) FROM ackledger_claim_range WHERE log = ?1 AND last > ?2), ?3)),
		(SELECT key FROM ackledger_message WHERE key >= ?4 AND key <= ?5 ORDER BY key LIMIT 1)`
)

func scanLog(row scanner) (g driver.Log, err error) {
	var log, scope, name, prefix []byte
	var at int64
	err = row.Scan(&log, &g.Version, &g.Token, &g.Top, &scope, &g.Epoch, &name, &prefix, &g.Start.Low, &g.Start.First, &at)
	copy(g.Log[:], log)
	g.Scope, g.Name, g.Prefix, g.Start.At = string(scope), string(name), string(prefix), moment(at)
	return g, err
}

// Log implements [driver.Reader].
func (t *tx) Log(id driver.LogID) (g *driver.Log, err error) {
	err = t.each(sqlLog, []any{id[:]}, func(row scanner) error {
		read, err := scanLog(row)
		g = &read
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading log %x: %w", id, err)
	}
	return g, nil
}

// Logs implements [driver.Lists].
func (t *tx) Logs(from driver.LogID, n int) ([]driver.Log, error) {
	return rows(t, logColumns+"WHERE g.log >= ? ORDER BY g.log LIMIT ?", []any{from[:], n}, scanLog)
}

// PutLog implements [driver.Tx].
func (t *tx) PutLog(g *driver.Log) error {
	scope, err := t.scope(g.Scope)
	if err == nil {
		_, err = t.exec(sqlPutLog, g.Log[:], int64(g.Version), int64(g.Token), g.Top, scope, g.Epoch, []byte(g.Name), []byte(g.Prefix),
			g.Start.Low, g.Start.First, stored(g.Start.At))
	}
	return err
}

// LogFloor implements [driver.Reader].
func (t *tx) LogFloor() (token uint64, err error) {
	err = t.one("SELECT CAST(value AS INTEGER) FROM ackledger_meta WHERE key = 'token'", nil, &token)
	return token, err
}

// DropLog implements [driver.Tx].
func (t *tx) DropLog(id driver.LogID) error {
	_, err := t.exec(`INSERT INTO ackledger_meta (key, value) SELECT 'token', CAST(token AS TEXT) FROM ackledger_range_log WHERE log = ?
		ON CONFLICT (key) DO UPDATE SET value = excluded.value WHERE CAST(value AS INTEGER) < CAST(excluded.value AS INTEGER)`, id[:])
	if err == nil {
		_, err = t.exec("DELETE FROM ackledger_range_log WHERE log = ?", id[:])
	}
	return err
}

// Trim implements [driver.Tx].
func (t *tx) Trim(scope, name string, at int64, before time.Time) error {
	_, err := t.exec(sqlTrim, []byte(scope), []byte(name), at, before.UnixMicro())
	return err
}

// Ranges implements [driver.Reader].
func (t *tx) Ranges(to []driver.Range, id driver.LogID, span driver.Span, tokens []uint64) ([]driver.Range, error) {
	err := t.each(sqlRanges, []any{id[:]}, func(row scanner) error {
		var r driver.Range
		var keep, at int64
		var done, back []byte
		if err := row.Scan(&r.Token, &r.From, &r.To, &r.Owner, &r.Messages, &keep, &at, &done, &back); err != nil {
			return err
		}
		if !driver.Wanted(r.Span, r.Token, span, tokens) {
			return nil
		}
		r.Window, r.At = time.Duration(keep)*time.Microsecond, moment(at)
		var err error
		if r.Done, err = driver.DecodeSet(done, r.From); err == nil {
			r.Back, err = driver.DecodeSet(back, r.From)
		}
		to = append(to, r)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading ranges of log %x: %w", id, err)
	}
	return to, nil
}

// PutRange implements [driver.Tx].
func (t *tx) PutRange(id driver.LogID, r *driver.Range) error {
	_, err := t.exec(sqlPutRange, id[:], int64(r.Token), r.From, r.To, int64(r.Owner), r.Messages, r.Window.Microseconds(), r.At.UnixMicro(),
		r.Done.Encode(r.From), r.Back.Encode(r.From))
	return err
}

// DropRange implements [driver.Tx].
func (t *tx) DropRange(id driver.LogID, token uint64) error {
	_, err := t.exec(sqlDropRange, id[:], int64(token))
	return err
}

// Segments implements [driver.Reader].
func (t *tx) Segments(to []driver.Segment, id driver.LogID, span driver.Span) ([]driver.Segment, error) {
	err := t.each(sqlSegments, []any{id[:], span.From, span.To}, func(row scanner) error {
		var s driver.Segment
		var since, until, expiry, kind int64
		err := row.Scan(&s.From, &s.To, &s.Messages, &since, &until, &expiry, &kind)
		s.Since, s.Until, s.Expiry, s.Rows = moment(since), moment(until), moment(expiry), kind == kindRows
		to = append(to, s)
		return err
	})
	return to, err
}

// PutSegment implements [driver.Tx].
func (t *tx) PutSegment(id driver.LogID, s *driver.Segment) error {
	kind := kindFinished
	if s.Rows {
		kind = kindRows
	}
	_, err := t.exec(sqlPutSegment, id[:], s.From, s.To, s.Messages, s.Since.UnixMicro(), s.Until.UnixMicro(), s.Expiry.UnixMicro(), kind)
	return err
}

// DropSegment implements [driver.Tx].
func (t *tx) DropSegment(id driver.LogID, from int64) error {
	_, err := t.exec(sqlDropSegment, id[:], from)
	return err
}

// Rows implements [driver.Reader]. All of the span's are read at once.
func (t *tx) Rows(id driver.LogID, span driver.Span) func(int64) (bool, error) {
	var there map[int64]bool
	return func(offset int64) (bool, error) {
		if there != nil {
			return there[offset], nil
		}
		there = map[int64]bool{}
		low, high := driver.JoinKey(id, span.From), driver.JoinKey(id, span.To)
		err := t.each(sqlRows, []any{low[:], high[:]}, func(row scanner) error {
			var key []byte
			err := row.Scan(&key)
			if len(key) == ledger.KeySize {
				_, at := driver.SplitKey(driver.Key(key))
				there[at] = true
			}
			return err
		})
		return there[offset], err
	}
}

// Next implements [driver.Reader].
func (t *tx) Next(id driver.LogID, from, top int64) (next int64, err error) {
	low, high := driver.JoinKey(id, from), driver.JoinKey(id, math.MaxInt64)
	var key []byte
	if err = t.one(sqlNext, []any{id[:], from, top, low[:], high[:]}, &next, &key); err != nil {
		return from, fmt.Errorf("reading what comes next in log %x: %w", id, err)
	}
	if len(key) == ledger.KeySize {
		_, offset := driver.SplitKey(driver.Key(key))
		next = min(next, offset)
	}
	return next, nil
}

// Extent implements [driver.Reader].
func (t *tx) Extent(id driver.LogID) (span driver.Span, expiry time.Time, err error) {
	low, high := driver.JoinKey(id, 0), driver.JoinKey(id, math.MaxInt64)
	var first, last []byte
	var end sql.NullInt64
	err = t.one("SELECT min(key), max(key), max(expiry) FROM ackledger_message WHERE key BETWEEN ? AND ?", []any{low[:], high[:]}, &first, &last, &end)
	if err != nil {
		return span, expiry, fmt.Errorf("rows of log %x: %w", id, err)
	}
	if len(first) == ledger.KeySize && len(last) == ledger.KeySize {
		_, span.From = driver.SplitKey(driver.Key(first))
		_, span.To = driver.SplitKey(driver.Key(last))
		span.To++
	}
	return span, moment(end.Int64), nil
}
