package cases

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/bench/internal/suite"
	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/kafka"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// Sizes of topics. Rows that are compared read topics of one size where their rates allow it.
var (
	manyRecords = suite.Size{Full: 2_000_000, Quick: 400_000}
	someRecords = suite.Size{Full: 400_000, Quick: 80_000}
	fewRecords  = suite.Size{Full: 32_000, Quick: 2400}
	slowRecords = suite.Size{Full: 200_000, Quick: 40_000} // parallel-consumer, no-op
	waitRecords = suite.Size{Full: 200_000, Quick: 20_000} // handlers that wait
)

func kafkaCases() []suite.Case {
	return []suite.Case{
		{Group: "kafka", Name: "raw poll + commit", Note: "every poll committed; nothing else is done: the ceiling", N: manyRecords, Run: rawPoll},
		{Group: "kafka", Name: "bare loop, batched SQL", Note: "polls of at most 2,000, 4 at once, committed in order once a second; " + bareNote,
			N: someRecords, Run: bareBatched},
		{Group: "kafka", Name: "ours, ranges", Note: "PostgreSQL ledger, no-op handler, all settings default", N: manyRecords, Run: postgresNoop(kafka.AuditRanges)},
		{Group: "kafka", Name: "ours, rows", Note: "the same with a row for each record (kafka.AuditRows)", N: someRecords, Run: postgresNoop(kafka.AuditRows)},
		{Group: "kafka", Name: "no ledger, one insert in batches", Note: "polls of at most 2,000, 4 inserts of up to 500 rows at once, committed in order once a second",
			N: someRecords, Run: insertBatches},
		{Group: "kafka", Name: "ours, InTx, one insert", Note: "the handler's INSERT commits with the message's success; concurrency 32",
			N: fewRecords, Run: inTx(kafka.AuditRanges)},
		{Group: "kafka", Name: "ours, InTx, one insert, rows", Note: "the same with a row for each record (kafka.AuditRows)",
			N: fewRecords, Run: inTx(kafka.AuditRows)},
		{Group: "kafka", Name: "ours, InTx, batches", Note: "a batch handler of up to 500 messages: one multi-row INSERT, one commit with all successes; concurrency 4",
			N: someRecords, Run: inTxBatches(kafka.OrderKey)},
		{Group: "kafka", Name: "ours, InTx, batches, order none", Note: "the same without order, as the loop without a ledger has none",
			N: someRecords, Run: inTxBatches(kafka.OrderNone)},
		{Group: "kafka", Name: "ours, memory, order none", Note: "no-op handler, concurrency 16 (default)", N: manyRecords, Run: inMemory(kafka.OrderNone, 0, noop)},
		{Group: "kafka", Name: "ours, memory, order by key", Note: "the same, the default order", N: manyRecords, Run: inMemory(kafka.OrderKey, 0, noop)},
		{Group: "kafka", Name: "ours, memory, order by partition", Note: "the same", N: someRecords, Run: inMemory(kafka.OrderPartition, 0, noop)},
		{Group: "kafka", Name: "per message", Note: "polls of at most 2,000; INSERT and UPDATE of each message by itself on 32 connections", N: fewRecords, Run: barePerMessage},
		{Group: "kafka", Name: "Watermill", Note: watermillNote, N: fewRecords, Run: watermillRun},
		parallelCase("kafka", "parallel-consumer, unordered, 16", slowRecords, "UNORDERED", 16, 0),
		parallelCase("kafka", "parallel-consumer, unordered, 1000", slowRecords, "UNORDERED", 1000, 0),
		parallelCase("kafka", "parallel-consumer, by key, 16", slowRecords, "KEY", 16, 0),
		parallelCase("kafka", "parallel-consumer, by key, 1000", slowRecords, "KEY", 1000, 0),
		{Group: "kafka", Name: "River", Note: riverNote, N: suite.Size{Full: 60_000, Quick: 4000}, Run: riverRun},
	}
}

