package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
)

// Renew implements [ledger.Operator].
func (l *Ledger) Renew(ctx context.Context, r ledger.Renewal) (out ledger.Renewed, err error) {
	if err := r.By.Check(); err != nil {
		return out, err
	}
	err = l.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		out, err = renew(ctx, tx, r)
		return err
	})
	if err != nil {
		return ledger.Renewed{}, operateError(fmt.Sprintf("renew %v", r.Key), err)
	}
	return out, nil
}

func renew(ctx context.Context, tx *sql.Tx, r ledger.Renewal) (out ledger.Renewed, err error) {
	sum, now := r.Key.Sum(), time.Now().UnixMicro()
	note := ledger.AuditRecord{By: r.By, Action: ledger.ActionRenew, Key: r.Key, State: ledger.Failed, Token: r.Token, Detail: r.Detail()}
	var fingerprint []byte
	err = tx.QueryRowContext(ctx, `SELECT m.generation + 1, m.fingerprint, m.failed_delivery FROM ackledger_message m
		JOIN ackledger_archive a ON a.key = m.key AND a.delivery = m.failed_delivery AND a.purged_at IS NULL
		WHERE m.key = ? AND m.state = 3 AND m.token = ?`, sum[:], int64(r.Token)).Scan(&out.Generation, &fingerprint, &note.Delivery)
	if errors.Is(err, sql.ErrNoRows) {
		return out, ledger.ErrChanged
	}
	if err != nil {
		return out, err
	}
	out.Token, out.Delivery = r.Token+1, note.Delivery
	if r.Mended {
		out.Delivery, fingerprint = ledger.RenewedDelivery(out.Token), r.Fingerprint[:]
		_, err = tx.ExecContext(ctx, `INSERT INTO ackledger_archive (key, delivery, scope, id, fingerprint, token, generation, kind,
			errors, source, grp, attempts, sent_at, published, at, expiry, headers, body, position)
			SELECT key, ?, scope, id, ?, ?, ?, kind, errors, source, grp, attempts, sent_at, 0, ?, expiry, headers, ?, position
			FROM ackledger_archive WHERE key = ? AND delivery = ?`,
			out.Delivery, fingerprint, int64(out.Token), out.Generation, now, r.Body, sum[:], note.Delivery)
	} else {
		_, err = tx.ExecContext(ctx, "UPDATE ackledger_archive SET token = ? WHERE key = ? AND delivery = ?",
			int64(out.Token), sum[:], note.Delivery)
	}
	if err == nil {
		_, err = tx.ExecContext(ctx, `UPDATE ackledger_message SET token = ?, generation = ?, fingerprint = ?, failed_delivery = ?
			WHERE key = ?`, int64(out.Token), out.Generation, fingerprint, out.Delivery, sum[:])
	}
	if err == nil {
		err = insertAudit(ctx, tx, now, []ledger.AuditRecord{note})
	}
	return out, err
}

// Reopen implements [ledger.Operator].
func (l *Ledger) Reopen(ctx context.Context, r ledger.ReopenRequest) (ledger.ReopenReport, error) {
	if err := r.Check(); err != nil {
		return ledger.ReopenReport{}, err
	}
	began := time.Now().UTC()
	f := r.Filter
	f.State = ledger.Succeeded
	if f.To.IsZero() || f.To.After(began) {
		f.To = began
	}
	logs, err := l.finished(ctx, f.Scope)
	if err != nil {
		return ledger.ReopenReport{}, operateError("reopen", err)
	}
	ranged := ranges.Reopening{Request: r, Join: l.Join, Audit: l.Audit}
	if err := ranged.Check(logs); err != nil {
		return ledger.ReopenReport{}, err
	}
	report, err := ledger.RunReopen(ctx, r, began, l.Messages(ctx, f), func(ctx context.Context, batch []ledger.Listed) (done int64, err error) {
		err = l.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
			done, err = reopen(ctx, tx, r, batch)
			return err
		})
		return done, err
	})
	if err == nil {
		err = ranged.Run(ctx, logs, &report)
	}
	return report, operateError("reopen", err)
}

