package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
	"github.com/ackledger/ackledger/ledger/memory"
)

// In a world with Config.Watched the ledger is one that has no clock and looks at one row at a time, as on DynamoDB. Its tables are those
// that are kept in memory, and what is different stands here, in front of them: owners have beats that their peers watch, each by a clock of
// its own, which runs fast or slow; a claim does not look at its owner; and what is late arrives when its owner is dead, or forgotten. When a
// message is due, and when its window is over, goes by one clock as ever: this is about owners.

// condition is one of those that such a ledger rests on. A test takes each out.
type condition uint8

// The conditions.
const (
	aLease    condition = iota // a declaration: the beat was the same for a lease
	sameBeat                   // and is that still when it arrives
	asRead                     // a claim that was given up, or whose owner's lease is over: its row is as it was read
	logAnswer                  // what is answered about ranges counts while the lease runs
	conditions
)

// clock is a machine's.
type clock struct {
	drift int64         // parts per million by which it runs fast
	wall  time.Duration // by which its wall clock is wrong
}

// drawClock draws one that is as wrong as is assumed.
func (w *world) drawClock() clock {
	if !w.cfg.Watched {
		return clock{}
	}
	return clock{driver.ClockDrift * int64(w.rnd.IntN(3)-1), time.Hour * time.Duration(w.rnd.IntN(3)-1)}
}

const million = 1_000_000

// reads is what the monotonic clock reads.
func (c clock) reads(now time.Duration) time.Duration {
	return now + now/million*time.Duration(c.drift) + now%million*time.Duration(c.drift)/million
}

// lasts is how long it takes until the clock has counted a lease.
func (c clock) lasts() time.Duration { return lease * million / time.Duration(million+c.drift) }

// life is that of an owner.
type life struct {
	beat uint64
	sess *session
	by   *process
}

// unclocked is the ledger's store as one session has it.
type unclocked struct {
	driver.Store
	p    *process
	life *life
	id   driver.OwnerID
}

// joins begins a session in the ledger.
func (p *process) joins(sess *session) (ledger.Owner, error) {
	if !p.cfg.Watched {
		return p.ledger.Join(context.Background(), p.hours(lease))
	}
	sess.life, sess.swept = &life{sess: sess, by: p}, p.cfg.Hours
	l := driver.New(&unclocked{Store: p.ledger.Store(), p: p, life: sess.life}, driver.Config{Limits: ledger.DefaultLimits})
	p.ledgers = append(p.ledgers, l)
	return l.Join(context.Background(), p.hours(lease))
}

// Now implements [driver.Store]: by the machine's wall clock, of which differences alone are used.
func (u *unclocked) Now() time.Time {
	return time.Unix(0, 0).Add(u.p.clock.wall + u.p.hours(u.p.clock.reads(u.p.now)))
}

// Join implements [driver.Store].
func (u *unclocked) Join(ctx context.Context, lease time.Duration) (id driver.OwnerID, err error) {
	if id, err = u.Store.Join(ctx, lease); err == nil {
		u.id, u.p.lives[id] = id, u.life
	}
	return id, err
}

// Beat implements [driver.Store]. The process looks at the others' beats, unless it is frozen, or gone: then the beat alone is late.
func (u *unclocked) Beat(ctx context.Context, id driver.OwnerID, lease time.Duration, report []byte) error {
	err := u.Store.Beat(ctx, id, lease, report)
	if err == nil {
		u.life.beat++
		u.look()
	}
	return err
}

// Leave implements [driver.Store].
func (u *unclocked) Leave(ctx context.Context, id driver.OwnerID) error {
	err := u.Store.Leave(ctx, id)
	if err == nil {
		delete(u.p.lives, id)
	}
	return err
}

func (u *unclocked) awake() bool { return u.p.alive && u.p.now >= u.p.frozen }

// look notes the beats of all others.
func (u *unclocked) look() {
	if !u.awake() {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(u.p.lives)) {
		u.sees(id)
	}
	u.p.watch.Keep(func(id driver.OwnerID) bool { return u.p.lives[id] != nil })
}

