package engine

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/killpoint"
	"github.com/ackledger/ackledger/ledger"
	"go.uber.org/zap"
)

// oneSuspect is the process' one place for a suspect: a message whose claims ended in crashes before. Several workers in
// one process share it.
var oneSuspect = consumer.NewLimiter(1)

// claimLoop claims what is claimable, in batches, ahead of the handlers.
func (e *Engine) claimLoop() {
	failed := 0
	var buf claimBuf
	for {
		e.mu.Lock()
		n, headsOnly := e.claimable()
		stretches := e.claimableStretches()
		for n == 0 && stretches == 0 && !e.doubts() && !e.closed {
			e.toClaim.Wait()
			n, headsOnly = e.claimable()
			stretches = e.claimableStretches()
		}
		if e.closed {
			e.mu.Unlock()
			return
		}
		if stretches > 0 && !e.doubts() && (n == 0 || !e.turns.claim.items()) {
			failed = e.rest(failed, e.claimStretches(stretches))
			continue
		}
		items, sess := e.s.takeDoubts(claimBatch, buf.items[:0]), e.sess
		if len(items) == 0 {
			items = e.s.takeClaims(n, headsOnly, items)
		}
		buf.items = items
		e.claiming += len(items)
		e.unlock()
		if len(items) == 0 {
			continue
		}
		ok := e.ask(sess, &buf, false)
		e.mu.Lock()
		e.claiming -= len(items)
		e.unlock()
		failed = e.rest(failed, ok)
	}
}

// claimBuf is what a loop's claims use again and again.
type claimBuf struct {
	items   []*Item
	entries []ledger.Entry
	alone   []bool
}

// doubts says whether there are items to be asked for that may be ours. That waits neither for a handler nor for the end
// of a pause.
func (e *Engine) doubts() bool {
	return e.s.doubtQ.len() > 0 && e.sess != nil && e.up && !e.draining
}

// claimable says how many items may be claimed now, and whether only such as can start at once. Claims run ahead of the
// handlers in large batches: the next is asked for when half of what may be ahead is used up. What was claimed ahead may
// wait behind the heads of its lanes: it never keeps a free handler from another lane's head.
func (e *Engine) claimable() (n int, headsOnly bool) {
	if !e.mayStart() || e.s.claimQ.len() == 0 {
		return 0, false
	}
	free := max(min(e.freeSlots(), claimBatch), 0)
	if e.opt.Park {
		return free, true
	}
	floor := min(2*e.opt.Concurrency*e.size, e.opt.ClaimAhead)
	limit := e.pace.update(time.Now(), floor, e.opt.ClaimAhead)
	if room := limit - e.s.ahead; room > 0 && room >= min(limit/2, claimBatch) {
		if n = min(room, claimBatch); e.worthwhile(min(n, e.s.claimQ.len()), e.claiming) {
			return n, false
		}
	}
	return max(free-e.s.readyQ.len(), 0), true
}

// freeSlots says how many messages handlers could begin with now, beside those that are on their way to them.
func (e *Engine) freeSlots() int {
	if e.batch == nil {
		return e.opt.Concurrency - e.s.taken
	}
	free, coming := e.opt.Concurrency, e.s.taken
	for c := range e.chunks {
		if !c.solo {
			free, coming = free-1, coming-c.limit
		}
	}
	return free*e.size - coming
}

// worthwhile says whether to send a batch beside one that is under way: not one that is much smaller, which costs the
// ledger nearly as much. For messages in ranges a call costs the same however large it is: the next gathers until it is as large.
func (e *Engine) worthwhile(batch, underway int) bool {
	if e.ranged {
		return batch >= underway
	}
	return 4*batch >= underway
}

