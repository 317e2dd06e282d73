package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// fence is the guard of every success, settled or committed by InTx: ?1 key, ?2 token, ?3 owner, ?4 result.
const fence = `UPDATE ackledger_message SET state = 2, owner = NULL, due = NULL, result = ?4
	WHERE key = ?1 AND state = 1 AND owner = ?3 AND token = ?2`

// statements are prepared once, on the connection of the claims and settles.
type statements struct {
	owner, scope, insert, row, take, renew, succeed, release, fail, archive *sql.Stmt
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
			result = NULL WHERE key = ?1`,
		&s.renew: `UPDATE ackledger_message SET state = 1, owner = ?2, token = ?3, attempts = ?4, crashes = ?5, due = NULL,
			result = NULL, at = ?6, expiry = ?7, errors = NULL, failed_delivery = NULL WHERE key = ?1`,
		&s.succeed: fence,
		&s.release: `UPDATE ackledger_message SET owner = NULL, due = ?4, attempts = ?5, errors = ?6
			WHERE key = ?1 AND state = 1 AND owner = ?3 AND token = ?2`,
		&s.fail: `UPDATE ackledger_message SET state = 3, owner = NULL, due = NULL, failed_delivery = ?4
			WHERE key = ?1 AND state = 1 AND owner = ?3 AND token = ?2`,
		&s.archive: `INSERT INTO ackledger_archive (key, delivery, scope, id, fingerprint, token, generation, kind, errors,
			source, grp, attempts, sent_at, published, at, expiry, headers, body, position)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key, delivery) DO NOTHING`,
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