func slowCases() []suite.Case {
	const group, atOnce, handler = "kafka, 5 ms handlers", 1000, 5 * time.Millisecond
	ours := func(name string, order kafka.Order) suite.Case {
		return suite.Case{Group: group, Name: name, Note: fmt.Sprintf("concurrency %d, as many as parallel-consumer is given", atOnce), N: waitRecords,
			Run: inMemory(order, atOnce, sleeping(handler))}
	}
	return []suite.Case{
		parallelCase(group, "parallel-consumer, unordered", waitRecords, "UNORDERED", atOnce, handler),
		ours("ours, memory, order none", kafka.OrderNone),
		parallelCase(group, "parallel-consumer, by key", waitRecords, "KEY", atOnce, handler),
		ours("ours, memory, order by key", kafka.OrderKey),
	}
}

func sleeping(d time.Duration) consumer.HandlerFunc {
	return func(ctx context.Context, _ *consumer.Message) error {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// inMemory is a worker with a ledger that forgets: what the framework itself costs. Concurrency 0 is the default.
func inMemory(order kafka.Order, concurrency int, h consumer.HandlerFunc) func(context.Context, *suite.Run) (suite.Result, error) {
	return func(ctx context.Context, r *suite.Run) (suite.Result, error) {
		return consume(ctx, r, memory.New(), h, kafka.Config{Order: order, Options: consumer.Options{Concurrency: concurrency}})
	}
}

func postgresNoop(audit kafka.Audit) func(context.Context, *suite.Run) (suite.Result, error) {
	return func(ctx context.Context, r *suite.Run) (suite.Result, error) {
		l, err := freshRows(ctx, r, 1)
		if err != nil {
			return nil, err
		}
		return consume(ctx, r, l, noop, kafka.Config{Audit: audit})
	}
}

func inTx(audit kafka.Audit) func(context.Context, *suite.Run) (suite.Result, error) {
	return func(ctx context.Context, r *suite.Run) (suite.Result, error) {
		l, insert, err := inserting(ctx, r)
		if err != nil {
			return nil, err
		}
		return consume(ctx, r, l, insert, kafka.Config{Audit: audit, Options: consumer.Options{Concurrency: txHandlers}})
	}
}

// txHandlers are as many handlers as an inbox by hand has connections.
const txHandlers = inboxConns

// inserting makes a ledger, and a handler of one insert by InTx.
func inserting(ctx context.Context, r *suite.Run) (*rows, consumer.HandlerFunc, error) {
	l, err := freshRows(ctx, r, txHandlers)
	if err != nil {
		return nil, nil, err
	}
	insert := "INSERT INTO " + l.schema + ".effects (id, body) VALUES ($1, $2)"
	return l, func(ctx context.Context, m *consumer.Message) error {
		return postgres.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, insert, m.ID, m.Body)
			return err
		})
	}, l.createEffects(ctx)
}

// inTxBatches is the same with a batch handler.
func inTxBatches(order kafka.Order) func(context.Context, *suite.Run) (suite.Result, error) {
	return func(ctx context.Context, r *suite.Run) (suite.Result, error) {
		const handlers, size = 4, 500
		l, err := freshRows(ctx, r, handlers)
		if err != nil {
			return nil, err
		}
		if err := l.createEffects(ctx); err != nil {
			return nil, err
		}
		cfg := kafka.Config{Order: order, Options: consumer.Options{Concurrency: handlers}}
		return consumeCounted(ctx, r, l, cfg, func(count func(int)) consumer.Handler {
			return consumer.Batch(size, func(ctx context.Context, batch []*consumer.Message) []error {
				if err := l.insertEffects(ctx, batch); err != nil {
					return slices.Repeat([]error{err}, len(batch))
				}
				count(len(batch))
				return nil
			})
		})
	}
}

// insertEffects commits one INSERT for a batch with its success.
func (l *rows) insertEffects(ctx context.Context, batch []*consumer.Message) error {
	ids, bodies := make([]string, len(batch)), make([][]byte, len(batch))
	for i, m := range batch {
		ids[i], bodies[i] = m.ID, m.Body
	}
	return postgres.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO "+l.schema+".effects (id, body) SELECT * FROM unnest($1::text[], $2::bytea[])", ids, bodies)
		return err
	})
}

// createEffects makes the application's table that the handlers of InTx write to.
func (l *rows) createEffects(ctx context.Context) error {
	_, err := l.pool.Exec(ctx, "CREATE TABLE "+l.schema+".effects (id text NOT NULL, body bytea NOT NULL)")
	return err
}
