package driver

import (
	"bytes"
	"context"
	"iter"
	"time"

	"github.com/ackledger/ackledger/internal/acts"
	"github.com/ackledger/ackledger/internal/checks"
	"github.com/ackledger/ackledger/ledger"
)

// How many parked messages are read at once: without bodies, and with them.
const (
	parkedPage   = 500
	parkedBodies = 20
)

// ParkedMessages implements [ledger.ParkingOperator].
func (l *Ledger) ParkedMessages(ctx context.Context, f ledger.Filter) iter.Seq2[ledger.ParkedMessage, error] {
	return acts.List(ctx, f.Limit, l.lists("what is parked"), func() (acts.NextPage[ledger.ParkedMessage], error) { return l.parkedMessages(ctx, &f) },
		func(m *ledger.ParkedMessage) (bool, error) { return f.KeepParked(ctx, m) })
}

func (l *Ledger) parkedMessages(ctx context.Context, f *ledger.Filter) (next acts.NextPage[ledger.ParkedMessage], err error) {
	scopes, n := []string{f.Scope}, parkedPage
	if err = f.CheckParked(); err == nil && !l.cfg.Parks {
		err = errNoParking
	}
	if err == nil && f.Scope == "" {
		scopes, err = l.Scopes(ctx)
	}
	if f.NeedsBody() {
		n = parkedBodies
	}
	var behind ParkedPlace
	return func() (page []ledger.ParkedMessage, more bool, err error) {
		if len(scopes) == 0 {
			return nil, false, nil
		}
		err = l.store.View(ctx, Call{Op: Read}, func(r Reader) (err error) {
			page, err = l.parkedPage(r, scopes[0], behind, n, f.NeedsBody())
			return err
		})
		if len(page) < n {
			scopes, behind = scopes[1:], ParkedPlace{}
		} else {
			last := &page[n-1]
			behind = ParkedPlace{last.Due, last.Key.Sum()}
		}
		return page, len(scopes) > 0, err
	}, err
}

func (l *Ledger) parkedPage(r Reader, scope string, behind ParkedPlace, n int, bodies bool) ([]ledger.ParkedMessage, error) {
	p, err := l.parker(r)
	if err != nil {
		return nil, err
	}
	list, err := p.ListParked(scope, behind, n, bodies)
	page := make([]ledger.ParkedMessage, len(list))
	for i := range list {
		m, now, bad := status(r, list[i].Key.Sum())
		if bad != nil {
			return nil, bad
		}
		page[i] = ledger.ParkedMessage{Parked: list[i], Status: now}
		if m != nil && m.State == ledger.Pending {
			page[i].Errors, page[i].Attempts = m.Errors, m.Attempts
		}
	}
	return page, err
}

// unparked keeps of messages those that are not parked.
func (l *Ledger) unparked(r Reader, page []ledger.Listed) (rest []ledger.Listed, err error) {
	if !l.cfg.Parks {
		return page, nil
	}
	p, err := l.parker(r)
	for i := 0; i < len(page) && err == nil; i++ {
		var is bool
		if is, err = p.IsParked(page[i].Key); !is {
			rest = append(rest, page[i])
		}
	}
	return rest, err
}

// CountParked implements [ledger.ParkingOperator].
func (l *Ledger) CountParked(ctx context.Context) (all map[string]ledger.ParkedStats, err error) {
	if !l.cfg.Parks {
		return nil, l.named("what is parked", errNoParking)
	}
	err = l.store.View(ctx, Call{Op: Read}, func(r Reader) error {
		all = map[string]ledger.ParkedStats{}
		p, err := l.parker(r)
		if err != nil {
			return err
		}
		scopes, err := r.Scopes()
		for i := 0; i < len(scopes) && err == nil; i++ {
			var s ledger.ParkedStats
			if s, err = parkedIn(r, p, scopes[i]); s.Messages > 0 {
				all[scopes[i]] = s
			}
		}
		return err
	})
	return all, l.named("what is parked", err)
}

// ChangeParked implements [ledger.ParkingOperator].
func (l *Ledger) ChangeParked(ctx context.Context, r ledger.ParkedRequest) (ledger.ParkedReport, error) {
	if err := checks.ChangeParked(&r); err != nil {
		return ledger.ParkedReport{}, err
	}
	change := acts.ParkedChange{Request: r, Began: l.store.Now(), List: l.ParkedMessages, Write: func(ctx context.Context, batch []ledger.ParkedMessage) (int64, error) {
		p := parts[ledger.ParkedMessage]{key: func(m *ledger.ParkedMessage) Key { return m.Key.Sum() },
			write: func(tx Tx, part []ledger.ParkedMessage) (int64, error) { return l.changeParked(tx, &r, part) }}
		return p.run(ctx, l, batch)
	}}
	report, err := change.Run(ctx)
	return report, l.named("change what is parked", err)
}

// changeParked changes the messages that still are as they were listed, and returns how many these are.
func (l *Ledger) changeParked(tx Tx, r *ledger.ParkedRequest, part []ledger.ParkedMessage) (int64, error) {
	p, err := l.parker(tx)
	if err != nil {
		return 0, err
	}
	var notes []ledger.AuditRecord
	for i := range part {
		one := &part[i]
		m, now, err := status(tx, one.Key.Sum())
		if err != nil {
			return 0, err
		}
		if m == nil || now.State != ledger.Pending || now.Token != one.Status.Token || now.Holder == ledger.Live {
			continue
		}
		changed := false
		if r.Action == ledger.ActionDrop {
			changed, err = drop(tx, p, m)
		} else {
			changed, err = hasten(tx, p, m)
		}
		if err != nil {
			return 0, err
		}
		if changed {
			notes = append(notes, acts.ParkedRecord(one, r))
		}
	}
	return int64(len(notes)), tx.Note(notes)
}

// hasten makes a message due now.
func hasten(tx Tx, p Parker, m *Message) (bool, error) {
	parked, err := p.ReadParked(m.Key, false)
	if err != nil || parked == nil {
		return false, err
	}
	m.Due = time.Time{}
	if !parked.Behind() { // else it is due once it heads its lane
		err = p.Postpone(m.Key, tx.Now())
	}
	if err != nil {
		return false, err
	}
	return true, tx.Put(m)
}

// drop makes a dead letter of a message.
func drop(tx Tx, p Parker, m *Message) (bool, error) {
	parked, err := p.ReadParked(m.Key, true)
	if err != nil || parked == nil {
		return false, err
	}
	archived, err := tx.Archive(m.Key, false)
	if err != nil || find(archived, parked.Delivery) != nil {
		return false, err
	}
	dead := &ledger.ArchiveRecord{Archive: parked.Archive, Token: m.Token, Generation: m.Generation, At: tx.Now(), Expiry: tx.Now().Add(parked.Keep)}
	if dead.Expiry.Before(m.Expiry) {
		dead.Expiry = m.Expiry
	}
	dead.Kind, dead.Errors, dead.Attempts = ledger.KindDropped, m.Errors, m.Attempts
	if err = tx.File(dead); err == nil {
		err = leave(tx, p, m.Key)
	}
	if err != nil {
		return false, err
	}
	m.State, m.Owner, m.Due, m.Failed, m.Result = ledger.Failed, Nobody, time.Time{}, bytes.Clone(parked.Delivery), nil
	return true, tx.Put(m)
}
