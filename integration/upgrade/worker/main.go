package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/kafka"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// The arguments are "migrate URL", or "work URL BROKERS TOPIC NAME": the name goes into each effect.
func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, args []string) error {
	config, err := pgxpool.ParseConfig(args[1])
	if err != nil {
		return err
	}
	if args[0] == "migrate" {
		return postgres.Migrate(ctx, config.ConnConfig, "")
	}
	config.MaxConns = 16
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	l, err := postgres.New(ctx, pool, nil)
	if err != nil {
		return err
	}
	defer l.Close()
	handle := func(ctx context.Context, m *consumer.Message) error {
		return postgres.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO effect (message, worker) VALUES ($1, $2)", string(m.Body), args[4])
			return err
		})
	}
	w, err := kafka.NewWorker([]kgo.Opt{kgo.SeedBrokers(strings.Split(args[2], ",")...), kgo.ConsumerGroup(args[3]), kgo.ConsumeTopics(args[3])}, l,
		consumer.HandlerFunc(handle), &kafka.Config{CommitInterval: 100 * time.Millisecond, Options: consumer.Options{Concurrency: 16}})
	if err != nil {
		return err
	}
	fmt.Println("begins")
	return w.Run(ctx)
}
