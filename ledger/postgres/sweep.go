package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/ledger"
)

const (
	sqlPages = `SELECT pg_relation_size(c.oid) / current_setting('block_size')::bigint, pg_relation_filenode(c.oid)::bigint
FROM pg_class c WHERE c.oid = ({text} || '.' || $1::text)::regclass`

	sqlSweepMessage = `SELECT kind, coalesce(scope, 0), coalesce(state, 0), coalesce(bucket, 0), n, late, coalesce(at, 0),
coalesce(expiry, 0), id, coalesce(owner, 0)
FROM {s}.sweep_message($1::bigint, $2::bigint, $3::bigint, $4::bigint, $5::bigint)`
	sqlArchiveBegin = `UPDATE {s}.maintenance SET archive_page = 0, archive_before = began WHERE holder = $1::bigint`
	sqlSweepArchive = `SELECT {s}.sweep_archive($1::bigint, $2::bigint, $3::bigint, $4::bigint)`

	// sqlSealed notes when owners were first seen to have left or died.
	sqlSealed = `UPDATE {s}.owner SET sealed = clock_timestamp() WHERE fate <> 1 AND sealed IS NULL`
	// sqlRested lists those that may go, if no pending message names them.
	sqlRested = `SELECT id FROM {s}.owner WHERE fate <> 1
AND sealed < (SELECT began FROM {s}.maintenance) - $1::bigint * interval '1 microsecond'`
	sqlSweepOwner = `SELECT {s}.sweep_owner($1::bigint, $2::bigint[])`
	sqlSweepAudit = `SELECT {s}.sweep_audit($1::bigint, $2::bigint, $3::bigint, $4::bigint)`
	sqlScopeNames = `SELECT id, name FROM {s}.scope`
)

func (p *pass) run(ctx context.Context) error {
	start := time.Now()
	if err := p.scopeNames(ctx); err != nil {
		return err
	}
	if p.archived >= 0 { // the pass before had looked at all messages
		if err := p.archives(ctx, p.archived); err != nil {
			return err
		}
	}
	if err := p.exec(ctx, sqlSealed); err != nil {
		return err
	}
	if err := p.rangeOwners(ctx); err != nil {
		return err
	}
	if err := p.dissolve(ctx); err != nil {
		return err
	}
	whole, err := p.messages(ctx)
	if err != nil {
		return err
	}
	logs := p.logs(ctx)
	if errors.Is(logs, errTurnLost) {
		return logs
	}
	if err := errors.Join(p.ends(ctx, whole), logs); err != nil { // what keeps the logs from being swept keeps nothing else
		return err
	}
	p.report.Abandoned, p.report.Oldest = p.tally.Abandoned(), p.tally.Oldest()
	p.report.Took = time.Since(start)
	return nil
}

// ends sweeps what no message is looked at for any more.
func (p *pass) ends(ctx context.Context, whole bool) error {
	if err := p.exec(ctx, sqlArchiveBegin, p.me); err != nil {
		return err
	}
	archives := func(ctx context.Context) error { return p.archives(ctx, 0) }
	var errs error
	for _, sweep := range []func(context.Context) error{archives, p.past, p.audits} {
		err := sweep(ctx)
		if errs = errors.Join(errs, err); errors.Is(err, errTurnLost) {
			return errs
		}
	}
	if errs != nil || !whole {
		return errs
	}
	return p.owners(ctx)
}

// audits removes what is old of the audit.
func (p *pass) audits(ctx context.Context) error {
	return p.trim(ctx, &p.report.Audits, sqlSweepAudit, p.me, maintainLease.Microseconds(), p.cfg.KeepAudit.Microseconds(), p.cfg.Batch)
}

// messages looks at every page. It says whether it saw them all: not if the table was written anew meanwhile (VACUUM
// FULL, CLUSTER), which moves rows.
func (p *pass) messages(ctx context.Context) (whole bool, err error) {
	pages, file, err := p.pages(ctx, "message")
	if err != nil {
		return false, err
	}
	if p.from >= pages {
		p.from = 0
	}
	density := float64(rowsPerPage)
	sweep := func(first, past int64) (int64, error) {
		before, removed := p.report.Rows, p.report.Removed()
		if err := p.sweepMessages(ctx, first, past); err != nil {
			return 0, err
		}
		density = max(float64(p.report.Rows-before)/float64(past-first), 1)
		return p.report.Removed() - removed, nil
	}
	for _, part := range [][2]int64{{p.from, pages}, {0, p.from}} {
		if err := p.ranges(ctx, part[0], part[1], &density, sweep); err != nil {
			return false, err
		}
	}
	_, now, err := p.pages(ctx, "message")
	return now == file, err
}

