package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"go.uber.org/zap"
)

// session is one life of the worker in the ledger. The engine's lock guards until and lost.
type session struct {
	owner     ledger.Owner
	late      bool                // it asks Entry.Late
	stretches ledger.StretchOwner // owner; nil: it cannot
	until     time.Time           // end of the lease, counted from before the request that extended it was sent
	end       atomic.Int64        // until, since Engine.born, for those without the lock
	lost      bool
	ended     chan struct{} // closed when lost
}

// lasts says until when the lease lasts, since Engine.born. It needs no lock.
func (s *session) lasts() time.Duration { return time.Duration(s.end.Load()) }

// extend notes the lease's new end. The engine's lock is held, if others know the session.
func (s *session) extend(e *Engine, until time.Time) {
	s.until = until
	s.end.Store(int64(until.Sub(e.born)))
}

// firstJoin joins before anything else begins. What cannot heal is returned; all else is tried again until ctx is done.
func (e *Engine) firstJoin(ctx context.Context) (*session, error) {
	for n := 1; ; n++ {
		sess, err := e.join(ctx)
		if err == nil {
			return sess, nil
		}
		if ledger.Unusable(err) || ctx.Err() != nil {
			return nil, err
		}
		e.note(err)
		e.log.Warn("cannot join the ledger", zap.Error(err))
		t := time.NewTimer(outage(n))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, context.Cause(ctx)
		}
	}
}

func (e *Engine) join(ctx context.Context) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, e.callTimeout())
	defer cancel()
	sent := time.Now()
	owner, err := e.cfg.Ledger.Join(ctx, e.opt.Lease)
	if err != nil {
		return nil, err
	}
	sess := &session{owner: ledger.Ungroup(owner), ended: make(chan struct{})}
	_, sess.late = sess.owner.(ledger.LateOwner)
	sess.stretches, _ = sess.owner.(ledger.StretchOwner)
	sess.extend(e, sent.Add(e.opt.Lease))
	e.mu.Lock()
	e.sess, e.unleft, e.up, e.lastErr = sess, sess, true, nil
	e.improved()
	e.unlock()
	e.log.Info("joined the ledger", zap.String("owner", owner.ID()), zap.Duration("lease", e.opt.Lease))
	return sess, nil
}

// keep beats for the session, and when it is lost leaves it and joins anew, until the engine closes.
func (e *Engine) keep(sess *session) {
	for {
		e.beat(sess)
		if e.gone.Err() != nil {
			return
		}
		e.lose(sess)
		e.settleDown(sess)
		if !e.leave(sess) {
			return
		}
		if sess = e.rejoin(); sess == nil {
			return
		}
	}
}

// beat returns when the session is lost: the ledger says so, or the lease ends soon and nobody confirmed another. A
// third of the lease lies between two beats; a sixth is the margin.
func (e *Engine) beat(sess *session) {
	margin := e.opt.Lease / 6
	wait, failed := e.opt.Lease/3, 0
	for {
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-e.probe:
			e.nap(min(outage(failed+1), wait))
		case <-sess.ended:
		case <-e.gone.Done():
		}
		t.Stop()
		e.mu.Lock()
		until, lost := sess.until, sess.lost
		e.mu.Unlock()
		if left := time.Until(until) - margin; lost || left <= 0 || e.gone.Err() != nil {
			return
		}
		err := e.beatOnce(sess, time.Until(until)-margin)
		if ledger.IsLost(err) {
			return
		}
		e.note(err)
		if err == nil {
			next := time.Now().Add(e.opt.Lease / 3)
			e.addCounts(context.WithoutCancel(e.gone)) // what a clean end cut short would not be counted
			wait, failed = time.Until(next), 0
			continue
		}
		failed++
		wait = min(outage(failed), max(e.opt.Lease/10, 10*time.Millisecond))
	}
}

func (e *Engine) beatOnce(sess *session, left time.Duration) error {
	ctx, cancel := context.WithTimeout(e.gone, min(e.callTimeout(), left))
	defer cancel()
	sent := time.Now()
	lasts, err := sess.owner.Beat(ctx)
	if err != nil {
		return err
	}
	e.mu.Lock()
	sess.extend(e, sent.Add(lasts))
	e.mu.Unlock()
	return nil
}

// lose ends a session: its handlers are cancelled with ErrLost, what it had claimed is nobody's to us, and nothing starts
// until the worker has joined anew.
func (e *Engine) lose(sess *session) {
	e.mu.Lock()
	if sess.lost {
		e.mu.Unlock()
		return
	}
	sess.lost = true
	close(sess.ended)
	if e.sess == sess {
		e.sess, e.up = nil, false
	}
	e.takeBackAll()
	e.eachRun(func(_ *chunk, r *run) {
		if r.item.sess == sess {
			r.callOff(ledger.ErrLost)
		}
	})
	for it := e.all; it != nil; {
		next := it.allNext
		if it.sess == sess {
			e.loseItem(it)
		}
		it = next
	}
	e.unlock()
	e.tel.leaseLost()
	e.log.Warn("lease lost: handlers are cancelled, the worker joins anew", zap.String("owner", sess.owner.ID()))
}

// loseItem is for an item whose session ended: it is not ours, or will not be once the session is left.
func (e *Engine) loseItem(it *Item) {
	switch it.phase {
	case claimed:
		e.giveBack(it)
	case queued, waiting, suspect:
		it.maybe = false
		if it.dropped {
			e.finish(it, Verdict{})
		}
	}
}

// giveBack makes an item claimable again. One that the broker has back is let go of instead, unless it may be ours: then
// the ledger is asked until it answers.
func (e *Engine) giveBack(it *Item) {
	if e.draining || it.dropped && !it.maybe {
		e.finish(it, Verdict{})
		return
	}
	if it.dropped {
		e.tell(it, Verdict{Held: true})
	}
	e.s.requeue(it)
}

// settleDown gives cancelled handlers a short time to end, before leaving frees their messages.
func (e *Engine) settleDown(sess *session) {
	deadline := time.Now().Add(e.opt.Lease / 3)
	for time.Now().Before(deadline) && e.gone.Err() == nil {
		e.mu.Lock()
		busy := false
		e.eachRun(func(_ *chunk, r *run) { busy = busy || r.item.sess == sess })
		e.mu.Unlock()
		if !busy {
			return
		}
		e.nap(min(10*time.Millisecond, e.opt.Lease/30))
	}
}

// leave tells the ledger that the lost session ends on purpose, until answered: what it may own is then free, counted as
// nobody's crash (unless a peer was first). It returns false if the engine closes.
func (e *Engine) leave(sess *session) bool {
	for n := 1; e.gone.Err() == nil; n++ {
		ctx, cancel := context.WithTimeout(e.gone, e.callTimeout())
		err := sess.owner.Leave(ctx)
		cancel()
		if err == nil || ledger.IsLost(err) {
			e.unleft = nil
			return true
		}
		e.note(err)
		e.nap(outage(n))
	}
	return false
}

// rejoin joins until it succeeds; nil if the engine closes. Even what looks as if it could not heal is tried again: the
// worker was serving, so somebody is at work on the ledger.
func (e *Engine) rejoin() *session {
	for n := 1; e.gone.Err() == nil; n++ {
		sess, err := e.join(e.gone)
		if err == nil {
			return sess
		}
		e.note(err)
		e.log.Warn("cannot join the ledger", zap.Error(err))
		e.nap(outage(n))
	}
	return nil
}
