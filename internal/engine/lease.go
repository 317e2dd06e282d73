package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
	"go.uber.org/zap"
)

// firstBeat is how soon after it has joined a session beats for the first time, at most.
const firstBeat = time.Second

// session is one life of the worker in the ledger.
type session struct {
	flow   flow.Session
	owner  ledger.Owner
	single ledger.Owner        // owner, with what handlers call one by one grouped
	late   bool                // it asks Entry.Late
	ranges ledger.StretchOwner // owner; nil: it cannot
	until  time.Time           // end of the lease, counted from before the request that extended it was sent; the kernel's lock guards it
	end    atomic.Int64        // until, since kernel.born, for those without the lock
	ended  chan struct{}       // closed when lost
	board  ledger.Boarded      // owner; nil: it says nothing, and hears of no pauses

	heedless bool // it does not heed them
}

// sessionOf is the one in which the ledger has answered of an item.
func sessionOf(s *flow.Session) *session { return s.Of.(*session) }

// lasts says until when the lease lasts, since kernel.born. It needs no lock.
func (s *session) lasts() time.Duration { return time.Duration(s.end.Load()) }

// extend notes the lease's new end. The kernel's lock is held, if others know the session.
func (s *session) extend(born, until time.Time) {
	s.until = until
	s.end.Store(int64(until.Sub(born)))
}

// lease keeps the worker's lease in the ledger: it joins, beats, leaves what is lost, and joins anew. It knows whether the
// ledger answers.
type lease struct {
	*kernel
	*life
	opt    *consumer.Options
	ledger ledger.Ledger
	probe  chan struct{} // a call to the ledger failed: beat soon, to learn whether it is back
	unleft *session      // joined, and not known to be left; only keep's goroutine, and Close after it
	err    error         // the last one of a call; the kernel's lock guards it
	told   bool          // that the ledger refuses was logged in this outage; the kernel's lock guards it
	report func() ledger.WorkerReport

	heedless bool // of pauses
}

// untilJoined joins, and tries again until ctx is done, or on an error that is final.
func (l *lease) untilJoined(ctx context.Context, final func(error) bool) (*session, error) {
	for n := 1; ; n++ {
		sess, err := l.join(ctx)
		if err == nil || final(err) || ctx.Err() != nil {
			return sess, err
		}
		l.note(err)
		l.log.Warn("cannot join the ledger", zap.Error(err))
		if Sleep(ctx, outage(n)); ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

func (l *lease) join(ctx context.Context) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout(l.opt))
	defer cancel()
	sent := time.Now()
	owner, err := l.ledger.Join(ctx, l.opt.Lease)
	if err != nil {
		return nil, err
	}
	sess := &session{owner: ledger.Ungroup(owner), single: owner, ended: make(chan struct{}), board: ledger.BoardedOf(owner), heedless: l.heedless}
	_, sess.late = sess.owner.(ledger.LateOwner)
	sess.ranges, _ = sess.owner.(ledger.StretchOwner)
	sess.flow = flow.Session{Ranges: sess.ranges != nil, Of: sess}
	sess.extend(l.born, sent.Add(l.opt.Lease))
	l.unleft = sess
	l.do(func(f *flow.Flow, now time.Duration) {
		l.err = nil
		sess.heed(f, now) // first: who joins under a pause begins nothing
		f.Joined(&sess.flow)
	})
	l.log.Info("joined the ledger", zap.String("owner", owner.ID()), zap.Duration("lease", l.opt.Lease))
	return sess, nil
}

// keep beats for the session, and when it is lost leaves it and joins anew, until the engine closes.
func (l *lease) keep(sess *session) {
	for {
		l.beat(sess)
		if l.gone.Err() != nil {
			return
		}
		l.lose(sess)
		l.settleDown(sess)
		if !l.leave(sess) {
			return
		}
		// What looks as if it could not heal is tried again, too: the worker was serving, so somebody is at work on the ledger.
		var err error
		if sess, err = l.untilJoined(l.gone, func(error) bool { return false }); err != nil {
			return
		}
	}
}

// beat returns when the session is lost: the ledger says so, or the lease ends soon and nobody confirmed another. A
// third of the lease lies between two beats; a sixth is the margin. The first comes soon, so that operators see who has joined.
func (l *lease) beat(sess *session) {
	margin := l.opt.Lease / 6
	wait, failed := min(firstBeat, l.opt.Lease/3), 0
	for {
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-l.probe:
			l.nap(min(outage(failed+1), wait))
		case <-sess.ended:
		case <-l.gone.Done():
		}
		t.Stop()
		l.mu.Lock()
		until, lost := sess.until, sess.flow.Lost()
		l.mu.Unlock()
		if left := time.Until(until) - margin; lost || left <= 0 || l.gone.Err() != nil {
			return
		}
		err := l.beatOnce(sess, time.Until(until)-margin)
		if ledger.IsLost(err) {
			return
		}
		l.note(err)
		if err == nil {
			next := time.Now().Add(l.opt.Lease / 3)
			// A sixth of the lease at most, after which the next beat still comes in time. What a clean end cut short would not
			// be counted.
			l.counts.send(context.WithoutCancel(l.gone), min(callTimeout(l.opt), l.opt.Lease/6))
			wait, failed = time.Until(next), 0
			continue
		}
		failed++
		wait = min(outage(failed), max(l.opt.Lease/10, 10*time.Millisecond))
	}
}

