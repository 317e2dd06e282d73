package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
)

// neededRow is a condition on messages: the message has not succeeded, though a range or segment says so when its row is
// gone. The row stays as long as that is there, whatever has expired.
const neededRow = `(covered IS NOT NULL AND state <> 2 AND (
	EXISTS (SELECT 1 FROM ackledger_segment s WHERE s.log = substr(ackledger_message.key, 1, 8)
		AND s.first <= covered AND s.last > covered AND s.kind = 1)
	OR EXISTS (SELECT 1 FROM ackledger_claim_range r WHERE r.log = substr(ackledger_message.key, 1, 8)
		AND r.first <= covered AND r.last > covered)))`

// stripRows makes failed rows small that are kept for their state alone: nothing of their deliveries is archived any more.
// ?1 and ?2 bound their numbers, ?3 is the time.
const stripRows = `UPDATE ackledger_message SET failed_delivery = NULL, errors = NULL
	WHERE num > ?1 AND num <= ?2 AND expiry < ?3 AND state = 3 AND covered IS NOT NULL
		AND (failed_delivery IS NOT NULL OR errors IS NOT NULL)
		AND NOT EXISTS (SELECT 1 FROM ackledger_archive a WHERE a.key = ackledger_message.key AND a.expiry >= ?3)`

// logsAtOnce is how many logs one transaction of the sweep looks at.
const logsAtOnce = 100

// logs drops segments that have expired and logs in which nothing is left, dissolves ranges that were abandoned, and counts
// the messages of the others.
func (p *pass) logs(ctx context.Context) error {
	past := []byte{}
	for {
		var seen []ranges.Log
		var done int
		b := &sweepTx{p: p}
		err := p.l.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
			b.ctx, b.tx, b.now = ctx, tx, time.Now() // others wait from here on
			err := p.held(tx.ExecContext(ctx, "UPDATE ackledger_maintenance SET lease_end = ? WHERE holder = ?",
				b.now.Add(maintainLease).UnixMicro(), p.me))
			if err == nil {
				err = b.readScopes()
			}
			if err == nil {
				seen, done, err = b.logs(past)
			}
			return err
		})
		if err != nil || len(seen) == 0 {
			return err
		}
		if done > 0 {
			past = seen[done-1][:]
		}
		p.report.Transactions++
		p.report.Longest = max(p.report.Longest, time.Since(b.now))
	}
}

// logs sweeps the logs after past, as far as it may go in one transaction: of the last one more may be left.
func (b *sweepTx) logs(past []byte) (seen []ranges.Log, done int, err error) {
	err = b.each(`SELECT log FROM ackledger_range_log WHERE log > ? ORDER BY log LIMIT ?`, []any{past, logsAtOnce}, func(rows *sql.Rows) error {
		var log []byte
		err := rows.Scan(&log)
		if len(log) == len(ranges.Log{}) {
			seen = append(seen, ranges.Log(log))
		}
		return err
	})
	room := int64(max(b.p.pace.Rows(), logsAtOnce))
	for ; err == nil && done < len(seen); done++ {
		if room, err = b.log(seen[done], room); room == 0 {
			break
		}
	}
	return seen, done, err
}

// log sweeps one log. It takes off as many segments, and rows below its start, as there is room for, and counts it once
// there is room left.
func (b *sweepTx) log(log ranges.Log, room int64) (left int64, err error) {
	if err := b.dissolve(log); err != nil {
		return 0, err
	}
	if room, err = b.cut(log, room); err != nil || room == 0 {
		return 0, err
	}
	res, err := b.tx.ExecContext(b.ctx, `DELETE FROM ackledger_segment WHERE log = ?1 AND first IN (
		SELECT first FROM ackledger_segment WHERE log = ?1 AND expiry < ?2 LIMIT ?3)`, log[:], b.now.UnixMicro(), room)
	if err != nil {
		return 0, err
	}
	gone, err := res.RowsAffected()
	if room -= gone; err != nil || room == 0 {
		return 0, err
	}
	if err := b.drop(log); err != nil {
		return 0, err
	}
	return room, b.countLog(log)
}

// drop drops a log in which nothing is left, and notes its token: no log begins below the highest.
func (b *sweepTx) drop(log ranges.Log) error {
	var token int64
	err := b.tx.QueryRowContext(b.ctx, `DELETE FROM ackledger_range_log WHERE log = ?1
		AND NOT EXISTS (SELECT 1 FROM ackledger_segment WHERE log = ?1)
		AND NOT EXISTS (SELECT 1 FROM ackledger_claim_range WHERE log = ?1) RETURNING token`, log[:]).Scan(&token)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err == nil {
		_, err = b.tx.ExecContext(b.ctx, `INSERT INTO ackledger_meta (key, value) VALUES ('token', CAST(?1 AS TEXT))
			ON CONFLICT (key) DO UPDATE SET value = excluded.value WHERE CAST(value AS INTEGER) < ?1`, token)
	}
	return err
}

