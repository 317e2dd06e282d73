package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// fence is the guard of every success, settled or committed by InTx: ?1 key, ?2 token, ?3 owner, ?4 result, ?5 when the row
// goes if a range speaks for it then. One that has failed stays for its window: copies of its dead letter may come when the
// range is gone.
const fence = `UPDATE ackledger_message SET state = 2, owner = NULL, due = NULL, result = ?4,
	expiry = CASE WHEN covered IS NOT NULL AND ?4 IS NULL
		AND NOT EXISTS (SELECT 1 FROM ackledger_archive a WHERE a.key = ackledger_message.key) THEN min(expiry, ?5) ELSE expiry END
	WHERE key = ?1 AND state = 1 AND owner = ?3 AND token = ?2`

// Of ranges, also for InTx.
const (
	alterRange = `UPDATE ackledger_claim_range SET done = ?3, back = ?4, messages = ?5 WHERE log = ?1 AND token = ?2`
	leaveRange = `INSERT INTO ackledger_message
		(key, scope, id, fingerprint, state, token, owner, attempts, crashes, generation, at, expiry, covered)
		VALUES (?, ?, ?, ?, 1, ?, ?, 0, 0, 0, ?, ?, ?) ON CONFLICT (key) DO NOTHING`
)

// statements are prepared once, on the connection of the claims and settles.
type statements struct {
	owner, scope, insert, row, take, renew, succeed, release, fail, archive *sql.Stmt

	rangeLog, setLog, trim, ranges, openRange, alterRange, closeRange, segments, putSegment, dropSegment, rowsOf, leave,
	note, room *sql.Stmt
}

func (s *statements) list() map[**sql.Stmt]string {
	return map[**sql.Stmt]string{
		&s.owner: `SELECT fate, lease_end FROM owners.ackledger_owner WHERE id = ?`,
		&s.scope: `INSERT INTO ackledger_scope (name) VALUES (?) ON CONFLICT (name) DO UPDATE SET name = name RETURNING id`,
		&s.insert: `INSERT INTO ackledger_message
			(key, scope, id, fingerprint, state, token, owner, attempts, crashes, generation, at, expiry)
			VALUES (?, ?, ?, ?, 1, ?, ?, ?, ?, 0, ?, ?) ON CONFLICT (key) DO NOTHING`,
		&s.row: `SELECT fingerprint, state, token, owner, attempts, crashes, generation, due, errors, result,
			EXISTS (SELECT 1 FROM ackledger_archive a WHERE a.key = ?1 AND a.delivery = ?2)
			FROM ackledger_message WHERE key = ?1`,
		&s.take: `UPDATE ackledger_message SET state = 1, owner = ?2, token = ?3, attempts = ?4, crashes = ?5, due = NULL,
			result = NULL, fingerprint = CASE fingerprint WHEN zeroblob(16) THEN ?6 ELSE fingerprint END WHERE key = ?1`,
		&s.renew: `UPDATE ackledger_message SET state = 1, owner = ?2, token = ?3, attempts = ?4, crashes = ?5, due = NULL,
			result = NULL, fingerprint = CASE fingerprint WHEN zeroblob(16) THEN ?6 ELSE fingerprint END,
			at = ?7, expiry = max(expiry, ?8), errors = NULL, failed_delivery = NULL WHERE key = ?1`,
		&s.succeed: fence,
		&s.release: `UPDATE ackledger_message SET owner = NULL, due = ?4, attempts = ?5, errors = ?6
			WHERE key = ?1 AND state = 1 AND owner = ?3 AND token = ?2`,
		&s.fail: `UPDATE ackledger_message SET state = 3, owner = NULL, due = NULL, failed_delivery = ?4
			WHERE key = ?1 AND state = 1 AND owner = ?3 AND token = ?2`,
		&s.archive: `INSERT INTO ackledger_archive (key, delivery, scope, id, fingerprint, token, generation, kind, errors,
			source, grp, attempts, sent_at, published, at, expiry, headers, body, position)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key, delivery) DO NOTHING`,

		&s.rangeLog: `SELECT version, token, top, scope, prefix FROM ackledger_range_log WHERE log = ?`,
		&s.setLog:   `UPDATE ackledger_range_log SET version = ?2, token = ?3, top = ?4 WHERE log = ?1`,
		&s.trim: `DELETE FROM ackledger_segment WHERE log IN (SELECT log FROM ackledger_range_log WHERE scope = ? AND name = ?)
			AND last <= ? AND until < ?`,
		&s.note: `UPDATE ackledger_range_log SET low = start, start = ?2, start_at = ?3
			WHERE log = ?1 AND start < ?2 AND start_at < ?4`,
		&s.ranges: selectRanges,
		&s.openRange: `INSERT INTO ackledger_claim_range (log, token, first, last, owner, messages, keep, at, done, back)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		&s.alterRange: alterRange,
		&s.closeRange: `DELETE FROM ackledger_claim_range WHERE log = ? AND token = ?`,
		&s.segments:   selectSegments,
		&s.room:       selectRoom,
		&s.putSegment: `INSERT INTO ackledger_segment (log, first, last, messages, since, until, expiry, kind)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		&s.dropSegment: `DELETE FROM ackledger_segment WHERE log = ? AND first = ?`,
		&s.rowsOf:      `SELECT key FROM ackledger_message WHERE key >= ? AND key < ?`,
		&s.leave:       leaveRange,
	}
}

func (s *statements) prepare(ctx context.Context, db *sql.DB) error {
	for stmt, text := range s.list() {
		var err error
		if *stmt, err = db.PrepareContext(context.WithoutCancel(ctx), text); err != nil {
			return fmt.Errorf("preparing %.40q: %w", text, err)
		}
	}
	return nil
}

func (s *statements) close() error {
	var errs []error
	for stmt := range s.list() {
		if *stmt != nil {
			errs = append(errs, (*stmt).Close())
		}
	}
	return errors.Join(errs...)
}
