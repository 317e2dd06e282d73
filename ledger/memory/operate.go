package memory

import (
	"context"
	"fmt"
	"iter"

	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
)

// Renew implements [ledger.Operator].
func (l *Ledger) Renew(ctx context.Context, r ledger.Renewal) (ledger.Renewed, error) {
	if err := r.By.Check(); err != nil {
		return ledger.Renewed{}, err
	}
	if err := ctx.Err(); err != nil {
		return ledger.Renewed{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	sum, now := r.Key.Sum(), l.now()
	row := l.rows.get(sum)
	if row == nil || row.state != ledger.Failed || row.token != r.Token {
		return ledger.Renewed{}, fmt.Errorf("%w: %v", ledger.ErrChanged, r.Key)
	}
	more := l.rows.extra(row)
	a := l.archive(sum, more.failed)
	if a == nil || !a.Purged.IsZero() {
		return ledger.Renewed{}, fmt.Errorf("%w: %v has no archived delivery", ledger.ErrChanged, r.Key)
	}
	note := ledger.AuditRecord{By: r.By, Action: ledger.ActionRenew, Key: a.Key, State: row.state, Token: row.token,
		Delivery: a.Delivery, Detail: r.Detail()}
	row.token++
	more.generation++
	if !r.Mended {
		a.Token = row.token
	} else {
		row.fingerprint = r.Fingerprint
		more.failed = ledger.RenewedDelivery(row.token)
		copied := *a
		copied.Archive = a.Clone()
		copied.Body, copied.Fingerprint, copied.Delivery = clone(r.Body), r.Fingerprint, more.failed
		copied.Token, copied.Generation, copied.At, copied.Sent = row.token, more.generation, now, false
		copied.Replayed = copied.Purged
		l.archives[sum] = append(l.archives[sum], copied)
	}
	l.note(note)
	return ledger.Renewed{Token: row.token, Generation: more.generation, Delivery: clone(more.failed)}, nil
}

// Reopen implements [ledger.Operator].
func (l *Ledger) Reopen(ctx context.Context, r ledger.ReopenRequest) (ledger.ReopenReport, error) {
	if err := r.Check(); err != nil {
		return ledger.ReopenReport{}, err
	}
	f := r.Filter
	f.State = ledger.Succeeded
	write := func(_ context.Context, batch []ledger.Listed) (done int64, err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for i := range batch {
			done += l.reopen(&batch[i], r)
		}
		return done, nil
	}
	ranged, logs := ranges.Reopening{Request: r, Join: l.Join, Audit: l.Audit}, l.finished(f.Scope)
	if err := ranged.Check(logs); err != nil {
		return ledger.ReopenReport{}, err
	}
	report, err := ledger.RunReopen(ctx, r, l.now(), snapshot(l.Messages(ctx, f)), write)
	if err == nil {
		err = ranged.Run(ctx, logs, &report)
	}
	return report, err
}

// finished is what lies finished in a scope's ranges.
func (l *Ledger) finished(scope string) (out []ranges.Finished) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, g := range l.logs {
		if g.info.Scope != scope {
			continue
		}
		f := ranges.Finished{Info: g.info}
		for _, s := range g.segments {
			if !s.Rows {
				f.Segments = append(f.Segments, s)
			}
		}
		out = append(out, f)
	}
	return out
}

// snapshot reads the whole list before any of it is changed: by a clock that stands still, what was reopened looks as old
// as what was there.
func snapshot[T any](list iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var all []T
		for item, err := range list {
			if err != nil {
				yield(item, err)
				return
			}
			all = append(all, item)
		}
		for _, item := range all {
			if !yield(item, nil) {
				return
			}
		}
	}
}

// reopen writes one message that still is as it was listed, and returns how many these are. The ledger is locked.
func (l *Ledger) reopen(m *ledger.Listed, r ledger.ReopenRequest) int64 {
	row := l.rows.get(m.Key)
	if row == nil || row.state != ledger.Succeeded || row.token != m.Token {
		return 0
	}
	generation := l.rows.rest(row).generation
	if r.FreshKeys {
		generation++
	}
	if l.rows.plain(row); generation > 0 {
		l.rows.extra(row).generation = generation
	}
	since := l.now().Sub(l.begin)
	row.state, row.token, row.attempts, row.crashes = ledger.Pending, row.token+1, 0, 0
	row.at, row.expiry = since, since+row.expiry-row.at
	for i := range l.archives[m.Key] {
		a := &l.archives[m.Key][i]
		a.Delivery = ledger.ReopenedDelivery(row.token, a.Delivery)
	}
	l.note(m.Note(r.By, ledger.ActionReopen, r.Detail()))
	return 1
}

// Purge implements [ledger.Operator].
func (l *Ledger) Purge(ctx context.Context, r ledger.PurgeRequest) (ledger.PurgeReport, error) {
	if err := r.Check(); err != nil {
		return ledger.PurgeReport{}, err
	}
	write := func(_ context.Context, batch []ledger.DeadLetter) (done int64, err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for i := range batch {
			done += l.purge(&batch[i], r.By)
		}
		return done, nil
	}
	return ledger.RunPurge(ctx, r, l.DeadLetters(ctx, r.Filter), write)
}

// purge empties one dead letter whose message still is as it was listed, and returns how many these are. The ledger is
// locked.
func (l *Ledger) purge(d *ledger.DeadLetter, by ledger.By) int64 {
	sum, now := d.Key.Sum(), l.now()
	a, row := l.archive(sum, d.Delivery), l.rows.get(sum)
	if s := l.statusOf(sum, now); a == nil || !a.Purged.IsZero() || s.State != d.Status.State || s.Token != d.Status.Token {
		return 0
	}
	a.Body, a.Headers, a.Errors, a.Group = nil, nil, nil, ""
	a.Purged = now
	end := now
	if row != nil {
		end = l.begin.Add(row.expiry)
	}
	if end.Before(a.Expiry) {
		a.Expiry = end
	}
	l.note(d.Note(by, ledger.ActionPurge, ""))
	return 1
}

// Audit implements [ledger.Operator].
func (l *Ledger) Audit(ctx context.Context, records []ledger.AuditRecord) error {
	if err := ledger.CheckAudit(records); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range records {
		if a := l.archive(r.Key.Sum(), r.Delivery); a != nil && r.Action == ledger.ActionReplay {
			a.Replayed = l.now()
		}
		l.note(r)
	}
	return nil
}

// note adds an audit row. The ledger is locked.
func (l *Ledger) note(r ledger.AuditRecord) {
	l.audited++
	r.ID, r.At, r.Role = l.audited, l.now(), ""
	r.Key = ledger.KeyOfSum(r.Key.Scope, clone(r.Key.ID), r.Key.Sum())
	r.Delivery = clone(r.Delivery)
	l.audits = append(l.audits, r)
}

// Audits implements [ledger.Operator].
func (l *Ledger) Audits(ctx context.Context, f ledger.AuditFilter) iter.Seq2[ledger.AuditRecord, error] {
	return func(yield func(ledger.AuditRecord, error) bool) {
		if err := f.Check(); err != nil {
			yield(ledger.AuditRecord{}, err)
			return
		}
		l.mu.Lock()
		all := l.audits[:len(l.audits):len(l.audits)]
		l.mu.Unlock()
		found := 0
		for i := range all {
			if err := ctx.Err(); err != nil {
				yield(ledger.AuditRecord{}, err)
				return
			}
			if !f.Match(&all[i]) {
				continue
			}
			if !yield(all[i], nil) {
				return
			}
			if found++; found == f.Limit {
				return
			}
		}
	}
}
