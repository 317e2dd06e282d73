package driver

import (
	"context"
	"iter"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

const (
	// listPage is how many dead letters or audit rows are read at once, without bodies.
	listPage = 500
	// listBytes is about how many bytes of bodies and headers are read at once; a larger one comes alone.
	listBytes = 8 << 20
)

// Scopes implements [ledger.Operator].
func (l *Ledger) Scopes(ctx context.Context) (names []string, err error) {
	err = l.store.View(ctx, func(r Reader) (err error) {
		names, err = r.Scopes()
		return err
	})
	return names, l.named("scopes", err)
}

// listing hands out the items of a list, up to its limit.
type listing[T any] struct {
	yield       func(T, error) bool
	limit, left int
	over        bool
}

// give hands out one item, and says whether the list goes on.
func (g *listing[T]) give(item T) bool {
	g.left++
	g.over = !g.yield(item, nil) || g.left == g.limit
	return !g.over
}

// fail ends the list with an error; nil changes nothing.
func (g *listing[T]) fail(err error) {
	if err != nil && !g.over {
		var none T
		g.yield(none, err)
	}
}

// Messages implements [ledger.Operator].
func (l *Ledger) Messages(ctx context.Context, f ledger.Filter) iter.Seq2[ledger.Listed, error] {
	return func(yield func(ledger.Listed, error) bool) {
		g := &listing[ledger.Listed]{yield: yield, limit: f.Limit}
		if err := f.CheckMessages(); err != nil {
			g.fail(err)
			return
		}
		g.fail(l.named("messages", l.messages(ctx, &f, g)))
	}
}

func (l *Ledger) messages(ctx context.Context, f *ledger.Filter, g *listing[ledger.Listed]) error {
	var until Mark
	byID := map[Key]bool{}
	var page []ledger.Listed
	err := l.store.View(ctx, func(r Reader) (err error) {
		if until, err = r.LastMessage(); err != nil || f.Scope == "" {
			return err
		}
		page, err = kept(r, f)
		return err
	})
	for i := range page {
		byID[page[i].Key] = true
	}
	all := len(f.IDs) > 0 && len(page) == len(f.IDs)
	for behind, more := Mark(""), true; err == nil; {
		for i := range page {
			if f.Match(&page[i]) && !g.give(page[i]) {
				return nil
			}
		}
		if all || !more || behind == until {
			return nil
		}
		if err = ctx.Err(); err != nil {
			return err
		}
		err = l.store.View(ctx, func(r Reader) error {
			var rows []Message
			rows, behind, err = r.Messages(behind, until, f)
			more = behind != until
			page = page[:0]
			for i := range rows {
				if err == nil && !byID[rows[i].Key] {
					page, err = list(r, page, &rows[i])
				}
			}
			return err
		})
	}
	return err
}

// kept looks up what is kept by its id.
func kept(r Reader, f *ledger.Filter) (page []ledger.Listed, err error) {
	for _, id := range f.IDs {
		m, err := r.Message(ledger.Key{Scope: f.Scope, ID: id}.Sum(), nil)
		if err == nil && m != nil {
			page, err = list(r, page, m)
		}
		if err != nil {
			return nil, err
		}
	}
	return page, nil
}

// list appends a row to a page.
func list(r Reader, page []ledger.Listed, m *Message) ([]ledger.Listed, error) {
	s, err := statusOf(r, m)
	return append(page, ledger.Listed{Record: record(m), Status: s}), err
}

// DeadLetters implements [ledger.Operator].
func (l *Ledger) DeadLetters(ctx context.Context, f ledger.Filter) iter.Seq2[ledger.DeadLetter, error] {
	return func(yield func(ledger.DeadLetter, error) bool) {
		g := &listing[ledger.DeadLetter]{yield: yield, limit: f.Limit}
		if err := f.Check(); err != nil {
			g.fail(err)
			return
		}
		g.fail(l.named("dead letters", l.deadLetters(ctx, &f, g)))
	}
}

func (l *Ledger) deadLetters(ctx context.Context, f *ledger.Filter, g *listing[ledger.DeadLetter]) error {
	var behind Mark
	var until time.Time
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		var ahead []DeadLetter
		err := l.store.View(ctx, func(r Reader) (err error) {
			if until.IsZero() {
				until = r.Now()
			}
			ahead, err = r.DeadLetters(behind, until, f, listPage)
			return err
		})
		if err != nil || len(ahead) == 0 {
			return err
		}
		behind = ahead[len(ahead)-1].Mark
		for len(ahead) > 0 {
			n := l.fits(f, ahead)
			if err := l.handOut(ctx, f, ahead[:n], g); err != nil || g.over {
				return err
			}
			ahead = ahead[n:]
		}
	}
}

