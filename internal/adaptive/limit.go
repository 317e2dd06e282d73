package adaptive

import (
	"math"
	"time"
)

// Config is what a limit is built of.
type Config struct {
	Min, Max int // 1 <= Min <= Max
	// Conns bounds the limit as long as most calls commit a transaction of their own: the pool's connections. Zero: there is no pool.
	Conns int
}

// Sample is what came of a handler's calls that ran one after the other.
type Sample struct {
	Took   time.Duration // of all
	Calls  int           // none: they say nothing
	Failed int           // of them, as they may because there is too much to do
	InTx   int           // of them, that committed a transaction
}

const (
	tolerance = 1.5 // how much more a call may cost than with few handlers
	exponent  = 4   // of the part of calls that do not fail, in what a call costs
	deviates  = 2   // standard deviations by which the part that fails may differ by chance
	highest   = 0.8 // a pressure above it shrinks

	minSpan  = 100 * time.Millisecond // of a window
	minCalls = 5                      // in a window; and of failures more than of others, that end it
	fresh    = 10                     // windows for which the base is believed
	still    = 10                     // windows in which the limit stays after failures have shrunk it, and then in which it grows by one
	lasting  = 30                     // windows after which the base is measured anew

	firstPause, longestPause = 100 * time.Millisecond, 5 * time.Second // between calls that are tried, where the limit is at its least
	firstHold, longestHold   = time.Second, 8 * time.Second            // in which the limit does not grow
	forgiven                 = 30 * time.Second                        // after which a hold begins with the first again
	excused                  = time.Hour                               // for which failures are laid to the load
)

// Limit says how many handlers may run at once.
type Limit struct {
	cfg     Config
	limit   float64
	bound   int // at most, for now
	dips    bool
	running int
	window  window
	number  uint32 // of the window

	base   float64 // what a call takes with few handlers, in seconds; zero: not known
	fails  tally   // how often it fails with them
	few    float64 // so many
	age    int     // windows since
	good   float64 // the last limit that was in use and did well; zero: what comes after it did not
	calm   int     // windows since the limit has shrunk, in which it might grow
	lately float64 // what a call that went well took, in the last window: the geometric mean

	overloaded         bool
	since, last        time.Duration // it is, and the last window that said so
	rests              bool          // until
	pause, until       time.Duration
	hold, growsAgainAt time.Duration
	pressure           float64
}

// window is what is measured at one limit.
type window struct {
	open            bool
	since, last     time.Duration
	busy            time.Duration // of all handlers together
	took            time.Duration // all calls
	logs            float64       // of the seconds of those that did not fail, their sum
	began           int
	calls, failed   int // that ended
	unexplained     int // failed for so long that it is not laid to the load; they are not among the failed
	inTx, succeeded int
}

// tally counts calls, newer ones more than older ones.
type tally struct{ calls, failed float64 }

// rate is the part that fails: an estimate that is neither none nor all.
func (t tally) rate() float64 { return (t.failed + 0.5) / (t.calls + 1) }

// New builds a limit, which begins with its least.
func New(cfg Config) *Limit {
	return &Limit{cfg: cfg, limit: float64(cfg.Min), calm: still, bound: cfg.Max}
}

// Allows says how many handlers may run now.
func (l *Limit) Allows() int {
	if l.rests {
		return 0
	}
	return l.allows()
}

func (l *Limit) allows() int {
	if l.dips {
		return max(l.cfg.Min, int(l.limit/2))
	}
	return int(l.limit)
}

// Now is the limit, apart from dips and pauses: for people.
func (l *Limit) Now() int { return int(l.limit) }

// Rests says that no handler may start until a time, when Wake is to be called.
func (l *Limit) Rests() (until time.Duration, rests bool) { return l.until, l.rests }

// Wake ends a rest that is over.
func (l *Limit) Wake(now time.Duration) { l.rests = l.rests && now < l.until }

// Fails says whether more than half of the calls have failed, of late.
func (l *Limit) Fails() bool { return l.overloaded }

// Excused says until when an attempt that fails says nothing of its message; zero: it says something. It is while Fails, for an hour at
// most: what fails for longer does not come from the load. Time without overload gives as much of the hour back.
func (l *Limit) Excused() time.Duration {
	if !l.overloaded {
		return 0
	}
	return l.since + excused
}

// unexplained says that calls fail for longer than the load explains.
func (l *Limit) unexplained(now time.Duration) bool {
	return l.overloaded && now >= l.Excused() && now-l.last <= excused
}

// Began notes that a handler begins. What it returns is for Ended.
func (l *Limit) Began(now time.Duration) uint32 {
	if w := &l.window; !w.open {
		w.open, w.since, w.last = true, now, now
	}
	l.pass(now)
	l.window.began++
	l.running++
	return l.number
}

// Ended notes that a handler has ended that began in a window.
func (l *Limit) Ended(now time.Duration, began uint32, s Sample) {
	l.pass(now)
	l.running--
	if began != l.number || s.Calls == 0 {
		return
	}
	w := &l.window
	if l.unexplained(now) {
		w.unexplained, s.Failed = w.unexplained+s.Failed, 0
	}
	well := s.Calls - s.Failed
	w.calls, w.failed, w.inTx, w.succeeded = w.calls+s.Calls, w.failed+s.Failed, w.inTx+s.InTx, w.succeeded+well
	w.took += s.Took
	w.logs += float64(well) * math.Log(max(s.Took.Seconds()/float64(s.Calls), 1e-9))
	span := now - w.since
	switch {
	case 2*w.failed > max(w.began, w.calls) && (2*w.failed >= w.calls+minCalls || l.pause > 0):
		l.overload(now)
	case w.calls >= l.enough() && span >= minSpan && 2*w.failed <= w.calls:
		l.judge(now)
	case span > max(time.Second, 10*l.usual()): // too few have come to say anything of the load
		l.heed(now)
		l.next()
	}
}