// countLog counts the messages of a log that have no rows, and notes the owners of its ranges.
func (b *sweepTx) countLog(log ranges.Log) error {
	err := b.each(`SELECT g.scope, coalesce(sum(s.messages), 0) FROM ackledger_range_log g
		JOIN ackledger_segment s ON s.log = g.log WHERE g.log = ? AND s.kind = 1 GROUP BY 1`, []any{log[:]}, func(rows *sql.Rows) error {
		var scope, n int64
		err := rows.Scan(&scope, &n)
		b.p.tally.Add(b.p.names[scope], ledger.Succeeded, n)
		return err
	})
	if err != nil {
		return err
	}
	var scope int64
	var prefix []byte
	return b.each(`SELECT r.token, r.first, r.last, r.owner, r.messages, r.keep, r.at, r.done, r.back, g.scope, g.prefix
		FROM ackledger_claim_range r JOIN ackledger_range_log g ON g.log = r.log WHERE r.log = ?`, []any{log[:]}, func(rows *sql.Rows) error {
		r, owner, err := scanRange(also{rows, []any{&scope, &prefix}})
		if err == nil {
			b.p.named[owner] = true
			b.countRange(&r, &rangeLog{scope: scope, prefix: string(prefix)})
		}
		return err
	})
}

// cut takes off what a finished segment has below the log's start: rows there are covered by nothing any more. It may be
// millions, if the log loses a file of its own at once: where there is no more room, the segment is cut off no further. Nothing
// is cut out of an open range: its owner counts on what InTx has put there.
func (b *sweepTx) cut(log ranges.Log, room int64) (left int64, err error) {
	var start ranges.Start
	var at, low int64
	err = b.tx.QueryRowContext(b.ctx, `SELECT g.low, g.start, g.start_at, coalesce((SELECT min(r.first) FROM ackledger_claim_range r
		WHERE r.log = g.log), g.top) FROM ackledger_range_log g WHERE g.log = ?`, log[:]).Scan(&start.Low, &start.First, &at, &low)
	if err != nil {
		return 0, err
	}
	start.At = moment(at)
	low = min(low, start.Below(b.now))
	var s ranges.Segment
	err = b.tx.QueryRowContext(b.ctx, `SELECT first, last, messages FROM ackledger_segment
		WHERE log = ?1 AND first < ?2 AND last > ?2 AND kind = 1`, log[:], low).Scan(&s.From, &s.To, &s.Messages)
	if errors.Is(err, sql.ErrNoRows) {
		return room, nil
	}
	if err != nil {
		return 0, err
	}
	from, to := ranges.JoinSum(log, s.From), ranges.JoinSum(log, low)
	var next []byte
	err = b.tx.QueryRowContext(b.ctx, `SELECT key FROM ackledger_message WHERE key >= ? AND key < ? ORDER BY key LIMIT 1 OFFSET ?`,
		from[:], to[:], room).Scan(&next)
	switch {
	case err == nil && len(next) != len(to):
		return 0, fmt.Errorf("sqlite: sweep: a key of %d bytes, want %d", len(next), len(to))
	case err == nil:
		copy(to[:], next)
		low, room = int64(binary.BigEndian.Uint64(next[len(log):])), 0
	case !errors.Is(err, sql.ErrNoRows):
		return 0, err
	}
	res, err := b.tx.ExecContext(b.ctx, `UPDATE ackledger_message SET covered = NULL WHERE key >= ? AND key < ?`, from[:], to[:])
	if err != nil {
		return 0, err
	}
	gone, err := res.RowsAffected()
	if err != nil {
		return 0, err
	}
	rest := s.Above(low)
	_, err = b.tx.ExecContext(b.ctx, `UPDATE ackledger_segment SET first = ?3, messages = ?4 WHERE log = ?1 AND first = ?2`,
		log[:], s.From, rest.From, rest.Messages)
	return max(room-gone, 0), err
}

// also scans more columns behind the ones that are asked for.
type also struct {
	scanner
	more []any
}

// Scan implements scanner.
func (a also) Scan(dest ...any) error { return a.scanner.Scan(append(dest, a.more...)...) }

// countRange counts the messages of a range that is open.
func (b *sweepTx) countRange(r *ranges.Range, g *rangeLog) {
	t, name := &b.p.tally, b.p.names[g.scope]
	pending, abandoned, age := r.Pending(), int64(0), max(b.now.Sub(r.At), 0)
	if expiry := r.At.Add(r.Window); expiry.Before(b.now) {
		abandoned = pending
		listed := 0
		for offset := range r.Open() {
			if listed++; listed > ledger.MaxAbandoned {
				break
			}
			t.Abandon(ledger.Abandoned{Scope: name, ID: g.id(offset), At: r.At, Expiry: expiry})
		}
	}
	if pending > 0 {
		t.AddPending(name, ledger.AgeBucket(age), pending, abandoned, age)
	}
	t.Add(name, ledger.Succeeded, r.Messages-pending)
}

// dissolve ends ranges whose owners left or died some time ago, so that their messages are seen, and their owners can go.
func (b *sweepTx) dissolve(log ranges.Log) error {
	q := ranges.Query{}
	err := b.each(`SELECT token, owner FROM ackledger_claim_range WHERE log = ? AND at < ?
		AND NOT EXISTS (SELECT 1 FROM owners.ackledger_owner o WHERE o.id = owner AND o.fate = 1)`,
		[]any{log[:], b.now.Add(-ranges.AbandonAfter).UnixMicro()}, func(rows *sql.Rows) error {
			var token uint64
			var owner int64
			err := rows.Scan(&token, &owner)
			q.Tokens = append(q.Tokens, token)
			b.p.named[owner] = true // by rows, from now on
			return err
		})
	if err != nil || len(q.Tokens) == 0 {
		return err
	}
	q.Info.Log = log
	nobody := newBatch(b.ctx, &owner{l: b.p.l}, b.tx, b.now)
	return nobody.update(&q, ranges.Abandoned)
}