// fits says how many of a page are handed out together.
func (l *Ledger) fits(f *ledger.Filter, page []DeadLetter) int {
	if !f.NeedsBody() {
		return len(page)
	}
	n, size := 1, page[0].Size
	for n < len(page) && size+page[n].Size <= listBytes {
		size += page[n].Size
		n++
	}
	return n
}

// handOut reads what is missing of dead letters, and hands out those that the filter selects.
func (l *Ledger) handOut(ctx context.Context, f *ledger.Filter, part []DeadLetter, g *listing[ledger.DeadLetter]) error {
	var all []ledger.DeadLetter
	err := l.store.View(ctx, func(r Reader) (err error) {
		all = make([]ledger.DeadLetter, 0, len(part))
		if f.NeedsBody() {
			if part, err = r.Bodies(part); err != nil {
				return err
			}
		}
		for i := range part {
			d := ledger.DeadLetter{ArchiveRecord: part[i].ArchiveRecord, Superseded: part[i].Superseded}
			if _, d.Status, err = status(r, d.Key.Sum()); err != nil {
				return err
			}
			all = append(all, d)
		}
		return nil
	})
	for i := range all {
		if err != nil || g.over {
			break
		}
		var selected bool
		if selected, err = f.Keep(ctx, &all[i]); selected {
			g.give(all[i])
		}
	}
	return err
}

// Audits implements [ledger.Operator].
func (l *Ledger) Audits(ctx context.Context, f ledger.AuditFilter) iter.Seq2[ledger.AuditRecord, error] {
	return func(yield func(ledger.AuditRecord, error) bool) {
		g := &listing[ledger.AuditRecord]{yield: yield, limit: f.Limit}
		if err := f.Check(); err != nil {
			g.fail(err)
			return
		}
		g.fail(l.named("audit", l.audits(ctx, &f, g)))
	}
}

func (l *Ledger) audits(ctx context.Context, f *ledger.AuditFilter, g *listing[ledger.AuditRecord]) error {
	var after, until int64
	for {
		var page []ledger.AuditRecord
		err := l.store.View(ctx, func(r Reader) (err error) {
			if after == 0 {
				if until, err = r.LastAudit(); err != nil {
					return err
				}
			}
			page, err = r.Audits(after, until, f, listPage)
			return err
		})
		if err != nil || len(page) == 0 {
			return err
		}
		after = page[len(page)-1].ID
		for i := range page {
			if err := ctx.Err(); err != nil {
				return err
			}
			if f.Match(&page[i]) && !g.give(page[i]) {
				return nil
			}
		}
	}
}

// ArchivedBytes implements [ledger.ArchiveMeter].
func (l *Ledger) ArchivedBytes(ctx context.Context, scope string, enough int64) (n int64, err error) {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	var behind Mark
	for more := true; more && n < enough && err == nil; {
		err = l.store.View(ctx, func(r Reader) error {
			var part int64
			part, behind, more, err = r.ArchivedBytes(scope, behind)
			n += part
			return err
		})
	}
	if err != nil {
		return 0, l.named("archived bytes", err)
	}
	return n, nil
}
