package postgres

import (
	"context"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
)

// dissolveAtOnce is how many ranges one pass dissolves at most.
const dissolveAtOnce = 1000

// rangeOwners notes the owners that ranges name: rows may name them by the time that the pass comes to the owners. A dead
// owner gets no new ranges.
func (p *pass) rangeOwners(ctx context.Context) error {
	var id int64
	return p.query(ctx, sqlRangeOwners, nil, into([]any{&id}, func() { p.named[id] = true }))
}

// dissolve makes rows of what is left of ranges that nobody asks for: what is abandoned there shows, and ends, as rows do.
func (p *pass) dissolve(ctx context.Context) error {
	u := &update{ledger: p.ledger, until: math.MaxInt64, scopes: map[string]int32{},
		plan: func(_ int, f *ranges.Facts) ranges.Change { return ranges.Abandoned(f) }}
	var log, token int64
	var scope, name, prefix []byte
	var epoch int32
	dest := []any{&log, &token, &scope, &name, &epoch, &prefix}
	err := p.query(ctx, sqlRangeRested, []any{ranges.AbandonAfter.Microseconds(), dissolveAtOnce}, into(dest, func() {
		if n := len(u.queries); n == 0 || u.queries[n-1].Info.Log != logOf(log) {
			u.queries = append(u.queries, ranges.Query{Alone: true, Info: ranges.Info{
				Log: logOf(log), Scope: string(scope), Name: string(name), Epoch: epoch, Prefix: string(prefix)}})
			u.scopes[string(scope)] = 0
		}
		q := &u.queries[len(u.queries)-1]
		q.Tokens = append(q.Tokens, uint64(token))
	}))
	if err != nil || len(u.queries) == 0 {
		return err
	}
	if err := p.bounded(ctx, func(ctx context.Context) error { return p.ledger.numbers(ctx, u.scopes) }); err != nil {
		return err
	}
	for all := u.queries; len(all) > 0; all = all[1:] { // a log a transaction
		u.queries = all[:1]
		if err := p.bounded(ctx, u.run); err != nil {
			return err
		}
	}
	return nil
}

// bounded gives what a sweep does on the ledger's own connections a deadline: as long as query's, and what it waits for locks.
func (p *pass) bounded(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 2*(sweepTimeout+p.ledger.cfg.LockWait))
	defer cancel()
	return do(ctx)
}

// logsAtOnce is how many logs a transaction of the sweep locks at most: claims there wait for it.
const logsAtOnce = 50

// logs drops what has expired of logs, and counts the rest. How many it may come to in a transaction also bounds what it
// takes off them (sweep_log).
func (p *pass) logs(ctx context.Context) error {
	past := int64(math.MinInt64)
	n := max(min(p.cfg.Batch/10, logsAtOnce), 1)
	for {
		var last int64
		var none, mine bool
		began := time.Now()
		err := p.query(ctx, sqlSweepLog, []any{p.me, maintainLease.Microseconds(), past, n},
			into([]any{&last, &none}, func() { mine = true }))
		switch {
		case code(err) == codeCanceled && ctx.Err() == nil && n > 1:
			n /= 2
			continue
		case err != nil:
			return err
		case !mine:
			return errTurnLost
		case none:
			p.addRanged()
			return nil
		}
		p.report.Transactions++
		p.report.Longest = max(p.report.Longest, time.Since(began))
		if err := p.countRanges(ctx, past, last); err != nil {
			return err
		}
		past = last
	}
}

// countRanges counts the messages that have no rows in the logs after past, up to last.
func (p *pass) countRanges(ctx context.Context, past, last int64) error {
	var scope int32
	var n int64
	err := p.query(ctx, sqlSegmentCounts, []any{past, last}, into([]any{&scope, &n}, func() { p.ranged[scope] += n }))
	if err != nil {
		return err
	}
	return p.query(ctx, sqlRangeCounts, []any{past, last}, p.countOpen)
}

// addRanged adds the finished messages that have no rows to the tally. Those that have both are counted by their rows.
func (p *pass) addRanged() {
	for scope, n := range p.ranged {
		if n > 0 {
			p.tally.Add(p.names[scope], ledger.Succeeded, n)
		}
	}
}

// countOpen counts what is pending, and what is not, of a range that is open.
func (p *pass) countOpen(rows pgx.Rows) error {
	var scope int32
	var r storedRange
	var age int64
	var firsts, lasts []int64
	var prefix []byte
	err := rows.Scan(&scope, &r.first, &r.last, &r.messages, &r.keep, &age, &r.at, &r.done, &r.back, &prefix, &firsts, &lasts)
	if err != nil {
		return err
	}
	seen, err := r.decode(0, time.Time{})
	if err != nil {
		return err
	}
	for i := range firsts {
		seen.Done.Add(ranges.Span{From: firsts[i], To: lasts[i]})
	}
	pending := seen.Tally(&p.tally, &ranges.Info{Scope: p.names[scope], Prefix: string(prefix)}, max(time.Duration(age)*time.Microsecond, 0))
	p.ranged[scope] += max(seen.Messages-pending, 0)
	return nil
}