// finished is what lies finished in a scope's ranges.
func (l *Ledger) finished(ctx context.Context, scope string) (out []ranges.Finished, err error) {
	err = query(ctx, l.read, `SELECT g.log, g.name, g.epoch, g.prefix, s.first, s.last, s.messages
		FROM ackledger_range_log g JOIN ackledger_segment s ON s.log = g.log AND s.kind = 1
		WHERE g.scope = (SELECT id FROM ackledger_scope WHERE name = ?) ORDER BY g.log, s.first`, []any{[]byte(scope)},
		func(rows *sql.Rows) error {
			var log, name, prefix []byte
			info := ranges.Info{Scope: scope}
			var s ranges.Segment
			if err := rows.Scan(&log, &name, &info.Epoch, &prefix, &s.From, &s.To, &s.Messages); err != nil {
				return err
			}
			info.Log, info.Name, info.Prefix = ranges.Log(log), string(name), string(prefix)
			if n := len(out); n == 0 || out[n-1].Info.Log != info.Log {
				out = append(out, ranges.Finished{Info: info})
			}
			last := &out[len(out)-1]
			last.Segments = append(last.Segments, s)
			return nil
		})
	return out, err
}

func reopen(ctx context.Context, tx *sql.Tx, r ledger.ReopenRequest, batch []ledger.Listed) (int64, error) {
	now, more := time.Now().UnixMicro(), 0
	if r.FreshKeys {
		more = 1
	}
	update, err := tx.PrepareContext(ctx, `UPDATE ackledger_message SET state = 1, owner = NULL, due = NULL, token = token + 1,
		attempts = 0, crashes = 0, errors = NULL, result = NULL, failed_delivery = NULL, generation = generation + ?1,
		expiry = ?2 + expiry - at, at = ?2 WHERE key = ?3 AND state = 2 AND token = ?4`)
	if err != nil {
		return 0, err
	}
	defer func() { _ = update.Close() }()
	archived, err := tx.PrepareContext(ctx, "SELECT num, delivery FROM ackledger_archive WHERE key = ?")
	if err != nil {
		return 0, err
	}
	defer func() { _ = archived.Close() }()
	var notes []ledger.AuditRecord
	for i := range batch {
		m := &batch[i]
		res, err := update.ExecContext(ctx, more, now, m.Key[:], int64(m.Token))
		if err != nil {
			return 0, err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			if err != nil {
				return 0, err
			}
			continue
		}
		if err := renameArchived(ctx, tx, archived, m); err != nil {
			return 0, err
		}
		notes = append(notes, m.Note(r.By, ledger.ActionReopen, r.Detail()))
	}
	return int64(len(notes)), insertAudit(ctx, tx, now, notes)
}

// renameArchived makes a reopened message's deliveries run when they come again.
func renameArchived(ctx context.Context, tx *sql.Tx, archived *sql.Stmt, m *ledger.Listed) error {
	names := map[int64][]byte{}
	rows, err := archived.QueryContext(ctx, m.Key[:])
	if err == nil {
		err = scanAll(rows, func(rows *sql.Rows) error {
			var num int64
			var delivery []byte
			err := rows.Scan(&num, &delivery)
			names[num] = delivery
			return err
		})
	}
	for num, delivery := range names {
		if err == nil {
			_, err = tx.ExecContext(ctx, "UPDATE ackledger_archive SET delivery = ? WHERE num = ?",
				ledger.ReopenedDelivery(m.Token+1, delivery), num)
		}
	}
	return err
}

// Purge implements [ledger.Operator].
func (l *Ledger) Purge(ctx context.Context, r ledger.PurgeRequest) (ledger.PurgeReport, error) {
	if err := r.Check(); err != nil {
		return ledger.PurgeReport{}, err
	}
	report, err := ledger.RunPurge(ctx, r, l.DeadLetters(ctx, r.Filter), func(ctx context.Context, batch []ledger.DeadLetter) (done int64, err error) {
		err = l.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
			done, err = purge(ctx, tx, r.By, batch)
			return err
		})
		return done, err
	})
	return report, operateError("purge", err)
}

func purge(ctx context.Context, tx *sql.Tx, by ledger.By, batch []ledger.DeadLetter) (int64, error) {
	now := time.Now().UnixMicro()
	find, err := tx.PrepareContext(ctx, "SELECT state, token, expiry FROM ackledger_message WHERE key = ?")
	if err != nil {
		return 0, err
	}
	defer func() { _ = find.Close() }()
	empty, err := tx.PrepareContext(ctx, `UPDATE ackledger_archive SET body = NULL, headers = NULL, errors = NULL, grp = x'',
		purged_at = ?, expiry = min(expiry, ?) WHERE key = ? AND delivery = ? AND purged_at IS NULL`)
	if err != nil {
		return 0, err
	}
	defer func() { _ = empty.Close() }()
	var notes []ledger.AuditRecord
	for i := range batch {
		d := &batch[i]
		sum := d.Key.Sum()
		var state, token int64
		expiry := now
		err := find.QueryRowContext(ctx, sum[:]).Scan(&state, &token, &expiry)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return 0, err
		}
		if err == nil && ledger.State(state) != d.Status.State || uint64(token) != d.Status.Token { // a range has token 0 here
			continue
		}
		res, err := empty.ExecContext(ctx, now, expiry, sum[:], d.Delivery)
		if err != nil {
			return 0, err
		}
		if n, err := res.RowsAffected(); err != nil {
			return 0, err
		} else if n == 1 {
			notes = append(notes, d.Note(by, ledger.ActionPurge, ""))
		}
	}
	return int64(len(notes)), insertAudit(ctx, tx, now, notes)
}

