package driver

import (
	"context"
	"iter"
	"time"

	"github.com/ackledger/ackledger/internal/acts"
	"github.com/ackledger/ackledger/internal/checks"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

const (
	// listPage is how many dead letters or audit rows are read at once, without bodies.
	listPage = 500
	// listBytes is about how many bytes of bodies and headers are read at once; a larger one comes alone.
	listBytes = 8 << 20
)

// Scopes implements [ledger.Operator].
func (l *Ledger) Scopes(ctx context.Context) (names []string, err error) {
	err = l.store.View(ctx, Call{Op: Read}, func(r Reader) (err error) {
		names, err = r.Scopes()
		return err
	})
	return names, l.named("scopes", err)
}

// lists is what [acts.List] calls the errors of a list.
func (l *Ledger) lists(what string) func(error) error {
	return func(err error) error { return l.named(what, err) }
}

// Messages implements [ledger.Operator].
func (l *Ledger) Messages(ctx context.Context, f ledger.Filter) iter.Seq2[ledger.Listed, error] {
	return acts.List(ctx, f.Limit, l.lists("messages"), func() (acts.NextPage[ledger.Listed], error) { return l.messages(ctx, &f) },
		func(m *ledger.Listed) (bool, error) { return f.Match(m), nil })
}

// messages begins with what is kept by its id.
func (l *Ledger) messages(ctx context.Context, f *ledger.Filter) (next acts.NextPage[ledger.Listed], err error) {
	if err := f.CheckMessages(); err != nil {
		return nil, err
	}
	var until, behind Mark
	var first []ledger.Listed
	err = l.store.View(ctx, Call{Op: Read}, func(r Reader) (err error) {
		if until, err = r.LastMessage(); err == nil && f.Scope != "" {
			first, err = kept(r, f)
		}
		if err == nil && f.Stuck {
			first, err = l.unparked(r, first)
		}
		return err
	})
	byID := map[Key]bool{}
	for i := range first {
		byID[first[i].Key] = true
	}
	rest := until != "" && (len(f.IDs) == 0 || len(first) < len(f.IDs))
	return func() (page []ledger.Listed, more bool, err error) {
		if page, first = first, nil; page != nil || !rest {
			return page, rest, nil
		}
		var last Mark
		err = l.store.View(ctx, Call{Op: Read}, func(r Reader) (err error) {
			var rows []Message
			rows, last, err = r.Messages(behind, until, f)
			page = page[:0]
			for i := range rows {
				if err == nil && !byID[rows[i].Key] {
					page, err = list(r, page, &rows[i])
				}
			}
			if err == nil && f.Stuck {
				page, err = l.unparked(r, page)
			}
			return err
		})
		behind = last
		return page, behind != until, err
	}, err
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
	return acts.List(ctx, f.Limit, l.lists("dead letters"), func() (acts.NextPage[ledger.DeadLetter], error) { return l.deadLetters(ctx, &f) },
		func(d *ledger.DeadLetter) (bool, error) { return f.Keep(ctx, d) })
}

func (l *Ledger) deadLetters(ctx context.Context, f *ledger.Filter) (next acts.NextPage[ledger.DeadLetter], err error) {
	var behind Mark
	var until time.Time
	var ahead []DeadLetter
	return func() ([]ledger.DeadLetter, bool, error) {
		if len(ahead) == 0 {
			err := l.store.View(ctx, Call{Op: Read}, func(r Reader) (err error) {
				if until.IsZero() {
					until = r.Now()
				}
				ahead, err = r.DeadLetters(behind, until, f, listPage)
				return err
			})
			if err != nil || len(ahead) == 0 {
				return nil, false, err
			}
			behind = ahead[len(ahead)-1].Mark
		}
		part := ahead[:l.fits(f, ahead)]
		ahead = ahead[len(part):]
		page, err := l.whole(ctx, f, part)
		return page, true, err
	}, f.Check()
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

// whole reads what is missing of dead letters.
func (l *Ledger) whole(ctx context.Context, f *ledger.Filter, part []DeadLetter) (page []ledger.DeadLetter, err error) {
	err = l.store.View(ctx, reads(part, func(d *DeadLetter) Key { return d.Key.Sum() }), func(r Reader) (err error) {
		if f.NeedsBody() {
			if part, err = r.Bodies(part); err != nil {
				return err
			}
		}
		page = make([]ledger.DeadLetter, len(part))
		for i := range part {
			d := &page[i]
			d.ArchiveRecord, d.Superseded = part[i].ArchiveRecord, part[i].Superseded
			if _, d.Status, err = status(r, d.Key.Sum()); err != nil {
				return err
			}
		}
		return nil
	})
	return page, err
}

// Audits implements [ledger.Operator].
func (l *Ledger) Audits(ctx context.Context, f ledger.AuditFilter) iter.Seq2[ledger.AuditRecord, error] {
	return acts.List(ctx, f.Limit, l.lists("audit"), func() (acts.NextPage[ledger.AuditRecord], error) { return l.audits(ctx, &f) },
		func(r *ledger.AuditRecord) (bool, error) { return acts.AuditMatches(&f, r), nil })
}

func (l *Ledger) audits(ctx context.Context, f *ledger.AuditFilter) (next acts.NextPage[ledger.AuditRecord], err error) {
	after, until := f.After, int64(0)
	return func() (page []ledger.AuditRecord, more bool, err error) {
		err = l.store.View(ctx, Call{Op: Read}, func(r Reader) (err error) {
			if until == 0 {
				if until, err = r.LastAudit(); err != nil {
					return err
				}
			}
			page, err = r.Audits(after, until, f, listPage)
			return err
		})
		if n := len(page); n > 0 {
			after = page[n-1].ID
		}
		return page, len(page) > 0, err
	}, checks.AuditFilter(f)
}

// ArchivedBytes implements [ledger.ArchiveMeter].
func (l *Ledger) ArchivedBytes(ctx context.Context, scope string, enough int64) (n int64, err error) {
	ctx, cancel := storage.WithDeadline(ctx)
	defer cancel()
	var behind Mark
	for more := true; more && n < enough && err == nil; {
		err = l.store.View(ctx, Call{Op: Read}, func(r Reader) error {
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
