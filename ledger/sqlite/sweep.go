package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// errTurnLost says that another process took the turn: this one did not get on for a whole lease.
var errTurnLost = errors.New("the turn to sweep was lost to another process")

// pass is one round over every message. It begins where the pass before stopped, and comes around, so that passes that
// are cut short reach every row all the same. A row never changes its number.
type pass struct {
	l      *Ledger
	cfg    ledger.MaintainConfig
	me     string
	began  time.Time
	from   int64 // the round begins after this message
	gentle bool  // rest between transactions that removed little

	report ledger.SweepReport
	tally  ledger.Tally
	named  map[int64]bool   // owners that pending messages name
	names  map[int64]string // of the scopes
	pace   *ledger.SweepPace
}

func (p *pass) run(ctx context.Context) error {
	p.report.Began = p.began.UTC()
	if err := p.seal(ctx); err != nil {
		return err
	}
	if err := p.ranges(ctx, p.from, math.MaxInt64, p.messages); err != nil {
		return err
	}
	if err := p.ranges(ctx, 0, p.from, p.messages); err != nil {
		return err
	}
	if err := p.ranges(ctx, 0, math.MaxInt64, p.archives); err != nil {
		return err
	}
	if err := p.ranges(ctx, 0, math.MaxInt64, p.audits); err != nil {
		return err
	}
	if err := p.logs(ctx); err != nil {
		return err
	}
	if err := p.owners(ctx); err != nil {
		return err
	}
	p.report.Abandoned, p.report.Oldest = p.tally.Abandoned(), p.tally.Oldest()
	p.report.Took = time.Since(p.began)
	return nil
}

// step sweeps what lies in (after, until], at most so many rows, and returns the number of the last one.
type step func(b *sweepTx, after, until int64, rows int) (last int64, looked, removed int64, err error)

// ranges carries out step in short transactions until nothing is left.
func (p *pass) ranges(ctx context.Context, after, until int64, do step) error {
	for after < until {
		var last, looked, removed int64
		b := &sweepTx{p: p}
		err := p.l.write(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
			b.ctx, b.tx, b.now = ctx, tx, time.Now() // others wait from here on
			last, looked, removed, err = do(b, after, until, p.pace.Rows())
			return err
		})
		if err != nil {
			return err
		}
		if looked == 0 {
			return nil
		}
		took := time.Since(b.now)
		after = last
		p.report.Transactions++
		p.report.Longest = max(p.report.Longest, took)
		p.pace.Took(took)
		if p.gentle {
			if err := p.pace.Rest(ctx, took, removed, looked); err != nil {
				return err
			}
		}
	}
	return nil
}

// held says whether a statement on the maintenance row found this pass as its holder.
func (p *pass) held(res sql.Result, err error) error {
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return errors.Join(errTurnLost, err)
	}
	return nil
}

// sweepTx is one transaction of a pass.
type sweepTx struct {
	p   *pass
	ctx context.Context
	tx  *sql.Tx
	now time.Time
}

