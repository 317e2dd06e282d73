package sim

import (
	"math/rand/v2"
	"time"
)

// Config is a world.
type Config struct {
	Seed        uint64
	Workers     int
	Partitions  int
	Messages    int // in each partition
	Keys        int // ordering keys in each partition; 0: no order
	Span        int // records past the finished prefix of a partition at which it pauses; 0: no limit
	Held        int // records in hand; 0: as many as a process may have
	Concurrency int
	Least       int           // handlers at once, which are as many as pays, between that and Concurrency; 0: always Concurrency
	Batch       int           // messages that the handler takes at once; 0: it takes them one by one
	InTx        bool          // effects and success are one
	Visibility  time.Duration // the visibility timeout of the queue that all messages are in; 0: they are in a cluster's partitions
	Ranged      bool          // the ledger holds what succeeds in ranges
	Published   bool          // what fails for good is published before it is settled
	Sealed      bool          // it is sealed
	Park        bool          // what was cut short is not run again
	LimitStarts bool          // handlers start one at a time
	Failures    int           // that open the breaker; 0: there is none
	Budget      int           // messages that may be archived; 0: any number
	HoldMax     time.Duration // the broker waits in a worker's stead where it is longer; 0: it never does
	Pace        time.Duration // how long a handler takes
	Rules       bounds        // of the rules of scheduling
	Limit       int           // messages of a tenant that run at once among all workers; 0: any number
	Mixed       bool          // some processes want a row for each message, though others hold them in ranges
	KeepFailed  bool          // what has failed runs again for a redrive alone that knows of which failure it is
	Hours       bool          // the ledger's clock runs faster
	Callers     int           // of a request, at most; 0: messages come from a broker
	Refuse      bool          // a caller of what is in progress does not wait
	Steps       int           // outside calls of a handler, at most, whose results are recorded
	Watched     bool          // the ledger has no clock: owners are declared dead by peers that watch their beats
	Ordered     bool          // an operator pauses scopes
	Parks       bool          // retries may wait in the ledger
	Moods       [kinds]float64
	Calm        time.Duration // when nothing goes wrong any more; the world must come to its end after it
}

// Drawn is the world of a seed: of any kind that there is.
func Drawn(seed uint64) Config {
	rnd := rand.New(rand.NewPCG(seed, 0xd3a3))
	often := func(percent int) bool { return rnd.IntN(100) < percent }
	c := Config{
		Seed: seed, Workers: 1 + rnd.IntN(3), Partitions: 1 + rnd.IntN(2), Messages: 5 + rnd.IntN(40), Keys: 4 * rnd.IntN(3),
		Concurrency: 1 + rnd.IntN(4), InTx: often(30), Ranged: often(60), Published: often(40), Sealed: often(30), LimitStarts: often(10),
		Pace: paces[rnd.IntN(len(paces))], Calm: 20 * time.Second,
	}
	if often(40) {
		c.Visibility, c.Ranged = time.Duration(2+rnd.IntN(7))*time.Second, false
	}
	if often(30) {
		c.Batch = 1 + rnd.IntN(8)
	}
	if often(25) {
		c.Failures = 1 + rnd.IntN(4)
	}
	if often(20) {
		c.Budget = 1 + rnd.IntN(10)
	}
	if often(30) && c.Keys == 0 { // a broker that brings a message again does not keep its place
		c.HoldMax = 300 * time.Millisecond
	}
	if often(10) { // a range does not know what was claimed before
		c.Park, c.LimitStarts, c.Ranged, c.Batch = true, true, false, 0
	}
	if often(70) {
		c.Span, c.Held = 2+rnd.IntN(20), 8+rnd.IntN(50)
	}
	if !often(8) { // else nothing goes wrong
		c.Moods = drawMoods(rnd)
	}
	c.Rules = drawRules(seed)
	c.drawLeast(seed)
	c.KeepFailed = often(30)
	c.Mixed = c.Ranged && often(25)
	c.Hours = often(25)
	if often(20) {
		c.asked(1+rnd.IntN(4), often(40))
	}
	if often(25) {
		c.Steps = 1 + rnd.IntN(3)
	}
	c.Watched = often(25)
	c.Ordered = often(25) && c.Moods != [kinds]float64{}
	c.Limit = drawLimit(seed)
	c.Parks = drawParks(seed)
	return c
}

