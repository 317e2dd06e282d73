package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
)

// log reads one log; nil if it is not known.
func (b *batch) log(log ranges.Log) (*rangeLog, error) {
	g := &rangeLog{log: log, owners: map[uint64]int64{}}
	var prefix []byte
	err := b.stmt(b.o.l.stmts.rangeLog).QueryRowContext(b.ctx, log[:]).Scan(&g.version, &g.token, &g.top, &g.scope, &prefix)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading log %x: %w", log, err)
	}
	g.prefix = string(prefix)
	return g, nil
}

// newLog makes a log. The rows that lie in it already, from before it had ranges, stay rows.
func (b *batch) newLog(info ranges.Info) (*rangeLog, error) {
	scope, err := b.scope(info.Scope)
	if err != nil {
		return nil, err
	}
	low, high := ranges.JoinSum(info.Log, 0), ranges.JoinSum(info.Log, math.MaxInt64)
	var first, last []byte
	var expiry sql.NullInt64
	err = b.tx.QueryRowContext(b.ctx, `SELECT min(key), max(key), max(expiry) FROM ackledger_message WHERE key BETWEEN ? AND ?`,
		low[:], high[:]).Scan(&first, &last, &expiry)
	if err != nil {
		return nil, fmt.Errorf("rows of log %x: %w", info.Log, err)
	}
	g := &rangeLog{log: info.Log, scope: scope, prefix: info.Prefix, owners: map[uint64]int64{}}
	if len(first) == ledger.KeySize {
		s := ranges.Segment{Rows: true, Since: b.now, Until: b.now, Expiry: moment(expiry.Int64)}
		_, s.From = ranges.SplitSum([ledger.KeySize]byte(first))
		_, s.To = ranges.SplitSum([ledger.KeySize]byte(last))
		s.To++
		g.top = s.To
		if err := b.putSegment(info.Log, &s); err != nil {
			return nil, err
		}
	}
	err = b.tx.QueryRowContext(b.ctx, `INSERT INTO ackledger_range_log (log, version, token, top, scope, epoch, name, prefix)
		VALUES (?, 0, coalesce((SELECT CAST(value AS INTEGER) FROM ackledger_meta WHERE key = 'token'), 0), ?, ?, ?, ?, ?)
		RETURNING token`, info.Log[:], g.top, scope, info.Epoch, []byte(info.Name), []byte(info.Prefix)).Scan(&g.token)
	if err != nil {
		return nil, fmt.Errorf("a new log %x: %w", info.Log, err)
	}
	return g, nil
}

// facts is what a plan has to know.
func (b *batch) facts(g *rangeLog, q *ranges.Query) (*ranges.Facts, error) {
	f := &ranges.Facts{Now: b.now, Version: g.version, Token: g.token, Top: g.top}
	hull := q.Span
	err := eachRange(b.ctx, b.stmt(b.o.l.stmts.ranges), g.log, func(r ranges.Range, owner int64) error {
		if !r.Meets(q.Span) && !contains(q.Tokens, r.Token) {
			return nil
		}
		g.owners[r.Token] = owner
		if hull.Len() == 0 {
			hull = r.Span
		}
		hull = ranges.Span{From: min(hull.From, r.From), To: max(hull.To, r.To)}
		f.Ranges = append(f.Ranges, r)
		return nil
	})
	for i := range f.Ranges {
		if err == nil {
			r := &f.Ranges[i]
			r.Holder, r.HeldFor, err = b.holds(g.owners[r.Token])
		}
	}
	if err == nil {
		f.Segments, err = segments(b.ctx, b.stmt(b.o.l.stmts.segments), g.log, hull)
	}
	if err != nil {
		return nil, fmt.Errorf("reading ranges of log %x: %w", g.log, err)
	}
	if q.Room && q.Span.To < g.top {
		if err := b.room(g, q.Span.To, f); err != nil {
			return nil, fmt.Errorf("reading what comes next in log %x: %w", g.log, err)
		}
	}
	var rows map[int64]bool
	f.HasRow = func(offset int64) bool {
		if rows == nil && g.err == nil {
			rows, g.err = b.offsets(g.log, q.Span)
		}
		return rows[offset]
	}
	return f, nil
}

// room finds what comes next in a log at or behind an offset: segments, ranges, and rows that nothing covers.
func (b *batch) room(g *rangeLog, from int64, f *ranges.Facts) error {
	low, high := ranges.JoinSum(g.log, from), ranges.JoinSum(g.log, math.MaxInt64)
	var next int64
	var key []byte
	err := b.stmt(b.o.l.stmts.room).QueryRowContext(b.ctx, g.log[:], from, g.top, low[:], high[:]).Scan(&next, &key)
	if err != nil {
		return err
	}
	if key != nil {
		_, offset := ranges.SplitSum([ledger.KeySize]byte(key))
		next = min(next, offset)
	}
	if from < next {
		f.Room = ranges.Span{From: from, To: next}
	}
	return nil
}

func contains(tokens []uint64, token uint64) bool {
	for _, t := range tokens {
		if t == token {
			return true
		}
	}
	return false
}

// holds tells whose something is.
func (b *batch) holds(owner int64) (ledger.Holder, time.Duration, error) {
	if owner == b.o.id {
		return ledger.Mine, 0, nil
	}
	h, err := b.holder(owner)
	switch {
	case err != nil:
		return ledger.Nobody, 0, err
	case h.fate == fateLive:
		return ledger.Live, time.Duration(h.leaseEnd-b.now.UnixMicro()) * time.Microsecond, nil
	case h.fate == fateLeft:
		return ledger.Left, 0, nil
	}
	return ledger.Dead, 0, nil
}

