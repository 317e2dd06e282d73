package engine

import (
	"context"
	"errors"
	"time"

	"github.com/ackledger/ackledger/internal/killpoint"
	"github.com/ackledger/ackledger/ledger"
)

// claimableStretches says how many records of stretches may be claimed now; zero: none.
func (e *Engine) claimableStretches() int {
	if e.s.stretchQ.len() == 0 || !e.mayStart() {
		return 0
	}
	n := e.s.claimableStretches()
	if n == 0 {
		return 0
	}
	floor := min(2*e.opt.Concurrency, e.opt.ClaimAhead)
	limit := e.pace.update(time.Now(), floor, e.opt.ClaimAhead)
	if room := limit - e.s.ahead; room > 0 && room >= min(limit/2, claimBatch) && e.worthwhile(min(room, n), e.claiming) {
		return room
	}
	if e.claiming == 0 && e.s.readyQ.len()+e.s.stretchReady.len() == 0 && e.freeSlots() > 0 {
		return 1
	}
	return 0
}

// claimStretches claims stretches of about n records. It is called under the engine's lock, and returns without it: false
// if the ledger did not take the call.
func (e *Engine) claimStretches(n int) bool {
	stretches, sess, records := e.s.takeStretches(n, nil), e.sess, 0
	for _, st := range stretches {
		records += st.n
	}
	e.claiming += records
	e.unlock()
	ok := len(stretches) == 0 || e.askStretches(sess, stretches)
	e.mu.Lock()
	e.claiming -= records
	e.unlock()
	return ok
}

// askStretches claims stretches, and those of their messages one by one that this is not to be known of. It returns false
// if the ledger did not take the call.
func (e *Engine) askStretches(sess *session, stretches []*Stretch) bool {
	asks := make([]ledger.Stretch, len(stretches))
	for i, st := range stretches {
		asks[i] = st.Claim
	}
	sent := time.Now()
	deadline := sent.Add(e.callTimeout())
	ctx, cancel := context.WithDeadline(e.gone, deadline)
	tokens, err := sess.stretches.ClaimStretches(ctx, asks)
	cancel()
	e.tel.claimTook(time.Since(sent))
	if err == nil {
		killpoint.At(killpoint.Claimed)
		e.note(nil)
		e.answeredStretches(sess, stretches, tokens)
		return true
	}
	lost := ledger.IsLost(err)
	if lost {
		e.lose(sess)
	} else {
		e.note(err)
	}
	items := e.askedFor(stretches)
	if lost || !ledger.Unknown(err) {
		e.unclaimed(sess, items)
		return lost
	}
	e.doubt(sess, items)
	e.nap(time.Until(deadline)) // what was sent changes nothing after it
	e.nap(outage(1))
	e.mu.Lock()
	over := sess.lost || e.closed
	e.mu.Unlock()
	if over {
		e.unclaimed(sess, items)
		return false
	}
	ok := true
	for len(items) > 0 {
		n := min(len(items), claimBatch)
		ok = e.ask(sess, &claimBuf{items: items[:n:n]}, false) && ok
		items = items[n:]
	}
	return ok
}

// askedFor makes items of stretches that are being claimed.
func (e *Engine) askedFor(stretches []*Stretch) (items []*Item) {
	e.mu.Lock()
	for _, st := range stretches {
		e.split(st.log)
		for _, it := range st.items {
			if it.phase == claiming {
				items = append(items, it)
			}
		}
	}
	e.unlock()
	return items
}

// answeredStretches does what the answers say.
func (e *Engine) answeredStretches(sess *session, stretches []*Stretch, tokens []uint64) {
	run := int64(0)
	e.mu.Lock()
	for i, st := range stretches {
		st.sess, st.token = sess, tokens[i]
		switch {
		case !st.whole: // it was split since
			e.answeredParts(st)
		case st.token == 0:
			e.s.lines[st.log].claiming--
			st.phase = queued
			e.s.ahead -= st.n
			e.split(st.log)
		default:
			e.s.lines[st.log].claiming--
			st.phase = claimed
			if e.mayStart() && !sess.lost {
				e.s.mayRun(st.log)
			} else {
				e.split(st.log)
			}
		}
		if st.token != 0 {
			run += st.Claim.Messages()
		}
	}
	e.unlock()
	e.tel.ran(run)
}

// answeredParts tells the items of a stretch that it is ours, or that each is to be asked for.
func (e *Engine) answeredParts(st *Stretch) {
	for _, it := range st.items {
		if it.phase != claiming {
			continue
		}
		if st.token == 0 {
			e.giveBack(it)
			continue
		}
		e.ready(st, it)
		e.ours(it)
	}
}