// drawLeast draws how many handlers there are where their number follows what they wait for. It draws by itself, so that it changes no
// other world.
func (c *Config) drawLeast(seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, mix(0x117)))
	if rnd.IntN(100) < 25 && !c.Park {
		c.Concurrency += rnd.IntN(9)
		c.Least = 1 + rnd.IntN(c.Concurrency)
	}
}

// asked makes a world of callers: what is for messages of brokers alone is left out.
func (c *Config) asked(callers int, refuse bool) {
	c.Callers, c.Refuse = callers, refuse
	c.Keys, c.Span, c.Held, c.Batch, c.Visibility, c.Failures, c.Budget, c.HoldMax, c.Least, c.Rules = 0, 0, 0, 0, 0, 0, 0, 0, 0, bounds{}
	c.Ranged, c.Published, c.Sealed, c.Park, c.LimitStarts, c.Mixed = false, false, false, false, false, false
	for _, k := range [...]kind{unkeyed, large, redriven, outdated} {
		c.Moods[k] = 0
	}
}

// nobodyTakes says that no message is taken back in such a world, nor in doubt.
func (c *Config) nobodyTakes() bool {
	for k := range ofHandlers {
		if k != gap && k != control && c.Moods[k] > 0 {
			return false
		}
	}
	return c.Visibility == 0 && c.Callers == 0
}

// paces are how long handlers take: a range pays below 10 µs.
var paces = [...]time.Duration{3 * time.Microsecond, 3 * time.Microsecond, 50 * time.Microsecond, 5 * time.Millisecond}

// drawMoods draws how often each kind of trouble happens.
func drawMoods(rnd *rand.Rand) (m [kinds]float64) {
	quiet, well := rnd.IntN(4) == 0, rnd.IntN(3) == 0
	for k := range m {
		if m[k] = moods[rnd.IntN(len(moods))]; quiet && kind(k) < ofHandlers || well && kind(k) >= ofHandlers && kind(k) < ofDeliveries {
			m[k] = 0
		}
	}
	return m
}

// kind is one kind of trouble.
type kind uint8

// The kinds of trouble.
const (
	refused     kind = iota // a call
	requestLost             // of a call
	answerLost
	callLate
	unnoticed // revocation
	mishap    // of a process
	unfit     // settlement, or claim
	odd       // release: the ledger refuses it
	unsealed  // archive
	locked    // row

	uncommitted // offset, by the coordinator
	forgotten   // commits, by the coordinator
	unsure      // assignment: what is committed may be another member's
	election    // of a leader
	truncated   // log, at an election
	reread      // record
	gap         // in a log
	control     // record
	revocation

	slow    // handler
	failing // for good
	retried
	deadly // message: its handler kills the process, always
	hopeless
	unkeyed   // message
	resulting // handler: it leaves a result

	copied  // message: another copy of it comes
	forged  // copy: it has another body
	foreign // copy: it is another group's
	large   // message
	pause   // of a worker

	redriven  // message that has failed: somebody sends it again
	reopened  // message that has succeeded: an operator has it run once more
	tearing   // of a call: one of its transactions fails
	contended // call: a lock that it waits for stays another's
	outdated  // records: their log drops them, since they are old
	kinds

	ofBrokers    = uncommitted
	ofHandlers   = slow
	ofDeliveries = copied
)

// usual is how often each happens in a world of its usual mood.
var usual = [kinds]float64{
	refused: 0.01, requestLost: 0.01, answerLost: 0.02, callLate: 0.02, uncommitted: 0.05, forgotten: 0.1, unsure: 0.2,
	election: 0.05, truncated: 0.1, reread: 0.05, gap: 0.1, control: 0.1, revocation: 0.5, unnoticed: 0.3,
	mishap: 0.7, unfit: 0.01, odd: 0.01, unsealed: 0.1, locked: 0.02,
	slow: 0.05, failing: 0.02, retried: 0.03, deadly: 0.004, hopeless: 0.01, unkeyed: 0.01, resulting: 0.05,
	copied: 0.05, forged: 0.1, foreign: 0.1, large: 0.01, pause: 0.3,
	redriven: 0.05, reopened: 0.02, tearing: 0.02, contended: 0.02, outdated: 0.2,
}

// moods are how much more often, or less, a kind happens in one world: what never happens in a world hides nothing of the rest, and
// what happens often comes together with itself (swarm testing, Groce et al., 2012).
var moods = [...]float64{0, 0, 0, 1, 1, 4, 20}
