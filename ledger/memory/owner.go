package memory

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
)

type fate uint8

const (
	live fate = iota + 1
	left
	dead
)

// owner implements [ledger.Owner]. What changes is guarded by the ledger's lock.
type owner struct {
	ledger *Ledger
	id     string
	lease  time.Duration
	ranged *ranges.Owner // what Join returned

	slot  uint32 // its number in rows
	rows  int    // and ranges that name it
	end   time.Time
	fate  fate
	pulse ledger.Pulse
}

func (o *owner) ID() string { return o.id }

// Claim implements [ledger.Owner].
func (o *owner) Claim(ctx context.Context, entries []ledger.Entry) ([]ledger.Claim, error) {
	return o.ClaimRows(ctx, entries, nil)
}

// ClaimRows implements [ranges.Store].
func (o *owner) ClaimRows(ctx context.Context, entries []ledger.Entry, only []bool) ([]ledger.Claim, error) {
	claims := make([]ledger.Claim, len(entries))
	sums := make([][ledger.KeySize]byte, len(entries))
	for i := range entries {
		if claims[i].Err = ledger.CheckEntry(&entries[i]); claims[i].Err == nil {
			sums[i] = entries[i].Key.Sum()
		}
	}
	l := o.ledger
	err := l.do(ctx, Claim, func() error {
		if o.fate != live {
			return ledger.ErrLost
		}
		now := l.now()
		l.calls++
		for i := range entries {
			if claims[i].Err == nil && (only == nil || !only[i] || l.rows.get(sums[i]) != nil) {
				o.claim(now, sums[i], &entries[i], &claims[i])
			}
		}
		l.sweepSome(now, 2*len(entries))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return claims, nil
}

// claim answers one entry. The ledger is locked.
func (o *owner) claim(now time.Time, sum [ledger.KeySize]byte, e *ledger.Entry, c *ledger.Claim) {
	l := o.ledger
	r := l.rows.get(sum)
	if r != nil && r.call == l.calls {
		return // the key is in this call already: Busy
	}
	var d ledger.Decision
	if r == nil {
		d = ledger.Decide(nil, *e)
		r = l.rows.add(sum, e)
	} else {
		seen := o.sees(r, now)
		seen.Archived = l.archived(sum, e.Delivery)
		d = ledger.Decide(&seen, *e)
	}
	r.call = l.calls
	c.Answer, c.Wait, c.Suspect, c.Uncertain, c.TookOver = d.Answer, d.Wait, d.Suspect, d.Uncertain, d.TookOver
	c.Held, c.First = d.Held, d.First
	switch d.Answer {
	case ledger.Done:
		c.Outcome = ledger.Outcome{State: r.state, Result: clone(l.rows.rest(r).result)}
	case ledger.Mismatch:
		c.Ticket = ledger.MismatchTicket(sum)
	}
	if d.Write {
		o.take(r, now, d, e)
		c.Ticket, c.Token, c.Crashes = ledger.NewTicket(sum, r.token), r.token, int(r.crashes)
		rest := l.rows.rest(r)
		c.Errors, c.Generation = copyErrors(rest.errors), rest.generation
		if d.Answer == ledger.Run {
			c.Attempt = int(r.attempts) + 1
		}
	}
}

// take writes what the claim table decided.
func (o *owner) take(r *row, now time.Time, d ledger.Decision, e *ledger.Entry) {
	l := o.ledger
	since := now.Sub(l.begin)
	before := l.rows.rest(r)
	errors := before.errors
	if d.Renew {
		r.at, r.expiry = since, max(r.expiry, since+e.Window)
		if !l.some || r.expiry < l.first {
			l.first, l.some = r.expiry, true
		}
		errors = nil
	}
	if l.rows.plain(r); len(errors) > 0 || before.generation > 0 {
		more := l.rows.extra(r)
		more.errors, more.generation = errors, before.generation
	}
	if r.fingerprint.IsZero() {
		r.fingerprint = e.Fingerprint
	}
	l.rows.own(r, o)
	r.state = ledger.Pending
	r.token, r.attempts, r.crashes = d.Token, int32(d.Attempts), int32(d.Crashes)
}

// sees is what the tables need to know of a row.
func (o *owner) sees(r *row, now time.Time) ledger.Row {
	l := o.ledger
	seen := ledger.Row{
		Fingerprint: r.fingerprint, State: r.state, Token: r.token,
		Attempts: int(r.attempts), Crashes: int(r.crashes),
	}
	if due := l.rows.rest(r).due; due != 0 {
		seen.DueIn = due - now.Sub(l.begin)
	}
	switch holder := l.rows.ownerOf(r); {
	case holder == nil:
		seen.Holder = ledger.Nobody
	case holder == o:
		seen.Holder = ledger.Mine
	case holder.fate == left:
		seen.Holder = ledger.Left
	case holder.fate == dead:
		seen.Holder = ledger.Dead
	default:
		seen.Holder, seen.HeldFor = ledger.Live, holder.end.Sub(now)
	}
	return seen
}

// Settle implements [ledger.Owner].
func (o *owner) Settle(ctx context.Context, settlements []ledger.Settlement) ([]error, error) {
	errs := make([]error, len(settlements))
	l := o.ledger
	err := l.do(ctx, Settle, func() error {
		now := l.now()
		for i := range settlements {
			if errs[i] = ledger.CheckSettlement(&settlements[i], l.limits); errs[i] == nil {
				errs[i] = o.settle(now, &settlements[i])
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return errs, nil
}

// decide says what a settlement does to its row. The ledger is locked.
func (o *owner) decide(r *row, now time.Time, s *ledger.Settlement) ledger.Effect {
	if r == nil {
		return ledger.DecideSettle(nil, *s)
	}
	seen := o.sees(r, now)
	seen.Archived = s.Dead != nil && o.ledger.archived(s.Ticket.Sum(), s.Dead.Delivery)
	return ledger.DecideSettle(&seen, *s)
}

// settle carries out one settlement. The ledger is locked.
func (o *owner) settle(now time.Time, s *ledger.Settlement) error {
	l := o.ledger
	r := l.rows.get(s.Ticket.Sum())
	switch o.decide(r, now, s) {
	case ledger.EffectHolds:
		return nil
	case ledger.EffectFile:
		l.file(now, s)
		return nil
	case ledger.EffectWrite:
		l.finish(s.Ticket.Sum(), r, now, s)
		if s.Kind == ledger.Fail {
			l.file(now, s)
		}
		return nil
	}
	return ledger.ErrLost
}

// finish writes a settlement that passed the guard. The row of a message that has failed stays for its window: copies of its
// dead letter may come when the range that covers it is gone.
func (l *Ledger) finish(sum [ledger.KeySize]byte, r *row, now time.Time, s *ledger.Settlement) {
	l.rows.own(r, nil)
	switch s.Kind {
	case ledger.Succeed:
		r.state = ledger.Succeeded
		if r.covered && s.Result == nil && len(l.archives[sum]) == 0 {
			r.expiry = min(r.expiry, now.Add(foldAfter).Sub(l.begin))
			l.first = min(l.first, r.expiry)
		}
		if s.Result != nil {
			l.rows.extra(r).result = clone(ledger.CutResult(s.Result, l.limits.Result))
		}
	case ledger.Fail:
		r.state = ledger.Failed
		l.rows.extra(r).failed = clone(s.Dead.Delivery)
	case ledger.Release:
		if s.After > 0 {
			l.rows.extra(r).due = now.Add(s.After).Sub(l.begin)
		}
		if s.Count {
			r.attempts++
			more := l.rows.extra(r)
			more.errors = ledger.AppendError(more.errors, s.Failure, l.limits.Errors)
		}
	}
}

func (l *Ledger) archived(sum [ledger.KeySize]byte, delivery []byte) bool {
	for i := range l.archives[sum] {
		if bytes.Equal(l.archives[sum][i].Delivery, delivery) {
			return true
		}
	}
	return false
}

// file puts a failed delivery into the archive; the first one of a delivery stays.
func (l *Ledger) file(now time.Time, s *ledger.Settlement) {
	sum := s.Ticket.Sum()
	if l.archived(sum, s.Dead.Delivery) {
		return
	}
	a := ledger.ArchiveRecord{
		Archive: s.Dead.Clone(), Token: s.Ticket.Token(), At: now, Expiry: now.Add(s.Dead.Keep),
	}
	if r := l.rows.get(sum); r != nil && !s.Ticket.IsMismatch() {
		a.Generation = l.rows.rest(r).generation
	}
	l.archives[sum] = append(l.archives[sum], a)
	l.sweepArchives(now, 2)
}

// Beat implements [ledger.Owner].
func (o *owner) Beat(ctx context.Context) (time.Duration, error) {
	l := o.ledger
	err := l.do(ctx, Beat, func() error {
		if o.fate != live {
			return ledger.ErrLost
		}
		now := l.now()
		o.end = now.Add(o.lease)
		o.pulse.Confirmed(now, now)
		if o.pulse.MaySeal(now) {
			for _, peer := range l.live {
				if peer.end.Before(now) {
					l.seal(peer, dead)
				}
			}
		}
		return nil
	})
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		o.pulse.Missed(l.now())
		return 0, err
	}
	return o.lease, nil
}

// Leave implements [ledger.Owner].
func (o *owner) Leave(ctx context.Context) error {
	return o.ledger.do(ctx, Leave, func() error {
		if o.fate == live {
			o.ledger.seal(o, left)
		}
		return nil
	})
}

func clone(b []byte) []byte { return bytes.Clone(b) }

func copyErrors(list []ledger.AttemptError) []ledger.AttemptError { return slices.Clone(list) }
