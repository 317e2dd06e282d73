package sim

import (
	"context"
	"errors"
	"slices"

	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
)

// claim sends what is to be claimed.
func (p *process) claim() bool {
	if p.claimers == 0 {
		return false
	}
	c := &flow.Claim{}
	if !p.flow.NextClaim(p.now, c) {
		return false
	}
	p.claimers--
	over := func() {
		p.flow.ClaimOver(c)
		p.claimers++
	}
	if len(c.Ranges) > 0 {
		p.askRanges(c, over)
	} else {
		p.ask(c, false, over)
	}
	return true
}

func sessionOf(s *flow.Session) *session { return s.Of.(*session) }

// ask claims items until the ledger has answered for them, or they cannot be ours.
func (p *process) ask(c *flow.Claim, solo bool, then func()) {
	sess, sent := sessionOf(c.Session), p.now
	entries := make([]ledger.Entry, len(c.Items))
	for i, it := range c.Items {
		entries[i] = ledger.Entry{
			Key: it.Key, Fingerprint: it.Fingerprint, Delivery: deliveryOf(it), Ranged: it.Ranged, Copy: it.Copy, Window: p.hours(window),
			StampToken: it.StampToken, KeepFailed: p.cfg.KeepFailed, Solo: solo || it.Dropped() && it.Solo(), Park: p.cfg.Park,
			Parked: it.Parked,
		}
	}
	if len(entries) > 0 && !p.facts.of(of(c.Items[0]).message).asked && p.trouble(unfit) {
		entries[0].Window = -1 // the ledger refuses what it has never seen
	}
	var answers []ledger.Claim
	asked := copyOf(c)
	p.callInLease("a claim", sess, asked, func() (err error) {
		failed := p.mayRenew(asked.Items)
		err = p.torn(func() error { answers, err = sess.owner.Claim(context.Background(), entries); return err }, ofClaim(asked), true)
		p.renewed(asked.Items, failed)
		if err != nil {
			p.mustBeOver(sess, err)
			return err
		}
		p.answers.claims(answers)
		for i := range answers {
			answers[i].Wait = p.seconds(answers[i].Wait)
		}
		p.mustClaim(sess, asked, entries, answers)
		for i, it := range asked.Items {
			p.facts.of(of(it).message).asked = answers[i].Err == nil
			p.note(p, "claims", of(it).message, int64(answers[i].Answer))
		}
		return nil
	}, func(err error) {
		switch {
		case err == nil:
			p.reachable(true)
			p.inCare(c.Items, answers)
			p.tellCalls(c.Items, answers)
			p.flow.Claimed(p.now, c, answers, p.archives(c, answers))
			then()
			return
		case ledger.IsLost(err):
			p.lose(sess)
		default:
			p.reachable(false)
		}
		if !ledger.Unknown(err) {
			p.flow.Unclaimed(c)
			then()
			return
		}
		p.flow.Unanswered(c)
		p.after(sent+timeout-p.now+p.outage(), func() {
			if p.flow.Over(c.Session) {
				p.flow.Unclaimed(c)
				then()
				return
			}
			p.ask(c, solo, then)
		})
	})
}

// archives are what is archived of those that are not run.
func (p *process) archives(c *flow.Claim, answers []ledger.Claim) []*ledger.Archive {
	out := make([]*ledger.Archive, len(answers))
	for i, it := range c.Items {
		a := &answers[i]
		if !flow.NeedsArchive(it, a) {
			continue
		}
		kind, d := ledger.KindInvalid, of(it)
		switch {
		case a.Answer == ledger.Mismatch:
			kind = ledger.KindMismatch
			if !d.forged {
				p.breaks(d.message, "what has the same body is no mismatch: %s", d)
			}
		case a.Uncertain:
			kind = ledger.KindUncertain
		case a.Answer == ledger.Spent:
			kind = ledger.KindExhausted
			p.mustBeGuilty(d)
		}
		out[i] = p.archive(it, kind, a.Attempt)
		if !d.forged {
			p.facts.of(d.message).failed = true
		}
	}
	return out
}

// askRanges claims ranges, and if that is not answered each of their messages.
func (p *process) askRanges(c *flow.Claim, then func()) {
	sess, sent := sessionOf(c.Session), p.now
	asks := make([]ledger.Stretch, len(c.Ranges))
	for i, r := range c.Ranges {
		asks[i] = r.Claim
	}
	var tokens []uint64
	asked := copyOf(c)
	p.callInLease("a claim of ranges", sess, asked, func() (err error) {
		err = p.torn(func() error { tokens, err = sess.ranges.ClaimStretches(context.Background(), asks); return err }, ofClaim(asked), true)
		for i := range tokens {
			if tokens[i] != 0 {
				p.answers.whole(asked.Ranges[i].Len)
				p.mustClaimRange(sess, asked.Ranges[i].Of.(several), tokens[i])
			}
			for _, d := range asked.Ranges[i].Of.(several).deliveries() {
				p.facts.of(d.message).asked = true
			}
		}
		return err
	}, func(err error) {
		if err == nil {
			p.reachable(true)
			var want int64
			for i, r := range c.Ranges {
				if tokens[i] != 0 {
					want += int64(r.Len)
				}
			}
			if n := p.flow.ClaimedRanges(p.now, c, tokens); n != want {
				p.breaks(none, "what is claimed in ranges is counted: %d of %d messages", n, want)
			}
			then()
			return
		}
		if ledger.IsLost(err) {
			p.lose(sess)
		} else {
			p.reachable(false)
		}
		items := &flow.Claim{Session: c.Session, Items: p.flow.AskEach(p.now, c.Ranges)}
		if !ledger.Unknown(err) {
			p.flow.Unclaimed(items)
			then()
			return
		}
		p.flow.Unanswered(items)
		p.after(sent+timeout-p.now+p.outage(), func() {
			if p.flow.Over(c.Session) || len(items.Items) == 0 {
				p.flow.Unclaimed(items)
				then()
				return
			}
			p.ask(items, false, then)
		})
	})
}

