package main

import (
	"context"
	"fmt"
	"time"
)

// cell is one run of the harness: a load, and what disturbs it. A cell without a disturbance has a second baseline instead.
type cell struct {
	name                    string
	workers, replicas, rate int
	depth                   int // 0: a fixed rate for each replica
	effects                 bool
	stress                  func(context.Context, *fleet) error
}

// cells are those of the sweep of 2026-05-09: its worker counts, rates and replicas.
func cells() []cell {
	return []cell{
		{"throughput, no-op", 256, 1, 50_000, 4000, false, nil},
		{"throughput, an insert each", 256, 1, 50_000, 4000, true, nil},
		{"steady", 32, 1, 800, 0, true, nil},
		{"sustained_high_load", 32, 1, 800, 0, true, highLoad},
		{"idle_in_tx", 32, 1, 800, 0, true, idleInTx},
		{"active_readers", 32, 1, 800, 0, true, activeReaders},
		{"chaos_crash_recovery", 32, 2, 300, 0, true, crash},
		{"chaos_repeated_kills", 32, 2, 300, 0, true, repeatedKills},
		{"chaos_postgres_restart", 32, 1, 600, 0, true, restartPostgres},
		{"chaos_pg_backend_kill", 32, 1, 600, 0, true, killBackends},
		{"chaos_pool_exhaustion", 32, 1, 600, 0, true, exhaustPool},
	}
}

// figures are what the replicas said in one phase.
type figures struct {
	rate, p50 float64 // the median second's
	p99       float64 // the worst second's, of the worst replica
}

// outcome is what a cell came to. Effects are those of the jobs; without effects they are what the handlers completed.
type outcome struct {
	phases               [3]figures // baseline, stress, recovery
	jobs, lost, repeated int64
	deadMost, deadEnd    int64
}

const head = "| cell | workers | offered | jobs | jobs/s: baseline, stress, recovery | end to end p50, ms | p99 of the worst second, ms " +
	"| lost | done twice | dead tuples: after stress, at the end |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n"

func (o *outcome) row(c cell) string {
	three := func(format string, of func(figures) float64) string {
		return fmt.Sprintf(format+" / "+format+" / "+format, of(o.phases[0]), of(o.phases[1]), of(o.phases[2]))
	}
	offered := fmt.Sprintf("%d × %d/s", c.replicas, c.rate)
	if c.depth > 0 {
		offered = fmt.Sprintf("depth %d", c.depth)
	}
	return fmt.Sprintf("| %s | %d × %d | %s | %d | %s | %s | %s | %d | %d | %d / %d |", c.name, c.replicas, c.workers, offered, o.jobs,
		three("%.0f", func(f figures) float64 { return f.rate }), three("%.1f", func(f figures) float64 { return f.p50 }),
		three("%.0f", func(f figures) float64 { return f.p99 }), o.lost, o.repeated, o.deadMost, o.deadEnd)
}

// run measures a cell on a PostgreSQL of its own. The warm-up ends half a phase after every replica has completed something.
func (c cell) run(ctx context.Context, brokers string, phase time.Duration) (o *outcome, err error) {
	f, err := newFleet(ctx, c, brokers)
	defer func() { err = f.close(err) }()
	if err != nil {
		return nil, err
	}
	o = &outcome{}
	if err := f.begun(ctx); err != nil {
		return nil, err
	}
	for i, name := range []string{warmUp, "baseline", "stress", "recovery"} {
		long := phase
		if i == 0 {
			long /= 2
		}
		if err := f.live(ctx, name, long); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		switch name {
		case "stress":
			o.deadMost, err = f.dead(ctx)
		case "recovery":
			o.deadEnd, err = f.dead(ctx)
		}
		if err != nil {
			return nil, err
		}
		if i > 0 {
			o.phases[i-1] = f.figures(name)
		}
	}
	return o, f.finish(ctx, o)
}
