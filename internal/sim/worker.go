package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/ackledger/ackledger/internal/backoff"
	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
)

// worker is a place in which one process runs after the other.
type worker struct {
	world   *world
	number  int
	lives   int
	process *process // nil: none runs
}

// process is a worker's process: a flow, and what a shell would do around it.
type process struct {
	*world
	worker *worker
	life   int
	flow   *flow.Flow
	alive  bool
	frozen time.Duration // until then it makes no step
	joined bool
	clock  clock
	watch  driver.Watch // of the others' beats, where the ledger has no clock
	source source       // nil: it has not joined
	sess   *session

	idle, claimers, settlers, publishers int // goroutines that have nothing to do
	suspect, probe                       apart
	chunks                               []*chunk // that handlers have

	armed                                time.Duration // when the flow is woken; past: it is not
	rescuing, polling, pumping, draining bool
	weighing, weighAgain, heeding        bool
	wanting                              bool // permits are being asked for
	weighRound                           int

	offered  int         // and not given back
	larges   int         // of them, that are large
	cared    int         // of them, that the ledger has brought
	hands    map[any]int // of them, by delivery.of
	known    known
	telling  int             // calls about what is finished, under way
	tellings []*flow.Telling // that are not in use
}

func (w *world) newWorker(number int) *worker {
	k := &worker{world: w, number: number}
	w.after(time.Duration(number)*time.Millisecond, k.start)
	w.after(w.between(100*time.Millisecond, 20*time.Second), k.mishap)
	return k
}

// mishap kills, ends or freezes the process now and then.
func (k *worker) mishap() {
	w := k.world
	if p := k.process; p != nil && p.alive && p.joined && w.trouble(mishap) {
		switch w.rnd.IntN(5) {
		case 0, 1:
			p.kill("is killed", none)
		case 2, 3:
			p.frozen = max(p.frozen, w.now+w.between(100*time.Millisecond, 2*lease))
			w.note(p, "freezes for ms", none, int64((p.frozen-w.now)/time.Millisecond))
		case 4:
			p.drain()
		}
	} else if p != nil && p.alive && p.joined && w.trouble(pause) {
		p.pause()
	}
	if w.now < w.cfg.Calm {
		w.after(w.between(100*time.Millisecond, 15*time.Second), k.mishap)
	}
}

// start begins a process.
func (k *worker) start() {
	w := k.world
	k.lives++
	p := &process{
		world: w, worker: k, life: k.lives, alive: true, claimers: 2, settlers: 2, publishers: 2, idle: w.cfg.Concurrency,
		hands: map[any]int{}, armed: -1, known: known{refused: map[*flow.Item]int{}, verdicts: map[*flow.Item]*session{}, room: map[string]room{}},
	}
	cfg := flow.Config{
		Concurrency: w.cfg.Concurrency, MinConcurrency: min(w.cfg.Least, w.cfg.Concurrency), Batch: w.cfg.Batch > 0, BatchSize: max(w.cfg.Batch, 1), ClaimAhead: claimAhead,
		MaxHeldBytes: maxHeld * size, LimitStarts: w.cfg.LimitStarts, Park: w.cfg.Park, Target: w.cfg.Published, Cipher: w.cfg.Sealed,
		HoldMax: w.cfg.HoldMax, Backoff: backoff.Policy{Base: 100 * time.Millisecond, Max: time.Second},
		Failures: w.cfg.Failures, Percent: 50, Budget: w.budget(), Seed: w.rnd.Uint64(), Rules: w.rules(), Permits: w.limits(),
	}
	w.asRunner(&cfg)
	p.clock = w.drawClock()
	p.flow = flow.New(cfg)
	p.after(0, p.look)
	if w.cfg.Limit > 0 {
		p.after(time.Second, p.yieldPermits)
	}
	if w.parks() {
		p.after(time.Second, p.looks)
	}
	k.process = p
	p.enter()
}

func (p *process) String() string {
	if p == nil {
		return "nobody"
	}
	return fmt.Sprintf("worker %d.%d", p.worker.number, p.life)
}

// after has something happen to the process, if it lives then, and not while it is frozen.
func (p *process) after(d time.Duration, do func()) {
	p.world.after(d, func() { p.wake(do) })
}

func (p *process) wake(do func()) {
	switch {
	case !p.alive:
	case p.now < p.frozen:
		p.world.after(p.frozen-p.now, func() { p.wake(do) })
	default:
		do()
		p.pump()
	}
}

// drainTime is when the handlers are cancelled that a drain waits for.
const drainTime = time.Second

// kill ends the process where it is.
func (p *process) kill(why string, by message) {
	p.note(p, why, by, 0)
	p.report.Kills++
	if it := p.suspect.it; it != nil && of(it).message != by {
		p.facts.of(of(it).message).unlucky++
	}
	p.cutShort()
	p.alive, p.joined = false, false
	p.worker.process = nil
	p.world.after(p.between(100*time.Millisecond, 3*time.Second), func() { p.broker.gone(p) })
	p.world.after(p.between(100*time.Millisecond, 2*time.Second), p.worker.start)
}

