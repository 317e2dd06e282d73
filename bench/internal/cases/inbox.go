package cases

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/ackledger/ackledger/bench/internal/suite"
)

// inboxConns are as many connections as ours has handlers.
const inboxConns = 32

// inboxCases are what people write by hand for an effect that is done once: a table of keys beside the effects, in one transaction.
func inboxCases() []suite.Case {
	const promise = "; no lease, no fence, no retries, no dead letters"
	return []suite.Case{
		{Group: "kafka", Name: "inbox by hand, one insert", Note: "BEGIN, INSERT of the key ON CONFLICT DO NOTHING, INSERT of the effect, COMMIT: four round trips" + promise,
			N: fewRecords, Run: inbox(inboxByHand)},
		{Group: "kafka", Name: "inbox by hand, pipelined", Note: "the same in two round trips" + promise, N: fewRecords, Run: inbox(inboxPipelined)},
		{Group: "kafka", Name: "one insert and COMMIT, no ledger", Note: "the effect alone, done again when it comes again", N: fewRecords, Run: inbox(effectAlone)},
	}
}

// inbox runs handle for each record, with one connection.
func inbox(handle func(context.Context, *pgxpool.Pool, string, []byte) error) func(context.Context, *suite.Run) (suite.Result, error) {
	return func(ctx context.Context, r *suite.Run) (suite.Result, error) {
		pool, err := inboxPool(ctx, r)
		if err != nil {
			return nil, err
		}
		res, err := bareLoop(ctx, r, eachInbox(pool, handle))
		if err != nil {
			return nil, err
		}
		return res, countEffects(ctx, pool, r.N)
	}
}

func inboxPool(ctx context.Context, r *suite.Run) (*pgxpool.Pool, error) {
	pool, err := freshPool(ctx, r, inboxConns)
	if err != nil {
		return nil, err
	}
	_, err = pool.Exec(ctx, "CREATE TABLE inbox (id text PRIMARY KEY, at timestamptz NOT NULL DEFAULT now()); CREATE TABLE effects (id text NOT NULL, body bytea NOT NULL)")
	return pool, err
}

// eachInbox handles the records of a poll, as many at once as there are connections.
func eachInbox(pool *pgxpool.Pool, handle func(context.Context, *pgxpool.Pool, string, []byte) error) func(context.Context, []*kgo.Record) error {
	slots := make(chan struct{}, inboxConns)
	return func(ctx context.Context, records []*kgo.Record) error {
		g, ctx := errgroup.WithContext(ctx)
		for _, rec := range records {
			slots <- struct{}{}
			g.Go(func() error {
				defer func() { <-slots }()
				return handle(ctx, pool, fmt.Sprintf("%s-%d-%d", rec.Topic, rec.Partition, rec.Offset), rec.Value)
			})
		}
		return g.Wait()
	}
}

func countEffects(ctx context.Context, pool *pgxpool.Pool, want int) error {
	var n int
	err := pool.QueryRow(ctx, "SELECT count(*) FROM effects").Scan(&n)
	return wantRows(n, want, err)
}

const (
	insertInbox  = "INSERT INTO inbox (id) VALUES ($1) ON CONFLICT (id) DO NOTHING"
	insertEffect = "INSERT INTO effects (id, body) VALUES ($1, $2)"
)

func inboxByHand(ctx context.Context, pool *pgxpool.Pool, id string, body []byte) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, insertInbox, id)
		if err != nil || tag.RowsAffected() == 0 { // it was there
			return err
		}
		_, err = tx.Exec(ctx, insertEffect, id, body)
		return err
	})
}

func inboxPipelined(ctx context.Context, pool *pgxpool.Pool, id string, body []byte) error {
	return pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		first := &pgx.Batch{}
		first.BeginTx(pgx.TxOptions{})
		first.Queue(insertInbox, id)
		results := conn.Conn().SendBatch(ctx, first)
		if _, err := results.Exec(); err != nil {
			return err
		}
		tag, err := results.Exec()
		if err != nil {
			return err
		}
		if err := results.Close(); err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return results.Tx().Rollback(ctx)
		}
		last := &pgx.Batch{}
		last.Queue(insertEffect, id, body)
		last.Queue("COMMIT")
		return conn.SendBatch(ctx, last).Close()
	})
}

func effectAlone(ctx context.Context, pool *pgxpool.Pool, id string, body []byte) error {
	_, err := pool.Exec(ctx, insertEffect, id, body)
	return err
}