// Audit implements [ledger.Operator].
func (l *Ledger) Audit(ctx context.Context, records []ledger.AuditRecord) error {
	if err := ledger.CheckAudit(records); err != nil || len(records) == 0 {
		return err
	}
	return operateError("audit", l.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		now := time.Now().UnixMicro()
		hint, err := tx.PrepareContext(ctx, "UPDATE ackledger_archive SET replayed_at = ? WHERE key = ? AND delivery = ?")
		if err != nil {
			return err
		}
		defer func() { _ = hint.Close() }()
		for i := range records {
			if r := &records[i]; r.Action == ledger.ActionReplay && r.Delivery != nil {
				sum := r.Key.Sum()
				if _, err := hint.ExecContext(ctx, now, sum[:], r.Delivery); err != nil {
					return err
				}
			}
		}
		return insertAudit(ctx, tx, now, records)
	}))
}

func insertAudit(ctx context.Context, tx *sql.Tx, now int64, records []ledger.AuditRecord) error {
	if len(records) == 0 {
		return nil
	}
	insert, err := tx.PrepareContext(ctx, "INSERT INTO ackledger_audit (at, actor, action, key, detail) VALUES (?, ?, ?, ?, ?)")
	if err != nil {
		return err
	}
	defer func() { _ = insert.Close() }()
	for i := range records {
		r := &records[i]
		sum := r.Key.Sum()
		if _, err := insert.ExecContext(ctx, now, r.By.Actor, string(r.Action), sum[:], r.EncodeRest()); err != nil {
			return err
		}
	}
	return nil
}

// Audits implements [ledger.Operator].
func (l *Ledger) Audits(ctx context.Context, f ledger.AuditFilter) iter.Seq2[ledger.AuditRecord, error] {
	return func(yield func(ledger.AuditRecord, error) bool) {
		err := f.Check()
		var last int64
		if err == nil {
			err = l.read.QueryRowContext(ctx, "SELECT coalesce(max(num), 0) FROM ackledger_audit").Scan(&last)
		}
		found := 0
		for after := int64(0); err == nil && after < last; {
			var page []ledger.AuditRecord
			if page, err = l.auditPage(ctx, &f, after, last); len(page) == 0 {
				break
			}
			after = page[len(page)-1].ID
			for i := range page {
				if !f.Match(&page[i]) {
					continue
				}
				if !yield(page[i], nil) {
					return
				}
				if found++; found == f.Limit {
					return
				}
			}
		}
		if err != nil {
			yield(ledger.AuditRecord{}, operateError("audit", err))
		}
	}
}

func (l *Ledger) auditPage(ctx context.Context, f *ledger.AuditFilter, after, last int64) (page []ledger.AuditRecord, err error) {
	text, args := "SELECT num, at, actor, action, key, detail FROM ackledger_audit WHERE num > ? AND num <= ?", []any{after, last}
	if f.Key != nil {
		sum, first := f.Key.Sum(), f.First()
		text, args = text+" AND key >= ? AND key <= ? AND (key = ? OR action = ?)", append(args, first[:], sum[:], sum[:], string(ledger.ActionReopen))
	}
	err = query(ctx, l.read, text+fmt.Sprintf(" ORDER BY num LIMIT %d", listPage), args, func(rows *sql.Rows) error {
		var r ledger.AuditRecord
		var at int64
		var sum, detail []byte
		if err := rows.Scan(&r.ID, &at, &r.By.Actor, &r.Action, &sum, &detail); err != nil {
			return err
		}
		r.At = moment(at)
		var key [ledger.KeySize]byte
		copy(key[:], sum)
		err := r.DecodeRest(detail, key)
		page = append(page, r)
		return err
	})
	return page, err
}
