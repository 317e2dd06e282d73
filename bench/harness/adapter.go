package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/kafka"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// manifest is what the harness reads before it starts an adapter.
//
//go:embed adapter.json
var manifest []byte

const (
	partitions   = 8
	insertEffect = `INSERT INTO public.effect (part, pos) VALUES ($1, $2)`
	// createEffects makes the table of what the handlers did. No index hides what is done twice.
	createEffects = `SELECT pg_advisory_xact_lock(7218);
		CREATE TABLE IF NOT EXISTS public.effect (part integer NOT NULL, pos bigint NOT NULL)`
)

// adapter is one replica: a producer and a worker.
type adapter struct {
	settings
	system                       string
	out                          *json.Encoder
	client                       *kgo.Client
	enqueued, started, completed atomic.Int64
	claim, whole                 *latencies
}

// serve is the adapter's process. It ends cleanly with SIGTERM.
func serve(scenario string) error {
	s, err := read(os.Getenv)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	pool, err := s.migrate(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	switch scenario {
	case "migrate_only":
		return nil
	case "long_horizon":
		return s.run(ctx, pool)
	}
	return fmt.Errorf("SCENARIO must be long_horizon or migrate_only, is %q", scenario)
}

// migrate brings the database to where the adapter can run, and connects to it.
func (s settings) migrate(ctx context.Context) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(s.database)
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(s.conns)
	if err := postgres.Migrate(ctx, config.ConnConfig, postgres.DefaultSchema); err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if _, err := pool.Exec(ctx, createEffects, pgx.QueryExecModeSimpleProtocol); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// run produces and works until ctx ends.
func (s settings) run(ctx context.Context, pool *pgxpool.Pool) error {
	l, err := postgres.New(ctx, pool, nil)
	if err != nil {
		return err
	}
	defer l.Close()
	id, err := l.ID(ctx)
	if err != nil {
		return err
	}
	s.topic = cmp.Or(s.topic, "ackledger-bench-"+id) // a new database begins a new topic
	brokers := kgo.SeedBrokers(strings.Split(s.brokers, ",")...)
	client, err := kgo.NewClient(brokers, kgo.DefaultProduceTopic(s.topic), kgo.ProducerLinger(0)) // a call is a batch already
	if err != nil {
		return err
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopic(ctx, partitions, 1, nil, s.topic); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return err
	}
	a := &adapter{settings: s, out: json.NewEncoder(os.Stdout), client: client,
		claim: newLatencies(int(s.window / s.every)), whole: newLatencies(int(s.window / s.every))}
	w, err := kafka.NewWorker([]kgo.Opt{brokers, kgo.ConsumerGroup(s.topic), kgo.ConsumeTopics(s.topic), kgo.SessionTimeout(s.takeOver)},
		l, consumer.HandlerFunc(a.handle), &kafka.Config{Order: kafka.OrderNone,
			Options: consumer.Options{Concurrency: s.workers, Lease: s.takeOver, Drain: 3 * time.Second}})
	if err != nil {
		return err
	}
	if err := a.describe(); err != nil {
		return err
	}
	go func() { _, _ = io.Copy(io.Discard, os.Stdin) }() // the harness' pacer writes there, and must not wait
	beside, over := context.WithCancel(context.WithoutCancel(ctx))
	defer over()
	var g errgroup.Group
	g.Go(func() error { a.produce(ctx); return nil })
	g.Go(func() error { a.sample(beside); return nil })
	err = w.Run(ctx)
	over()
	return errors.Join(err, g.Wait())
}

// handle is one job. With effects, each inserts a row that commits with the job's success.
func (a *adapter) handle(ctx context.Context, m *consumer.Message) error {
	text, _, _ := bytes.Cut(m.Body, []byte(" "))
	nano, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return consumer.Terminal(err)
	}
	sent := time.Unix(0, nano)
	a.started.Add(1)
	a.claim.add(time.Since(sent))
	time.Sleep(a.work)
	if a.effects {
		err := postgres.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, insertEffect, m.Partition, m.Offset)
			return err
		})
		if err != nil {
			return err
		}
	}
	a.completed.Add(1)
	a.whole.add(time.Since(sent))
	return nil
}

// produce offers jobs until ctx ends: at a rate that is credited by the clock, or as many as keep the wanted depth.
func (a *adapter) produce(ctx context.Context) {
	last, credit := time.Now(), 0.0
	for {
		rate, now := a.offered(), time.Now()
		credit += rate * now.Sub(last).Seconds()
		last = now
		n := min(int(credit), a.batch)
		switch {
		case rate == 0:
			n, credit = 0, 0
		case a.depthTarget:
			n = min(a.depth-int(a.enqueued.Load()-a.started.Load()), a.batch)
		}
		if n > 0 {
			a.send(n)
			credit -= float64(n)
		}
		if n < a.batch && !pause(ctx, a.tick) || ctx.Err() != nil {
			return
		}
	}
}

// offered is the rate of now: the harness changes it by a file.
func (a *adapter) offered() float64 {
	text, err := os.ReadFile(a.control)
	if err != nil {
		return float64(a.rate)
	}
	rate, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
	if err != nil {
		return float64(a.rate) // the file is just being written
	}
	return max(0, rate)
}

// send produces n jobs in one call. A job has when it was sent, and x.
func (a *adapter) send(n int) {
	body := fmt.Appendf(nil, "%d ", time.Now().UnixNano())
	body = append(body, bytes.Repeat([]byte("x"), max(0, a.payload-len(body)))...)
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = &kgo.Record{Value: body}
	}
	for _, r := range a.client.ProduceSync(context.Background(), records...) {
		if r.Err != nil {
			fmt.Fprintln(os.Stderr, "produce:", r.Err)
			continue
		}
		a.enqueued.Add(1)
	}
}

// pause waits, and is false once ctx ends.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
