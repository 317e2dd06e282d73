// Command cron makes a report at each tick of a schedule, on several hosts, and once for each tick: every host asks for it, with the tick's
// time as the key. One of them makes the report, and the others get that. A host that dies while it makes one leaves the tick to the
// others, once its lease is over.
//
// Alone it is two hosts in one process, for three ticks. With -ledger it is one host, until a signal, and shares the ledger's file with others
// that are started so on this machine. Hosts on several machines share a database (postgres.Open).
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log"
	"math"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/examples/internal/local"
	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

func main() {
	path := flag.String("ledger", "", "the file of a ledger that hosts share; empty: two hosts in this process, for three ticks")
	every := flag.Duration("every", 200*time.Millisecond, "the time between two ticks")
	work := flag.Duration("work", 0, "how long a report takes")
	lease := flag.Duration("lease", 30*time.Second, "how long the tick of a host that has died stays closed to others")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the first signal drains; a second one ends the process at once
	if err := run(ctx, *path, *every, *work, *lease); err != nil {
		log.Fatal(err)
	}
}

// host is one of the machines that have the schedule.
type host struct {
	number int
	runner *idempotency.Runner
	work   time.Duration
}

// report is the job. Its row, its number and the tick's success are one commit.
func (h *host) report(ctx context.Context) (number int, err error) {
	fmt.Println("making a report")
	if !local.Pause(ctx, h.work) {
		return 0, context.Cause(ctx)
	}
	err = sqlite.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS example_report (number INTEGER PRIMARY KEY)"); err != nil {
			return err
		}
		if err := tx.QueryRowContext(ctx, "INSERT INTO example_report DEFAULT VALUES RETURNING number").Scan(&number); err != nil {
			return err
		}
		return idempotency.SetValue(ctx, number) // what the other hosts get
	})
	return number, err
}

// ask asks for a tick's report until there is one, or can be none; false: ctx has ended before.
func (h *host) ask(ctx context.Context, tick time.Time) bool {
	q := idempotency.Request{Scope: "report", Key: tick.Format(time.RFC3339Nano)}
	for {
		number, err := idempotency.Do(ctx, h.runner, q, h.report)
		failed, forGood := errors.AsType[*idempotency.FailedError](err)
		switch {
		case err == nil:
			fmt.Printf("host %d: report %d\n", h.number, number)
			return true
		case forGood:
			fmt.Printf("host %d: there is no report: %v\n", h.number, failed)
			return true
		case ctx.Err() != nil:
			return false
		}
		fmt.Printf("host %d asks again: %v\n", h.number, err) // such as after 10 s beside a host that makes it still
		if !local.Pause(ctx, time.Second) {
			return false
		}
	}
}

// keep asks for so many ticks, from one that is due on.
func (h *host) keep(ctx context.Context, tick time.Time, every time.Duration, ticks int) {
	for !h.runner.Health().Ready {
		if !local.Pause(ctx, 10*time.Millisecond) {
			return
		}
	}
	for range ticks {
		if !local.Pause(ctx, time.Until(tick)) || !h.ask(ctx, tick) {
			return
		}
		tick = tick.Add(every)
	}
}

func run(ctx context.Context, path string, every, work, lease time.Duration) error {
	ledger, err := local.OpenLedger(ctx, path, false)
	if err != nil {
		return err
	}
	defer ledger.Close()
	hosts, ticks := 2, 3
	if path != "" {
		hosts, ticks = 1, math.MaxInt
	}
	due := time.Now().UTC().Truncate(every) // the latest tick: also if its host died, or none was up
	running, end := context.WithCancel(ctx)
	var runners []consumer.Worker
	var keep sync.WaitGroup
	for n := range hosts {
		runner, err := idempotency.New(ledger, idempotency.Options{Lease: lease, Logger: local.Logger(path != "")})
		if err != nil {
			end()
			return err
		}
		h := &host{number: n + 1, runner: runner, work: work}
		runners = append(runners, runner)
		keep.Go(func() { h.keep(running, due, every, ticks) })
	}
	go func() {
		keep.Wait()
		end()
	}()
	return consumer.Run(running, runners...)
}
