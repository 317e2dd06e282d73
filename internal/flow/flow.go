package flow

import (
	"time"

	"github.com/ackledger/ackledger/internal/adaptive"
	"github.com/ackledger/ackledger/internal/backoff"
	"github.com/ackledger/ackledger/ledger"
)

// Bounds of one call to the ledger.
const (
	ClaimBatch  = 2000 // entries in one Claim call at most
	SettleBatch = 2000 // settlements in one Settle call at most
	settleBytes = 8 << 20
)

// Config is what a flow is built of.
type Config struct {
	Concurrency int
	// MinConcurrency is the least number of handlers at once where that follows what they wait for (package adaptive); Concurrency is the
	// most then. Zero: Concurrency, always.
	MinConcurrency int
	Conns          int  // of the pool that handlers' transactions use; zero: any number
	Batch          bool // the handler takes batches
	BatchSize      int  // messages in one at most; 1 without batches
	ClaimAhead     int
	MaxHeldBytes   int64
	LimitStarts    bool // handlers start one at a time, as a limiter, a rate or Park allow
	Park           bool
	Target         bool // dead letters are published
	Cipher         bool // archives are sealed
	// HoldMax is the longest wait for which an item is held; with a longer one it is let go of. Zero: no limit. Negative: what is released
	// is let go of, even if it is due at once.
	HoldMax time.Duration
	// AskMax is the longest time after which a busy message is asked for again, which begins short and doubles. Zero: as long as the
	// reason is known to last, see AskAgain.
	AskMax   time.Duration
	Told     bool // who offers an item is told of a mismatch, which then is the end of it: nothing is archived
	Backoff  backoff.Policy
	Failures int // of the breaker; zero: it is off
	Percent  int
	Budget   int64    // of archived bytes in each scope; zero: there is none
	Scopes   []string // the worker's, as far as they are known when it starts: of others it is told by what comes
	Seed     uint64
	Rules    []Rule        // no other flow has them; an item asks them in this order
	Permits  PermitsConfig // Limit nil: nothing has a limit
}

// Flow holds all that is in hand, and decides what happens next to each message. Its methods are the events; what they return,
// and what End returns after them, is to be carried out. It has no lock, no clock and no chance: whoever calls it does so
// from one goroutine at a time, and passes the time in, which is counted from any moment.
type Flow struct {
	cfg     Config
	s       *sched
	all     *Item // list of all items in hand
	chance  chance
	timers  timers
	permits *permits // also the first of the rules; nil: nothing has a limit
	standing
	claims
	dispatching
	limiting
	settlements
	publishing
	brakes
	telling
}

// standing is what a worker may do at all.
type standing struct {
	sess                     *Session // nil: none holds
	up                       bool     // the ledger answered last time
	paused, draining, closed bool
}

// claims is what a flow knows of its claims.
type claims struct {
	claiming   int // records in claims under way
	pace       pace
	turns      turns
	lastRanged bool   // the newest item may lie in a range of the ledger
	number     uint32 // of the newest item
}

// dispatching is what handlers have.
type dispatching struct {
	dispatches []*Dispatch
	watched    int           // of them, those of which others may have to get what has not begun
	free       []*Dispatch   // to be used again
	cost       time.Duration // of one call of the handler, of late
	took       time.Duration // by one call of the handler, in the dispatch that ended last
	coolUntil  time.Duration // no ranges until then
	scratch    []*Item
}

// limiting is how many handlers of the pool may run at once.
type limiting struct {
	adapts     *adaptive.Limit // nil: as many as the pool has goroutines
	handed     int             // parts that were handed out and have not begun
	beside     int             // dispatches beside the pool
	strained   bool            // most calls fail with the least of handlers
	strainedAt time.Duration   // when that began
}

func newLimiting(cfg *Config) (l limiting) {
	if cfg.MinConcurrency > 0 {
		l.adapts = adaptive.New(adaptive.Config{Min: cfg.MinConcurrency, Max: cfg.Concurrency, Conns: cfg.Conns})
	}
	return l
}

// settlements is what the ledger is to be told.
type settlements struct {
	settling    int // records in settlements under way
	settleQ     queue[Settlement]
	parks       parks
	rangesDone  queue[*Range]   // to be settled
	doneRecords int             // of them
	doneRound   uint64          // calls of takeDone
	kept        map[*Item]*kept // what was refused
}

// publishing is what is to be published or sealed before it is settled.
type publishing struct {
	letters    queue[Settlement]
	lettersOut int  // they wait, or are being published
	targetAway bool // the last message's tries were all in vain
}

// brakes is what stops a worker.
type brakes struct {
	breaker    breaker
	probing    probing
	budget     budget
	budgetAt   time.Duration // when it stopped
	budgetTold bool          // that it is spent
	order      order
	orderAt    time.Duration // when it stopped
	tripped    bool          // the breaker has just opened, the budget is spent, or an operator stops the worker: what is ours is still to be released
}

// telling is what others are to be told.
type telling struct {
	out    []Finished
	untold []*Drop               // that wait for out to be told
	calls  map[*Telling]struct{} // of the worker, under way
	last   *Drop                 // of Drain, until no handler runs and nothing is owed
	scope  string                // of the first claims that are not counted yet
	firsts int64
	well   int64 // messages whose handlers ended well
	cmd    Commands
}