// settle sends what is to be settled, until the ledger has answered.
func (p *process) settle() bool {
	if p.settlers == 0 {
		return false
	}
	b := &flow.Batch{}
	if !p.flow.NextSettle(p.now, b) {
		return false
	}
	p.settlers--
	p.send(b, sessionOf(b.Session()))
	return true
}

// sent is what a call settles, as it was when it was sent: it may arrive when its messages are in other hands.
type sent struct {
	flow.Batch
	items  []ledger.Settlement
	ranges []ledger.StretchDone
}

func sentOf(b *flow.Batch) *sent {
	s := &sent{Batch: flow.Batch{Items: slices.Clone(b.Items), Ranges: slices.Clone(b.Ranges)}}
	for i := range b.Items {
		s.items = append(s.items, b.Items[i].Full())
	}
	for _, r := range b.Ranges {
		s.ranges = append(s.ranges, r.Finished())
	}
	return s
}

func (p *process) send(b *flow.Batch, sess *session) {
	errs, all := make([]error, len(b.Items)+len(b.Ranges)), sentOf(b)
	p.callTwice("a settlement", p.strays(sess, timeout, func() error {
		if p.now < sess.ledgerUntil && !sess.left {
			p.mustBeInOrder(&all.Batch)
		}
		clear(errs)
		return p.torn(func() error {
			if len(all.Ranges) > 0 {
				return p.settleRanges(all, sess, errs)
			}
			return p.settleItems(all, sess, errs)
		}, ofBatch(&all.Batch), false)
	}), func(err error) {
		lost := ledger.IsLost(err)
		switch {
		case err == nil:
			p.reachable(true)
		case lost:
			p.lose(sess)
		default:
			if ledger.Unknown(err) {
				p.flow.MaybeSettled(b)
			}
			p.reachable(false)
			p.after(p.outage(), func() { p.again(b, sess) })
			return
		}
		for i := range b.Items {
			if _, ok := errors.AsType[*ledger.InvalidError](errs[i]); ok {
				p.known.refused[b.Items[i].Item]++
			}
		}
		p.flow.Settled(p.now, b, errs, err)
		p.flow.SettleOver(p.now, b)
		p.settlers++
	})
}

// settleItems is what the ledger does with settlements of items. It refuses some, and finds the rows of others locked.
func (p *process) settleItems(b *sent, sess *session, errs []error) error {
	var sets []ledger.Settlement
	var at []int
	for i := range b.Items {
		s := &b.Items[i]
		p.note(p, "settles", of(s.Item).message, int64(s.Kind))
		switch {
		case s.Kind == ledger.Release && p.trouble(odd), s.Kind != ledger.Release && p.trouble(unfit):
			errs[i] = &ledger.InvalidError{Field: "Settlement", Bound: "what the ledger takes", Value: "another"}
		case p.trouble(locked):
			errs[i] = errLocked
		default:
			sets, at = append(sets, b.items[i]), append(at, i)
		}
	}
	if len(sets) == 0 {
		return nil
	}
	answers, err := sess.owner.Settle(context.Background(), p.inHours(sets))
	if err != nil {
		return err
	}
	for i, a := range answers {
		errs[at[i]] = a
		p.mustSettle(sess, of(b.Items[at[i]].Item), &sets[i], a)
		p.settledOne(of(b.Items[at[i]].Item), sets[i].Kind, a)
	}
	return nil
}

// settleRanges is the same of ranges. Of some it wants to know message by message.
func (p *process) settleRanges(b *sent, sess *session, errs []error) error {
	for i, r := range b.Ranges {
		ds := r.Of.(several).deliveries()
		p.note(p, "settles a range of messages, from", ds[0].message, int64(len(ds)))
		switch {
		case p.trouble(unfit):
			errs[i] = ledger.ErrParts
		case p.trouble(locked):
			errs[i] = errLocked
		default:
			answers, err := sess.ranges.SettleStretches(context.Background(), []ledger.StretchDone{b.ranges[i]})
			if err != nil {
				return err
			}
			if errs[i] = answers[0]; errs[i] == nil {
				p.mustSettleRange(sess, r.Of.(several), b.ranges[i].Ticket.Token())
				p.report.Whole += len(ds)
			}
		}
	}
	return nil
}

// again repeats settlements, unless their session is lost.
func (p *process) again(b *flow.Batch, sess *session) {
	if b.Session().Lost() {
		p.flow.Settled(p.now, b, nil, ledger.ErrLost)
		p.flow.SettleOver(p.now, b)
		p.settlers++
		return
	}
	p.send(b, sess)
}