// takePiece begins records of a stretch; nil: it was split meanwhile. The engine's lock is not held.
func (e *Engine) takePiece(p piece, reuse []*Item) *chunk {
	st := p.of
	items := st.Records.Items(p.from, p.to, reuse)
	for _, it := range items {
		e.ready(st, it)
		it.phase = running
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	st.listed = false
	if !e.mayStart() {
		e.split(st.log)
	}
	if !st.whole {
		return nil
	}
	c := e.newChunk(items, e.batch != nil, st)
	st.chunk, c.items = c, items
	e.s.ahead -= len(items)
	st.next = p.to
	return c
}

// plain says whether all that the chunk was to run went well.
func (c *chunk) plain() bool {
	if c.next.Load() < int64(len(c.runs)) {
		return false
	}
	for i := range c.runs {
		if !c.runs[i].plain() {
			return false
		}
	}
	return true
}

// finallyFailed says whether the message is to be archived.
func (r *run) finallyFailed() bool { return r.end != nil && r.end.step.settle == ledger.Fail }

func (r *run) plain() bool {
	return r.skip == started && (r.end == nil || r.end == committed) && !r.given
}

// endedStretch carries out what a chunk of a stretch that is whole came to; false: it is the stretch's no more.
func (e *Engine) endedStretch(c *chunk) bool {
	st := c.stretch
	if st == nil {
		return false
	}
	if !c.plain() || st.sess.lost || e.cost > 4*e.quick() {
		e.shy = time.Now().Add(shyFor)
		e.split(st.log)
		return false
	}
	c.next.Store(takenBack)
	if c.divisible() {
		e.divisible--
	}
	c.applied, st.chunk, c.spare = len(c.runs), nil, c.items
	e.pace.done += len(c.runs)
	e.brake.breaker.handled(c.done, len(c.runs), 0)
	if st.done = st.next; st.done == st.n {
		e.settleStretch(st)
	} else if !e.mayStart() {
		e.split(st.log)
	} else {
		e.s.mayRun(st.log)
	}
	return true
}

// settleStretch puts a stretch's success on its way.
func (e *Engine) settleStretch(st *Stretch) {
	st.phase = settling
	e.doneRecords += st.n
	e.stretchesDone.push(st)
	e.s.mayRun(st.log)
}

// takeDone takes stretches of one session that are to be settled. Of a log they are settled in their order: one after the
// other, or in one call.
func (e *Engine) takeDone() (batch []*Stretch) {
	if e.settleQ.len() > 0 && e.turns.settle.items() {
		return nil
	}
	e.doneRound++
	e.stretchesDone.filter(func(st *Stretch) bool {
		if !st.whole {
			e.doneRecords -= st.n
			return false
		}
		if len(batch) > 0 && st.sess != batch[0].sess || !e.s.lines[st.log].nextDone(st, e.doneRound) {
			return true
		}
		st.sent = true
		e.doneRecords -= st.n
		batch = append(batch, st)
		return false
	})
	return batch
}

// sendable says how many records of stretches may be settled now.
func (e *Engine) sendable() (n int) {
	for _, st := range e.stretchesDone.buf[e.stretchesDone.head:] {
		if st.whole && e.s.lines[st.log].stretches[0] == st {
			return e.doneRecords
		}
	}
	return 0
}

// flushStretches settles stretches until the ledger has answered.
func (e *Engine) flushStretches(batch []*Stretch) {
	done := make([]ledger.StretchDone, len(batch))
	n := 0
	for i, st := range batch {
		done[i] = st.finished()
		n += st.n
	}
	sess := batch[0].sess
	var errs []error
	err, answered := e.untilAnswered(sess, n, func(ctx context.Context) (err error) {
		errs, err = sess.stretches.SettleStretches(ctx, done)
		return err
	})
	if !answered {
		return
	}
	now := time.Now()
	e.mu.Lock()
	for i, st := range batch {
		one := err
		if one == nil {
			one = errs[i]
		}
		e.settledStretch(st, one, now)
	}
	e.unlock()
}

// finished is what the ledger is told of a stretch.
func (st *Stretch) finished() ledger.StretchDone {
	return ledger.StretchDone{
		Ticket: ledger.NewTicket(st.Claim.First.Key.Sum(), st.token), Last: st.Claim.Last, Messages: int64(st.n),
	}
}

// settledStretch does what the answer says. Anything but a success is a matter of each message.
func (e *Engine) settledStretch(st *Stretch, err error, now time.Time) {
	if err == nil && st.whole {
		e.tel.ackedStretch(st)
		e.counts(st.Claim.First.Key.Scope, st.n)
		e.out = append(e.out, Finished{Stretch: st, N: st.n, Verdict: Verdict{Ack: true}})
		e.s.dropStretch(st)
		return
	}
	e.split(st.log)
	for _, it := range st.items {
		switch {
		case errors.Is(err, ledger.ErrParts) && it.phase == settling:
			e.s.setPhase(it, running) // behind the head of its lane it waits as such
			e.succeed(it, nil)
		default:
			e.settledOne(&settlement{item: it, sess: st.sess, kind: ledger.Succeed}, err, now)
		}
	}
}