// sees notes one beat, and says how long the owner is not overdue.
func (u *unclocked) sees(id driver.OwnerID) time.Duration {
	return u.p.watch.Note(driver.Sighting{Owner: id, Beat: u.p.lives[id].beat, Lease: lease}, u.p.clock.reads(u.p.now))
}

// Seal implements [driver.Store]: what it finds it has under way, perhaps for long, and perhaps twice.
func (u *unclocked) Seal(_ context.Context, caller driver.OwnerID) error {
	if !u.awake() {
		return nil
	}
	at := u.p.clock.reads(u.p.now)
	if u.p.off[aLease] {
		at += time.Hour
	}
	for _, s := range u.p.watch.Overdue(at) {
		if s.Owner == caller || u.p.trouble(requestLost) {
			continue
		}
		after := u.p.latency()
		if u.p.trouble(callLate) {
			after = u.p.between(0, 2*lease)
		}
		u.p.after(after, func() { u.p.declare(s) })
		if u.p.trouble(answerLost) {
			u.p.after(u.p.between(0, 2*lease), func() { u.p.declare(s) })
		}
	}
	return nil
}

// declare is the arrival of a declaration.
func (w *world) declare(s driver.Sighting) {
	x := w.lives[s.Owner]
	if x == nil || x.beat != s.Beat && !w.off[sameBeat] {
		return
	}
	delete(w.lives, s.Owner)
	w.ledger.Declare(strconv.FormatInt(int64(s.Owner), 10))
	w.report.Declared++
	w.note(x.by, "is declared dead", none, int64(s.Owner))
	w.mustNotBelieve(x)
}

// mustNotBelieve checks an owner that is declared dead.
func (w *world) mustNotBelieve(x *life) {
	if x.by.alive && x.by.sess == x.sess && w.now <= x.sess.until {
		w.breaks(none, "an owner that is declared dead does not believe that its lease runs: %s does for another %s", x.by, x.sess.until-w.now)
	}
}

// Update implements [driver.Store]. Of logs an answer that comes when the lease is over is thrown away, also that of a settlement: its range
// may be gone because a peer has dissolved it, or because it was closed by an earlier write whose answer was lost, and only who is live
// knows that it was the latter.
func (u *unclocked) Update(ctx context.Context, call driver.Call, fn func(driver.Tx) error) error {
	err := u.Store.Update(ctx, call, func(tx driver.Tx) error { return fn(unlooked{tx, u}) })
	if over := !u.p.alive || u.p.now > u.life.sess.until; err == nil && over && len(call.Logs) > 0 && !u.p.off[logAnswer] {
		return ledger.ErrLost
	}
	return err
}

// unlooked is a transaction that does not look at its owner's row.
type unlooked struct {
	driver.Tx
	u *unclocked
}

// Owner implements [driver.Tx]. When the lease of another one ends a watch alone knows.
func (t unlooked) Owner(id driver.OwnerID) (driver.Owner, error) {
	if id == t.u.id {
		return driver.Owner{Fate: driver.Live}, nil
	}
	o, err := t.Tx.Owner(id)
	if err == nil && o.Fate == driver.Live {
		o.Lease = t.Now().Add(t.u.p.hours(t.u.sees(id)))
	}
	return o, err
}

// inTx commits a transaction in which nothing but its messages' success is.
func (p *process) inTx(ctx context.Context) error {
	if !p.cfg.Watched {
		return memory.InTx(ctx, func(context.Context) error { return nil })
	}
	f, u, err := driver.Begin[*unclocked](ctx)
	if err != nil {
		return err
	}
	return f.Run(ctx, 0, func() (ledger.AttemptState, error) {
		if err := f.Commits(); err != nil {
			return ledger.AttemptOpen, err
		}
		fenced := false
		err := u.Update(ctx, driver.Call{Op: driver.Settle}, func(tx driver.Tx) error {
			if err := f.Check(tx); err != nil {
				return err
			}
			fenced = true
			return f.Write(tx)
		})
		switch {
		case fenced:
			f.Committed()
			return ledger.AttemptSucceeded, nil
		case ledger.IsLost(err):
			return ledger.AttemptLost, err
		}
		return ledger.AttemptOpen, err
	})
}

