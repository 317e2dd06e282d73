package engine

// soloLoop claims suspects one at a time, and runs each itself, beside the pool.
func (e *Engine) soloLoop() {
	failed := 0
	for {
		e.mu.Lock()
		for !e.closed && (!e.maySolo() || e.s.suspectQ.len() == 0) {
			e.toSolo.Wait()
		}
		if e.closed {
			e.mu.Unlock()
			return
		}
		e.mu.Unlock()
		if e.cfg.Suspects.Acquire(e.gone) != nil {
			return
		}
		// Claimed before its turn comes, it would be ours for as long as that takes, and count a crash if we die.
		if e.limited && e.acquire(nil) != nil {
			e.cfg.Suspects.Release()
			continue // the drain began
		}
		failed = e.rest(failed, e.runSuspect())
	}
}

// runSuspect has the place for suspects and gives it back when the suspect, if there is one, is not ours any more. One that has
// left its handler still is until it is settled, and one whose claim, COMMIT or release has no answer may be: each would count
// a crash if the next suspect killed the process, and be taken to its limit in its place.
func (e *Engine) runSuspect() bool {
	sess, it := e.takeSuspect(nil)
	if it == nil {
		e.notAdmitted()
		e.cfg.Suspects.Release()
		return true
	}
	ok, done := e.runAlone(sess, it)
	for e.concludes(done) && e.undecided(it) && (!e.limited || e.acquire(nil) == nil) {
		if sess, again := e.takeSuspect(it); again == nil {
			e.notAdmitted()
		} else {
			ok, done = e.runAlone(sess, it)
		}
	}
	select {
	case <-done:
		e.probed(it)
		e.cfg.Suspects.Release()
	default: // we are closed, and its handler runs on
		go func() {
			<-done
			e.cfg.Suspects.Release()
		}()
	}
	return ok
}

// maySolo says whether a suspect may be asked for.
func (e *Engine) maySolo() bool { return e.mayStart() || e.mayProbe() }

// concludes waits for done. It is false if the engine closes before.
func (e *Engine) concludes(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-e.gone.Done():
		return false
	}
}

// takeSuspect takes the next suspect that can be asked for, or the one that has the place.
func (e *Engine) takeSuspect(has *Item) (*session, *Item) {
	e.mu.Lock()
	defer e.unlock()
	take := func(c *Item) bool {
		if c.phase != suspect || !c.isHead() || !e.s.grab(c) {
			return false
		}
		e.s.setPhase(c, claiming)
		c.placed, c.extra().answered = true, make(chan struct{})
		if e.brake.breaker.open && has == nil {
			e.brake.probe, e.brake.spoken = c, probeVoid
		}
		return true
	}
	if has != nil {
		if e.sess != nil && take(has) {
			return e.sess, has
		}
		return nil, nil
	}
	for e.s.suspectQ.len() > 0 && e.maySolo() {
		if c := e.s.suspectQ.pop(); take(c) {
			return e.sess, c
		}
	}
	return nil, nil
}

// runAlone asks for a suspect and begins to run it if it is ours. When it has left its handler, and its settlement is answered,
// done is closed. Not ok: the ledger did not take the call.
func (e *Engine) runAlone(sess *session, it *Item) (ok bool, done chan struct{}) {
	done = make(chan struct{})
	ok = e.ask(sess, &claimBuf{items: []*Item{it}}, true)
	e.mu.Lock()
	var c *chunk
	switch {
	case !ok || it.phase != claimed || !it.isHead():
	case e.mayWork() && !e.heldBack(it):
		c = e.newChunk([]*Item{it}, e.batch != nil, nil)
		c.admitted = true
	default: // paused, or an outage, since it was asked for
		e.release(it)
	}
	e.unlock()
	if c == nil {
		e.notAdmitted()
		e.concluded(it)
		close(done)
		return ok, done
	}
	// A goroutine of its own, which a Goexit may end; the slot comes back however it ends.
	e.pool.Go(func() {
		defer func() { e.close(c); e.concluded(it); close(done) }()
		e.runChunk(c)
	})
	return true, done
}

// concluded publishes a suspect's dead letter, if there is one, and waits for the answer to its settlement.
func (e *Engine) concluded(it *Item) {
	e.mu.Lock()
	it.placed = false
	r := it.extra()
	s, answered := r.letter, r.answered
	r.letter = nil
	if it.phase != settling {
		answered, r.answered = nil, nil
	}
	e.mu.Unlock()
	if s != nil {
		e.publish(s)
	}
	if answered != nil {
		select {
		case <-answered:
		case <-e.gone.Done():
		}
	}
}

// undecided waits while a suspect may be ours, until it can be asked for again. It is false as soon as it is not ours, or
// leaving will free it. One that the broker has back is asked for by the claim loops, and released, meanwhile.
func (e *Engine) undecided(it *Item) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.keeps = true
	defer func() { e.keeps = false }()
	for (it.maybe && it.phase != finished || it.phase == settling) && !e.draining && !e.closed {
		if it.phase == suspect && it.isHead() && e.sess != nil && e.up {
			return true
		}
		e.toSolo.Wait()
	}
	return false
}
