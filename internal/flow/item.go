package flow

import (
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// Identity is whose message a delivery is.
type Identity struct {
	Key         ledger.Key
	Fingerprint ledger.Fingerprint
	StampToken  uint64
	// Ranged is ledger.Entry.Ranged.
	Ranged bool
	// Later says that the fingerprint is left out: the message's own identity holds, and nothing needs the body's hash yet.
	Later bool
	// Skip says that the copy carries a stamp for another group: it is acknowledged without a claim.
	Skip bool
	// Copy says that a stamp names the message. What is delivered next to a copy says nothing of what lies next to that.
	Copy bool
	// Parked says that the copy is the ledger's own (ledger.Entry.Parked): it waits there, not here.
	Parked bool
	// Refused is why a stamp of this source and body does not count: the copy is a message of its own. Nil: there is none.
	Refused error
	// Invalid is why the message cannot be keyed; it is archived under the broker's identity instead of run.
	Invalid error
	// Tenant is whose it is for [Fair]; empty: nobody's.
	Tenant string
	// Nameless is why the tenant is not known. Nil: it is, or there are none.
	Nameless error
	// Limit is the key of which LimitMost items are in flight at most among all workers; empty: it has no limit.
	Limit     string
	LimitMost int
}

// phase is where an item stands. Each item is in exactly one.
type phase uint8

const (
	queued   phase = iota // in hand, not ours: to be claimed
	claiming              // a claim is on its way, or its answer is not known
	claimed               // ours, not started
	running               // dispatched
	settling              // a settlement is on its way
	waiting               // not ours: busy elsewhere or in backoff, until due; or behind another copy of its key; or for a rule
	suspect               // not ours: to be claimed alone
	finished              // let go of
)

// Item is one message in flight. Whoever makes it fills in the exported fields, and does not touch them after Offer.
type Item struct {
	Identity
	// OrderingKey orders items: those of one key run one at a time, in the order in which they were offered. Empty: no order.
	OrderingKey string
	// Log is the ledger.Position.Log of the log in which the message lies; empty: that of its key, which is another where it
	// carries a stamp.
	Log string
	// NoWait says that the item is let go of where it would wait for another: its key is in hand, or busy elsewhere.
	NoWait bool
	// Size is how many bytes of memory the message takes as long as it is in hand.
	Size int64
	// Of is the shell's own.
	Of any

	state
}

// state is the flow's part of an item.
type state struct {
	phase      phase
	holds      bool      // inflight has this item for its key
	solo       bool      // it is claimed alone: its claims ended in crashes before
	placed     bool      // it has the process' place for suspects, or the breaker's for its probe
	single     bool      // it was part of a batch that came to nothing: it runs alone
	dropped    bool      // the broker has it back, or will: nothing new begins with it
	told       bool      // its worker knows
	met        bool      // claimed before, in an answer that came
	ranged     bool      // ledger.Claim.Ranged
	fresh      bool      // its claim in a range was its first, which is not counted yet
	unclear    bool      // its attempt was cut short: released, it would be run again
	behind     bool      // a live owner had it when the ledger last said why it is busy
	admitted   uint8     // so many of the rules, from the first on, have a place for it
	refused    bool      // it waits for a place of the next
	permit     uint32    // of which epoch its permit is
	maybe      bool      // not known whether it is ours: it is not forgotten before the ledger has said so, or sess has ended
	dispatch   *Dispatch // of which it is, unless it was recalled
	sequence   *sequence // nil: no order
	prev, next *Item     // in the sequence
	log        *logState // of the log in whose order it is; nil: of none
	sum        [ledger.KeySize]byte
	keyNext    *Item // in inflight
	due        time.Duration
	heapAt     int32 // index in the heap, +1; 0: not in it
	asks       int32 // Busy answers in a row without a known wait
	allPrev    *Item // in the list of all items
	allNext    *Item
	extra      *extra

	// Valid while the item is ours, or may be.
	sess       *Session
	ticket     ledger.Ticket
	attempt    int32
	crashes    int32
	generation int32

	number uint32 // items that came later have higher ones
}

// extra is what few items have. It is apart from them because what all have is most of a message's memory.
type extra struct {
	followers []*Item            // other copies of its key
	instead   *ledger.Settlement // of its parking (Outcome.Else)
	drops     []*Drop
	letter    *Settlement // its dead letter is to be published in the place for suspects
	early     *early      // it succeeded, and is settled when it heads its sequence
	spent     int64       // its bytes in the archive's budget, while it is settled as failed
	awaited   bool        // somebody waits for the answer to its settlement
}

// early is a success that waits.
type early struct{ more *ledger.Settlement }

// more returns what few items have, to change it.
func (t *state) more() *extra {
	if t.extra == nil {
		t.extra = &extra{}
	}
	return t.extra
}

// rest returns what few items have, to read it.
func (t *state) rest() extra {
	if t.extra == nil {
		return extra{}
	}
	return *t.extra
}

// Session is one life of the worker in the ledger.
type Session struct {
	Ranges bool // its owner takes ranges
	Of     any  // the shell's own
	lost   bool
}

// Lost says whether the lease is lost, as far as it is known.
func (s *Session) Lost() bool { return s.lost }

// Session is the one in which the item was claimed last.
func (it *Item) Session() *Session { return it.sess }

// Ticket is the ledger's for the claim.
func (it *Item) Ticket() ledger.Ticket { return it.ticket }

// Attempt is which attempt the claim was for, from 1.
func (it *Item) Attempt() int { return int(it.attempt) }

// Crashes are those that the ledger has counted.
func (it *Item) Crashes() int { return int(it.crashes) }

// Generation is the claim's.
func (it *Item) Generation() int { return int(it.generation) }

// Solo says that the item is claimed alone.
func (it *Item) Solo() bool { return it.solo }

// Dropped says that the broker has the message back, or will.
func (it *Item) Dropped() bool { return it.dropped }

// works says whether the item's handler runs, or the ledger is still to hear how it ended.
func (it *Item) works() bool { return it.phase == running || it.phase == settling }

// takesSlot says whether the item has or will have a handler of the pool, once it heads its sequence.
func (it *Item) takesSlot() bool {
	return !it.solo && it.phase >= claiming && it.phase <= running
}

var _ heaped[*Item] = (*Item)(nil)

func (it *Item) before(o *Item) bool { return it.due < o.due }
func (it *Item) place() *int32       { return &it.heapAt }

func (it *Item) isHead() bool    { return it.sequence == nil || it.sequence.head == it }
func (it *Item) isWaiting() bool { return it.phase == waiting || it.phase == suspect }

// sequence is a sequence of items that run one at a time, in order: a FIFO group, a partition, a key of a partition. Its
// head runs or waits; behind a waiting head nothing stays claimed.
type sequence struct {
	name       string
	head, tail *Item
	scan       *Item // no item before it is queued
	gated      bool  // the head waits: only the head may be claimed
	narrow     bool  // only the head is claimed: it was not to begin yet, and will be asked about again soon
	listed     bool  // in the claim queue
	urgent     bool  // among what is due there
}

// slot is an entry of the claim queue: a sequence with something to claim, or an item without a sequence.
type slot struct {
	item     *Item
	sequence *sequence
}

// logState is what the engine has in hand of one log, of all its leader epochs: a partition has one order. As long as there
// are items, no range is claimed, ours or running: so no item's key is in such a range, and order is a matter of the
// items' sequences, or of whole ranges, but not of both.
type logState struct {
	log      string
	items    int      // of the log, or with a key that lies in it
	stalled  int      // items that wait
	ranges   []*Range // in the order in which they were offered
	claiming int      // of them, those that are being claimed
	round    uint64   // of takeDone, in which
	taken    int      // so many of the first of them were taken
}

// Range is records of one log that lie side by side, and go through as one as long as nothing but their success becomes of
// them. It is a compact form of items. Whatever else comes up expands it, see Flow.expand: a failure, a slow handler, a
// rebalance, another item of the log. Its items are then in the phase in which they would be by themselves. An ordered log's
// ranges run one after the other, and are settled in that order.
type Range struct {
	Records Records
	Claim   ledger.Stretch
	// Ordered says that no two ranges of this log may run at the same time.
	Ordered bool
	Len     int // records
	// Of is the shell's own.
	Of any

	log      string // ledger.Position.Log of the records
	phase    phase
	whole    bool
	bytes    int64 // of their sizes
	next     int   // records before are running or done
	done     int   // records before are done
	came     time.Duration
	sess     *Session
	token    uint64
	dispatch *Dispatch // that runs now
	items    []*Item   // what of it waits for an answer of the ledger that it was expanded before
	sent     bool      // the ledger is told that it is done
	listed   bool      // it is in the queue of those that may run, or somebody has taken it from there
}

// Records are what a range is made of.
type Records interface {
	// Size is the Item.Size of what is made of a record.
	Size(i int) int64
	// Expand makes items of the records from <= i < to, which go on without their range. A handler of one may be running.
	Expand(from, to int) []*Item
}

// Part is records of a range that run next, from <= i < to.
type Part struct {
	Range    *Range
	From, To int
}

// Dispatch is what a handler's goroutine takes at once: items that are run one after the other, or, by a batch handler,
// together. Those that have not begun can be recalled.
type Dispatch struct {
	Items    []*Item // none, as long as it is part of a whole range
	N        int     // how many messages it is of
	Together bool
	// Of is the shell's own.
	Of any

	rng      *Range // of which it is part, as long as that is whole
	ordered  bool   // of a range, one after the other
	solo     bool   // of a suspect
	beside   bool   // the pool
	called   called
	recalled bool // what has not begun is not its goroutine's any more
	watched  bool // others may have to get what it has not begun
	limit    int  // items from here on were recalled
	applied  int  // items before are over
	born     time.Duration
	at       int // in Flow.dispatches
}

// called is what came of a dispatch's calls, for the limit.
type called struct {
	mark               uint32 // of when it began
	counts             bool   // it has begun, and was not measured
	well, failed, inTx int
}

// Settlement is one on its way. Most are plain: that there is little to one keeps them cheap to queue.
type Settlement struct {
	Item    *Item
	Session *Session
	Kind    ledger.SettleKind
	More    *ledger.Settlement // nil: there is nothing to say but its kind

	Tried bool            // its dead letter is published, or was not to be had: what is left is to seal it
	Filed bool            // it is archived: what is left is its dead letter
	Whole *ledger.Archive // of a mismatch: what is published once it is archived, perhaps sealed
}

// Drop counts what a Drop or Drain waits for: items that matched, and calls of the worker under way about such; a Drain also
// for what the broker has back and still runs, or is being settled.
type Drop struct {
	// Of is the shell's own.
	Of    any
	left  int
	ended bool
	grace *timer // nil: there is none, or it is not needed
}

// Telling is one call of the worker about what is finished. Whoever dropped or drains an item of it waits until the call has
// returned: then the worker may commit, or end.
type Telling struct {
	Finished []Finished
	drops    []*Drop // that began meanwhile
}

// Finished is an item, or a range, that the flow lets go of.
type Finished struct {
	Item    *Item // nil: see Range
	Range   *Range
	Verdict Verdict
}

// Verdict says what becomes of a message at its broker when the flow lets go of it. The zero value keeps it: it is never
// acknowledged by mistake.
type Verdict struct {
	// Ack says that the ledger is terminal for the message: delete or commit it.
	Ack bool
	// Again is, without Ack, in how long it makes sense to deliver the message again; zero: at once, or not known.
	Again time.Duration
	// Held says, without Ack, that the message may still be in a handler or owned: it should not be delivered again before the
	// broker does so by itself.
	Held bool
}
