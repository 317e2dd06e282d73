package sim

import (
	"context"
	"time"

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
			Key: it.Key, Fingerprint: it.Fingerprint, Delivery: it.Key.ID, Ranged: it.Ranged, Window: time.Hour,
			Solo: solo || it.Dropped() && it.Solo(),
		}
	}
	var answers []ledger.Claim
	p.call("a claim", func() (err error) {
		answers, err = sess.owner.Claim(context.Background(), entries)
		return err
	}, func(err error) {
		switch {
		case err == nil:
			p.flow.Reachable(p.now, true)
			p.flow.Claimed(p.now, c, answers, p.archives(c, answers))
			then()
			return
		case ledger.IsLost(err):
			p.lose(sess)
		default:
			p.flow.Reachable(p.now, false)
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
		if flow.NeedsArchive(it, &answers[i]) {
			out[i] = archive(it, answers[i].Attempt)
			p.facts.of(of(it).message).done = true
		}
	}
	return out
}

func archive(it *flow.Item, attempts int) *ledger.Archive {
	return &ledger.Archive{
		Key: it.Key, Fingerprint: it.Fingerprint, Delivery: it.Key.ID, Kind: ledger.KindTerminal, Attempts: attempts, Source: "sim",
		Body: it.Key.ID, Keep: time.Hour,
	}
}

// askRanges claims ranges, and if that is not answered each of their messages.
func (p *process) askRanges(c *flow.Claim, then func()) {
	sess, sent := sessionOf(c.Session), p.now
	asks := make([]ledger.Stretch, len(c.Ranges))
	for i, r := range c.Ranges {
		asks[i] = r.Claim
	}
	var tokens []uint64
	p.call("a claim of ranges", func() (err error) {
		tokens, err = sess.ranges.ClaimStretches(context.Background(), asks)
		return err
	}, func(err error) {
		if err == nil {
			p.flow.Reachable(p.now, true)
			p.flow.ClaimedRanges(p.now, c, tokens)
			then()
			return
		}
		if ledger.IsLost(err) {
			p.lose(sess)
		} else {
			p.flow.Reachable(p.now, false)
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
	if !p.flow.NextSettle(b) {
		return false
	}
	p.settlers--
	p.send(b, sessionOf(b.Session()))
	return true
}

func (p *process) send(b *flow.Batch, sess *session) {
	var errs []error
	p.call("a settlement", func() (err error) {
		if p.now < sess.ledgerUntil && !sess.left {
			p.mustBeInOrder(b)
		}
		if len(b.Ranges) > 0 {
			done := make([]ledger.StretchDone, len(b.Ranges))
			for i, r := range b.Ranges {
				done[i] = r.Finished()
			}
			errs, err = sess.ranges.SettleStretches(context.Background(), done)
			return err
		}
		sets := make([]ledger.Settlement, len(b.Items))
		for i := range b.Items {
			sets[i] = b.Items[i].Full()
		}
		errs, err = sess.owner.Settle(context.Background(), sets)
		return err
	}, func(err error) {
		lost := ledger.IsLost(err)
		switch {
		case err == nil:
			p.flow.Reachable(p.now, true)
		case lost:
			p.lose(sess)
		default:
			if ledger.Unknown(err) {
				p.flow.MaybeSettled(b)
			}
			p.flow.Reachable(p.now, false)
			p.after(p.outage(), func() { p.again(b, sess) })
			return
		}
		p.settled(b, errs, err)
	})
}

// again repeats settlements, unless their session is lost.
func (p *process) again(b *flow.Batch, sess *session) {
	if b.Session().Lost() {
		p.settled(b, nil, ledger.ErrLost)
		return
	}
	p.send(b, sess)
}

// publish publishes what failed for good, and seals it.
func (p *process) publish() bool {
	if p.publishers == 0 {
		return false
	}
	s, ok := p.flow.NextLetter()
	if !ok {
		return false
	}
	p.publishers--
	p.letter(&s, func() { p.publishers++ })
	return true
}

// letter is the whole of publishing one.
func (p *process) letter(s *flow.Settlement, then func()) {
	p.after(p.between(0, 100*time.Millisecond), func() {
		var unsealed error
		if !s.Filed && p.trouble(unfit) {
			unsealed = errAway
		}
		p.flow.Published(p.now, s, unsealed)
		then()
	})
}

func (p *process) settled(b *flow.Batch, errs []error, whole error) {
	p.flow.Settled(p.now, b, errs, whole)
	p.flow.SettleOver(b)
	p.settlers++
}

// takeSuspect asks for a message alone, if the place for that is free.
func (p *process) takeSuspect() bool {
	if p.alone {
		return false
	}
	if p.suspect != nil {
		if _, again := p.flow.Undecided(p.suspect); again && p.flow.SuspectAgain(p.suspect) {
			p.runSuspect()
			return true
		}
		if undecided, _ := p.flow.Undecided(p.suspect); undecided {
			return false
		}
		p.suspect = nil
	}
	if p.suspect = p.flow.NextSuspect(p.now); p.suspect == nil {
		return false
	}
	p.runSuspect()
	return true
}

func (p *process) runSuspect() {
	it := p.suspect
	p.alone = true
	p.ask(&flow.Claim{Session: p.flow.Session(), Items: []*flow.Item{it}}, true, func() {
		if d := p.flow.Alone(p.now, it); d != nil {
			p.begin(d, func() { p.concluded(it) })
			return
		}
		p.concluded(it)
	})
}

// concluded publishes the suspect's dead letter in its place.
func (p *process) concluded(it *flow.Item) {
	over := func() { p.alone = false }
	if letter, _ := p.flow.Concluded(it); letter != nil {
		p.letter(letter, over)
		return
	}
	over()
}
