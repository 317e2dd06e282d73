package secure_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
	"github.com/ackledger/ackledger/sqs"
	"github.com/ackledger/ackledger/sqs/sqstest"
)

// serverConnections is how many connections the pooler has to the server: fewer than the worker has to the pooler, so that
// the statements of one client run on many.
const serverConnections = 3

// poolerModes are the ways to send that a pooler in transaction mode needs: no prepared statement outlives its
// transaction.
var poolerModes = map[string]pgx.QueryExecMode{"exec": pgx.QueryExecModeExec, "simple": pgx.QueryExecModeSimpleProtocol}

// TestBehindPgBouncer: a worker whose ledger lies behind PgBouncer in transaction mode claims, settles, beats and commits
// effects as it does without, and what was committed is there once.
func TestBehindPgBouncer(t *testing.T) {
	t.Parallel()
	db := services.Postgres(t)
	url := startPooler(t, db.URL)
	migrate(t, db.URL)
	plain := openPool(t, db.URL, pgx.QueryExecModeCacheStatement)
	if _, err := plain.Exec(t.Context(), `CREATE TABLE effect (mode text NOT NULL, body text NOT NULL)`); err != nil {
		t.Fatal(err)
	}
	for name, mode := range poolerModes {
		t.Run(name, func(t *testing.T) {
			pool := openPool(t, url, mode)
			cycle(t, pool, 50)
			work(t, name, pool, plain)
		})
	}
	if r := ackledger(t, "list", "--ledger", services.WithParameter(t, url, "default_query_exec_mode", "exec"), "--state", "succeeded"); r.code != 0 || !strings.Contains(r.text, "succeeded") {
		t.Errorf("list: code %d: %s", r.code, r.text)
	}
	if r := ackledger(t, "migrate", "--ledger", url); r.code != 1 || !strings.Contains(r.text, "a pooler in transaction mode") {
		t.Errorf("migrate: code %d: %s", r.code, r.text)
	}
	if r := ackledger(t, "doctor", "--ledger", services.WithParameter(t, url, "default_query_exec_mode", "exec")); !strings.Contains(r.text, "behind a pooler") {
		t.Errorf("doctor: code %d: %s", r.code, r.text)
	}
	var clients int
	if err := plain.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND pid <> pg_backend_pid()`,
		db.Database).Scan(&clients); err != nil || clients > serverConnections+4 { // and those of plain
		t.Errorf("%d connections to the server, %v: the worker went past the pooler", clients, err)
	}
}

// startPooler returns the URL that leads to the database through a pooler of the test's own.
func startPooler(t *testing.T, database string) string {
	t.Helper()
	pooler, err := services.StartPgBouncer(t.Context(), database, serverConnections)
	if errors.Is(err, services.ErrNoPgBouncer) {
		services.Missing(t, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pooler.Close(); err != nil {
			t.Error(err)
		}
	})
	url, err := pooler.URL(database)
	if err != nil {
		t.Fatal(err)
	}
	return url
}

// migrate makes the tables past the pooler: it needs a session.
func migrate(t *testing.T, database string) {
	t.Helper()
	direct, err := pgx.ParseConfig(database)
	if err != nil {
		t.Fatal(err)
	}
	if err := postgres.Migrate(t.Context(), direct, postgres.DefaultSchema); err != nil {
		t.Fatal(err)
	}
}

// work runs a worker on 100 messages, each of which fails once and has one effect.
func work(t *testing.T, mode string, pool, plain *pgxpool.Pool) {
	t.Helper()
	const messages = 100
	server := sqstest.Start(t, nil)
	client := server.Client()
	url, err := server.CreateQueue("orders", map[string]string{"VisibilityTimeout": "60"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range messages {
		if _, err := client.SendMessage(t.Context(), &awssqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String(fmt.Sprint(i))}); err != nil {
			t.Fatal(err)
		}
	}
	l, err := postgres.New(t.Context(), pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	handle := consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
		return postgres.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `INSERT INTO effect (mode, body) VALUES ($1, $2)`, mode, string(m.Body)); err != nil {
				return err
			}
			if m.Attempt == 1 {
				return errors.New("once more")
			}
			return nil
		})
	})
	// A short lease, so that there are beats while it works.
	w, err := sqs.NewWorker(client, url, l, handle, &sqs.Config{Options: consumer.Options{
		Name: mode, Concurrency: 16, Lease: 3 * time.Second, Drain: 5 * time.Second, BackoffBase: 10 * time.Millisecond, BackoffMax: 50 * time.Millisecond,
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	eventually(t, "the queue is empty", func() bool { return server.Queue("orders").Depth() == 0 })
	stop()
	if err := <-ended; err != nil {
		t.Fatalf("Run: %v", err)
	}
	var effects, bodies int
	if err := plain.QueryRow(t.Context(), `SELECT count(*), count(DISTINCT body) FROM effect WHERE mode = $1`, mode).Scan(&effects, &bodies); err != nil {
		t.Fatal(err)
	}
	if effects != messages || bodies != messages {
		t.Errorf("%d effects of %d messages, there are %d", effects, bodies, messages)
	}
	stats, succeeded := 0, 0
	for m, err := range l.Messages(t.Context(), ledger.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if stats++; m.State == ledger.Succeeded {
			succeeded++
		}
	}
	if succeeded < messages {
		t.Errorf("%d of %d messages have succeeded, want %d", succeeded, stats, messages)
	}
}
