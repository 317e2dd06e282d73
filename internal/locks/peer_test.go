package locks

import (
	"slices"
	"time"
)

// peer is a member: a client that fetches and acknowledges, and an engine, around a table.
type peer struct {
	w       *world
	table   *Table
	session int
	frozen  time.Duration // until then the process stands still
	away    time.Duration // until then the ledger does not answer it
	look    time.Duration // the next plan

	polling  bool // a poll waits for its fetch
	buffered []*Hold
	seen     map[*Hold]bool // of what is buffered: the client finds it, and accepts it with the next poll
	polled   []handle       // what it found of the last poll
	items    []*item

	requests []*request
	stuck    map[handle]bool // renewals that the client has sent, or thinks so
	waiting  []handle        // acceptances, while renewals are under way

	batches  [][]*Hold
	batch    []*Hold
	sending  bool // the requests of before are answered, and batch is sent
	sent     time.Duration
	deadline time.Duration
	outcomes map[string]Outcome
}

// item is a record in the engine.
type item struct {
	hold    *Hold
	of      *entry
	running bool
	ends    time.Duration
	again   time.Duration // no attempt before
}

func newPeer(w *world) *peer {
	return &peer{w: w, table: New(worldLimit), stuck: map[handle]bool{}, seen: map[*Hold]bool{}}
}

func (p *peer) crash() {
	p.disturb()
	for _, e := range p.w.records {
		if e.owner == p {
			e.owner = nil
		}
	}
}

// loseSession lets the broker forget the locks.
func (p *peer) loseSession() {
	p.disturb()
	p.session++
	for _, e := range p.w.records {
		if e.state == acquired && e.holder.peer == p {
			p.w.putBack(e)
		}
	}
}

// disturb notes that what the broker has locked to it met a fault.
func (p *peer) disturb() {
	for _, e := range p.w.records {
		if e.state == acquired && e.holder.peer == p {
			e.disturbed[e.count] = true
		}
	}
}

func (p *peer) step() {
	if p.w.fault("ledger away", 2000) {
		p.away = p.w.now + p.w.between(0, 2*worldSpan)
	}
	p.hear()
	p.renew()
	if p.mayPoll() && p.table.Held() < 8 && p.w.chance(10) {
		p.poll()
	}
	if p.polling {
		p.fetched()
	}
	if p.w.now >= p.away {
		p.work()
	}
}

// hear takes in answers.
func (p *peer) hear() {
	p.requests = slices.DeleteFunc(p.requests, func(r *request) bool {
		if p.w.now < r.answered {
			return false
		}
		for _, h := range r.handles {
			if o := Renewed; p.outcomes != nil && p.outcomes[h.of.place] != Refused {
				if r.refused[h.of.place] || r.failed {
					o = Refused
				}
				p.outcomes[h.of.place] = o
			}
			if !r.failed {
				delete(p.stuck, h)
			}
		}
		return true
	})
}

// renew goes on with the renewals that are planned, or plans anew.
func (p *peer) renew() {
	w := p.w
	if p.batch == nil && len(p.batches) == 0 {
		if w.now < p.look {
			return
		}
		p.look = w.now + worldSpan/24
		var drops []*Hold
		if p.batches, drops = p.table.Plan(w.now, w.now >= p.away); !p.polling && len(p.buffered) > 0 {
			p.batches = append(p.batches, p.table.PlanBuffered(w.now)...)
		}
		p.drop(drops)
	}
	if p.batch == nil && len(p.batches) > 0 {
		p.batch, p.batches, p.sending, p.deadline = p.batches[0], p.batches[1:], false, w.now+patience
	}
	if p.batch == nil {
		return
	}
	if !p.sending && len(p.requests) == 0 {
		p.sending, p.sent, p.outcomes = true, w.now, map[string]Outcome{}
		var handles []handle
		for _, h := range p.batch {
			p.seen[h] = h.stage == buffered
			if x := h.Handle.(handle); !p.stuck[x] { // else the client sends nothing
				p.stuck[x] = true
				handles = append(handles, x)
			}
		}
		p.send(handles, false)
	}
	switch {
	case p.sending && len(p.requests) == 0:
		p.conclude(p.batch, p.outcomes, p.sent)
	case w.now >= p.deadline:
		for _, b := range slices.Insert(p.batches, 0, p.batch) {
			for _, h := range b { // what was not answered keeps these from the broker
				x := h.Handle.(handle)
				x.of.disturbed[x.count] = true
			}
			p.conclude(b, nil, w.now)
		}
		p.batches = nil
	default:
		return
	}
	p.batch, p.outcomes = nil, nil
	p.accept(p.waiting)
	p.waiting = nil
}

