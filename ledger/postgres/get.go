package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// readLimit is how long Get may be silent between its statements: it locks no row, and a large body takes its time.
const readLimit = time.Minute

// Get returns all that the ledger knows of one message, as of one moment. [ledger.ErrNotFound] if there is no row; the
// record then still carries the archive and the past, which outlive its row.
func (l *Ledger) Get(ctx context.Context, key ledger.Key) (ledger.Record, error) {
	rec := ledger.Record{Key: key.Sum()}
	ctx, cancel := storage.WithDeadline(ctx)
	defer cancel()
	err := pgx.BeginTxFunc(ctx, l.own, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly},
		func(tx pgx.Tx) error {
			if err := l.begun(ctx, tx, readLimit); err != nil {
				return err
			}
			if err := l.getArchive(ctx, tx, &rec); err != nil {
				return err
			}
			if err := l.getPast(ctx, tx, &rec); err != nil {
				return err
			}
			err := l.getMessage(ctx, tx, &rec)
			if errors.Is(err, pgx.ErrNoRows) {
				err = l.getRanged(ctx, tx, &rec)
			}
			return err
		})
	if err == nil || errors.Is(err, pgx.ErrNoRows) {
		records := make([]*ledger.ArchiveRecord, len(rec.Archived))
		for i := range records {
			records[i] = &rec.Archived[i]
		}
		if bad := l.hint(ctx, records); bad != nil {
			err = bad
		}
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return rec, fmt.Errorf("%w: %v", ledger.ErrNotFound, key)
	}
	if err != nil {
		return ledger.Record{}, fmt.Errorf("postgres: get %v: %w", key, usable(err))
	}
	return rec, nil
}

func (l *Ledger) getMessage(ctx context.Context, tx pgx.Tx, rec *ledger.Record) error {
	r := messageRow{rec: rec}
	if err := tx.QueryRow(ctx, l.sql(sqlGetMessage), uuid(rec.Key)).Scan(r.dest()...); err != nil {
		return err
	}
	if err := r.fill(); err != nil {
		return err
	}
	if err := l.getParked(ctx, tx, rec); err != nil {
		return err
	}
	return l.getSteps(ctx, tx, rec)
}

// messageRow is a message as it is read: sqlMessageFields.
type messageRow struct {
	rec                       *ledger.Record
	token, at, expiry, holder int64
	due                       *int64
	scope, list               []byte
	state, attempts, crashes  int16
	print                     [16]byte
}

func (r *messageRow) dest() []any {
	return []any{&r.token, &r.at, &r.expiry, &r.holder, &r.due, &r.scope, &r.state, &r.attempts, &r.crashes, &r.print,
		&r.rec.ID, &r.rec.Generation, &r.rec.Result, &r.list}
}

func (r *messageRow) fill() (err error) {
	rec := r.rec
	rec.Scope, rec.Fingerprint, rec.State, rec.Token = string(r.scope), r.print, ledger.State(r.state), uint64(r.token)
	rec.Attempts, rec.Crashes = int(r.attempts), int(r.crashes)
	rec.At, rec.Expiry = time.UnixMicro(r.at), time.UnixMicro(r.expiry)
	if r.holder != 0 {
		rec.Owner = ownerName(r.holder)
	}
	if r.due != nil {
		rec.Due = time.UnixMicro(*r.due)
	}
	rec.Errors, err = storage.DecodeErrors(r.list)
	return err
}

func (l *Ledger) getArchive(ctx context.Context, tx pgx.Tx, rec *ledger.Record) error {
	rows, err := tx.Query(ctx, l.sql(sqlGetArchive), uuid(rec.Key), ledger.NoBodies(ctx))
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
	var r archiveRow
	var headers []byte
	if err := row.Scan(append(r.dest(), &headers, &r.rec.Body, &r.rec.BodyBytes)...); err != nil {
		return r.rec, err
	}
	err := r.fill()
	var bad error
	r.rec.Headers, bad = storage.DecodeHeaders(headers)
	return r.rec, errors.Join(err, bad)
}

// archiveRow is an archived delivery as it is read: sqlArchiveFields.
type archiveRow struct {
	rec                                        ledger.ArchiveRecord
	token, sentAt, at, expiry                  int64
	replayed, purged                           *int64
	print, sum                                 [16]byte
	scope, kind, source, group, position, list []byte
}

func (r *archiveRow) dest() []any {
	a := &r.rec
	return []any{&r.token, &r.sentAt, &r.at, &r.expiry, &r.scope, &a.Attempts, &a.Sent, &r.print, &a.Delivery, &a.Key.ID,
		&r.kind, &r.source, &r.group, &r.position, &r.list, &r.sum, &a.Generation, &r.replayed, &r.purged}
}

func (r *archiveRow) fill() error {
	a := &r.rec
	a.Token, a.Fingerprint, a.Key.Scope = uint64(r.token), r.print, string(r.scope)
	a.SentAt, a.At, a.Expiry = time.UnixMicro(r.sentAt).UTC(), time.UnixMicro(r.at), time.UnixMicro(r.expiry)
	a.Kind, a.Source, a.Group = ledger.FailureKind(r.kind), string(r.source), string(r.group)
	a.Keep = a.Expiry.Sub(a.At)
	if r.replayed != nil {
		a.Replayed = time.UnixMicro(*r.replayed)
	}
	if r.purged != nil {
		a.Purged = time.UnixMicro(*r.purged)
	}
	var errs [2]error
	a.Key.Pos, errs[0] = decodePosition(r.position, a.Delivery)
	if a.Key.Sum() != r.sum {
		a.Key = ledger.KeyOfSum(a.Key.Scope, a.Key.ID, r.sum)
	}
	a.Errors, errs[1] = storage.DecodeErrors(r.list)
	return errors.Join(errs[:]...)
}
