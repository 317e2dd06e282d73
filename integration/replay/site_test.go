package replay_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
	"github.com/ackledger/ackledger/sqs"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
)

// fury says how hard a storm is.
type fury struct {
	letters int     // dead letters
	kills   int     // how often a replay is killed
	speed   float64 // what a replay sends in a second, so that it is killed in the middle
}

// storms are how hard the storms are: one of a queue and one of a topic make 2,000 dead letters and 8 kills, or in the long
// run as many dead letters and 40 kills each.
func storms() fury {
	if os.Getenv("ACKLEDGER_LONG") != "" {
		return fury{letters: 2000, kills: 40, speed: 50}
	}
	return fury{letters: 1000, kills: 4, speed: 400}
}

// database is a ledger and the table of effects.
type database struct {
	t      *testing.T
	url    string
	pool   *pgxpool.Pool
	ledger *postgres.Ledger
}

func newDatabase(t *testing.T) *database {
	t.Helper()
	d := &database{t: t, url: services.Postgres(t).URL}
	config, err := pgx.ParseConfig(d.url)
	if err != nil {
		t.Fatal(err)
	}
	if err := postgres.Migrate(t.Context(), config, postgres.DefaultSchema); err != nil {
		t.Fatal(err)
	}
	if d.pool, err = pgxpool.New(t.Context(), d.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.pool.Close)
	if _, err = d.pool.Exec(t.Context(), `CREATE TABLE effect (seq bigserial, body text NOT NULL)`); err != nil {
		t.Fatal(err)
	}
	var end func()
	if d.ledger, end, err = openLedger(t.Context(), d.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	return d
}

func (d *database) count(query string) int {
	d.t.Helper()
	var n int
	if err := d.pool.QueryRow(d.t.Context(), query).Scan(&n); err != nil {
		d.t.Fatalf("%s: %v", query, err)
	}
	return n
}

// effects says what is wrong with the effects of n messages; empty: each is there once.
func (d *database) effects(n int) string {
	rows, bodies := d.count(`SELECT count(*) FROM effect`), d.count(`SELECT count(DISTINCT body) FROM effect`)
	if rows != n || bodies != n {
		return fmt.Sprintf("%d effects of %d messages, there are %d; messages in the ledger: %s", rows, bodies, n, d.states())
	}
	return ""
}

// states counts the messages by their state, and names some that have not succeeded.
func (d *database) states() string {
	count, some := map[ledger.State]int{}, ""
	for m, err := range d.ledger.Messages(d.t.Context(), ledger.Filter{}) {
		if err != nil {
			return err.Error()
		}
		if count[m.State]++; m.State != ledger.Succeeded && len(some) < 2000 {
			some += fmt.Sprintf("\n%s is %s, token %d, attempts %d, crashes %d: %+v", m.ID, m.State, m.Token, m.Attempts, m.Crashes, m.Status)
		}
	}
	return fmt.Sprint(count, some)
}

// expect says that each of n messages had its effect once, that nothing failed is left, and that the audit knows all.
func (d *database) expect(n int) {
	d.t.Helper()
	if wrong := d.effects(n); wrong != "" {
		d.t.Error(wrong)
	}
	open := 0
	for m, err := range d.ledger.Messages(d.t.Context(), ledger.Filter{}) {
		if err != nil {
			d.t.Fatal(err)
		}
		if m.State != ledger.Succeeded {
			open++
			d.t.Logf("%s is %s: %+v", m.ID, m.State, m.Status)
		}
	}
	if open > 0 {
		d.t.Errorf("%d messages have not succeeded", open)
	}
	audited := map[string]bool{}
	for a, err := range d.ledger.Audits(d.t.Context(), ledger.AuditFilter{Action: ledger.ActionReplay}) {
		if err != nil {
			d.t.Fatal(err)
		}
		if a.By != stormer || a.State == 0 || a.At.IsZero() {
			d.t.Errorf("an audit that does not say who, why, when and the old state: %+v", a)
		}
		audited[string(a.Key.ID)] = true
	}
	if len(audited) != n {
		d.t.Errorf("the audit knows %d messages of %d", len(audited), n)
	}
}

// runQueue runs a worker of a queue that forwards what fails to the dead-letter queue.
func runQueue(t *testing.T, d *database, client *awssqs.Client, source, dead string, h consumer.Handler) {
	t.Helper()
	target, err := sqs.NewDeadLetterQueue(client, dead)
	if err != nil {
		t.Fatal(err)
	}
	options := options("shop")
	options.DeadLetter, options.DeadLetterTries = target, 100 // on a starved machine, too: the storm begins with all letters there
	options.Lease = 10 * lease                                // it is not what is killed
	options.Logger = zaptest.NewLogger(t, zaptest.Level(zap.ErrorLevel))
	w, err := sqs.NewWorker(client, source, d.ledger, h, &sqs.Config{Options: options, VisibilityTimeout: 10 * time.Second, WaitTime: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	run(t, w)
}

// run runs a worker until the test ends.
func run(t *testing.T, w consumer.Worker) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("worker: %v", err)
		}
	})
}

// eventually polls until what holds, or fails with what is wrong.
func eventually(t *testing.T, what func() (wrong string)) {
	t.Helper()
	patience := 3 * time.Minute
	if os.Getenv("ACKLEDGER_LONG") != "" {
		patience = 10 * time.Minute
	}
	deadline := time.Now().Add(patience)
	for wrong := what(); wrong != ""; wrong = what() {
		if time.Now().After(deadline) {
			t.Fatalf("after %s: %s", patience, wrong)
		}
		time.Sleep(200 * time.Millisecond)
	}
}
