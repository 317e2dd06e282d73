package sim

import "github.com/ackledger/ackledger/internal/flow"

// apart is a place in which one message is claimed and run alone.
type apart struct {
	it      *flow.Item // nil: the place is free
	turn    bool       // it is being claimed, runs, or its dead letter is published
	awaited bool       // the answer to its settlement is
}

// suspects gives the place for suspects to the next, or to the same again, and takes it back from one that is not ours any more.
func (p *process) suspects() bool {
	s := &p.suspect
	if s.turn || s.awaited {
		return false
	}
	if s.it != nil {
		undecided, again := p.flow.Undecided(s.it)
		switch {
		case !undecided:
			p.flow.Probed(p.now, s.it)
			s.it = nil
		case again && p.flow.SuspectAgain(s.it):
			p.runApart(s)
		default:
			return false
		}
		return true
	}
	if !p.flow.SuspectWaits(p.now) {
		return false
	}
	if s.it = p.flow.NextSuspect(p.now); s.it == nil {
		return false
	}
	p.runApart(s)
	return true
}

// probes tries one message while the breaker is open.
func (p *process) probes() bool {
	s := &p.probe
	if s.turn || s.awaited {
		return false
	}
	if s.it != nil {
		p.flow.Probed(p.now, s.it)
		s.it = nil
		return true
	}
	if !p.flow.ProbeWaits(p.now) {
		return false
	}
	if s.it = p.flow.NextProbe(p.now); s.it != nil {
		p.runApart(s)
	}
	return true
}

// runApart claims a message alone, and runs it.
func (p *process) runApart(s *apart) {
	it := s.it
	s.turn = true
	p.ask(&flow.Claim{Session: p.flow.Session(), Items: []*flow.Item{it}}, true, func() {
		if d := p.flow.Alone(p.now, it); d != nil {
			p.begin(d, flow.Part{}, func() { p.ranApart(s) })
			d.Of.(*chunk).beside = true
			return
		}
		p.ranApart(s)
	})
}

// ranApart publishes the message's dead letter in its place, and awaits the answer to its settlement.
func (p *process) ranApart(s *apart) {
	letter, awaited := p.flow.Concluded(s.it)
	s.awaited = awaited
	if letter != nil {
		p.publishOne(letter, func() { s.turn = false })
		return
	}
	s.turn = false
}

// concluded is the answer that was awaited.
func (p *process) concluded(it *flow.Item) {
	for _, s := range []*apart{&p.suspect, &p.probe} {
		if s.it == it {
			s.awaited = false
		}
	}
}