func (p *pass) archives(ctx context.Context, from int64) error {
	pages, _, err := p.pages(ctx, "archive")
	if err != nil {
		return err
	}
	density := float64(rowsPerPage)
	return p.ranges(ctx, from, pages, &density, func(first, past int64) (removed int64, err error) {
		removed, err = p.removed(ctx, sqlSweepArchive, p.me, maintainLease.Microseconds(), first, past)
		p.report.Archives += removed
		return removed, err
	})
}

// ranges cuts [first, past) into transactions of about as many rows as they may look at.
func (p *pass) ranges(ctx context.Context, first, past int64, density *float64, sweep func(first, past int64) (int64, error)) error {
	for first < past {
		n := min(max(int64(float64(p.pace.Rows())/max(*density, rowsPerPage)), 1), maxPages, past-first)
		began := time.Now()
		removed, err := sweep(first, first+n)
		took := time.Since(began)
		if code(err) == codeCanceled && ctx.Err() == nil && p.pace.Broken() && n > 1 {
			continue
		}
		if err != nil {
			return err
		}
		first += n
		p.report.Transactions++
		p.report.Longest = max(p.report.Longest, took)
		p.pace.Took(took)
		if p.gentle && first < past {
			if err := p.pace.Rest(ctx, took, removed, int64(float64(n)**density)); err != nil {
				return err // ctx has ended
			}
		}
	}
	return nil
}

func (p *pass) pages(ctx context.Context, table string) (pages, file int64, err error) {
	err = p.query(ctx, sqlPages, []any{table}, func(rows pgx.Rows) error { return rows.Scan(&pages, &file) })
	return pages, file, err
}

// owners removes those that rested and are named by no pending message.
func (p *pass) owners(ctx context.Context) error {
	var gone []int64
	var id int64
	err := p.query(ctx, sqlRested, []any{ledger.OwnerRest.Microseconds()}, into([]any{&id}, func() {
		if !p.named[id] {
			gone = append(gone, id)
		}
	}))
	if err != nil || len(gone) == 0 {
		return err
	}
	p.report.Owners, err = p.removed(ctx, sqlSweepOwner, p.me, gone)
	return err
}

// sweptRow is one row of sweep_message's answer.
type sweptRow struct {
	kind, scope, state, bucket  int32
	n, late, at, expiry, holder int64
	id                          []byte
}

// The kinds of a sweptRow.
const (
	sweptHead = iota
	sweptCount
	sweptAbandoned
	sweptOwner
)

// sweepMessages sweeps one range. What it counted is noted only when the transaction went well.
func (p *pass) sweepMessages(ctx context.Context, first, past int64) error {
	var answer []sweptRow
	args := []any{p.me, maintainLease.Microseconds(), first, past, p.cfg.Keep.Microseconds()}
	err := p.query(ctx, sqlSweepMessage, args, func(rows pgx.Rows) error {
		var r sweptRow
		err := rows.Scan(&r.kind, &r.scope, &r.state, &r.bucket, &r.n, &r.late, &r.at, &r.expiry, &r.id, &r.holder)
		answer = append(answer, r)
		return err
	})
	switch {
	case err != nil:
		return err
	case len(answer) == 0:
		return errTurnLost
	}
	unknown := func(r sweptRow) bool { _, ok := p.names[r.scope]; return r.scope != 0 && !ok }
	if slices.ContainsFunc(answer, unknown) { // numbered since the names were read
		if err := p.scopeNames(ctx); err != nil {
			return err
		}
	}
	for i := range answer {
		p.note(&answer[i])
	}
	return nil
}

func (p *pass) scopeNames(ctx context.Context) error {
	var id int32
	var name []byte
	return p.query(ctx, sqlScopeNames, nil, into([]any{&id, &name}, func() { p.names[id] = string(name) }))
}

func (p *pass) note(r *sweptRow) {
	switch r.kind {
	case sweptHead:
		p.report.Messages += r.n
		p.report.Dropped += r.late
		p.report.Rows += r.n + r.late
	case sweptCount:
		p.report.Rows += r.n
		p.ranged[r.scope] -= r.expiry // covered
		if ledger.State(r.state) != ledger.Pending {
			p.report.Locked += r.late
			p.tally.Add(p.names[r.scope], ledger.State(r.state), r.n)
			return
		}
		p.tally.AddPending(p.names[r.scope], int(r.bucket), r.n, r.late, time.Duration(r.at)*time.Microsecond)
	case sweptAbandoned:
		p.tally.Abandon(ledger.Abandoned{Scope: p.names[r.scope], ID: r.id,
			At: time.UnixMicro(r.at).UTC(), Expiry: time.UnixMicro(r.expiry).UTC()})
	case sweptOwner:
		p.named[r.holder] = true
	}
}
