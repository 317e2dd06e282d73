package cases

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/ackledger/ackledger/bench/internal/suite"
	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/kafka"
	"github.com/ackledger/ackledger/ledger"
)

const (
	sizeGroup  = "kafka, ledger size"
	shortGroup = "kafka, 1 ms handlers by key"
	kilobytes  = "kB" // what the ledger's tables and indexes have grown by
)

// rangeCases are rows about records that are held in ranges, beside those of group kafka.
func rangeCases() []suite.Case {
	const handlers = 64
	size := func(name, note string, h consumer.HandlerFunc) suite.Case {
		return suite.Case{Group: sizeGroup, Name: name, Note: note + "; PostgreSQL, all tables with their indexes, after VACUUM FULL, less what they take empty",
			N: someRecords, Main: suite.BytesEach, Once: true, Run: grownBy(h)}
	}
	short := func(name, note string, open func(context.Context, *suite.Run) (ledger.Ledger, error)) suite.Case {
		return suite.Case{Group: shortGroup, Name: name, Note: note, N: suite.Size{Full: 200_000, Quick: 20_000},
			Run: func(ctx context.Context, r *suite.Run) (suite.Result, error) {
				l, err := open(ctx, r)
				if err != nil {
					return nil, err
				}
				return consume(ctx, r, l, sleeping(time.Millisecond), kafka.Config{Options: consumer.Options{Concurrency: handlers}})
			}}
	}
	return []suite.Case{
		size("all succeed", "no-op handler", noop),
		size("1 % fail for good", "every 100th record of 200 B is archived", every100th(func(*consumer.Message) error { return consumer.Terminal(errBench) })),
		size("1 % are retried once", "every 100th record fails at first; its row is there still (the sweep folds it later)",
			every100th(func(m *consumer.Message) error {
				if m.Attempt == 1 {
					return errBench
				}
				return nil
			})),
		short("ours, no ledger", "concurrency 64; a ledger that says yes to everything and writes nothing",
			func(context.Context, *suite.Run) (ledger.Ledger, error) { return noLedger{}, nil }),
		short("ours, ranges", "the same with the PostgreSQL ledger",
			func(ctx context.Context, r *suite.Run) (ledger.Ledger, error) { return freshRows(ctx, r, 1) }),
	}
}

var errBench = errors.New("bench: on purpose")

// every100th returns f's error for one record of a hundred.
func every100th(f func(*consumer.Message) error) consumer.HandlerFunc {
	return func(_ context.Context, m *consumer.Message) error {
		if m.Offset%100 == 0 {
			return f(m)
		}
		return nil
	}
}

// grownBy measures what a topic's records leave in the ledger.
func grownBy(h consumer.HandlerFunc) func(context.Context, *suite.Run) (suite.Result, error) {
	return func(ctx context.Context, r *suite.Run) (suite.Result, error) {
		l, err := freshRows(ctx, r, 1)
		if err != nil {
			return nil, err
		}
		empty, err := l.db.size(ctx, l.schema)
		if err != nil {
			return nil, err
		}
		cfg := kafka.Config{Options: consumer.Options{Attempts: 3, BackoffBase: 10 * time.Millisecond, BackoffMax: 20 * time.Millisecond}}
		res, err := consumeCounted(ctx, r, l, cfg, func(count func(int)) consumer.Handler {
			return consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
				err := h(ctx, m)
				if err == nil || consumer.IsTerminal(err) {
					count(1)
				}
				return err
			})
		})
		if err != nil {
			return nil, err
		}
		if err := l.db.vacuum(ctx, l.schema); err != nil {
			return nil, err
		}
		full, err := l.db.size(ctx, l.schema)
		if err != nil {
			return nil, err
		}
		bytes := float64(max(full-empty, 1))
		res[suite.BytesEach], res[kilobytes] = bytes/float64(r.N), bytes/1000
		return res, nil
	}
}

// vacuum gives back what the tables of a schema do not need.
func (d *database) vacuum(ctx context.Context, schema string) error {
	found, err := d.admin.Query(ctx, `SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relkind = 'r'`, schema)
	if err != nil {
		return err
	}
	var tables []string
	for found.Next() {
		var name string
		if err := found.Scan(&name); err != nil {
			return err
		}
		tables = append(tables, name)
	}
	if err := found.Err(); err != nil {
		return err
	}
	for _, t := range tables {
		if _, err := d.admin.Exec(ctx, "VACUUM FULL "+t); err != nil {
			return err
		}
	}
	return nil
}

// insertBatches is what inTxBatches does, without any ledger: 4 batches at once of up to 500, each one insert and commit.
func insertBatches(ctx context.Context, r *suite.Run) (suite.Result, error) {
	const handlers, size = 4, 500
	l, err := freshRows(ctx, r, handlers)
	if err != nil {
		return nil, err
	}
	if err := l.createEffects(ctx); err != nil {
		return nil, err
	}
	insert := "INSERT INTO " + l.schema + ".effects (id, body) SELECT * FROM unnest($1::text[], $2::bytea[])"
	slots := make(chan struct{}, handlers)
	return bareLoop(ctx, r, func(ctx context.Context, records []*kgo.Record) error {
		g, ctx := errgroup.WithContext(ctx)
		for part := range slices.Chunk(records, size) {
			slots <- struct{}{}
			g.Go(func() error {
				defer func() { <-slots }()
				ids, bodies := make([]string, len(part)), make([][]byte, len(part))
				for i, rec := range part {
					ids[i], bodies[i] = fmt.Sprintf("%s-%d-%d", rec.Topic, rec.Partition, rec.Offset), rec.Value
				}
				_, err := l.pool.Exec(ctx, insert, ids, bodies)
				return err
			})
		}
		return g.Wait()
	})
}

// noLedger promises nothing: it is what the same run costs without a ledger.
type noLedger struct{}

var noOwners atomic.Int64

func (noLedger) Join(_ context.Context, lease time.Duration) (ledger.Owner, error) {
	return noOwner{fmt.Sprint("none-", noOwners.Add(1)), lease}, nil
}
func (noLedger) Limits() ledger.Limits { return ledger.DefaultLimits }

type noOwner struct {
	id    string
	lease time.Duration
}

func (o noOwner) ID() string                                  { return o.id }
func (o noOwner) AsksLate()                                   {}
func (o noOwner) Beat(context.Context) (time.Duration, error) { return o.lease, nil }
func (o noOwner) Leave(context.Context) error                 { return nil }
func (o noOwner) Claim(_ context.Context, entries []ledger.Entry) ([]ledger.Claim, error) {
	out := make([]ledger.Claim, len(entries))
	for i := range out {
		out[i] = ledger.Claim{Answer: ledger.Run, Ticket: ledger.NewTicket(entries[i].Key.Sum(), 1), Token: 1, Attempt: 1}
	}
	return out, nil
}
func (o noOwner) Settle(_ context.Context, settlements []ledger.Settlement) ([]error, error) {
	return make([]error, len(settlements)), nil
}