// offsets reads which messages of a span have rows.
func (b *batch) offsets(log ranges.Log, span ranges.Span) (_ map[int64]bool, err error) {
	low, high := ranges.JoinSum(log, span.From), ranges.JoinSum(log, span.To)
	rows, err := b.stmt(b.o.l.stmts.rowsOf).QueryContext(b.ctx, low[:], high[:])
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	out := map[int64]bool{}
	var key []byte
	for rows.Next() {
		if err := rows.Scan(&key); err != nil {
			return nil, err
		}
		_, offset := ranges.SplitSum([ledger.KeySize]byte(key))
		out[offset] = true
	}
	return out, rows.Err()
}

// The ranges of a log, in the order of their tokens, and the segments that touch a span (?1 log, ?2 from, ?3 to).
const (
	selectRanges = `SELECT token, first, last, owner, messages, keep, at, done, back FROM ackledger_claim_range
		WHERE log = ? ORDER BY token`
	selectSegments = `SELECT first, last, messages, since, until, expiry, kind FROM ackledger_segment WHERE log = ?1 AND first <= ?3
		AND first >= coalesce((SELECT max(first) FROM ackledger_segment WHERE log = ?1 AND first < ?2), ?2) AND last >= ?2
		ORDER BY first`

	// What comes next in a log (?1) at or behind an offset (?2), below its top (?3), and the key of the next row between ?4 and
	// ?5. A segment or range that reaches beyond the offset is there already.
	selectRoom = `SELECT min(?3,
			coalesce((SELECT ?2 FROM (SELECT last FROM ackledger_segment WHERE log = ?1 AND first < ?2 ORDER BY first DESC LIMIT 1) WHERE last > ?2), ?3),
			coalesce((SELECT first FROM ackledger_segment WHERE log = ?1 AND first >= ?2 ORDER BY first LIMIT 1), ?3),
			coalesce((SELECT min(max(first, ?2)) FROM ackledger_claim_range WHERE log = ?1 AND last > ?2), ?3)),
		(SELECT key FROM ackledger_message WHERE key >= ?4 AND key <= ?5 ORDER BY key LIMIT 1)`
)

func eachRange(ctx context.Context, stmt *sql.Stmt, log ranges.Log, do func(ranges.Range, int64) error) error {
	rows, err := stmt.QueryContext(ctx, log[:])
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // Err says what went wrong
	for rows.Next() {
		r, owner, err := scanRange(rows)
		if err == nil {
			err = do(r, owner)
		}
		if err != nil {
			return err
		}
	}
	return rows.Err()
}

type scanner interface{ Scan(dest ...any) error }

// scanRange reads one row of selectRanges.
func scanRange(row scanner) (r ranges.Range, owner int64, err error) {
	var keep, at int64
	var done, back []byte
	if err = row.Scan(&r.Token, &r.From, &r.To, &owner, &r.Messages, &keep, &at, &done, &back); err != nil {
		return r, 0, err
	}
	r.Window, r.At = time.Duration(keep)*time.Microsecond, moment(at)
	if r.Done, err = ranges.DecodeSet(done, r.From); err == nil {
		r.Back, err = ranges.DecodeSet(back, r.From)
	}
	return r, owner, err
}

func segments(ctx context.Context, stmt *sql.Stmt, log ranges.Log, span ranges.Span) (list []ranges.Segment, err error) {
	rows, err := stmt.QueryContext(ctx, log[:], span.From, span.To)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var s ranges.Segment
		var since, until, expiry, kind int64
		if err := rows.Scan(&s.From, &s.To, &s.Messages, &since, &until, &expiry, &kind); err != nil {
			return nil, err
		}
		s.Since, s.Until, s.Expiry, s.Rows = moment(since), moment(until), moment(expiry), kind == kindRows
		list = append(list, s)
	}
	return list, rows.Err()
}

// findInRange fills in what ranges know of a message that has no row.
func findInRange(ctx context.Context, tx *sql.Tx, rec *ledger.Record) (bool, error) {
	log, offset := ranges.SplitSum(rec.Key)
	var scope, prefix []byte
	err := tx.QueryRowContext(ctx, `SELECT s.name, g.prefix FROM ackledger_range_log g JOIN ackledger_scope s ON s.id = g.scope
		WHERE g.log = ?`, log[:]).Scan(&scope, &prefix)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	f := ranges.Facts{Now: time.Now().UTC()}
	owners := map[uint64]int64{}
	if err := prepared(ctx, tx, selectRanges, func(stmt *sql.Stmt) error {
		return eachRange(ctx, stmt, log, func(r ranges.Range, owner int64) error {
			f.Ranges, owners[r.Token] = append(f.Ranges, r), owner
			return nil
		})
	}); err != nil {
		return false, err
	}
	if err := prepared(ctx, tx, selectSegments, func(stmt *sql.Stmt) (err error) {
		f.Segments, err = segments(ctx, stmt, log, ranges.Span{From: offset, To: offset + 1})
		return err
	}); err != nil {
		return false, err
	}
	if !ranges.Find(&f, offset, rec) {
		return false, nil
	}
	rec.Scope, rec.ID = string(scope), strconv.AppendInt(prefix, offset, 10)
	if owner, ok := owners[rec.Token]; ok && rec.State == ledger.Pending {
		rec.Owner = strconv.FormatInt(owner, 10)
	}
	return true, nil
}

// prepared calls do with a statement.
func prepared(ctx context.Context, tx *sql.Tx, query string, do func(*sql.Stmt) error) error {
	stmt, err := tx.PrepareContext(ctx, query)
	if err != nil {
		return err
	}
	return errors.Join(do(stmt), stmt.Close())
}
