package cases

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/ackledger/ackledger/bench/internal/suite"
	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/kafka"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
	"github.com/ackledger/ackledger/outbox"
)

const (
	outboxGroup   = "outbox"
	outboxCommit  = 500 // messages of one commit
	outboxWriters = 2
	outboxTarget  = "target"
)

func outboxCases() []suite.Case {
	n := suite.Size{Full: 400_000, Quick: 60_000, Smoke: 2000}
	queued := suite.Size{Full: 50_000, Quick: 8000}
	const counts = "200 B, 10,000 keys, InTx that publish 500 messages each, two at a time; "
	return []suite.Case{
		{Group: outboxGroup, Name: "ours, commit to broker", N: n, Run: relaying(false), Note: counts + "they commit while a relay sends: from the first claim until Kafka has the last one"},
		{Group: outboxGroup, Name: "ours, relay", N: n, Run: relaying(true), Note: counts + "they have committed before the relay begins: from its start until Kafka has the last one"},
		{Group: outboxGroup, Name: "bare loop", N: n, Run: bareRelay,
			Note: "SELECT of the 1,000 lowest rows, produce, wait, DELETE, one after the other, no order of commits, no stamps, no second relay; the rows are there before"},
		{Group: outboxGroup, Name: "ours, relay to SQS", N: queued, Run: relayingToQueue, Note: counts + "they have committed before the relay begins: from its start until sqstest, 0 ms, has the last one"},
		{Group: outboxGroup, Name: "bare SendMessageBatch", N: queued, Run: bareSends, Note: "ten messages in a call, eight calls at once, no database, into sqstest, 0 ms"},
	}
}

// box is a ledger, a topic, and a client that produces to it.
type box struct {
	*rows
	cluster *cluster
	topic   string
	client  *kgo.Client
}

func newBox(ctx context.Context, r *suite.Run) (*box, error) {
	c, err := kafkaServer(ctx, r)
	if err != nil {
		return nil, err
	}
	b := &box{cluster: c, topic: "bench-" + newName()}
	if b.rows, err = freshRows(ctx, r, outboxWriters); err != nil {
		return nil, err
	}
	if _, err := c.admin.CreateTopic(ctx, partitions, 1, nil, b.topic); err != nil {
		return nil, err
	}
	r.Cleanup(func() error { _, err := c.admin.DeleteTopic(context.Background(), b.topic); return err })
	if b.client, err = kgo.NewClient(kgo.SeedBrokers(c.brokers...), kgo.DefaultProduceTopic(b.topic), kgo.UnknownTopicRetries(-1)); err != nil {
		return nil, err
	}
	r.Cleanup(func() error { b.client.Close(); return nil })
	return b, nil
}

// publish commits n messages.
func publish(ctx context.Context, rows *rows, n int) error {
	o, err := rows.Join(ctx, time.Hour)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(outboxWriters)
	for from := 0; from < n; from += outboxCommit {
		g.Go(func() error { return commit(ctx, o, from, min(from+outboxCommit, n)) })
	}
	return errors.Join(g.Wait(), o.Leave(context.WithoutCancel(ctx)))
}

// commit handles one message, which publishes others in its commit.
func commit(ctx context.Context, o ledger.Owner, from, to int) error {
	id := fmt.Appendf(nil, "message-%d", from)
	claims, err := o.Claim(ctx, []ledger.Entry{{Key: ledger.Key{Scope: "bench", ID: id}, Fingerprint: ledger.BodyFingerprint(id), Delivery: id, Window: time.Hour}})
	if err != nil {
		return err
	}
	out := make([]ledger.Outgoing, 0, to-from)
	for i := from; i < to; i++ {
		body := bytes.Repeat([]byte{' '}, bodySize) // a queue takes text alone
		copy(body, fmt.Appendf(nil, "message-%d", i))
		out = append(out, ledger.Outgoing{Target: outboxTarget, Key: fmt.Appendf(nil, "key-%d", i%(partitions*keysEach)), Body: body})
	}
	ctx = ledger.WithAttempt(ctx, ledger.NewAttempt(o, claims[0].Ticket))
	return postgres.InTx(ctx, func(ctx context.Context, _ pgx.Tx) error { return consumer.Publish(ctx, out...) })
}

