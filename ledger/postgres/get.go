package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/ledger"
)

// Get returns all that the ledger knows of one message, as of one moment. [ledger.ErrNotFound] if there is no row; the
// record then still carries the archive, which outlives its row.
func (l *Ledger) Get(ctx context.Context, key ledger.Key) (ledger.Record, error) {
	rec := ledger.Record{Key: key.Sum()}
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	err := pgx.BeginTxFunc(ctx, l.own, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly},
		func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, l.sql.tune); err != nil {
				return err
			}
			if err := l.getArchive(ctx, tx, &rec); err != nil {
				return err
			}
			return l.getMessage(ctx, tx, &rec)
		})
	if errors.Is(err, pgx.ErrNoRows) {
		return rec, fmt.Errorf("%w: %v", ledger.ErrNotFound, key)
	}
	if err != nil {
		return ledger.Record{}, fmt.Errorf("postgres: get %v: %w", key, usable(err))
	}
	return rec, nil
}

func (l *Ledger) getMessage(ctx context.Context, tx pgx.Tx, rec *ledger.Record) error {
	var token, at, expiry, holder int64
	var due *int64
	var scope, list []byte
	var state, attempts, crashes int16
	var print [16]byte
	err := tx.QueryRow(ctx, l.sql.getMessage, uuid(rec.Key)).Scan(&token, &at, &expiry, &holder, &due, &scope, &state,
		&attempts, &crashes, &print, &rec.ID, &rec.Generation, &rec.Result, &list)
	if err != nil {
		return err
	}
	rec.Scope, rec.Fingerprint, rec.State, rec.Token = string(scope), print, ledger.State(state), uint64(token)
	rec.Attempts, rec.Crashes = int(attempts), int(crashes)
	rec.At, rec.Expiry = time.UnixMicro(at), time.UnixMicro(expiry)
	if holder != 0 {
		rec.Owner = ownerName(holder)
	}
	if due != nil {
		rec.Due = time.UnixMicro(*due)
	}
	rec.Errors, err = ledger.DecodeErrors(list)
	return err
}

func (l *Ledger) getArchive(ctx context.Context, tx pgx.Tx, rec *ledger.Record) error {
	rows, err := tx.Query(ctx, l.sql.getArchive, uuid(rec.Key))
	if err != nil {
		return err
	}
	rec.Archived, err = pgx.CollectRows(rows, scanArchive)
	if len(rec.Archived) == 0 {
		rec.Archived = nil
	}
	return err
}

func scanArchive(row pgx.CollectableRow) (ledger.ArchiveRecord, error) {
	var a ledger.ArchiveRecord
	var token, sentAt, at, expiry int64
	var print [16]byte
	var scope, kind, source, group, position, list, headers []byte
	err := row.Scan(&token, &sentAt, &at, &expiry, &scope, &a.Attempts, &a.Sent, &print, &a.Delivery, &a.Key.ID, &kind,
		&source, &group, &position, &list, &headers, &a.Body)
	if err != nil {
		return a, err
	}
	a.Token, a.Fingerprint, a.Key.Scope = uint64(token), print, string(scope)
	a.SentAt, a.At, a.Expiry = time.UnixMicro(sentAt).UTC(), time.UnixMicro(at), time.UnixMicro(expiry)
	a.Kind, a.Source, a.Group = ledger.FailureKind(kind), string(source), string(group)
	a.Keep = a.Expiry.Sub(a.At)
	var errs [3]error
	a.Key.Pos, errs[0] = decodePosition(position)
	a.Errors, errs[1] = ledger.DecodeErrors(list)
	a.Headers, errs[2] = decodeHeaders(headers)
	return a, errors.Join(errs[:]...)
}
