package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/ackledger/ackledger/internal/killpoint"
	"github.com/ackledger/ackledger/ledger"
	"go.uber.org/zap"
)

var errMismatch = errors.New("consumer: a message with this id and another body is known: this one is not run")

// settlement is one on its way. Most are plain: that there is little to one keeps them cheap to queue.
type settlement struct {
	item *Item
	sess *session
	kind ledger.SettleKind
	more *ledger.Settlement // nil: there is nothing to say but its kind

	tried bool            // its dead letter is published, or was not to be had: what is left is to seal it
	filed bool            // it is archived: what is left is its dead letter
	whole *ledger.Archive // of a mismatch: what is published once it is archived, perhaps sealed
}

// full is what the ledger is told. The item's ticket is the same for as long as it is being settled.
func (s *settlement) full() ledger.Settlement {
	set := ledger.Settlement{Kind: s.kind}
	if s.more != nil {
		set = *s.more
	}
	set.Ticket, set.Fingerprint = s.item.ticket, s.item.Fingerprint
	return set
}

func (s *settlement) size() int {
	if s.more == nil {
		return 0
	}
	n := len(s.more.Result)
	if s.more.Dead != nil {
		n += s.more.Dead.Size()
	}
	return n
}

func (s *settlement) result() []byte {
	if s.more == nil {
		return nil
	}
	return s.more.Result
}

// after is how long a released message waits.
func (s *settlement) after() time.Duration {
	if s.more == nil {
		return 0
	}
	return s.more.After
}

// unharmed says whether the message is given back as if it had never been claimed.
func (s *settlement) unharmed() bool {
	return s.kind == ledger.Release && (s.more == nil || !s.more.Count && s.more.After == 0)
}

// settle puts a settlement of an item that is ours on its way.
func (e *Engine) settle(it *Item, set *ledger.Settlement) {
	e.s.setPhase(it, settling)
	s := settlement{item: it, sess: it.sess, kind: set.Kind, more: set}
	if it.rare != nil {
		it.rare.spent = 0
	}
	if set.Kind == ledger.Fail {
		e.judge(it, time.Since(e.born), false)
		e.spends(it, set.Dead)
		e.forward(s)
		return
	}
	e.settleQ.push(s)
}

// succeed settles what went well.
func (e *Engine) succeed(it *Item, result []byte) {
	if !it.isHead() { // of a stretch that was split: it waits for those before it, or goes with them (takeEarly)
		it.extra().early = &early{result}
		return
	}
	if result != nil {
		e.settle(it, &ledger.Settlement{Kind: ledger.Succeed, Result: result})
		return
	}
	e.s.setPhase(it, settling)
	e.settleQ.push(settlement{item: it, sess: it.sess, kind: ledger.Succeed})
}

// release gives back what was claimed and not started, uncounted and due at once.
func (e *Engine) release(it *Item) {
	e.s.setPhase(it, settling)
	e.settleQ.push(settlement{item: it, sess: it.sess, kind: ledger.Release})
}

// settleLoop settles in batches: whatever comes while a call is under way goes with the next one.
func (e *Engine) settleLoop() {
	var batch []settlement
	var sets []ledger.Settlement
	for {
		e.mu.Lock()
		for !e.closed && !e.settleable() {
			e.toSettle.Wait()
		}
		if e.closed {
			e.mu.Unlock()
			return
		}
		if done := e.takeDone(); len(done) > 0 {
			n := 0
			for _, st := range done {
				n += st.n
			}
			e.settlingNow += n
			e.unlock()
			e.flushStretches(done)
			e.mu.Lock()
			e.settlingNow -= n
			e.unlock()
			continue
		}
		batch = e.takeSettlements(batch[:0])
		e.settlingNow += len(batch)
		e.unlock()
		if len(batch) == 0 {
			continue
		}
		sets = sets[:0]
		for i := range batch {
			e.fit(&batch[i])
			sets = append(sets, batch[i].full())
		}
		e.flush(batch, sets)
		e.mu.Lock()
		e.settlingNow -= len(batch)
		e.unlock()
		clear(batch)
		clear(sets)
	}
}

// settleable says whether to send what waits to be settled.
func (e *Engine) settleable() bool {
	n := e.settleQ.len() + e.sendable()
	return n > 0 && e.worthwhile(n, e.settlingNow)
}

// takeSettlements takes settlements of one session, bounded in count and bytes, into batch, which is empty.
func (e *Engine) takeSettlements(batch []settlement) []settlement {
	bytes := 0
	for e.settleQ.len() > 0 && len(batch) < settleBatch {
		next := &e.settleQ.buf[e.settleQ.head]
		if len(batch) > 0 && (next.sess != batch[0].sess || bytes+next.size() > settleBytes) {
			break
		}
		bytes += next.size()
		batch = append(batch, e.settleQ.pop())
		batch, bytes = e.takeEarly(batch, bytes)
	}
	return batch
}