// enough is how many calls say something: each handler has had two, and of failures it takes more to know how often they come.
func (l *Limit) enough() int {
	if l.window.failed > 0 {
		return max(4*minCalls, 2*l.allows())
	}
	return max(minCalls, 2*l.allows())
}

// pass counts the time that handlers have been busy.
func (l *Limit) pass(now time.Duration) {
	if w := &l.window; w.open {
		w.busy += time.Duration(l.running) * (now - w.last)
		w.last = now
	}
}

// usual is how long a call takes.
func (l *Limit) usual() time.Duration {
	w := &l.window
	return max(time.Duration(l.lately*float64(time.Second)), w.took/time.Duration(max(w.calls, 1)))
}

// next begins another window. What began in this one is not counted any more.
func (l *Limit) next() {
	l.window = window{}
	l.number++
}

// inUse is how many handlers were busy, in the mean.
func (w *window) inUse() float64 { return float64(w.busy) / float64(max(w.last-w.since, 1)) }

// judge ends a window of which at least half went well, or fails for no reason that is known.
func (l *Limit) judge(now time.Duration) {
	w := l.window
	l.lately = math.Exp(w.logs / float64(w.succeeded))
	l.pause = 0
	l.heed(now)
	if l.bound = l.cfg.Max; l.cfg.Conns > 0 && 2*w.inTx > w.succeeded {
		l.bound = max(l.cfg.Min, min(l.cfg.Max, l.cfg.Conns))
	}
	used := w.inUse()
	switch l.age++; {
	case l.dips || used <= 0.6*float64(l.Now()):
		l.dips = false
		l.learn(used)
	case used < 0.75*float64(l.Now()): // nobody knows what more would do
	default:
		l.move(now)
	}
	l.limit = min(l.limit, float64(l.bound))
	l.next()
}

// heed ends an overload if most of the window's calls went well.
func (l *Limit) heed(now time.Duration) {
	switch w := &l.window; {
	case !l.overloaded:
	case 2*(w.failed+w.unexplained) > w.calls:
		l.last = now
	default:
		if l.overloaded, l.pause = false, 0; w.unexplained > 0 { // what failed may have taken any time
			l.base = 0
		}
	}
}

// learn notes what calls of the window cost, with few handlers.
func (l *Limit) learn(handlers float64) {
	l.base, l.few, l.age = l.lately, handlers, 0
	l.fails = tally{l.fails.calls/2 + float64(l.window.calls), l.fails.failed/2 + float64(l.window.failed)}
}

// succeeds is what part of the calls does, of the part that does with few handlers; 1 where chance may have made the difference.
func (l *Limit) succeeds() float64 {
	w, few := &l.window, l.fails.rate()
	chance := math.Sqrt(few * (1 - few) * (1/float64(w.calls) + 1/max(l.fails.calls, 1)))
	return min(1, (float64(w.succeeded)/float64(w.calls)+deviates*chance)/(1-few))
}

// move moves the limit by what calls cost at it.
func (l *Limit) move(now time.Duration) {
	if l.base == 0 || float64(l.Now()) <= l.few {
		l.learn(l.limit)
	}
	l.base, l.good = min(l.base, l.lately), l.limit
	cost := l.lately / math.Pow(l.succeeds(), exponent)
	switch slow := cost > tolerance*l.base; {
	case slow && l.age <= fresh:
		l.limit, l.calm = max(l.limit*max(tolerance*l.base/cost, 0.5), l.few, float64(l.cfg.Min)), 0
		if l.lately <= tolerance*l.base { // failures make it slow
			l.calm = -still
		}
	case slow, l.age >= lasting:
		l.dips = true
	case now >= l.growsAgainAt && l.pressure <= highest:
		switch l.calm++; {
		case l.calm > still:
			l.limit += max(1, math.Sqrt(l.limit))
		case l.calm > 0:
			l.limit++
		}
	}
}

// overload ends a window most of which failed.
func (l *Limit) overload(now time.Duration) {
	least := float64(l.cfg.Min)
	if l.limit <= least {
		l.pause = min(max(2*l.pause, firstPause), longestPause)
		l.rests, l.until = true, now+l.pause
	}
	if l.good > 0 && int(l.good) < l.Now() {
		l.limit = max(least, l.good)
	} else {
		l.limit = max(least, min(l.limit, math.Ceil(l.window.inUse()))/2)
	}
	if now-l.growsAgainAt > forgiven {
		l.hold = 0
	}
	l.hold = min(max(2*l.hold, firstHold), longestHold)
	l.growsAgainAt = now + l.hold
	if calm := now - l.last; !l.overloaded || calm > excused {
		l.since = now - max(0, min(l.last-l.since, excused)-calm)
	}
	l.last = now
	l.overloaded, l.dips, l.base, l.fails, l.good, l.calm = true, false, 0, tally{}, 0, 0
	l.next()
}

// Press notes what somebody else says of the load, from 0 to 1, about once a second: above 0.8 the limit shrinks, at 1 by half. What is no
// number says nothing.
func (l *Limit) Press(pressure float64) {
	if !(pressure > 0) {
		pressure = 0
	}
	if l.pressure = min(pressure, 1); l.pressure > highest {
		l.limit = max(float64(l.cfg.Min), l.limit*(1-(l.pressure-highest)/(1-highest)/2))
	}
}
