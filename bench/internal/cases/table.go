package cases

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ackledger/ackledger/bench/internal/suite"
	"github.com/ackledger/ackledger/ledger"
)

// Names of the table rows' own values.
const (
	rowsLeft = "rows left"
	behind   = "s behind" // how much older than its window the oldest row is, roughly
)

const tableGroup = "table size"

func tableCases() []suite.Case {
	n := suite.Size{Full: 300_000, Quick: 20_000, Smoke: 1000}
	return []suite.Case{
		{Group: tableGroup, Name: "ours, smaller table", N: n, Limit: 30 * time.Minute,
			Note: "1 million succeeded messages (quick: 100,000), and then new ones in batches of 2,000; each round leaves its own there",
			Run:  grown(suite.Size{Full: 1_000_000, Quick: 100_000, Smoke: 2000})},
		{Group: tableGroup, Name: "ours, larger table", N: n, Limit: 30 * time.Minute, Note: "20 million (quick: 500,000)",
			Run: grown(suite.Size{Full: 20_000_000, Quick: 500_000, Smoke: 8000})},
		{Group: tableGroup, Name: "ours, with the sweep", N: suite.Size{Full: 1_500_000, Quick: 150_000, Smoke: 4000},
			Note: "messages whose window is 2 s (quick: 0.5 s), in batches of 2,000, while Maintain removes what has expired", Run: sustained},
	}
}

// filled is a ledger that holds messages from the rounds before.
type filled struct {
	*rows
	owner ledger.Owner
	held  int
}

// grown measures claims and settles of new messages beside so many finished ones, which are put there once.
func grown(size suite.Size) func(context.Context, *suite.Run) (suite.Result, error) {
	return func(ctx context.Context, r *suite.Run) (suite.Result, error) {
		held := r.Mode.Of(size)
		f, err := suite.Once(r.Of, fmt.Sprintf("table of %d rows", held), func() (*filled, func() error, error) { return fill(ctx, r, held, 1) })
		if err != nil {
			return nil, err
		}
		if err := f.db.checkpoint(ctx, r); err != nil { // of what was filled in
			return nil, err
		}
		res, err := f.add(ctx, r.N)
		if err != nil {
			return nil, err
		}
		bytes, err := f.db.size(ctx, f.schema)
		if err != nil {
			return nil, err
		}
		res[suite.BytesEach] = float64(bytes) / float64(f.held)
		res[suite.HotShare], err = f.db.hot(ctx, f.schema)
		return res, err
	}
}

func fill(ctx context.Context, r *suite.Run, n int, conns int32) (*filled, func() error, error) {
	l, undo, err := newRows(ctx, r, conns)
	if err != nil {
		return nil, nil, err
	}
	o, err := l.Join(ctx, time.Hour)
	if err != nil {
		return nil, nil, errors.Join(err, undo())
	}
	f := &filled{rows: l, owner: ledger.Unwrap(o)}
	const step = 400_000
	for left := n; left > 0; left -= step {
		if _, err := f.add(ctx, min(step, left)); err != nil {
			return nil, nil, errors.Join(err, undo())
		}
	}
	return f, undo, nil
}

// add claims and settles n more.
func (f *filled) add(ctx context.Context, n int) (suite.Result, error) {
	res, err := batches(ctx, f.owner, 2000, f.held, n)
	f.held += n
	return res, err
}

// sustained keeps a ledger busy while it is swept: what is removed must keep up with what comes.
func sustained(ctx context.Context, r *suite.Run) (suite.Result, error) {
	window := map[suite.Mode]time.Duration{suite.Full: 2 * time.Second, suite.Quick: time.Second / 2, suite.Smoke: time.Millisecond}[r.Mode]
	l, err := freshRows(ctx, r, 1)
	if err != nil {
		return nil, err
	}
	sweeping, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- l.Maintain(sweeping, ledger.MaintainConfig{Interval: 100 * time.Millisecond}) }()
	res, err := joined(ctx, l, func(o ledger.Owner) (suite.Result, error) { return brief(ctx, ledger.Unwrap(o), window, r.N) })
	stop()
	if err := errors.Join(err, <-ended); err != nil {
		return nil, err
	}
	var left int64
	if err := l.pool.QueryRow(ctx, "SELECT count(*) FROM "+l.schema+".message").Scan(&left); err != nil {
		return nil, err
	}
	// Rows live for their window; at this rate those that are left came in the last left/rate seconds.
	res[rowsLeft], res[behind] = float64(left), max(0, float64(left)/res[suite.Rate]-window.Seconds())
	return res, nil
}

// brief is batches of messages with a window of their own.
func brief(ctx context.Context, o ledger.Owner, window time.Duration, n int) (suite.Result, error) {
	return batchesOf(ctx, 2000, n, func(ctx context.Context, partition, from, n int) error {
		entries := newEntries(partition, from, n)
		for i := range entries {
			entries[i].Window = window
		}
		return claimAndSettle(ctx, o, entries)
	})
}