func (l *lease) beatOnce(sess *session, left time.Duration) error {
	ctx, cancel := context.WithTimeout(l.gone, min(callTimeout(l.opt), left))
	defer cancel()
	if sess.board != nil {
		sess.board.Report(l.report())
	}
	sent := time.Now()
	lasts, err := sess.owner.Beat(ctx)
	if err != nil {
		return err
	}
	l.do(func(f *flow.Flow, now time.Duration) {
		sess.extend(l.born, sent.Add(lasts))
		sess.heed(f, now)
	})
	return nil
}

// heed has the flow learn of the pauses that the ledger told of last. While the ledger does not answer it goes by those before.
func (s *session) heed(f *flow.Flow, now time.Duration) {
	if s.board != nil && !s.heedless {
		f.Ordered(now, s.board.Pauses())
	}
}

// lose ends a session: its handlers are cancelled with ErrLost, and nothing starts until the worker has joined anew.
func (l *lease) lose(sess *session) {
	l.mu.Lock()
	if !l.flow.LeaseLost(l.now(), &sess.flow) {
		l.mu.Unlock()
		return
	}
	close(sess.ended)
	l.unlock()
	l.tel.leaseLost()
	l.log.Warn("lease lost: handlers are cancelled, the worker joins anew", zap.String("owner", sess.owner.ID()))
}

// settleDown gives cancelled handlers a short time to end, before leaving frees their messages.
func (l *lease) settleDown(sess *session) {
	deadline := time.Now().Add(l.opt.Lease / 3)
	for time.Now().Before(deadline) && l.gone.Err() == nil {
		l.mu.Lock()
		busy := l.flow.Busy(&sess.flow)
		l.mu.Unlock()
		if !busy {
			return
		}
		l.nap(min(10*time.Millisecond, l.opt.Lease/30))
	}
}

// leave tells the ledger that the lost session ends on purpose, until answered: what it may own is then free, counted as
// nobody's crash (unless a peer was first). It returns false if the engine closes.
func (l *lease) leave(sess *session) bool {
	for n := 1; l.gone.Err() == nil; n++ {
		err := l.leaveOnce(l.gone, sess)
		if err == nil {
			l.unleft = nil
			return true
		}
		l.note(err)
		l.nap(outage(n))
	}
	return false
}

// leaveLast leaves the session that was not left yet, although it may be lost to us: else its peers would declare it dead
// and count a crash for each message that it held. It asks until the lease would have ended anyway, at most [maxCall]: one
// answer that comes late is nobody's error.
func (l *lease) leaveLast(ctx context.Context) error {
	sess := l.unleft
	if sess == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, max(callTimeout(l.opt), min(l.opt.Lease, maxCall)))
	defer cancel()
	for n := 1; ; n++ {
		err := l.leaveOnce(ctx, sess)
		if err == nil {
			return nil
		}
		if Sleep(ctx, outage(min(n, 2))); ctx.Err() != nil { // the time is short
			return fmt.Errorf("leave the ledger: %w", err)
		}
	}
}

// leaveOnce makes one call. What the ledger says is lost is left as well.
func (l *lease) leaveOnce(ctx context.Context, sess *session) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout(l.opt))
	defer cancel()
	err := sess.owner.Leave(ctx)
	if ledger.IsLost(err) {
		return nil
	}
	return err
}

// note keeps whether the ledger serves. A nil error says that it does. What it refuses is held and tried again like what it
// does not answer; people are told which of the two it is, for the one is mended elsewhere than the other.
func (l *lease) note(err error) {
	refused := ledger.Refused(err)
	l.mu.Lock()
	was, is := l.flow.Reachable(l.now(), err == nil)
	if l.err = err; err != nil {
		signal(l.probe)
	}
	tell := refused && !l.told
	l.told = err != nil && (l.told || refused)
	l.unlock()
	switch {
	case tell:
		l.log.Warn("the ledger refuses: nothing starts until somebody mends that", zap.Error(err))
	case was && !is && !refused:
		l.log.Warn("ledger unreachable: nothing starts until it answers", zap.Error(err))
	}
}

// why is what Health says of the last error; empty: there is none. The kernel's lock is held.
func (l *lease) why() string {
	switch {
	case l.err == nil:
		return ""
	case ledger.Refused(l.err):
		return "the ledger refuses: " + l.err.Error()
	}
	return l.err.Error()
}

// over says whether no answer for a session need come any more: it is lost, or the engine closes.
func (l *lease) over(sess *session) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flow.Over(&sess.flow)
}

// lost says whether a session is lost.
func (l *lease) lost(sess *session) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return sess.flow.Lost()
}
