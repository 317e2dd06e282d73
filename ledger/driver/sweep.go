package driver

import (
	"context"
	"time"

	"github.com/ackledger/ackledger/internal/maintenance"
	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// pass is one round over every message. It begins where the pass before stopped, and comes around, so that passes that
// are cut short reach every row all the same.
type pass struct {
	l      *Ledger
	cfg    ledger.MaintainConfig
	me     string
	began  time.Time
	from   Mark // the round begins behind it
	gentle bool // rest between transactions that removed little

	report ledger.SweepReport
	tally  maintenance.Tally
	named  map[OwnerID]bool // owners that pending messages name
	pace   *maintenance.Pace
}

func (p *pass) run(ctx context.Context) error {
	started := time.Now()
	p.report.Began = p.began.UTC()
	var last Mark
	err := p.each(ctx, p.cuts()) // first: what a range has then, and has not later, is a row before the last one
	if err == nil {
		err = p.l.store.View(ctx, Call{Op: Read}, func(r Reader) (err error) {
			last, err = r.LastMessage()
			return err
		})
	}
	var steps []step
	if p.from != last {
		steps = append(steps, p.messages(p.from, last))
	}
	if p.from != "" {
		steps = append(steps, p.messages("", p.from))
	}
	steps = append(steps, p.archives(), p.past, p.audits, p.logs())
	for i := 0; i < len(steps) && err == nil; i++ {
		err = p.each(ctx, steps[i])
	}
	if err == nil {
		p.report.Owners, err = p.owners(ctx)
	}
	p.report.Abandoned, p.report.Oldest = p.tally.Abandoned(), p.tally.Oldest()
	p.report.Took = time.Since(started)
	return err
}

// owners removes those that rested and are named by no pending message.
func (p *pass) owners(ctx context.Context) (int64, error) {
	ctx, cancel := storage.WithDeadline(ctx)
	defer cancel()
	return p.l.store.RemoveOwners(ctx, p.began.Add(-ledger.OwnerRest), func(id OwnerID) bool { return p.named[id] })
}

// step is one transaction of a pass. It says how many rows it looked at, 0 at the end, and how many it removed. What it
// counts it gives to then, which is called once the transaction is there.
type step func(tx Tx) (looked, removed int64, then func(), err error)

// each carries out a step until nothing is left.
func (p *pass) each(ctx context.Context, do step) error {
	for {
		var looked, removed int64
		var then func()
		var locked time.Time // others wait from then on
		err := p.update(ctx, func(tx Tx) (err error) {
			locked = time.Now()
			looked, removed, then, err = do(tx)
			return err
		})
		if err != nil || looked == 0 {
			return err
		}
		then()
		took := time.Since(locked)
		p.report.Transactions++
		p.report.Longest = max(p.report.Longest, took)
		p.pace.Took(took)
		if err := ctx.Err(); err != nil {
			return err
		}
		if p.gentle {
			if err := p.pace.Rest(ctx, took, removed, looked); err != nil {
				return err
			}
		}
	}
}

// messages removes the finished messages past their expiry, and counts the others. A pending one goes only after its window
// and at least Keep have passed again, and never while its owner is live.
func (p *pass) messages(behind, until Mark) step {
	return func(tx Tx) (looked, removed int64, then func(), err error) {
		page, err := tx.SweepMessages(behind, until, p.pace.Rows())
		if err != nil || page.Looked == 0 {
			return 0, 0, nil, err
		}
		if err := p.hold(tx, page.Last); err != nil {
			return 0, 0, nil, err
		}
		s := &sweeping{p: p, tx: tx}
		for i := range page.Rows {
			if err := s.message(&page.Rows[i]); err != nil {
				return 0, 0, nil, err
			}
		}
		if err := tx.Remove(s.gone); err != nil {
			return 0, 0, nil, err
		}
		return int64(page.Looked), int64(len(s.gone)), func() {
			behind = page.Last
			p.report.Rows += int64(page.Looked)
			p.report.Messages += s.messages
			p.report.Dropped += s.dropped
			for _, c := range page.Rest {
				p.tally.Add(c.Scope, c.State, c.N)
			}
			for _, note := range s.notes {
				note()
			}
		}, nil
	}
}

// sweeping is one transaction over messages.
type sweeping struct {
	p                 *pass
	tx                Tx
	gone              []Key
	messages, dropped int64
	notes             []func() // of the tally, once the transaction is there
	log               LogID    // whose ranges and segment were read last
	read              bool
	open              []Range
	segment           Segment
}

// message counts one row, or has it removed.
func (s *sweeping) message(m *Message) error {
	covered, err := s.covered(m)
	if err != nil {
		return err
	}
	t, now := &s.p.tally, s.tx.Now()
	over := m.Expiry.Add(Grace(m.State, m.Expiry.Sub(m.At), s.p.cfg.Keep)).Before(now)
	if over && m.State == ledger.Pending && m.Owner != Nobody {
		o, err := s.tx.Owner(m.Owner)
		if err != nil {
			return err
		}
		over = o.Fate != Live
	}
	if over && covered && m.State != ledger.Succeeded { // a range or segment would say that it has
		over = false
		if err := s.strip(m); err != nil {
			return err
		}
	}
	if covered && !over { // and counted there
		s.notes = append(s.notes, func() { t.Add(m.Scope, ledger.Succeeded, -1) })
	}
	switch {
	case over && m.State == ledger.Pending:
		s.dropped++
		s.gone = append(s.gone, m.Key)
	case over:
		s.messages++
		s.gone = append(s.gone, m.Key)
	case m.State == ledger.Pending:
		s.notes = append(s.notes, func() { s.p.pending(m, now) })
	default:
		s.notes = append(s.notes, func() { t.Add(m.Scope, m.State, 1) })
	}
	return nil
}

// pending counts one pending row.
func (p *pass) pending(m *Message, now time.Time) {
	if m.Owner != Nobody {
		p.named[m.Owner] = true
	}
	abandoned := int64(0)
	if m.Expiry.Before(now) {
		abandoned = 1
		p.tally.Abandon(ledger.Abandoned{Scope: m.Scope, ID: m.ID, At: m.At, Expiry: m.Expiry})
	}
	age := max(now.Sub(m.At), 0)
	p.tally.AddPending(m.Scope, maintenance.AgeBucket(age), 1, abandoned, age)
}

// covered says that a range or segment has the message, too.
func (s *sweeping) covered(m *Message) (bool, error) {
	if !m.Covered {
		return false, nil
	}
	log, offset := ranges.SplitSum(m.Key)
	var err error
	if !s.read || s.log != log {
		if s.open, err = s.tx.Ranges(nil, log, everything, nil); err != nil {
			return false, err
		}
		s.log, s.read, s.segment = log, true, Segment{}
	}
	if s.segment.Has(offset) {
		return true, nil
	}
	for i := range s.open {
		if s.open[i].Has(offset) && !s.open[i].Back.Has(offset) {
			return true, nil
		}
	}
	near, err := s.tx.Segments(nil, log, Span{From: offset, To: offset + 1})
	for _, seg := range near {
		if seg.Has(offset) && !seg.Rows {
			s.segment = seg
			return true, err
		}
	}
	return false, err
}

// strip makes a failed row small that is kept for its state alone: nothing of its deliveries is archived any more.
func (s *sweeping) strip(m *Message) error {
	if m.State != ledger.Failed || m.Failed == nil {
		return nil
	}
	archived, err := s.tx.Archive(m.Key, false)
	if err != nil {
		return err
	}
	for i := range archived {
		if !archived[i].Expiry.Before(s.tx.Now()) {
			return nil
		}
	}
	whole, err := s.tx.Message(m.Key, nil)
	if err != nil || whole == nil {
		return err
	}
	whole.Failed, whole.Errors, whole.Result = nil, nil, nil
	return s.tx.Put(whole)
}

// archives removes the deliveries that had expired before the pass began, and so after their messages' rows.
func (p *pass) archives() step {
	var behind Mark
	return func(tx Tx) (looked, removed int64, then func(), err error) {
		if err := p.hold(tx, ""); err != nil {
			return 0, 0, nil, err
		}
		last, looked, removed, err := tx.SweepArchive(behind, p.pace.Rows(), p.began)
		return looked, removed, func() {
			behind = last
			p.report.Archives += removed
		}, err
	}
}

// past removes what of the past had expired before the pass began.
func (p *pass) past(tx Tx) (looked, removed int64, then func(), err error) {
	if err := p.hold(tx, ""); err != nil {
		return 0, 0, nil, err
	}
	removed, err = tx.SweepPast(p.pace.Rows(), p.began)
	return removed, removed, func() { p.report.Past += removed }, err
}

// audits removes what of the audit is older than it is kept.
func (p *pass) audits(tx Tx) (looked, removed int64, then func(), err error) {
	if err := p.hold(tx, ""); err != nil {
		return 0, 0, nil, err
	}
	removed, err = tx.SweepAudits(p.pace.Rows(), p.began.Add(-p.cfg.KeepAudit))
	return removed, removed, func() { p.report.Audits += removed }, err
}