// takeEarly takes what has succeeded behind the last of a batch in its lane into the same call: in a lane they are settled
// one after the other, or together.
func (e *Engine) takeEarly(batch []settlement, bytes int) ([]settlement, int) {
	head := batch[len(batch)-1]
	if head.kind != ledger.Succeed || head.item.phase != settling {
		return batch, bytes
	}
	for it := head.item.next; it != nil && len(batch) < settleBatch && it.sess == head.sess; it = it.next {
		early := it.rest().early
		if it.phase != running || early == nil {
			break
		}
		s := settlement{item: it, sess: it.sess, kind: ledger.Succeed}
		if early.result != nil {
			s.more = &ledger.Settlement{Kind: ledger.Succeed, Result: early.result}
		}
		if bytes+s.size() > settleBytes {
			break
		}
		it.extra().early = nil
		e.s.setPhase(it, settling)
		batch, bytes = append(batch, s), bytes+s.size()
	}
	return batch, bytes
}

// flush settles a batch until the ledger has answered for it; settlements may be repeated. It gives up only when the
// engine closes.
func (e *Engine) flush(batch []settlement, sets []ledger.Settlement) {
	sess := batch[0].sess
	var errs []error
	err, answered := e.untilAnswered(sess, len(batch), func(ctx context.Context) (err error) {
		if errs, err = sess.owner.Settle(ctx, sets); ledger.Unknown(err) {
			e.maybeForgotten(batch)
		}
		return err
	})
	if answered {
		e.settled(batch, errs, err)
	}
}

// untilAnswered repeats a call that settles n messages until the ledger has answered it: nil or ErrLost, which is also the
// answer of a session that is lost. It is false if the engine closes.
func (e *Engine) untilAnswered(sess *session, n int, call func(context.Context) error) (error, bool) {
	for try := 1; ; try++ {
		began := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), e.callTimeout())
		killpoint.At(killpoint.BeforeSettle)
		err := call(ctx)
		killpoint.At(killpoint.AfterSettle)
		cancel()
		e.tel.settleTook(time.Since(began))
		if err == nil {
			e.note(nil)
			return nil, true
		}
		if ledger.IsLost(err) {
			e.lose(sess)
			return err, true
		}
		if ledger.Unknown(err) {
			e.tel.unknown(n)
		}
		e.note(err)
		e.nap(outage(try))
		if e.gone.Err() != nil {
			return nil, false
		}
		if e.over(sess) {
			return ledger.ErrLost, true
		}
	}
}

// over says whether a session is lost. No answer for it need ever come then: nothing tells it the database's clock any more,
// so its statements may all be late. The messages are asked for again.
func (e *Engine) over(sess *session) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return sess.lost
}

// settled does what the answers say. whole is ErrLost if the ledger said so of the whole call.
func (e *Engine) settled(batch []settlement, errs []error, whole error) {
	now := time.Now()
	e.mu.Lock()
	for i := range batch {
		err := whole
		if err == nil {
			err = errs[i]
		}
		e.settledOne(&batch[i], err, now)
	}
	e.unlock()
}

// lastError is why a message failed for good.
func lastError(d *ledger.Archive) string {
	if n := len(d.Errors); n > 0 {
		return d.Errors[n-1].Error
	}
	return ""
}

func (e *Engine) settledOne(s *settlement, err error, now time.Time) {
	it := s.item
	if it.phase != settling {
		return // the engine let go of it
	}
	if !isInvalid(err) {
		e.forget(it)
	}
	switch {
	case err == nil && s.kind == ledger.Release:
		if s.unharmed() {
			it.forgotten()
		} else {
			e.traced(it)
		}
		e.released(it, s.after(), now)
	case err == nil:
		if s.kind == ledger.Fail {
			e.tel.failed(1, s.more.Dead.Kind)
			e.log.Warn("message failed for good, archived", zap.String("message_id", it.Msg.ID),
				zap.String("kind", string(s.more.Dead.Kind)), zap.Int("attempt", it.attempt), zap.String("error", lastError(s.more.Dead)))
		}
		if s.whole != nil {
			e.publishFiled(s)
			return
		}
		e.finish(it, Verdict{Ack: true})
	case ledger.IsLost(err):
		e.log.Warn("message was taken over before it was settled", zap.String("message_id", it.Msg.ID),
			zap.Stringer("settlement", s.kind), zap.Uint64("token", it.ticket.Token()))
		it.asks++
		e.wait(it, now.Add(askAgain(0, it.asks, rand.Float64())))
	case isInvalid(err):
		e.refused(s, err, false)
	case s.kind == ledger.Succeed && !it.isHead(): // locked; it goes with those before it, when they are repeated
		e.s.setPhase(it, running)
		e.succeed(it, s.result())
	default: // a locked row: this one is to be repeated
		again := *s
		time.AfterFunc(outage(1), func() {
			e.mu.Lock()
			e.settleQ.push(again)
			e.unlock()
		})
	}
}

func isInvalid(err error) bool {
	_, ok := errors.AsType[*ledger.InvalidError](err)
	return ok
}

// released is an item that is not ours any more, on purpose.
func (e *Engine) released(it *Item, after time.Duration, now time.Time) {
	switch {
	case it.dropped || e.draining || e.cfg.HoldMax > 0 && after > e.cfg.HoldMax:
		e.finish(it, Verdict{Again: after})
	case after > 0:
		e.s.hold(it, now.Add(after))
	default:
		e.s.requeue(it)
	}
}