// ask claims items until the ledger has answered for them, or they cannot be ours. It returns false if the ledger did
// not take the call.
func (e *Engine) ask(sess *session, buf *claimBuf, solo bool) bool {
	items := buf.items
	entries := e.entries(sess, buf, solo)
	defer func() { clear(items); clear(entries) }()
	for n := 1; ; n++ {
		sent := time.Now()
		deadline := sent.Add(e.callTimeout())
		ctx, cancel := context.WithDeadline(e.gone, deadline)
		answers, err := sess.owner.Claim(ctx, entries)
		cancel()
		e.tel.claimTook(time.Since(sent))
		if err == nil {
			killpoint.At(killpoint.Claimed)
			e.note(nil)
			e.answered(sess, items, answers)
			return true
		}
		if ledger.IsLost(err) {
			e.lose(sess)
			e.unclaimed(sess, items)
			return true
		}
		e.note(err)
		if !ledger.Unknown(err) {
			e.unclaimed(sess, items)
			return false
		}
		// Some may be ours. What was sent changes nothing after its deadline: then ask again, or never, if the session
		// is left meanwhile, which frees them.
		e.doubt(sess, items)
		e.nap(time.Until(deadline))
		e.nap(outage(n))
		e.mu.Lock()
		over := sess.lost || e.closed
		e.mu.Unlock()
		if over {
			e.unclaimed(sess, items)
			return false
		}
	}
}

// entries makes what the ledger is asked. A suspect that the broker has back is asked for alone, too: it has its place as long as
// it may be ours. What was never asked for alone was not taken if it is suspect.
func (e *Engine) entries(sess *session, buf *claimBuf, solo bool) []ledger.Entry {
	buf.alone = buf.alone[:0]
	e.mu.Lock()
	for _, it := range buf.items {
		buf.alone = append(buf.alone, solo || it.dropped && it.solo)
	}
	e.mu.Unlock()
	buf.entries = buf.entries[:0]
	for i, it := range buf.items {
		if !sess.late {
			it.complete()
		}
		window := it.Window
		if window == 0 {
			window = e.opt.Window
		}
		buf.entries = append(buf.entries, ledger.Entry{
			Key: it.Key, Fingerprint: it.Fingerprint, Delivery: it.Delivery, StampToken: it.StampToken, Copy: it.Copy,
			Ranged: it.Ranged, Late: it.Late, Window: window, Solo: buf.alone[i], Park: e.opt.Park,
		})
	}
	return buf.entries
}

// doubt notes that items may be ours: the answer of their claim was lost.
func (e *Engine) doubt(sess *session, items []*Item) {
	e.mu.Lock()
	for _, it := range items {
		it.sess, it.maybe = sess, true
	}
	e.unlock()
}

// unclaimed gives back items whose claim did not come about, as far as is known.
func (e *Engine) unclaimed(sess *session, items []*Item) {
	e.mu.Lock()
	for _, it := range items {
		if it.phase == claiming {
			it.maybe = it.maybe && !sess.lost
			e.giveBack(it)
		}
	}
	e.unlock()
}

// answered does what the claim table says, item by item.
func (e *Engine) answered(sess *session, items []*Item, answers []ledger.Claim) {
	e.tel.answered(answers)
	var known dedup
	scope := items[0].Key.Scope
	now := time.Now()
	e.mu.Lock()
	for i, it := range items {
		c := &answers[i]
		if it.Key.Scope != scope {
			e.count(scope, known)
			known, scope = dedup{}, it.Key.Scope
		}
		known.add(it, c)
		it.sess, it.ticket, it.maybe = sess, c.Ticket, it.maybe && unexplained(c)
		it.attempt, it.generation, it.crashes = c.Attempt, c.Generation, c.Crashes
		if len(c.Errors) > 0 || it.rare != nil {
			it.extra().errors = c.Errors
		}
		switch {
		case c.Err != nil:
			e.log.Error("the ledger refuses the message", zap.String("message_id", it.Msg.ID), zap.Error(c.Err))
			e.wait(it, now.Add(maxAsk))
		case c.Answer == ledger.Run:
			e.ours(it)
		case c.Answer == ledger.Done:
			e.finish(it, Verdict{Ack: true})
		case c.Answer == ledger.Mismatch && e.heldBack(it): // it is nobody's; what is spent is ours, and would forget why
			e.giveBack(it)
		case c.Answer == ledger.Spent:
			kind, err := spentKind(c)
			e.fail(it, kind, err)
		case c.Answer == ledger.Mismatch:
			e.fail(it, ledger.KindMismatch, errMismatch)
		case c.Suspect:
			e.s.setPhase(it, queued)
			it.solo = true
			e.giveBack(it)
		default:
			it.asks++
			e.wait(it, now.Add(askAgain(c.Wait, it.asks, rand.Float64())))
		}
	}
	e.unlock()
	e.count(scope, known)
}

