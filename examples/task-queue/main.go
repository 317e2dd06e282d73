// Command task-queue handles the tasks of a queue that is neither SQS nor Kafka: a table that is polled, and that delivers a task again
// which was taken and not removed. The task's id is the request's key, so that it is charged once however often it is delivered.
//
// Alone it has two tasks in a temporary folder, and forgets to remove the first one, as if the process had died right then. With -dir the
// queue and the ledger stay in a folder of yours, so that it can be killed and started again: with -work in the middle of a task, with
// -removal between a task and its removal. It ends when the queue is empty.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/ackledger/ackledger/examples/internal/local"
	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

func main() {
	dir := flag.String("dir", "", "a folder for the queue and the ledger, made if it is not there; empty: a temporary one")
	w := worker{}
	flag.DurationVar(&w.work, "work", 0, "how long a task takes before it charges")
	flag.DurationVar(&w.removal, "removal", 0, "how long it takes to remove a task that is done")
	lease := flag.Duration("lease", 30*time.Second, "how long the task of a process that has died stays closed to others")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the first signal drains; a second one ends the process at once
	if err := run(ctx, &w, *dir, *lease); err != nil {
		log.Fatal(err)
	}
}

// worker handles the queue's tasks, one after the other.
type worker struct {
	queue         *queue
	runner        *idempotency.Runner
	work, removal time.Duration
	forgets       bool // to remove the first delivery of the first task
}

// charge does a task. The charge, its number and the task's success are one commit.
func (w *worker) charge(ctx context.Context, t task) (number int, err error) {
	fmt.Printf("%s, delivery %d: charging %d cents\n", t.ID, t.Delivery, t.Cents)
	if !local.Pause(ctx, w.work) {
		return 0, context.Cause(ctx)
	}
	err = sqlite.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS example_charge (number INTEGER PRIMARY KEY, task TEXT NOT NULL)"); err != nil {
			return err
		}
		if err := tx.QueryRowContext(ctx, "INSERT INTO example_charge (task) VALUES (?) RETURNING number", t.ID).Scan(&number); err != nil {
			return err
		}
		return idempotency.SetValue(ctx, number) // what another delivery gets
	})
	return number, err
}

// handle does a task unless the ledger knows that it is done, and removes it. What fails stays in the queue, and comes again, unless it has
// failed for good.
func (w *worker) handle(ctx context.Context, t task) error {
	q := idempotency.Request{Scope: "tasks", Key: t.ID, Body: []byte(fmt.Sprint(t.Cents))}
	number, err := idempotency.Do(ctx, w.runner, q, func(ctx context.Context) (int, error) { return w.charge(ctx, t) })
	failed, forGood := errors.AsType[*idempotency.FailedError](err)
	switch {
	case forGood:
		fmt.Printf("%s, delivery %d: failed for good: %v\n", t.ID, t.Delivery, failed)
	case err != nil:
		fmt.Printf("%s, delivery %d: comes again: %v\n", t.ID, t.Delivery, err)
		return nil
	default:
		fmt.Printf("%s, delivery %d: charge %d\n", t.ID, t.Delivery, number)
	}
	if w.forgets {
		w.forgets = false
		return nil
	}
	if !local.Pause(ctx, w.removal) {
		return nil
	}
	return w.queue.remove(context.WithoutCancel(ctx), t)
}

// poll handles tasks until the queue is empty, or ctx ends.
func (w *worker) poll(ctx context.Context) error {
	for !w.runner.Health().Ready {
		if !local.Pause(ctx, 10*time.Millisecond) {
			return nil
		}
	}
	for ctx.Err() == nil {
		t, found, err := w.queue.take(ctx)
		switch {
		case err == nil && found:
			err = w.handle(ctx, t)
		case err == nil:
			var left int
			if left, err = w.queue.left(ctx); err == nil && left == 0 {
				return nil
			}
			local.Pause(ctx, 20*time.Millisecond)
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

func run(ctx context.Context, w *worker, dir string, lease time.Duration) (err error) {
	path := ""
	if dir != "" {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		path = filepath.Join(dir, local.Kept)
	}
	ledger, err := local.OpenLedger(ctx, path, false)
	if err != nil {
		return err
	}
	defer ledger.Close()
	if w.queue, err = openQueue(ctx, filepath.Join(filepath.Dir(ledger.Path), "queue.db"), 500*time.Millisecond); err != nil {
		return err
	}
	defer w.queue.Close()
	for _, t := range []task{{ID: "task-1", Cents: 4200}, {ID: "task-2", Cents: 250}} {
		if err := w.queue.push(ctx, t); err != nil {
			return err
		}
	}
	w.forgets = dir == ""
	if w.runner, err = idempotency.New(ledger, idempotency.Options{Lease: lease, Logger: local.Logger(dir != "")}); err != nil {
		return err
	}
	running, end := context.WithCancel(ctx)
	polled := make(chan error, 1)
	go func() {
		polled <- w.poll(running)
		end()
	}()
	err = w.runner.Run(running)
	end() // it may have ended by itself
	return errors.Join(err, <-polled)
}
