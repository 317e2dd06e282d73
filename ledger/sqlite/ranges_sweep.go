package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
)

// neededRow is a condition on messages: a range speaks for the message when its row is gone, and would swallow it, though
// there may be a copy to run. Of a failed one as long as it is archived, of a pending one as long as the range is there.
const neededRow = `(covered IS NOT NULL AND (
	state = 3 AND EXISTS (SELECT 1 FROM ackledger_archive a WHERE a.key = ackledger_message.key)
	OR state = 1 AND (
		EXISTS (SELECT 1 FROM ackledger_segment s WHERE s.log = substr(ackledger_message.key, 1, 8)
			AND s.first <= covered AND s.last > covered AND s.kind = 1)
		OR EXISTS (SELECT 1 FROM ackledger_claim_range r WHERE r.log = substr(ackledger_message.key, 1, 8)
			AND r.first <= covered AND r.last > covered))))`

// logsAtOnce is how many logs one transaction of the sweep looks at.
const logsAtOnce = 100

// logs drops segments that have expired and logs in which nothing is left, dissolves ranges that were abandoned, and counts
// the messages of the others.
func (p *pass) logs(ctx context.Context) error {
	past := []byte{}
	for {
		var seen []ranges.Log
		began := time.Now()
		err := p.l.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
			began = time.Now()
			b := &sweepTx{p: p, ctx: ctx, tx: tx, now: began}
			err := p.held(tx.ExecContext(ctx, "UPDATE ackledger_maintenance SET lease_end = ? WHERE holder = ?",
				b.now.Add(maintainLease).UnixMicro(), p.me))
			if err == nil {
				err = b.readScopes()
			}
			if err == nil {
				seen, err = b.logs(past)
			}
			return err
		})
		if err != nil || len(seen) == 0 {
			return err
		}
		past = seen[len(seen)-1][:]
		p.report.Transactions++
		p.report.Longest = max(p.report.Longest, time.Since(began))
	}
}

// logs sweeps the logs after past.
func (b *sweepTx) logs(past []byte) (seen []ranges.Log, err error) {
	err = b.each(`SELECT log FROM ackledger_range_log WHERE log > ? ORDER BY log LIMIT ?`, []any{past, logsAtOnce}, func(rows *sql.Rows) error {
		var log []byte
		err := rows.Scan(&log)
		if len(log) == len(ranges.Log{}) {
			seen = append(seen, ranges.Log(log))
		}
		return err
	})
	for _, log := range seen {
		if err == nil {
			err = b.log(log)
		}
	}
	return seen, err
}

// log sweeps one log.
func (b *sweepTx) log(log ranges.Log) error {
	if err := b.dissolve(log); err != nil {
		return err
	}
	for _, query := range []string{
		`DELETE FROM ackledger_segment WHERE log = ?1 AND expiry < ?2`,
		`DELETE FROM ackledger_range_log WHERE log = ?1 AND NOT EXISTS (SELECT 1 FROM ackledger_segment WHERE log = ?1)
			AND NOT EXISTS (SELECT 1 FROM ackledger_claim_range WHERE log = ?1) AND ?2 > 0`,
	} {
		if _, err := b.tx.ExecContext(b.ctx, query, log[:], b.now.UnixMicro()); err != nil {
			return err
		}
	}
	err := b.each(`SELECT g.scope, coalesce(sum(s.messages), 0) FROM ackledger_range_log g
		JOIN ackledger_segment s ON s.log = g.log WHERE g.log = ? AND s.kind = 1 GROUP BY 1`, []any{log[:]}, func(rows *sql.Rows) error {
		var scope, n int64
		err := rows.Scan(&scope, &n)
		b.p.tally.Add(b.p.names[scope], ledger.Succeeded, n)
		return err
	})
	if err != nil {
		return err
	}
	var scope int64
	var prefix []byte
	return b.each(`SELECT r.token, r.first, r.last, r.owner, r.messages, r.keep, r.at, r.done, r.back, g.scope, g.prefix
		FROM ackledger_claim_range r JOIN ackledger_range_log g ON g.log = r.log WHERE r.log = ?`, []any{log[:]}, func(rows *sql.Rows) error {
		r, owner, err := scanRange(also{rows, []any{&scope, &prefix}})
		if err == nil {
			b.p.named[owner] = true
			b.countRange(&r, &rangeLog{scope: scope, prefix: string(prefix)})
		}
		return err
	})
}

// also scans more columns behind the ones that are asked for.
type also struct {
	scanner
	more []any
}

// Scan implements scanner.
func (a also) Scan(dest ...any) error { return a.scanner.Scan(append(dest, a.more...)...) }

// countRange counts the messages of a range that is open.
func (b *sweepTx) countRange(r *ranges.Range, g *rangeLog) {
	t, name := &b.p.tally, b.p.names[g.scope]
	pending, abandoned, age := r.Pending(), int64(0), max(b.now.Sub(r.At), 0)
	if expiry := r.At.Add(r.Window); expiry.Before(b.now) {
		abandoned = pending
		listed := 0
		for offset := range r.Open() {
			if listed++; listed > ledger.MaxAbandoned {
				break
			}
			t.Abandon(ledger.Abandoned{Scope: name, ID: g.id(offset), At: r.At, Expiry: expiry})
		}
	}
	if pending > 0 {
		t.AddPending(name, ledger.AgeBucket(age), pending, abandoned, age)
	}
	t.Add(name, ledger.Succeeded, r.Messages-pending)
}

// dissolve ends ranges whose owners left or died some time ago, so that their messages are seen, and their owners can go.
func (b *sweepTx) dissolve(log ranges.Log) error {
	q := ranges.Query{}
	err := b.each(`SELECT token FROM ackledger_claim_range WHERE log = ? AND at < ?
		AND NOT EXISTS (SELECT 1 FROM owners.ackledger_owner o WHERE o.id = owner AND o.fate = 1)`,
		[]any{log[:], b.now.Add(-ranges.AbandonAfter).UnixMicro()}, func(rows *sql.Rows) error {
			var token uint64
			err := rows.Scan(&token)
			q.Tokens = append(q.Tokens, token)
			return err
		})
	if err != nil || len(q.Tokens) == 0 {
		return err
	}
	q.Info.Log = log
	nobody := newBatch(b.ctx, &owner{l: b.p.l}, b.tx, b.now)
	return nobody.update(&q, ranges.Abandoned)
}
