package sim

import (
	"strings"
	"time"

	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
)

// known is what a process has been told, and must have happened.
type known struct {
	refused map[*flow.Item]int // settlements that the ledger or the cipher refused

	verdicts map[*flow.Item]*session // what failed for good in a handler
	room     map[string]room         // of scopes of which the ledger has said how much they have
	spent    bool                    // it was told that one is
	paused   bool
	open     bool          // the breaker is
	away     bool          // the ledger did not answer the last call
	stopped  bool          // it was told that an operator stops it
	told     time.Duration // when the call was sent that told of the pauses last
	ends     []final
	closed   time.Duration // when the breaker closed last
	idle     time.Duration // when there last was no room, or nothing to poll for
}

// final is a message that came to its end.
type final struct {
	at    time.Duration
	good  bool
	scope string
}

// mustBeOpen checks that the breaker has opened where too much failed: of what ended some seconds ago, since it has hardly been told
// of the rest. A failure that is not sealed is kept, and counts once it is.
func (p *process) mustBeOpen() {
	good, bad := 0, 0
	for _, e := range p.known.ends {
		switch {
		case e.good && e.at > p.now-70*time.Second:
			good++
		case !e.good && e.at > max(p.known.closed, p.now-40*time.Second) && e.at < p.now-5*time.Second:
			bad++
		}
	}
	if p.cfg.Failures > 0 && p.cfg.Moods[unsealed] == 0 && bad > p.cfg.Failures && bad > good && !p.known.open {
		p.breaks(none, "the breaker opens where too much fails: %s saw %d fail, and %d go well", p, bad, good)
	}
}

// ended is how many messages came to their end that the breaker must have counted.
func (p *process) ended() (n int) {
	for _, e := range p.known.ends {
		if e.at > max(p.known.closed, p.now-40*time.Second) && e.at < p.now-5*time.Second {
			n++
		}
	}
	return n
}

// mustHaveCalledOff checks that the handler of what is given back is cancelled.
func (p *process) mustHaveCalledOff(it *flow.Item) {
	for _, c := range p.chunks {
		for _, r := range c.running {
			if c.item(r.at) == it && r.sess == p.sess && !c.off[r.at] {
				p.breaks(of(it).message, "a handler is cancelled whose message is given back: %s runs on", p)
			}
		}
	}
}

// room is what a scope has in the archive, as the ledger said it last.
type room struct {
	asked time.Duration
	bytes int64
}

// weighed checks that what the ledger said is known, and told if it is too much.
func (p *process) weighed(scope string, asked time.Duration, bytes int64) {
	p.known.room[scope] = room{asked, bytes}
	if bytes >= p.budget() && !p.known.spent {
		p.breaks(none, "a budget that is spent is told: %s is silent about %s", p, scope)
	}
	if n := p.flow.Archived()[scope]; n < bytes {
		p.breaks(none, "what is archived is known: %d of %d bytes by %s", n, bytes, p)
	}
}

// hasRoom says whether a scope has room in its budget, of which the ledger spoke, and which this process has spent since: but for the
// last seconds, of which the flow may not know yet.
func (p *process) hasRoom(scope string) bool {
	r, ok := p.known.room[scope]
	for _, e := range p.known.ends {
		if !e.good && e.scope == scope && e.at > r.asked && e.at < p.now-5*time.Second {
			r.bytes += ledger.ArchiveRowBytes
		}
	}
	return ok && r.bytes < p.budget()
}

// hearAll checks all news.
func (p *process) hearAll() {
	c := p.flow.End()
	for i := range c.News {
		p.hear(&c.News[i])
	}
	c.News = c.News[:0]
}

// hear checks news: each has its reason.
func (p *process) hear(n *flow.News) {
	k, d := &p.known, delivery{message: none}
	p.report.News++
	if n.Item != nil {
		d = of(n.Item)
	}
	lie := false
	switch n.What {
	case flow.Archived:
		lie = !d.forged && !p.terminal(d.message)
	case flow.Refused:
		k.refused[n.Item]--
		lie = k.refused[n.Item] < 0
	case flow.BreakerOpened:
		lie = k.open || p.cfg.Failures == 0 || n.Failed <= p.cfg.Failures || n.Failed > n.All || n.All < p.ended()
		k.open = true
	case flow.BreakerClosed:
		lie = !k.open
		k.open, k.closed = false, p.now
	case flow.ProbeFailed:
		lie = !k.open
	case flow.BudgetSpent:
		lie = p.cfg.Budget == 0 || n.Bytes < n.Limit
		k.spent = true
	case flow.Stopped, flow.WentOn:
		lie = p.heardOrder(n)
	case flow.BudgetHasRoom:
		lie = p.cfg.Budget == 0 || !k.spent
		k.spent = false
	}
	if lie {
		p.breaks(d.message, "news is of what happened: %s tells %d", p, n.What)
	}
}

// counted adds what deliveries were.
func (p *process) counted(c flow.Counted) {
	all := &p.facts.met
	all.Misses, all.Hits, all.Timeouts = all.Misses+c.Misses, all.Hits+c.Hits, all.Timeouts+c.Timeouts
	if !strings.HasPrefix(c.Scope, "sim/") {
		p.breaks(none, "deliveries are counted in their scope: %q", c.Scope)
	}
}

// mustWeigh checks what the flow says of the bytes in hand.
func (p *process) mustWeigh() {
	_, _, bytes := p.flow.Held()
	if p.telling > 0 {
		return
	}
	if least := int64(p.offered) * size; bytes.Total() < least {
		p.breaks(none, "what is in hand weighs: %d messages of %s have %d bytes", p.offered, p, bytes.Total())
	}
	if crowd := bytes.Crowd(); bytes.Room() <= 0 && p.larges > 1 && crowd < p.larges || crowd > 0 && bytes.Room() > 0 {
		p.breaks(none, "a crowd takes all the room: %d of %d messages, and there is room for %d bytes", crowd, p.larges, bytes.Room())
	}
}

// look asks what operators ask, now and then.
func (p *process) look() {
	p.flow.Kept(func(it *flow.Item, since time.Duration, why error) {
		if since > p.now || why == nil {
			p.breaks(of(it).message, "what is kept was refused: %s since %s, %v", of(it), since, why)
		}
	})
	p.mustBeOpen()
	if open, since := p.flow.BreakerOpen(); open != p.known.open || open && since > p.now {
		p.breaks(none, "health says what the breaker does: open is %t", open)
	}
	p.mustWeigh()
	if p.room() <= 0 || p.polling || p.source == nil || !p.source.more() {
		p.known.idle = p.now
	} else if p.now > p.known.idle+5*time.Second && p.now > p.frozen+5*time.Second {
		p.breaks(none, "where there is room, it is polled for: %s has had room since %s", p, p.known.idle)
	}
	if stops, _, bytes, known, _ := p.flow.BudgetStops(); stops && known && bytes < p.budget() {
		p.breaks(none, "a budget is spent when it is: %d of %d bytes", bytes, p.budget())
	}
	p.after(p.between(100*time.Millisecond, 2*time.Second), p.look)
}