// reach is how long a request may be under way: where no clock of the ledger's stops it, its owner may be dead and forgotten by then.
func (w *world) reach(limit time.Duration) time.Duration {
	if w.cfg.Watched {
		return limit + 3*lease
	}
	return limit
}

// errGone is what nobody hears of a request that does not arrive.
var errGone = errors.New("sim: the request is gone")

// strays makes a request of a session one that may arrive when it was given up long ago. Where messages lie in ranges it does so only when
// its session is over: an owner plans what it writes there in its own memory, which here would be when the request arrives.
func (p *process) strays(sess *session, limit time.Duration, execute func() error) func() error {
	deadline := p.now + limit
	return func() error {
		if p.cfg.Ranged && p.now >= deadline {
			if p.alive && p.sess == sess {
				return errGone
			}
			p.answers.unsure = true // it counts by what it remembers
		}
		return execute()
	}
}

// callTwice sends a request that may arrive once more, later, where the ledger has no clock; nobody hears the second answer.
func (p *process) callTwice(what string, execute func() error, answered func(error)) {
	p.call(what, execute, answered)
	if p.cfg.Watched && p.trouble(answerLost) {
		p.world.after(p.between(timeout, p.reach(timeout)), func() { _ = execute() }) // it may fail
	}
}

// callInLease sends a claim. Where the ledger has no clock, the process asks nothing when its own lease is over, and what it is answered
// then it throws away. What it has sent before may arrive all the same: it was decided by what was read, and is on the condition that this
// is as it was. As long as it waits for the answer and its lease runs, a condition that fails has the process read again.
func (p *process) callInLease(what string, sess *session, c *flow.Claim, execute func() error, answered func(error)) {
	if !p.cfg.Watched {
		p.call(what, execute, answered)
		return
	}
	if p.now > sess.until {
		p.after(0, func() { answered(ledger.ErrLost) })
		return
	}
	read, waits := p.reading(c), true
	p.callTwice(what, p.strays(sess, timeout, func() error {
		over := !p.alive || p.now > sess.until
		if (over || !waits) && p.reading(c) != read && !p.off[asRead] {
			return ledger.ErrLost
		}
		if waits = false; over {
			p.report.Late++
		}
		return execute()
	}), func(err error) {
		waits = false
		if err == nil && p.now > sess.until {
			p.report.Thrown++
			err = ledger.ErrLost
		}
		answered(err)
	})
}

// reading is what a claim reads, and what it decides by.
func (w *world) reading(c *flow.Claim) string {
	var all strings.Builder
	err := w.ledger.Store().View(context.Background(), driver.Call{Op: driver.Read}, func(r driver.Reader) (err error) {
		all.Reset()
		ofClaim(c)(func(d delivery) { err = cmp.Or(err, w.read(&all, r, d.key)) })
		return err
	})
	return cmp.Or(all.String(), fmt.Sprint(err))
}

// read reads a message's row, and the range that it lies in, with the fates of their owners.
func (w *world) read(to *strings.Builder, r driver.Reader, key ledger.Key) error {
	m, err := r.Message(key.Sum(), nil)
	if err != nil {
		return err
	}
	owners := []driver.OwnerID{}
	if m != nil {
		fmt.Fprintf(to, "%+v, due %t; ", *m, m.Due.After(r.Now()))
		owners = append(owners, m.Owner)
	}
	if key.Pos != nil {
		log, offset := driver.SplitKey(key.Sum())
		g, err := r.Log(log)
		if err != nil {
			return err
		}
		open, err := r.Ranges(nil, log, driver.Span{From: offset, To: offset + 1}, nil)
		if err != nil {
			return err
		}
		fmt.Fprintf(to, "%+v %+v; ", g, open)
		for i := range open {
			owners = append(owners, open[i].Owner)
		}
	}
	for _, id := range owners {
		o, err := r.Owner(id)
		if err != nil {
			return err
		}
		fmt.Fprintf(to, "owner %d is %d; ", id, o.Fate)
	}
	return nil
}

// copyOf is a claim as it was sent.
func copyOf(c *flow.Claim) *flow.Claim {
	return &flow.Claim{Session: c.Session, Items: slices.Clone(c.Items), Ranges: slices.Clone(c.Ranges)}
}
