package cases

import (
	"context"
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

const shortGroup = "kafka, 1 ms handlers by key"

// rangeCases are rows about records that are held in ranges, beside those of group kafka.
func rangeCases() []suite.Case {
	const handlers = 64
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
		short("ours, no ledger", "concurrency 64; a ledger that says yes to everything and writes nothing",
			func(context.Context, *suite.Run) (ledger.Ledger, error) { return noLedger{}, nil }),
		short("ours, ranges", "the same with the PostgreSQL ledger",
			func(ctx context.Context, r *suite.Run) (ledger.Ledger, error) { return freshRows(ctx, r, 1) }),
	}
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
