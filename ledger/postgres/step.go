package postgres

import (
	"bytes"
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/ledger"
)

const (
	// sqlRecord records steps under the guard of sqlSettle, which leaves the messages as they are. Their rows are locked, once each
	// and in key order, so that no take-over changes token or owner before the commit. A key comes as often as it has steps. It
	// answers how many steps passed the guard, and, if these are not all, of which messages they are. Of a name that is there already
	// the first result stays.
	sqlRecord = `
WITH clock AS MATERIALIZED (
	SELECT clock_timestamp() AS at
), me AS MATERIALIZED (
	SELECT (extract(epoch FROM c.at) * 1000000)::bigint < $2::bigint AS ok, {durable},
		set_config('lock_timeout', $3::text, true)
	FROM clock c
), ask AS MATERIALIZED (
	SELECT a.* FROM unnest($4::uuid[], $5::bigint[], $6::bytea[], $7::boolean[], $8::bytea[]) WITH ORDINALITY
		AS a(key, token, name, failed, result, place)
	WHERE (SELECT ok FROM me)
), locked AS MATERIALIZED (
	SELECT a.key, a.token
	FROM (SELECT DISTINCT key, token FROM ask ORDER BY key, token) a
	CROSS JOIN LATERAL (SELECT m.key FROM {s}.message m
		WHERE m.key = a.key AND m.token = a.token AND m.state = 1 AND m.owner = $1::bigint
		FOR NO KEY UPDATE SKIP LOCKED) m
), passed AS MATERIALIZED (
	SELECT a.* FROM ask a JOIN locked l ON l.key = a.key AND l.token = a.token
), done AS (
	INSERT INTO {s}.step (at, key, failed, name, result)
	SELECT (SELECT at FROM clock) + (p.place - 1) * interval '1 microsecond', p.key, p.failed, p.name, p.result
	FROM passed p ORDER BY p.key, p.name, p.place
	ON CONFLICT (key, name) DO NOTHING
)
SELECT (SELECT ok FROM me), count(*), CASE WHEN count(*) < cardinality($4::uuid[]) THEN array_agg(DISTINCT key) END FROM passed`

	sqlHasSteps = `SELECT to_regclass({text} || '.step') IS NOT NULL`

	// sqlSteps reads the steps of a message, without results if $2 says so.
	sqlSteps = `
SELECT s.name, s.failed, (extract(epoch FROM s.at) * 1000000)::bigint, CASE WHEN $2::boolean THEN s.result END,
	CASE WHEN $2::boolean THEN 0 ELSE octet_length(s.result) END
FROM {s}.step s WHERE s.key = $1::uuid ORDER BY s.at, s.name`
)

var sqlRecordWait = waiting(sqlRecord)

// record records steps. A schema of a version before 13 has no table for them: that is the steps' error, which says to migrate,
// and not that of what else is settled in the call.
func (c *settleCall) record(ctx context.Context, items []int32) (wrote bool, err error) {
	wrote, err = c.settle(ctx, settling{items: items, skip: sqlRecord, wait: sqlRecordWait, args: c.recordArgs}, false)
	if code(err) != codeNoTable {
		return wrote, err
	}
	for _, i := range c.open(items) {
		c.out[i] = err
	}
	return false, nil
}

// recordArgs lines up the parameters of sqlRecord.
func (c *settleCall) recordArgs(part []int32) []any {
	n := len(part)
	keys, tokens, failed := make(keyArray, n), make([]int64, n), make([]bool, n)
	names, results := make(byteArray, n), make(byteArray, n)
	for at, i := range part {
		s := &c.settlements[i]
		keys[at], tokens[at], failed[at] = uuid(c.sums[i]), int64(s.Ticket.Token()), s.Step.Failed
		names[at], results[at] = []byte(s.Step.Name), orEmpty(s.Step.Result)
	}
	return []any{keys, tokens, names, failed, results}
}

// stepRow is a step as it is read: sqlSteps.
type stepRow struct {
	name, result []byte
	failed       bool
	at           int64
	size         int
}

func (r *stepRow) dest() []any { return []any{&r.name, &r.failed, &r.at, &r.result, &r.size} }

func (r *stepRow) step() ledger.Step {
	return ledger.Step{Name: string(r.name), Failed: r.failed, At: time.UnixMicro(r.at), Result: bytes.Clone(r.result), Size: r.size}
}

// Steps implements [ledger.StepReader]. A schema of a version before 13 has no table for them: the error says to migrate.
func (o *owner) Steps(ctx context.Context, t ledger.Ticket) (list []ledger.Step, err error) {
	ctx, cancel := ledger.WithDeadline(ctx)
	defer cancel()
	var r stepRow
	err = o.ledger.read(ctx, sqlSteps, []any{uuid(t.Sum()), true}, r.dest(), func() { list = append(list, r.step()) })
	if err != nil {
		return nil, err
	}
	return list, nil
}

// getSteps fills in what a record has of steps. A schema of a version before 13 has none.
func (l *Ledger) getSteps(ctx context.Context, tx pgx.Tx, rec *ledger.Record) error {
	var there bool
	if err := tx.QueryRow(ctx, l.sql(sqlHasSteps)).Scan(&there); err != nil || !there {
		return err
	}
	rows, err := tx.Query(ctx, l.sql(sqlSteps), uuid(rec.Key), false)
	if err != nil {
		return err
	}
	rec.Steps, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (ledger.Step, error) {
		var r stepRow
		err := row.Scan(r.dest()...)
		return r.step(), err
	})
	if len(rec.Steps) == 0 {
		rec.Steps = nil
	}
	return err
}
