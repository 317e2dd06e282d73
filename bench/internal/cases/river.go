package cases

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/ackledger/ackledger/bench/internal/suite"
)

const riverNote = "a queue in the database: InsertManyFast of 5,000 jobs of 200 B at a time, then no-op work until the last job is " +
	"completed, both timed; MaxWorkers 1,000, FetchCooldown 2 ms, FetchPollInterval 20 ms, as River's own benchmark command sets them; 32 connections"

// riverWorked is the value without the insertion.
const riverWorked = "worked/s"

type riverJob struct {
	Body string `json:"body"`
}

// Kind implements river.JobArgs.
func (riverJob) Kind() string { return "bench" }

type riverWorker struct {
	river.WorkerDefaults[riverJob]
	left *atomic.Int64
	done chan struct{}
}

// Work implements river.Worker.
func (w *riverWorker) Work(context.Context, *river.Job[riverJob]) error {
	if w.left.Add(-1) == 0 {
		close(w.done)
	}
	return nil
}

func riverRun(ctx context.Context, r *suite.Run) (suite.Result, error) {
	d, schema, drop, err := newSchema(ctx, r)
	if err != nil {
		return nil, err
	}
	r.Cleanup(drop)
	pool, err := newPool(ctx, d.url, 32, nil)
	if err != nil {
		return nil, err
	}
	r.Cleanup(func() error { pool.Close(); return nil })
	driver, quiet := riverpgxv5.New(pool), slog.New(slog.DiscardHandler)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Schema: schema, Logger: quiet})
	if err != nil {
		return nil, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, err
	}
	worker := &riverWorker{left: &atomic.Int64{}, done: make(chan struct{})}
	worker.left.Store(int64(r.N))
	workers := river.NewWorkers()
	river.AddWorker(workers, worker)
	client, err := river.NewClient(driver, &river.Config{Schema: schema, Workers: workers, Logger: quiet,
		FetchCooldown: 2 * time.Millisecond, FetchPollInterval: 20 * time.Millisecond,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 1000}}})
	if err != nil {
		return nil, err
	}
	jobs := make([]river.InsertManyParams, min(5000, r.N))
	for i := range jobs {
		jobs[i].Args = riverJob{strings.Repeat("x", bodySize)}
	}
	begin := time.Now()
	for left := r.N; left > 0; left -= len(jobs) {
		if _, err := client.InsertManyFast(ctx, jobs[:min(left, len(jobs))]); err != nil {
			return nil, err
		}
	}
	inserted := time.Now()
	if err := client.Start(ctx); err != nil {
		return nil, err
	}
	select {
	case <-worker.done:
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), client.Stop(context.WithoutCancel(ctx)))
	}
	if err := client.Stop(ctx); err != nil { // writes the last completions
		return nil, err
	}
	end := time.Now()
	var completed int
	if err := pool.QueryRow(ctx, "SELECT count(*) FROM "+schema+".river_job WHERE state = 'completed'").Scan(&completed); err != nil {
		return nil, err
	}
	if completed != r.N {
		return nil, fmt.Errorf("%d of %d jobs are completed", completed, r.N)
	}
	res := suite.Throughput(r.N, end.Sub(begin))
	res[riverWorked] = float64(r.N) / end.Sub(inserted).Seconds()
	return res, nil
}
