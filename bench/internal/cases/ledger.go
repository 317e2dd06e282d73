package cases

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ackledger/ackledger/bench/internal/suite"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

// All are the rows of the benchmark, in the order of the report.
func All() []suite.Case {
	var all []suite.Case
	for _, list := range [][]suite.Case{ledgerCases(), kafkaCases(), shareCases(), inboxCases(), inboxLatencyCases(), fileCases(), slowCases(), rangeCases(), costCases(), sqsCases(), replayCases(), dynamoCases(), tenantCases(), parkedCases(), sourceCases(), adaptiveCases(), latencyCases(), requestCases(), stepCases(), outboxCases(), httpCases(), tableCases(), pageCases(), memoryCases()} {
		all = append(all, list...)
	}
	return all
}

const batchers = 4 // how many batches are under way at once where a row is about batches

func ledgerCases() []suite.Case {
	out := []suite.Case{
		bareCase(500, suite.Size{Full: 300_000, Quick: 40_000}),
		bareCase(2000, suite.Size{Full: 400_000, Quick: 60_000, Smoke: 2500}),
		batchCase("ours, batches of 500", 500, suite.Size{Full: 300_000, Quick: 40_000}),
		batchCase("ours, batches of 2000", 2000, suite.Size{Full: 400_000, Quick: 60_000, Smoke: 2500}),
	}
	for _, c := range []struct {
		callers int
		n       suite.Size
	}{
		{1, suite.Size{Full: 2000, Quick: 300, Smoke: 20}}, {8, suite.Size{Full: 20_000, Quick: 2500}}, {64, suite.Size{Full: 100_000, Quick: 15_000}},
		{512, suite.Size{Full: 200_000, Quick: 40_000}}, {2000, suite.Size{Full: 300_000, Quick: 60_000}},
	} {
		out = append(out, suite.Case{Group: "ledger", Name: fmt.Sprintf("ours, %d callers", c.callers), N: c.n,
			Note: "each caller claims one message, settles it, and takes the next; grouped by the ledger",
			Run: func(ctx context.Context, r *suite.Run) (suite.Result, error) {
				l, err := freshRows(ctx, r, 1)
				if err != nil {
					return nil, err
				}
				return joined(ctx, l, func(o ledger.Owner) (suite.Result, error) { return callers(ctx, o, c.callers, r.N) })
			}})
	}
	return append(out,
		suite.Case{Group: "ledger", Name: "per message", Note: "INSERT … ON CONFLICT DO NOTHING, then UPDATE, one statement and one commit each, 32 connections",
			N: suite.Size{Full: 20_000, Quick: 4000}, Run: perMessage(true)},
		suite.Case{Group: "ledger", Name: "per message, insert alone", Note: "the INSERT alone: no claim, a message that crashed is never run again; 32 connections",
			N: suite.Size{Full: 30_000, Quick: 6000}, Run: perMessage(false)},
		suite.Case{Group: "ledger", Name: "ours, SQLite, batches of 2000", Note: "ledger/sqlite, synchronous=FULL; one writer at a time",
			N: suite.Size{Full: 100_000, Quick: 20_000}, Run: sqliteBatches},
		suite.Case{Group: "ledger", Name: "ours, memory, batches of 2000", Note: "ledger/memory: no durability, for comparison",
			N: suite.Size{Full: 1_000_000, Quick: 200_000},
			Run: func(ctx context.Context, r *suite.Run) (suite.Result, error) {
				return joined(ctx, memory.New(), func(o ledger.Owner) (suite.Result, error) { return batches(ctx, o, 2000, 0, r.N) })
			}},
	)
}

func bareCase(size int, n suite.Size) suite.Case {
	return suite.Case{Group: "ledger", Name: fmt.Sprintf("bare SQL, batches of %d", size), Note: bareNote, N: n,
		Run: func(ctx context.Context, r *suite.Run) (suite.Result, error) {
			b, err := newBare(ctx, r, batchers)
			if err != nil {
				return nil, err
			}
			return batchesOf(ctx, size, r.N, func(ctx context.Context, partition, from, n int) error {
				batch := newBareBatch(partition, from, n)
				return errors.Join(b.claim(ctx, batch), b.settle(ctx, batch))
			})
		}}
}

func batchCase(name string, size int, n suite.Size) suite.Case {
	return suite.Case{Group: "ledger", Name: name, Note: "4 batches at once, each exactly as it was handed over (not grouped)", N: n,
		Run: func(ctx context.Context, r *suite.Run) (suite.Result, error) {
			l, err := freshRows(ctx, r, 1)
			if err != nil {
				return nil, err
			}
			return joined(ctx, l, func(o ledger.Owner) (suite.Result, error) { return batches(ctx, ledger.Unwrap(o), size, 0, r.N) })
		}}
}

// joined calls f with an owner that leaves afterwards.
func joined(ctx context.Context, l ledger.Ledger, f func(ledger.Owner) (suite.Result, error)) (suite.Result, error) {
	o, err := l.Join(ctx, time.Hour) // no beats are needed
	if err != nil {
		return nil, err
	}
	res, err := f(o)
	return res, errors.Join(err, o.Leave(ctx))
}