// turns are taken by items and ranges where there are both.
type turns struct{ claim, run, settle turn }

type turn bool

// items says whether it is the items' turn, this time.
func (t *turn) items() bool {
	*t = !*t
	return bool(*t)
}

// chance draws numbers that depend on nothing but a seed (splitmix64, Steele et al., 2014).
type chance uint64

func (c *chance) draw() float64 {
	*c += 0x9e3779b97f4a7c15
	return float64(mix(uint64(*c))>>11) / (1 << 53)
}

// New builds a flow.
func New(cfg Config) *Flow {
	var limits *permits
	if cfg.Permits.Limit != nil { // before the other rules: who waits for a permit keeps no place of theirs
		limits = newPermits(cfg.Permits)
		cfg.Rules = append([]Rule{limits}, cfg.Rules...)
	}
	f := &Flow{
		cfg: cfg, limiting: newLimiting(&cfg), s: newSched(cfg.Seed, cfg.Rules...), permits: limits, chance: chance(cfg.Seed),
		settlements: settlements{kept: map[*Item]*kept{}},
		brakes:      brakes{budget: budget{limit: cfg.Budget}, order: order{home: cfg.Scopes}, breaker: breaker{failures: cfg.Failures, percent: cfg.Percent}},
		telling:     telling{calls: map[*Telling]struct{}{}},
	}
	f.s.bytes.Limit = cfg.MaxHeldBytes
	return f
}

// Cause is why a handler is cancelled.
type Cause uint8

// The causes.
const (
	Lost    Cause = iota // the lease
	Revoked              // the broker's grace is over
	Shutdown
)

// CallOff is a handler to be cancelled.
type CallOff struct {
	Dispatch *Dispatch
	At       int // which of its items
	Cause    Cause
}

// Counted is what deliveries of a scope were, see ledger.Deliveries.
type Counted struct {
	Scope                  string
	Misses, Hits, Timeouts int64
}

// Commands are what is to be done besides what a method returned.
type Commands struct {
	Recall    []*Dispatch // take back what has not begun, and call Recalled at once
	CallOff   []CallOff
	Concluded []*Item // the settlement of an item that was awaited is answered, or it is not ours any more
	Ended     []*Drop // what it took back is over
	Counted   []Counted
	News      []News
	Improved  bool // room, load or what may be polled has changed for the better
	Look      bool // a scope is new: the ledger is to be asked how much of it is archived
}

// Reset forgets what was carried out.
func (c *Commands) Reset() {
	reset(&c.Recall)
	reset(&c.CallOff)
	reset(&c.Concluded)
	reset(&c.Ended)
	reset(&c.Counted)
	reset(&c.News)
	c.Improved, c.Look = false, false
}

// reset empties a slice, and keeps its array.
func reset[T any](s *[]T) {
	if len(*s) > 0 { // mostly there is nothing, after each event
		clear(*s)
		*s = (*s)[:0]
	}
}

// What says what News is about.
type What uint8

// What there may be to say.
const (
	Archived      What = iota // Item failed for good, and is archived
	TakenOver                 // Item was taken over before it was settled
	Refused                   // the settlement of Item is refused: Err
	BreakerOpened             // Failed of All messages failed for good; a message is tried in After
	BreakerClosed             // it was open for After
	ProbeFailed               // Item was tried and failed; another is tried in After
	BudgetSpent               // Scope has Bytes in the archive, Limit is what it may have
	BudgetHasRoom             // the worker was stopped for After
	Stopped                   // an operator has paused the worker: Pause
	Strained                  // most calls fail with the least of handlers: none starts for After
	Relieved                  // they do not any more, after After
	WentOn                    // the operators' pauses are over: the worker was stopped for After
)

// News is for the log, and for metrics.
type News struct {
	What        What
	Item        *Item
	Kind        ledger.SettleKind
	Archive     *ledger.Archive
	Token       uint64 // of the claim
	Err         error
	Failed, All int
	After       time.Duration
	Scope       string
	Bytes       int64
	Limit       int64
	Pause       ledger.Pause
}

func (f *Flow) tellNews(n News) { f.cmd.News = append(f.cmd.News, n) }

// kept is a settlement that was refused and waits to be repeated.
type kept struct {
	Settlement
	unsealed bool // the cipher refused it, not the ledger
	times    int
	since    time.Duration
	why      error
	timer    *timer // until it is repeated; nil: it is on its way
}

// probing is the message that is tried while the breaker is open.
type probing struct {
	item   *Item // until its settlement is answered; nil: none is tried
	spoken probeEnd
	since  time.Duration // when the breaker opened
}

// probeEnd is what came of a message that was tried.
type probeEnd uint8

const (
	probeVoid  probeEnd = iota // it was busy, finished before, or taken back by its broker: it says nothing
	probeAgain                 // its handler ran, and it is to be repeated: that says nothing either, but was a try
	probeGood
	probeBad
)

func (p *probing) begin(it *Item) { p.item, p.spoken = it, probeVoid }

// again notes that an item is to be repeated, if it is the one that is tried.
func (p *probing) again(it *Item) {
	if p.item == it {
		p.spoken = probeAgain
	}
}

// Ordered says that what comes after a run that did not go well is not begun: the items are of a range.
func (d *Dispatch) Ordered() bool { return d.ordered }
