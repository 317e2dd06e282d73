package sim

import (
	"context"
	"time"

	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
)

// archive is what is archived of a message that failed for good.
func (w *world) archive(it *flow.Item, kind ledger.FailureKind, attempts int) *ledger.Archive {
	return &ledger.Archive{
		Key: it.Key, Fingerprint: it.Fingerprint, Delivery: deliveryOf(it), Kind: kind, Attempts: attempts, Source: "sim",
		Body: it.Key.ID, Keep: w.hours(time.Hour),
	}
}

// deliveryOf names an item's delivery: a copy with another body is another one.
func deliveryOf(it *flow.Item) []byte {
	if r := of(it).redrive; r != nil {
		return r.name()
	}
	switch from := of(it).of.(type) {
	case *call:
		return from.name()
	case *care:
		return from.name
	}
	if of(it).forged {
		return append([]byte("forged "), it.Key.ID...)
	}
	return it.Key.ID
}

// budget is how many bytes may be archived.
func (w *world) budget() int64 { return int64(w.cfg.Budget) * ledger.ArchiveRowBytes }

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
	p.publishOne(&s, func() { p.publishers++ })
	return true
}

// publishOne is the whole of it for one.
func (p *process) publishOne(s *flow.Settlement, then func()) {
	took := p.between(0, 100*time.Millisecond)
	if p.trouble(callLate) {
		took = p.between(0, 2*lease)
	}
	p.after(took, func() {
		if p.cfg.Published && !s.Tried && (s.Whole == nil || s.Filed) {
			away := p.trouble(unsealed)
			p.flow.TargetSaid(away)
			s.Tried, s.More.Dead.Sent = true, !s.Session.Lost() && !away
			if n := p.flow.Tries(3); (n == 1) != (away || p.draining) || p.flow.TargetAway() != away {
				p.breaks(of(s.Item).message, "a target that is away is tried once: %s tries %d times", p, n)
			}
		}
		var why error
		if !s.Filed && p.cfg.Sealed {
			if p.trouble(unsealed) {
				why = errUnsealed
				p.known.refused[s.Item]++
			}
		}
		p.flow.Published(p.now, s, why)
		then()
	})
}

// weigh asks how much is archived: at once, and then again after a rest.
func (p *process) weigh() {
	if p.weighing {
		p.weighAgain = true
		return
	}
	p.weighing, p.weighAgain = true, false
	p.weighAll(p.flow.Weigh())
}

func (p *process) weighAll(scopes []string) {
	if len(scopes) == 0 {
		p.weighing = false
		if p.weighRound++; p.weighAgain {
			p.weigh()
			return
		}
		round := p.weighRound
		p.after(20*time.Second, func() {
			if p.weighRound == round {
				p.weigh()
			}
		})
		return
	}
	bytes, asked := int64(0), p.now
	p.flow.Weighing(scopes[0])
	p.call("a question for the archive's size", func() (err error) {
		bytes, err = p.ledger.ArchivedBytes(context.Background(), scopes[0], p.budget())
		return err
	}, func(err error) {
		if err != nil {
			p.after(p.outage(), func() { p.weighAll(scopes) })
			return
		}
		p.flow.Weighed(p.now, scopes[0], bytes)
		p.hearAll()
		p.weighed(scopes[0], asked, bytes)
		p.weighAll(scopes[1:])
	})
}