// unexplained says whether a message is busy for no known reason: its row may be locked by our own claim or InTx, whose
// COMMIT hangs, so what may be ours may be so still.
func unexplained(c *ledger.Claim) bool {
	return c.Answer == ledger.Busy && c.Wait <= 0 && !c.Suspect && c.Err == nil
}

// ours is an item that was claimed to run.
func (e *Engine) ours(it *Item) {
	it.asks = 0
	switch {
	case it.sess.lost:
		e.giveBack(it)
	case it.dropped || e.draining, e.opt.Park && !it.solo && e.paused, e.heldBack(it):
		e.release(it)
	case it.Invalid != nil:
		e.fail(it, ledger.KindInvalid, it.Invalid)
	case it.solo: // its own goroutine starts it
		e.s.setPhase(it, claimed)
	default:
		e.s.won(it)
	}
}

// wait holds an item that is not ours, unless the broker has it back. One that may be ours is held even then.
func (e *Engine) wait(it *Item, due time.Time) {
	if it.dropped && !it.maybe || e.draining {
		e.finish(it, Verdict{Again: max(time.Until(due), 0)})
		return
	}
	if it.dropped {
		e.tell(it, Verdict{Held: true})
	}
	e.s.hold(it, due)
}

// fail dead-letters a message that is not run.
func (e *Engine) fail(it *Item, kind ledger.FailureKind, err error) {
	failure := ledger.AttemptError{Attempt: it.attempt, Kind: kind, Error: err.Error(), At: time.Now()}
	e.settle(it, &ledger.Settlement{Kind: ledger.Fail, Dead: e.archive(it, kind, failure)})
}

// complete fills in what was left out until now. Only one goroutine has the item in hand.
func (it *Item) complete() {
	if it.Late != nil {
		it.Fingerprint, it.Delivery = it.Late.Identify()
		it.Late = nil
	}
}

// archive makes the whole of a failed delivery.
func (e *Engine) archive(it *Item, kind ledger.FailureKind, failure ledger.AttemptError) *ledger.Archive {
	it.complete()
	c := Content{Key: it.Msg.Key, Body: it.Msg.Body, Headers: it.Msg.Headers}
	if it.Original != nil {
		c = it.Original(it)
	}
	group := it.Msg.Group
	if group == "" && c.Key != nil {
		group = string(c.Key)
	}
	dead := &ledger.Archive{
		Key: it.Key, Fingerprint: it.Fingerprint, Delivery: it.Delivery, Kind: kind,
		Errors: ledger.AppendError(it.rest().errors, failure, e.cfg.Ledger.Limits().Errors),
		Body:   c.Body, Headers: c.Headers, Source: it.Msg.Source, Group: group, Attempts: it.attempt,
		SentAt: it.Msg.SentAt, Keep: e.opt.Keep,
	}
	if group == "" && c.Key != nil {
		dead.MarkEmptyKey()
	}
	return dead
}

// pace adapts how far claims run ahead of the handlers to how fast the handlers are: about what they finish in a second,
// measured over a tenth of one.
type pace struct {
	since time.Time
	done  int
	limit int
}

func (p *pace) update(now time.Time, floor, ceiling int) int {
	if elapsed := now.Sub(p.since); elapsed >= 100*time.Millisecond {
		perSecond := int(float64(p.done) / max(elapsed.Seconds(), 0.001))
		p.limit = min(max(perSecond, floor), ceiling)
		p.since, p.done = now, 0
	}
	return max(p.limit, min(floor, ceiling))
}