func (p *peer) conclude(batch []*Hold, outcomes map[string]Outcome, sent time.Duration) {
	accepts, drops := p.table.Renewed(batch, outcomes, sent, p.w.now)
	for _, h := range batch {
		delete(p.seen, h)
	}
	for _, h := range accepts {
		p.w.met["accepted after"]++
		p.waiting = append(p.waiting, h.Handle.(handle))
	}
	p.drop(drops)
}

func (p *peer) send(handles []handle, accept bool) {
	if len(handles) > 0 {
		r := p.w.send(handles, accept)
		p.requests = append(p.requests, r)
	}
}

// accept sends acceptances, or keeps them while renewals are under way.
func (p *peer) accept(handles []handle) {
	if p.batch != nil {
		p.waiting = append(p.waiting, handles...)
		return
	}
	p.send(handles, true)
}

// mayPoll says whether a poll may begin: beside no renewal, and not before the outcome of what is buffered is told.
func (p *peer) mayPoll() bool {
	return !p.polling && p.batch == nil && !slices.ContainsFunc(p.batches, func(b []*Hold) bool { return b[0].stage == buffered })
}

// poll begins a poll: the client accepts what it found of the one before, and gives out what it has.
func (p *peer) poll() {
	p.send(p.polled, true)
	p.polled, p.polling = nil, true
	if len(p.buffered) > 0 {
		p.give()
	}
}

// fetched ends a poll that had nothing to give out. Meanwhile renewals may have begun.
func (p *peer) fetched() {
	p.fetch()
	if len(p.buffered) > 0 {
		if p.batch != nil {
			p.w.met["polled beside renewals"]++
		}
		p.give()
	}
}

func (p *peer) fetch() {
	p.buffered = p.w.fetch(p)
	for _, h := range p.buffered {
		p.table.Buffer(h)
	}
}

// give gives out what is buffered. The client may fetch once more as a poll ends.
func (p *peer) give() {
	for _, h := range p.buffered {
		if p.seen[h] {
			p.polled = append(p.polled, h.Handle.(handle))
		}
		switch p.table.Receive(h, p.w.now) {
		case ArrivedNew:
			p.items = append(p.items, &item{hold: h, of: h.Handle.(handle).of})
		case ArrivedLate:
			p.w.met["late"]++
		case ArrivedAgain:
			p.w.met["in hand"]++
			if p.table.holds[h.ID].moved {
				p.w.met["moved"]++
			}
		}
	}
	if p.polling, p.buffered = false, nil; !p.w.chance(4) {
		p.fetch()
	}
}

// drop lets the engine let go of what does not run.
func (p *peer) drop(drops []*Hold) {
	for _, h := range drops {
		p.w.met["lock over"]++
		p.items = slices.DeleteFunc(p.items, func(it *item) bool {
			if it.hold != h || it.running {
				return false
			}
			p.table.LetGo(h)
			return true
		})
	}
}

// work lets handlers end and start.
func (p *peer) work() {
	w := p.w
	p.items = slices.DeleteFunc(p.items, func(it *item) bool {
		e := it.of
		switch {
		case it.running && w.now < it.ends:
		case it.running:
			it.running, e.owner = false, nil
			switch {
			case !w.chance(3):
				return p.done(it)
			case p.table.Dropped(it.hold):
				p.table.LetGo(it.hold)
				return true
			}
			it.again = w.now + w.between(0, worldSpan)
		case e.terminal:
			return p.done(it)
		case e.owner != nil && e.owner != p || p.runs(e): // busy
		case p.table.Reserved(it.hold):
			w.met["reserved"]++
			return p.done(it)
		case w.now < it.again || !w.chance(5):
		case !p.table.Start(it.hold, w.now):
			p.table.LetGo(it.hold)
			return true
		default:
			p.start(it)
		}
		return false
	})
}

// runs says whether a handler of an earlier delivery still runs.
func (p *peer) runs(e *entry) bool {
	return slices.ContainsFunc(p.items, func(it *item) bool { return it.of == e && it.running })
}

func (p *peer) start(it *item) {
	x := it.hold.Handle.(handle)
	if e := it.of; x.session == p.session && (e.state != acquired || e.holder != x) {
		p.w.t.Errorf("at %s the handler of %s starts, whose lock is over", p.w.now, e.id)
	}
	it.running, it.of.owner = true, p
	it.ends = p.w.now + p.w.between(0, time.Second)
	if p.w.chance(4) {
		it.ends += p.w.between(0, 4*worldSpan)
	}
}

// done is what the ledger is terminal for.
func (p *peer) done(it *item) bool {
	it.of.terminal = true
	busy := it.hold.busy
	if p.table.Ack(it.hold) {
		if busy {
			p.w.t.Errorf("at %s %s is accepted while its renewal is under way", p.w.now, it.of.id)
		}
		p.accept([]handle{it.hold.Handle.(handle)})
	}
	return true
}
