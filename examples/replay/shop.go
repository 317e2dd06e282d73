package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/kafka"
	"github.com/ackledger/ackledger/ledger/sqlite"
	"github.com/ackledger/ackledger/sqs"
)

// shop consumes both brokers and charges orders.
type shop struct {
	b      *brokers
	ledger *sqlite.Ledger
	db     *sql.DB
	buggy  atomic.Bool
	failed atomic.Int64
	ran    atomic.Int64 // handlers since the bug was mended
}

const (
	createCharges = "CREATE TABLE charges (id TEXT NOT NULL) STRICT" // no unique constraint: a double would be seen
	insertCharge  = "INSERT INTO charges (id) VALUES (?)"
	readCharges   = "SELECT id, count(*) FROM charges GROUP BY id"
)

// charge is the handler: the charge and the message's success are committed together, or neither is.
func (s *shop) charge(ctx context.Context, m *consumer.Message) error {
	if s.buggy.Load() {
		s.failed.Add(1)
		return consumer.Terminal(errors.New("division by zero in the discount"))
	}
	s.ran.Add(1)
	return sqlite.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, insertCharge, string(m.Body))
		return err
	})
}

// start runs the workers until the returned function is called.
func (s *shop) start(ctx context.Context) (stop func() error, err error) {
	toQueue, err := sqs.NewDeadLetterQueue(s.b.sqs, s.b.deadURL)
	if err != nil {
		return nil, err
	}
	toTopic, err := kafka.NewDeadLetterTopic(s.b.kafka, dead)
	if err != nil {
		return nil, err
	}
	handler := consumer.HandlerFunc(s.charge)
	first, err := sqs.NewWorker(s.b.sqs, s.b.queueURL, s.ledger, handler, &sqs.Config{
		Options: options(group, toQueue), VisibilityTimeout: 10 * time.Second, WaitTime: time.Second,
	})
	if err != nil {
		return nil, err
	}
	second, err := kafka.NewWorker([]kgo.Opt{s.b.seeds, kgo.ConsumerGroup(group), kgo.ConsumeTopics(orders), kgo.InstanceID("demo")},
		s.ledger, handler, &kafka.Config{Options: options("", toTopic), CommitInterval: 50 * time.Millisecond})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- consumer.Run(ctx, first, second) }()
	return func() error { cancel(); return <-ended }, nil
}

// options are short in time, so that the demo is, and without the breaker, which would stop a handler that refuses all of its
// messages: production keeps the defaults.
func options(name string, target consumer.DeadLetterer) consumer.Options {
	return consumer.Options{Name: name, Concurrency: 4, Lease: 5 * time.Second, DeadLetter: target, Breaker: consumer.Breaker{Off: true}}
}

// audit reads the table of charges. The error says what is wrong with it.
func (s *shop) audit(ctx context.Context, n int) (charged int, err error) {
	rows, err := s.db.QueryContext(ctx, readCharges)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	got := map[string]int{}
	for rows.Next() {
		var id string
		var times int
		if err := rows.Scan(&id, &times); err != nil {
			return 0, err
		}
		got[id] = times
	}
	if err := rows.Err(); err != nil {
		return 0, err
	}
	return verdict(got, n)
}

// verdict counts the orders that were charged exactly once, and says which were not.
func verdict(got map[string]int, n int) (once int, err error) {
	missing, twice := 0, 0
	for i := range n {
		for _, broker := range []string{"sqs", "kafka"} {
			switch got[orderID(broker, i)] {
			case 0:
				missing++
			case 1:
				once++
			default:
				twice++
			}
		}
	}
	unknown := len(got) - once - twice
	if missing+twice+unknown > 0 {
		err = fmt.Errorf("%d orders are missing, %d were charged more than once, %d that nobody sent", missing, twice, unknown)
	}
	return once, err
}

// until waits for a condition.
func until(ctx context.Context, what string, ok func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, fmt.Errorf("not within a minute: %s", what))
	defer cancel()
	for look := time.NewTicker(50 * time.Millisecond); ; {
		if done, err := ok(); err != nil || done {
			return err
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
