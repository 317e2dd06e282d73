package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// Get returns all that the ledger knows of one message. Without a row the error is [ledger.ErrNotFound], and the record
// carries the archive alone, which outlives its row. Times are in whole microseconds, in UTC. It waits for no transaction.
func (l *Ledger) Get(ctx context.Context, key ledger.Key) (ledger.Record, error) {
	var rec ledger.Record
	found := false
	err := l.readTx(ctx, func(tx *sql.Tx) (err error) {
		rec = ledger.Record{Key: key.Sum()}
		found, err = getMessage(ctx, tx, &rec)
		if err == nil && !found {
			found, err = findInRange(ctx, tx, &rec)
		}
		if err == nil {
			rec.Archived, err = getArchive(ctx, tx, rec.Key[:])
		}
		return err
	})
	if err != nil {
		return ledger.Record{}, fmt.Errorf("ledger/sqlite: get %v: %w", key, err)
	}
	if !found {
		return rec, fmt.Errorf("%w: %v", ledger.ErrNotFound, key)
	}
	return rec, nil
}

// messageColumns are those of messageRow, of m and its scope s.
const messageColumns = `s.name, m.id, m.fingerprint, m.state, m.token, m.owner, m.attempts, m.crashes, m.generation, m.due,
	m.at, m.expiry, m.errors, m.result`

// messageRow is a message as it is read.
type messageRow struct {
	rec                      *ledger.Record
	scope, fingerprint, list []byte
	result                   blob
	owner, due               sql.NullInt64
	at, expiry               int64
}

func (r *messageRow) dest() []any {
	return []any{&r.scope, &r.rec.ID, &r.fingerprint, &r.rec.State, &r.rec.Token, &r.owner, &r.rec.Attempts, &r.rec.Crashes,
		&r.rec.Generation, &r.due, &r.at, &r.expiry, &r.list, &r.result}
}

func (r *messageRow) fill() (err error) {
	rec := r.rec
	rec.Scope, rec.Result = string(r.scope), r.result
	copy(rec.Fingerprint[:], r.fingerprint)
	rec.At, rec.Expiry = moment(r.at), moment(r.expiry)
	if r.owner.Valid {
		rec.Owner = strconv.FormatInt(r.owner.Int64, 10)
	}
	if r.due.Valid {
		rec.Due = moment(r.due.Int64)
	}
	rec.Errors, err = ledger.DecodeErrors(r.list)
	return err
}

func getMessage(ctx context.Context, tx *sql.Tx, rec *ledger.Record) (found bool, err error) {
	r := messageRow{rec: rec}
	err = tx.QueryRowContext(ctx, "SELECT "+messageColumns+
		" FROM ackledger_message m JOIN ackledger_scope s ON s.id = m.scope WHERE m.key = ?", rec.Key[:]).Scan(r.dest()...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, r.fill()
}

// archiveColumns are those of scanArchive, of a and its scope s, with what stands for headers and body.
func archiveColumns(headers, body string) string {
	return "s.name, a.id, a.delivery, a.fingerprint, a.token, a.kind, a.errors, a.source, a.grp, a.attempts, a.sent_at, " +
		"a.published, a.at, a.expiry, a.position, a.generation, a.replayed_at, a.purged_at, a.key, " + headers + ", " + body
}

func getArchive(ctx context.Context, tx *sql.Tx, sum []byte) (list []ledger.ArchiveRecord, err error) {
	body, length := "a.body", "0"
	if ledger.NoBodies(ctx) {
		body, length = "NULL", "coalesce(length(a.body), 0)" // a blob's length is read without the blob
	}
	rows, err := tx.QueryContext(ctx, "SELECT "+archiveColumns("a.headers", body)+", "+length+
		" FROM ackledger_archive a JOIN ackledger_scope s ON s.id = a.scope WHERE a.key = ? ORDER BY a.num", sum)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var left int
		a, err := scanArchive(rows, &left)
		if err != nil {
			return nil, err
		}
		a.BodyBytes = left
		list = append(list, a)
	}
	return list, rows.Err()
}

// scanArchive reads archiveColumns, and what is selected behind them into more.
func scanArchive(rows *sql.Rows, more ...any) (ledger.ArchiveRecord, error) {
	var (
		a                                       ledger.ArchiveRecord
		scope, fingerprint, source, group, errs []byte
		id, headers, body, position, sum        blob
		sentAt, replayed, purged                sql.NullInt64
		at, expiry                              int64
	)
	err := rows.Scan(append([]any{&scope, &id, &a.Delivery, &fingerprint, &a.Token, &a.Kind, &errs, &source, &group,
		&a.Attempts, &sentAt, &a.Sent, &at, &expiry, &position, &a.Generation, &replayed, &purged, &sum, &headers, &body},
		more...)...)
	if err != nil {
		return a, err
	}
	a.Key = ledger.Key{Scope: string(scope), ID: id}
	if a.Key.Pos, err = decodePosition(position); err != nil {
		return a, err
	}
	if of := a.Key.Sum(); !bytes.Equal(of[:], sum) { // an older worker filed it without its position
		a.Key = ledger.KeyOfSum(a.Key.Scope, id, [ledger.KeySize]byte(sum))
	}
	copy(a.Fingerprint[:], fingerprint)
	a.Source, a.Group, a.Body = string(source), string(group), body
	a.At, a.Expiry = moment(at), moment(expiry)
	a.Keep = a.Expiry.Sub(a.At)
	for _, t := range []struct {
		to    *time.Time
		value sql.NullInt64
	}{{&a.SentAt, sentAt}, {&a.Replayed, replayed}, {&a.Purged, purged}} {
		if t.value.Valid {
			*t.to = moment(t.value.Int64)
		}
	}
	if a.Errors, err = ledger.DecodeErrors(errs); err != nil {
		return a, err
	}
	a.Headers, err = decodeHeaders(headers)
	return a, err
}

func moment(micros int64) time.Time { return time.UnixMicro(micros).UTC() }
