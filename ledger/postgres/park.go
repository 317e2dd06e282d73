package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/internal/checks"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

var _ ledger.ParkingOperator = (*Ledger)(nil)

// Parks implements [ledger.Parking]: whether a Join or Check has found a schema that parks.
func (l *Ledger) Parks() bool { return l.parks.Load() }

// Due implements [ledger.Parking].
func (l *Ledger) Due(ctx context.Context, r ledger.DueRequest) (reply ledger.DueReply, err error) {
	if err := checks.Due(&r); err != nil {
		return reply, err
	}
	ctx, cancel := storage.WithDeadline(ctx)
	defer cancel()
	names := map[string]int32{r.Scope: 0}
	if err := l.numbers(ctx, names); err != nil {
		return reply, err
	}
	var keys [][ledger.KeySize]byte
	var rest int64
	if err := l.one(ctx, sqlDueParked, []any{names[r.Scope], int64(r.Most), r.Bytes, r.Hide.Microseconds()}, &keys, &rest); err != nil {
		return reply, named("what is due of what is parked", usable(err))
	}
	if reply.Wait = -1; rest >= 0 {
		reply.Wait = min(time.Duration(rest)*time.Microsecond, ledger.MaxPark)
	}
	if len(keys) == 0 {
		return reply, nil
	}
	asked := make(keyArray, len(keys))
	for i := range keys {
		asked[i] = uuid(keys[i])
	}
	err = l.list(ctx, sqlParked, []any{asked}, func(rows pgx.Rows) error {
		p, err := scanParked(rows, r.Scope)
		reply.Messages = append(reply.Messages, p)
		return err
	})
	if err != nil {
		return ledger.DueReply{}, named("what is parked", err)
	}
	return reply, nil
}

func scanParked(rows pgx.Rows, scope string) (p ledger.Parked, err error) {
	return scanParkedWith(rows, scope)
}

// scanParkedWith reads a row that has more behind it.
func scanParkedWith(rows pgx.Rows, scope string, more ...any) (p ledger.Parked, err error) {
	var sum, print [16]byte
	var source, group, position, headers []byte
	var keep, sentAt, due, at, place int64
	var lane []byte
	dest := []any{&sum, &print, &p.Delivery, &p.Key.ID, &source, &group, &position, &headers, &p.Body, &p.Attempts, &keep, &sentAt, &due, &at, &lane, &place}
	if err := rows.Scan(append(dest, more...)...); err != nil {
		return p, err
	}
	p.Key.Scope, p.Fingerprint, p.Source, p.Group = scope, print, string(source), string(group)
	p.Keep, p.SentAt = time.Duration(keep)*time.Microsecond, time.UnixMicro(sentAt).UTC()
	p.Due, p.At = time.UnixMicro(due), time.UnixMicro(at)
	if lane != nil {
		p.Lane = &ledger.ParkLane{Name: lane, Place: place}
	}
	if p.Key.Pos, err = decodePosition(position, p.Delivery); err != nil {
		return p, err
	}
	if p.Key.Sum() != sum {
		return p, fmt.Errorf("what is parked under %x is of %v", sum, p.Key)
	}
	p.Headers, err = storage.DecodeHeaders(headers)
	return p, err
}

// getParked fills in what is parked of a message.
func (l *Ledger) getParked(ctx context.Context, tx pgx.Tx, rec *ledger.Record) error {
	if rec.State != ledger.Pending || !l.parks.Load() {
		return nil
	}
	rows, err := tx.Query(ctx, l.sql(sqlParked), keyArray{uuid(rec.Key)})
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		p, err := scanParked(rows, rec.Scope)
		if err != nil {
			return err
		}
		if ledger.NoBodies(ctx) {
			p.BodyBytes, p.Body, p.Headers = len(p.Body), nil, nil
		}
		rec.Parked = &p
	}
	return rows.Err()
}

// ParkedIn implements [ledger.Parking]. It reads an index.
func (l *Ledger) ParkedIn(ctx context.Context, scope string) (s ledger.ParkedStats, err error) {
	ctx, cancel := storage.WithDeadline(ctx)
	defer cancel()
	var overdue int64
	if err := l.one(ctx, sqlSumParked, []any{[]byte(scope)}, &s.Messages, &s.Bytes, &overdue); err != nil {
		return ledger.ParkedStats{}, named("what is parked", usable(err))
	}
	s.Overdue = time.Duration(overdue) * time.Microsecond
	return s, nil
}

// unparked keeps those of a page of stuck messages that are not parked.
func (l *Ledger) unparked(ctx context.Context, f *ledger.Filter, page []ledger.Listed) ([]ledger.Listed, error) {
	if !f.Stuck || len(page) == 0 || !l.parks.Load() {
		return page, nil
	}
	keys, is := make(keyArray, len(page)), map[[ledger.KeySize]byte]bool{}
	for i := range page {
		keys[i] = uuid(page[i].Key)
	}
	var key [ledger.KeySize]byte
	err := l.read(ctx, sqlFindParked, []any{keys}, []any{&key}, func() { is[key] = true })
	return slices.DeleteFunc(page, func(m ledger.Listed) bool { return is[m.Key] }), err
}
