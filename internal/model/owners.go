package model

// ownerSteps are what becomes of owner rows.
func (x *machine) ownerSteps() {
	s := x.from
	for o := range uint8(maxOwners) {
		row := &s.Owners[o]
		if x.cfg.Watched {
			x.watchSteps(o)
		}
		switch row.Fate {
		case live:
			x.leaseSteps(o)
		case left, dead:
			if !s.named(o+1) || x.off[SweepUnnamed] {
				x.emit(opSweep, 0, o, goes, func(n *state) { n.Owners[o].Fate = gone })
			}
		}
	}
}

// leaseSteps let a lease run out, and a peer declare its owner dead. A worker's lease runs out only when it was frozen or
// cut off, which is a fault. That it does nothing meanwhile needs no step: any other may go on instead.
func (x *machine) leaseSteps(o uint8) {
	s := x.from
	if s.Owners[o].Overdue == 0 {
		late := func(n *state) { n.Owners[o].Overdue = 1 }
		if x.process(o+1) != maxWorkers {
			x.fault(leases, opOverdue, 0, o, goes, late)
		} else {
			x.emit(opOverdue, 0, o, goes, late)
		}
		return
	}
	if x.cfg.Watched {
		return
	}
	for w := range uint8(x.cfg.Workers) {
		peer := s.Workers[w].Session
		if peer == 0 || peer == o+1 || s.Workers[w].Lost == 1 || s.Owners[peer-1].Fate != live || s.Owners[peer-1].Overdue == 1 {
			continue
		}
		x.emit(opSeal, w, o, goes, func(n *state) {
			n.Owners[o] = owner{Fate: dead}
			n.Deaths++
		})
		return // whichever peer it is
	}
}

// process returns the worker whose session an owner is; maxWorkers: none.
func (x *machine) process(id uint8) uint8 {
	for w := range uint8(x.cfg.Workers) {
		if x.from.Workers[w].Session == id {
			return w
		}
	}
	return maxWorkers
}

// processSteps are a worker's life: it joins, beats, learns that it is lost, leaves, dies.
func (x *machine) processSteps(w uint8) {
	s := x.from
	p := &s.Workers[w]
	if p.Up == 0 {
		x.emit(opRestart, w, 0, goes, func(n *state) { n.Workers[w].Up = 1 })
		return
	}
	if p.Session == 0 {
		if o, ok := s.joinable(); ok {
			x.emit(opJoin, w, o, goes, func(n *state) {
				n.Owners[o] = owner{Fate: live}
				n.Workers[w].Session = o + 1
			})
		}
		return
	}
	o := p.Session - 1
	row := s.Owners[o]
	switch {
	case p.Lost == 1:
	case row.Fate == live && (row.Overdue == 1 || !x.calm && s.watched(o)):
		x.beatSteps(w, o)
	case row.Fate == dead && x.off[FateIsFinal]:
		x.emit(opBeat, w, o, goes, func(n *state) { n.Owners[o] = owner{Fate: live} })
	}
	switch {
	case p.Lost == 1:
		x.emit(opLeave, w, o, goes, func(n *state) {
			x.leave(n, o)
			n.Workers[w].Session, n.Workers[w].Lost = 0, 0
		})
	case row.Fate != live || row.Overdue == 1:
		x.emit(opNotice, w, o, goes, func(n *state) { x.lose(n, w) })
	}
	x.fault(crashes, opCrash, w, 0, goes, func(n *state) { x.die(n, w) })
	x.fault(exits, opExit, w, 0, goes, func(n *state) {
		x.leave(n, o)
		x.die(n, w)
	})
}

// leave ends an owner's life on purpose.
func (x *machine) leave(n *state, o uint8) {
	if n.Owners[o].Fate == live {
		n.Owners[o] = owner{Fate: left}
		x.unsee(n, o, DeadWasLive)
	}
}

// die takes a process and all that it knows, a replay in place among it.
func (x *machine) die(n *state, w uint8) {
	for r := range n.Replays {
		if p := &n.Replays[r]; p.Stage == inHands && n.Workers[w].Items[p.Copy].Phase != none {
			*p = replayer{}
		}
	}
	n.Workers[w] = worker{}
	if n.Assigned == w+1 {
		n.Assigned = 0
	}
}

// lose is what a worker does that learns that its owner is not live: handlers are cancelled, and what it had claimed is
// nobody's to it.
func (x *machine) lose(n *state, w uint8) {
	if x.off[NoticeLost] {
		return
	}
	p := &n.Workers[w]
	p.Lost = 1
	for c := range p.Items {
		it := &p.Items[c]
		if it.Owner != p.Session {
			continue
		}
		switch it.Phase {
		case claimed, queued:
			if it.is(dropped) {
				*it = item{}
				continue
			}
			*it = item{Phase: queued, Marks: it.Marks & suspect}
		case running, fenced:
			it.Marks |= called
		}
	}
}