// each calls scan for each row of a query.
func (b *sweepTx) each(query string, args []any, scan func(*sql.Rows) error) error {
	rows, err := b.tx.QueryContext(b.ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // Err says what went wrong
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// extent finds the last of the next rows and how many there are.
func (b *sweepTx) extent(table string, after, until int64, rows int) (last, looked int64, err error) {
	err = b.tx.QueryRowContext(b.ctx, "SELECT coalesce(max(num), 0), count(*) FROM (SELECT num FROM "+table+
		" WHERE num > ? AND num <= ? ORDER BY num LIMIT ?)", after, until, rows).Scan(&last, &looked)
	return last, looked, err
}

// messages removes the finished messages past their expiry, and counts the others. A pending one goes only after its
// window and at least Keep have passed again, and never while its owner is live.
func (p *pass) messages(b *sweepTx, after, until int64, rows int) (last, looked, removed int64, err error) {
	if last, looked, err = b.extent("ackledger_message", after, until, rows); err != nil || looked == 0 {
		return last, looked, 0, err
	}
	err = p.held(b.tx.ExecContext(b.ctx, "UPDATE ackledger_maintenance SET lease_end = ?, next = ? WHERE holder = ?",
		b.now.Add(maintainLease).UnixMicro(), last, p.me))
	if err != nil {
		return last, looked, 0, err
	}
	var messages, dropped int64
	err = b.each(`DELETE FROM ackledger_message WHERE num > ?1 AND num <= ?2 AND expiry < ?3 AND NOT `+neededRow+` AND (state <> 1
			OR expiry + max(?4, expiry - at) < ?3
				AND NOT EXISTS (SELECT 1 FROM owners.ackledger_owner o WHERE o.id = owner AND o.fate = 1))
		RETURNING state`, []any{after, last, b.now.UnixMicro(), p.cfg.Keep.Microseconds()}, func(rows *sql.Rows) error {
		var state ledger.State
		err := rows.Scan(&state)
		if state == ledger.Pending {
			dropped++
		} else {
			messages++
		}
		return err
	})
	if err != nil {
		return last, looked, 0, err
	}
	if _, err := b.tx.ExecContext(b.ctx, stripRows, after, last, b.now.UnixMicro()); err != nil {
		return last, looked, 0, err
	}
	if err := b.count(after, last); err != nil {
		return last, looked, 0, err
	}
	p.report.Rows += looked
	p.report.Messages += messages
	p.report.Dropped += dropped
	return last, looked, messages + dropped, nil
}

// count notes what is left of a range. If the transaction fails, so does the whole pass.
func (b *sweepTx) count(after, last int64) error {
	p := b.p
	err := b.readScopes()
	if err != nil {
		return err
	}
	err = b.each(`SELECT scope, state, count(*), count(covered) FROM ackledger_message WHERE num > ? AND num <= ? GROUP BY 1, 2`,
		[]any{after, last}, func(rows *sql.Rows) error {
			var scope, n, covered int64
			var state ledger.State
			err := rows.Scan(&scope, &state, &n, &covered)
			p.tally.Add(p.names[scope], ledger.Succeeded, -covered) // their ranges count them, too
			p.tally.Add(p.names[scope], state, n)
			return err
		})
	if err != nil {
		return err
	}
	return b.each(`SELECT scope, id, at, expiry, coalesce(owner, 0) FROM ackledger_message WHERE num > ? AND num <= ? AND state = 1`,
		[]any{after, last}, func(rows *sql.Rows) error {
			var scope, at, expiry, owner int64
			var id []byte
			err := rows.Scan(&scope, &id, &at, &expiry, &owner)
			p.pending(b.now.UnixMicro(), scope, id, at, expiry, owner)
			return err
		})
}

func (b *sweepTx) readScopes() error {
	return b.each(`SELECT id, name FROM ackledger_scope`, nil, func(rows *sql.Rows) error {
		var id int64
		var name []byte
		err := rows.Scan(&id, &name)
		b.p.names[id] = string(name)
		return err
	})
}

func (p *pass) pending(now, scope int64, id []byte, at, expiry, owner int64) {
	if owner != 0 {
		p.named[owner] = true
	}
	abandoned := int64(0)
	if expiry < now {
		abandoned = 1
		p.tally.Abandon(ledger.Abandoned{Scope: p.names[scope], ID: id,
			At: time.UnixMicro(at).UTC(), Expiry: time.UnixMicro(expiry).UTC()})
	}
	age := time.Duration(max(now-at, 0)) * time.Microsecond
	p.tally.AddPending(p.names[scope], ledger.AgeBucket(age), 1, abandoned, age)
}

// archives removes the deliveries that had expired before the pass began, and so after their messages' rows.
func (p *pass) archives(b *sweepTx, after, until int64, rows int) (last, looked, removed int64, err error) {
	if last, looked, err = b.extent("ackledger_archive", after, until, rows); err != nil || looked == 0 {
		return last, looked, 0, err
	}
	err = p.held(b.tx.ExecContext(b.ctx, "UPDATE ackledger_maintenance SET lease_end = ? WHERE holder = ?",
		b.now.Add(maintainLease).UnixMicro(), p.me))
	if err != nil {
		return last, looked, 0, err
	}
	res, err := b.tx.ExecContext(b.ctx, "DELETE FROM ackledger_archive WHERE num > ? AND num <= ? AND expiry < ?",
		after, last, p.began.UnixMicro())
	if err == nil {
		removed, err = res.RowsAffected()
	}
	if err == nil {
		p.report.Archives += removed
	}
	return last, looked, removed, err
}

// audits removes what of the audit is older than it is kept. The oldest come first: at one that stays it ends.
func (p *pass) audits(b *sweepTx, after, until int64, rows int) (last, looked, removed int64, err error) {
	if last, looked, err = b.extent("ackledger_audit", after, until, rows); err != nil || looked == 0 {
		return last, looked, 0, err
	}
	err = p.held(b.tx.ExecContext(b.ctx, "UPDATE ackledger_maintenance SET lease_end = ? WHERE holder = ?",
		b.now.Add(maintainLease).UnixMicro(), p.me))
	if err != nil {
		return last, looked, 0, err
	}
	res, err := b.tx.ExecContext(b.ctx, "DELETE FROM ackledger_audit WHERE num > ? AND num <= ? AND at < ?",
		after, last, p.began.Add(-p.cfg.KeepAudit).UnixMicro())
	if err == nil {
		removed, err = res.RowsAffected()
	}
	if err == nil {
		p.report.Audits += removed
	}
	if removed < looked {
		looked = 0
	}
	return last, looked, removed, err
}

// seal notes the time of fates that were written without one.
func (p *pass) seal(ctx context.Context) error {
	return p.owned(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE ackledger_owner SET fated_at = ? WHERE fate <> 1 AND fated_at IS NULL",
			time.Now().UnixMicro())
		return err
	})
}

// owners removes those that rested and are named by no pending message.
func (p *pass) owners(ctx context.Context) error {
	return p.owned(ctx, func(ctx context.Context, tx *sql.Tx) error {
		b := &sweepTx{p: p, ctx: ctx, tx: tx}
		var gone []int64
		err := b.each("SELECT id FROM ackledger_owner WHERE fate <> 1 AND fated_at < ?",
			[]any{p.began.Add(-ledger.OwnerRest).UnixMicro()}, func(rows *sql.Rows) error {
				var id int64
				err := rows.Scan(&id)
				if !p.named[id] {
					gone = append(gone, id)
				}
				return err
			})
		if err != nil {
			return err
		}
		for _, id := range gone {
			if _, err := tx.ExecContext(ctx, "DELETE FROM ackledger_owner WHERE id = ? AND fate <> 1", id); err != nil {
				return err
			}
		}
		p.report.Owners = int64(len(gone))
		return nil
	})
}

// owned is one short transaction on the owners file.
func (p *pass) owned(ctx context.Context, fn func(context.Context, *sql.Tx) error) error {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	return p.l.owners.do(ctx, fn)
}
