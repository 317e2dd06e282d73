package driver

import (
	"time"

	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
)

// logPages is a step over all logs, page by page: do says how many of a page it was through with.
func (p *pass) logPages(do func(tx Tx, page []Log) (done int, removed int64, then func(), err error)) step {
	var from LogID
	over := false
	return func(tx Tx) (looked, removed int64, then func(), err error) {
		if over {
			return 0, 0, nil, nil
		}
		page, err := tx.Logs(from, min(logPage, p.pace.Rows()))
		if err == nil && len(page) > 0 {
			err = p.hold(tx, "")
		}
		if err != nil || len(page) == 0 {
			return 0, 0, nil, err
		}
		done, removed, note, err := do(tx, page)
		return int64(len(page)), removed, func() {
			note()
			if done > 0 {
				over = !after(&from, page[done-1].Log)
			}
		}, err
	}
}

// logs drops segments that have expired and logs in which nothing is left, and counts the messages of the others.
func (p *pass) logs() step {
	return p.logPages(func(tx Tx, page []Log) (done int, removed int64, then func(), err error) {
		var notes []func()
		for room := max(p.pace.Rows(), logPage); done < len(page) && room > 0; done++ {
			s := &sweptLog{p: p, tx: tx, g: &page[done]}
			gone, err := s.sweep(room)
			if err != nil {
				return 0, 0, nil, err
			}
			if room -= gone; room <= 0 {
				break // it is not counted yet: more may be left
			}
			notes = append(notes, s.count)
			removed += int64(gone)
		}
		return done, removed, func() {
			for _, note := range notes {
				note()
			}
		}, nil
	})
}

// cuts comes before all messages are looked at: it dissolves ranges that were abandoned, whose messages are rows then, and takes off
// what finished segments have below their log's start, so that rows there are not needed any more.
func (p *pass) cuts() step {
	return p.logPages(func(tx Tx, page []Log) (done int, removed int64, then func(), err error) {
		for ; done < len(page) && err == nil; done++ {
			s := &sweptLog{p: p, tx: tx, g: &page[done], now: tx.Now()}
			if err = s.dissolve(); err == nil {
				err = cut(tx, s.g)
			}
		}
		return done, 0, func() {}, err
	})
}

// cut takes off what lies below one log's start. Nothing is cut out of an open range: its owner counts on what InTx has put
// there.
func cut(tx Tx, g *Log) error {
	log, low := g.Log, g.Start.Below(tx.Now())
	if low <= 0 {
		return nil
	}
	open, err := tx.Ranges(nil, log, everything, nil)
	if err != nil {
		return err
	}
	for i := range open {
		low = min(low, open[i].From)
	}
	near, err := tx.Segments(nil, log, Span{From: low, To: low})
	for _, s := range near {
		if err != nil || s.Rows || s.From >= low || low >= s.To {
			continue
		}
		rest := s.Above(low)
		if err = tx.DropSegment(log, s.From); err == nil {
			err = tx.PutSegment(log, &rest)
		}
	}
	return err
}

// sweptLog is one log in one transaction of a pass.
type sweptLog struct {
	p        *pass
	tx       Tx
	g        *Log
	open     []Range
	finished int64
	now      time.Time
}

// sweep takes off at most so many segments, and says how many.
func (s *sweptLog) sweep(room int) (gone int, err error) {
	s.now = s.tx.Now()
	log := s.g.Log
	if s.open, err = s.tx.Ranges(nil, log, everything, nil); err != nil {
		return 0, err
	}
	all, err := s.tx.Segments(nil, log, everything)
	if err != nil {
		return 0, err
	}
	for i := range all {
		if !all[i].Expiry.Before(s.now) {
			if !all[i].Rows {
				s.finished += all[i].Messages
			}
			continue
		}
		if gone++; gone > room {
			return room, nil
		}
		if err := s.tx.DropSegment(log, all[i].From); err != nil {
			return 0, err
		}
	}
	if len(s.open) == 0 && gone == len(all) {
		return gone, s.tx.DropLog(log)
	}
	return gone, nil
}

// dissolve ends ranges whose owners left or died some time ago, so that their messages are seen, and their owners can go.
func (s *sweptLog) dissolve() error {
	q := ranges.Query{Info: s.g.Info}
	open, err := s.tx.Ranges(nil, s.g.Log, everything, nil)
	if err != nil {
		return err
	}
	for i := range open {
		r := &open[i]
		if s.now.Sub(r.At) <= ranges.AbandonAfter {
			continue
		}
		o, err := s.tx.Owner(r.Owner)
		if err != nil {
			return err
		}
		if o.Fate != Live {
			q.Tokens = append(q.Tokens, r.Token)
			s.p.named[r.Owner] = true // by rows, from now on
		}
	}
	if len(q.Tokens) == 0 {
		return nil
	}
	return (&logTx{tx: s.tx, me: Nobody}).update(&q, ranges.Abandoned)
}

// count counts the messages of the log that have no rows, and notes the owners of its ranges.
func (s *sweptLog) count() {
	t, scope := &s.p.tally, s.g.Scope
	t.Add(scope, ledger.Succeeded, s.finished)
	for i := range s.open {
		r := &s.open[i]
		s.p.named[r.Owner] = true
		seen := r.plan()
		pending := seen.Tally(t, &s.g.Info, max(s.now.Sub(r.At), 0))
		t.Add(scope, ledger.Succeeded, r.Messages-pending)
	}
}
