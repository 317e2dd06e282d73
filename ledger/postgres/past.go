package postgres

import (
	"bytes"
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/internal/checks"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

var _ ledger.PastKeeper = (*Ledger)(nil)

const (
	// sqlKeepPast changes a scope that has a number. The durable setting is read, so that it is carried out.
	sqlKeepPast = `
WITH me AS MATERIALIZED (SELECT {durable})
UPDATE {s}.scope s SET keep_past = nullif($2::bigint, 0) * interval '1 microsecond'
FROM me WHERE s.id = $1::integer AND s.keep_past IS DISTINCT FROM nullif($2::bigint, 0) * interval '1 microsecond'`

	sqlHasPast = `SELECT to_regclass({text} || '.past') IS NOT NULL`

	// sqlPast reads the earlier lives of a key, without results if $2 says so.
	sqlPast = `
SELECT p.state, p.token, p.attempts, p.crashes, (extract(epoch FROM p.at) * 1000000)::bigint,
	(extract(epoch FROM p.expiry) * 1000000)::bigint, (extract(epoch FROM p.until) * 1000000)::bigint,
	CASE WHEN $2::boolean THEN p.result END, CASE WHEN $2::boolean THEN 0 ELSE octet_length(p.result) END
FROM {s}.past p WHERE p.key = $1::uuid ORDER BY p.at DESC LIMIT $3::bigint`

	sqlPastID = `
SELECT DISTINCT s.name, p.key FROM (SELECT p.scope, p.key FROM {s}.past p WHERE p.id = $1::bytea LIMIT 500) p
JOIN {s}.scope s ON s.id = p.scope`

	sqlSweepPast = `SELECT {s}.sweep_past($1::bigint, $2::bigint, $3::bigint)`
)

// KeepPast implements [ledger.PastKeeper]. A schema of a version before 14 keeps nothing: the error says to migrate.
func (l *Ledger) KeepPast(ctx context.Context, scope string, keep time.Duration) error {
	if err := checks.Past(scope, keep); err != nil {
		return err
	}
	ctx, cancel := storage.WithDeadline(ctx)
	defer cancel()
	names := map[string]int32{scope: 0}
	if err := l.numbers(ctx, names); err != nil {
		return err
	}
	return named("keep the past", usable(l.exec(ctx, sqlKeepPast, names[scope], keep.Microseconds())))
}

// getPast fills in what a record has of earlier lives. A schema of a version before 14 has none.
func (l *Ledger) getPast(ctx context.Context, tx pgx.Tx, rec *ledger.Record) error {
	var there bool
	if err := tx.QueryRow(ctx, l.sql(sqlHasPast)).Scan(&there); err != nil || !there {
		return err
	}
	rows, err := tx.Query(ctx, l.sql(sqlPast), uuid(rec.Key), !ledger.NoBodies(ctx), int64(ledger.MaxPast))
	if err != nil {
		return err
	}
	for rows.Next() {
		var p ledger.Past
		var state int16
		var token, at, expiry, until int64
		if err := rows.Scan(&state, &token, &p.Attempts, &p.Crashes, &at, &expiry, &until, &p.Result, &p.Bytes); err != nil {
			rows.Close()
			return err
		}
		p.State, p.Token, p.Result = ledger.State(state), uint64(token), bytes.Clone(p.Result)
		p.At, p.Expiry, p.Until = time.UnixMicro(at), time.UnixMicro(expiry), time.UnixMicro(until)
		rec.Past = append(rec.Past, p)
	}
	return rows.Err()
}

// pastKeys are the keys under which something is kept of earlier lives of an id.
func (l *Ledger) pastKeys(ctx context.Context, id []byte) (keys []ledger.Key, err error) {
	var there bool
	if err := l.one(ctx, sqlHasPast, nil, &there); err != nil || !there {
		return nil, err
	}
	var name []byte
	var sum [ledger.KeySize]byte
	err = l.list(ctx, sqlPastID, []any{id}, into([]any{&name, &sum}, func() {
		keys = append(keys, ledger.KeyOfSum(string(name), id, sum))
	}))
	return keys, err
}

// past removes what is kept no longer.
func (p *pass) past(ctx context.Context) error {
	return p.trim(ctx, &p.report.Past, sqlSweepPast, p.me, maintainLease.Microseconds(), p.cfg.Batch)
}