// batches claims and settles n new messages in batches, a few at once. They come after the first so many.
func batches(ctx context.Context, o ledger.Owner, size, after, n int) (suite.Result, error) {
	return batchesOf(ctx, size, n, func(ctx context.Context, partition, from, n int) error {
		return claimAndSettle(ctx, o, newEntries(partition, after/batchers+from, n))
	})
}

// batchesOf calls do for n messages in batches, a few at once: the partition, the first offset, how many. What has to be
// computed for a message is part of the work, here as in the bare rows.
func batchesOf(ctx context.Context, size, n int, do func(ctx context.Context, partition, from, n int) error) (suite.Result, error) {
	each := n / batchers
	g, ctx := errgroup.WithContext(ctx)
	begin := time.Now()
	for w := range batchers {
		g.Go(func() error {
			for from := 0; from < each; from += size {
				if err := do(ctx, w, from, min(size, each-from)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := g.Wait()
	return suite.Throughput(each*batchers, time.Since(begin)), err
}

// callers claims and settles n new messages one by one, from so many goroutines.
func callers(ctx context.Context, o ledger.Owner, callers, n int) (suite.Result, error) {
	callers = min(callers, n)
	work := make([][]ledger.Entry, callers)
	for c := range work { // neighbours in a log are claimed at the same time, as a consumer of 8 partitions does
		for i := range n / callers {
			n := i*callers + c
			work[c] = append(work[c], newEntries(n%partitions, n/partitions, 1)...)
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	begin := time.Now()
	for _, entries := range work {
		g.Go(func() error {
			for i := range entries {
				if err := claimAndSettle(ctx, o, entries[i:i+1]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := g.Wait()
	return suite.Throughput(n/callers*callers, time.Since(begin)), err
}

// claimAndSettle takes new messages and finishes them; anything but success is an error.
func claimAndSettle(ctx context.Context, o ledger.Owner, entries []ledger.Entry) error {
	claims, err := o.Claim(ctx, entries)
	if err != nil {
		return err
	}
	done := make([]ledger.Settlement, len(claims))
	for i, c := range claims {
		if c.Answer != ledger.Run {
			return errors.Join(fmt.Errorf("claim of the new message %s: %v", entries[i].Key, c.Answer), c.Err)
		}
		done[i] = ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed}
	}
	errs, err := o.Settle(ctx, done)
	return errors.Join(append(errs, err)...)
}

// newEntries are the next records of a partition.
func newEntries(partition, from, n int) []ledger.Entry {
	out := make([]ledger.Entry, n)
	log := fmt.Sprintf("cluster/uuid/%d", partition)
	for i := range out {
		offset := int64(from + i)
		e := &out[i]
		e.Key = ledger.Key{Scope: "kafka:cluster/orders/billing", ID: fmt.Appendf(nil, "orders-%d-%d", partition, offset),
			Pos: &ledger.Position{Log: log, Offset: offset, Prev: -1}}
		e.Delivery = e.Key.ID
		binary.BigEndian.PutUint64(e.Fingerprint[:], uint64(offset))
		e.Window = 24 * time.Hour
	}
	return out
}

// perMessage is the usual pattern, on 32 connections.
func perMessage(settle bool) func(context.Context, *suite.Run) (suite.Result, error) {
	return func(ctx context.Context, r *suite.Run) (suite.Result, error) {
		const conns = 32
		b, err := newBare(ctx, r, conns)
		if err != nil {
			return nil, err
		}
		each := max(r.N/conns, 1)
		g, ctx := errgroup.WithContext(ctx)
		begin := time.Now()
		for w := range conns {
			g.Go(func() error {
				batch := newBareBatch(w, 0, each)
				for i := range each {
					if err := b.claimOne(ctx, batch, i); err != nil {
						return err
					}
					if settle {
						if err := b.settleOne(ctx, batch, i); err != nil {
							return err
						}
					}
				}
				return nil
			})
		}
		err = g.Wait()
		return suite.Throughput(each*conns, time.Since(begin)), err
	}
}

func sqliteBatches(ctx context.Context, r *suite.Run) (suite.Result, error) {
	l, _, err := freshSQLite(ctx, r)
	if err != nil {
		return nil, err
	}
	return joined(ctx, l, func(o ledger.Owner) (suite.Result, error) { return batches(ctx, o, 2000, 0, r.N) })
}

// freshSQLite is a ledger in a file of its own, and that file.
func freshSQLite(ctx context.Context, r *suite.Run) (*sqlite.Ledger, string, error) {
	dir, err := os.MkdirTemp("", "ackledger-bench-*")
	if err != nil {
		return nil, "", err
	}
	r.Cleanup(func() error { return os.RemoveAll(dir) })
	path := filepath.Join(dir, "ledger.db")
	l, err := sqlite.Open(ctx, path, nil)
	if err != nil {
		return nil, "", err
	}
	r.Cleanup(l.Close)
	return l, path, nil
}