// relaying measures messages that are committed and relayed, or relayed alone.
func relaying(before bool) func(context.Context, *suite.Run) (suite.Result, error) {
	return func(ctx context.Context, r *suite.Run) (suite.Result, error) {
		b, err := newBox(ctx, r)
		if err != nil {
			return nil, err
		}
		if before {
			if err := errors.Join(publish(ctx, b.rows, r.N), b.db.checkpoint(ctx, r)); err != nil {
				return nil, err
			}
		}
		target, err := kafka.NewPublisher(b.client, b.topic)
		if err != nil {
			return nil, err
		}
		return relayed(ctx, r, b.rows, target, func() (err error) {
			if !before {
				err = publish(ctx, b.rows, r.N)
			}
			if err == nil {
				err = b.arrived(ctx, r.N)
			}
			return err
		})
	}
}

// relayed measures a relay until all has arrived.
func relayed(ctx context.Context, r *suite.Run, rows *rows, target consumer.Publisher, arrived func() error) (suite.Result, error) {
	w, err := outbox.New(rows.Ledger, consumer.Relay{Targets: map[string]consumer.Publisher{outboxTarget: target}})
	if err != nil {
		return nil, err
	}
	part, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	began := time.Now()
	go func() { ended <- w.Run(part) }()
	err = arrived()
	took := time.Since(began)
	cancel()
	if err := errors.Join(err, <-ended); err != nil {
		return nil, err
	}
	return suite.Result{suite.Rate: float64(r.N) / took.Seconds()}, nil
}

// arrived waits until the topic has n records.
func (b *box) arrived(ctx context.Context, n int) error {
	for {
		ends, err := b.cluster.admin.ListEndOffsets(ctx, b.topic)
		if err != nil {
			return err
		}
		total := int64(0)
		for _, o := range ends[b.topic] {
			total += o.Offset
		}
		switch {
		case total == int64(n):
			return nil
		case total > int64(n):
			return fmt.Errorf("%d records, want %d", total, n)
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// bareRelay is the loop that people write.
func bareRelay(ctx context.Context, r *suite.Run) (suite.Result, error) {
	b, err := newBox(ctx, r)
	if err != nil {
		return nil, err
	}
	pool, err := freshPool(ctx, r, 1)
	if err != nil {
		return nil, err
	}
	_, err = pool.Exec(ctx, `CREATE TABLE outbox (id bigserial PRIMARY KEY, key bytea, body bytea)`)
	if err == nil {
		_, err = pool.Exec(ctx, `INSERT INTO outbox (key, body) SELECT convert_to('key-' || i % $2, 'UTF8'), convert_to(rpad(i::text, $3), 'UTF8') FROM generate_series(1, $1::int) i`,
			r.N, partitions*keysEach, bodySize)
	}
	if err := errors.Join(err, b.db.checkpoint(ctx, r)); err != nil {
		return nil, err
	}
	began := time.Now()
	for left := r.N; left > 0; {
		rows, err := pool.Query(ctx, "SELECT id, key, body FROM outbox ORDER BY id LIMIT 1000")
		if err != nil {
			return nil, err
		}
		var ids []int64
		var records []*kgo.Record
		for rows.Next() {
			var id int64
			rec := &kgo.Record{}
			if err := rows.Scan(&id, &rec.Key, &rec.Value); err != nil {
				return nil, err
			}
			ids, records = append(ids, id), append(records, rec)
		}
		if err := rows.Err(); err != nil {
			return nil, err
		}
		if err := b.client.ProduceSync(ctx, records...).FirstErr(); err != nil {
			return nil, err
		}
		if _, err := pool.Exec(ctx, "DELETE FROM outbox WHERE id = ANY($1)", ids); err != nil {
			return nil, err
		}
		left -= len(ids)
	}
	return suite.Result{suite.Rate: float64(r.N) / time.Since(began).Seconds()}, nil
}