// pause stops the worker for a while.
func (p *process) pause() {
	p.note(p, "pauses", none, 0)
	p.known.paused = true
	p.flow.Pause(p.now)
	p.pump()
	p.after(p.between(0, 3*time.Second), func() {
		p.note(p, "goes on", none, 0)
		p.known.paused = false
		p.flow.Resume()
	})
}

// drain ends the process cleanly.
func (p *process) drain() {
	if p.draining {
		return
	}
	p.draining, p.joined = true, false
	p.note(p, "drains", none, 0)
	p.after(drainTime, p.cancelAll)
	p.after(2*time.Minute, func() { p.breaks(none, "a drain ends: that of %s does not", p) })
	p.flow.Drain(p.now, func() {
		p.mustHaveDrained(p)
		if p.source == nil {
			p.end()
			return
		}
		p.source.drained(p.end)
	})
	p.pump()
}

// cancelAll cancels the handlers that a drain waits for.
func (p *process) cancelAll() {
	left := 0
	p.flow.CancelAll(func(it *flow.Item) {
		left++
		p.note(p, "still has", of(it).message, 0)
	})
	if left < p.offered && p.telling == 0 {
		p.breaks(none, "what a drain waits for is told: %s has %d messages, and tells of %d", p, p.offered, left)
	}
}

// end is the end of a process that has drained.
func (p *process) end() {
	p.flow.Close(p.now)
	p.leave(p.sess, func() {
		p.note(p, "has ended", none, 0)
		p.alive = false
		p.worker.process = nil
		p.broker.gone(p)
		p.world.after(p.between(0, time.Second), p.worker.start)
	})
}

// enter is the first join, and what goes on in the background from then on.
func (p *process) enter() {
	p.join("has joined", func() {
		p.joined = !p.draining
		p.source = p.broker.join(p)
		p.polls() // from then on when the flow says so
	})
}

// join begins a session, and repeats that until it does.
func (p *process) join(what string, then func()) {
	sent, sess := p.now, &session{permits: map[string][]permit{}}
	p.call("a join", func() (err error) {
		owner, err := p.joins(sess)
		if err == nil {
			sess.owner, sess.ledgerUntil = ledger.Ungroup(owner), max(p.now+lease, sent+p.clock.lasts())
			if p.ranged() {
				sess.ranges, _ = sess.owner.(ledger.StretchOwner)
			}
		}
		return err
	}, func(err error) {
		if err != nil {
			p.after(p.outage(), func() { p.join(what, then) })
			return
		}
		p.sess, sess.until = sess, sent+p.clock.lasts()
		p.heeds(sess, sent)
		p.flow.Joined(&flow.Session{Ranges: sess.ranges != nil, Of: sess})
		p.note(p, what, none, 0)
		p.after(lease/3, func() { p.beat(sess) })
		then()
	})
}

// outage is the rest before a call is repeated.
func (p *process) outage() time.Duration { return p.between(50*time.Millisecond, 500*time.Millisecond) }

// beat keeps the lease, until it is lost.
func (p *process) beat(sess *session) {
	if sess != p.sess {
		return
	}
	if p.now > sess.until-lease/6 {
		p.lose(sess)
		return
	}
	sent := p.now
	p.callTwice("a beat", func() error {
		lasts, err := sess.owner.Beat(context.Background())
		if err == nil {
			sess.ledgerUntil = max(p.now+p.seconds(lasts), sent+p.clock.lasts())
		}
		p.mustBeOver(sess, err)
		return err
	}, func(err error) {
		rest := lease / 3
		switch {
		case ledger.IsLost(err):
			p.lose(sess)
			return
		case err != nil:
			p.reachable(false)
			rest = min(p.outage(), lease/10)
		default:
			sess.until = sent + p.clock.lasts()
			p.reachable(true)
			p.heeds(sess, sent)
		}
		p.after(rest, func() { p.beat(sess) })
	})
}

// reachable is told whether the ledger has answered a call.
func (p *process) reachable(yes bool) {
	p.known.away = !yes
	p.flow.Reachable(p.now, yes)
}

// lose ends a session, leaves it and joins anew.
func (p *process) lose(sess *session) {
	s := p.flow.Session()
	if p.sess != sess || s == nil || !p.flow.LeaseLost(p.now, s) {
		return
	}
	p.note(p, "has lost its lease", none, 0)
	p.sess = nil
	p.after(heeds, func() { p.mustHaveCancelled(p, sess) })
	deadline := p.now + lease/3
	var settle func()
	settle = func() {
		if p.flow.Busy(s) && p.now < deadline {
			p.after(10*time.Millisecond, settle)
			return
		}
		p.leave(sess, func() {
			if !p.flow.Closed() {
				p.join("has joined anew", func() {})
			}
		})
	}
	p.after(0, settle)
}

// leave tells the ledger that a session has ended, until it is answered.
func (p *process) leave(sess *session, then func()) {
	if sess == nil {
		then()
		return
	}
	p.callTwice("a leave", func() error {
		if !sess.left {
			sess.left, sess.leftAt = true, p.now
		}
		return sess.owner.Leave(context.Background())
	}, func(err error) {
		if err != nil && !ledger.IsLost(err) {
			p.after(p.outage(), func() { p.leave(sess, then) })
			return
		}
		then()
	})
}
