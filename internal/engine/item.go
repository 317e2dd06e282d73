package engine

import (
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
)

// Item is one delivery in a worker's hands. The worker fills in the exported fields and does not touch them after
// Offer; an item is offered once.
type Item struct {
	// Item has the message's identity, its ordering key, its log, and its size for Options.MaxHeldBytes: zero is its body's
	// length.
	flow.Item
	// Msg is what the handler gets.
	Msg *consumer.Message
	// Delivery is the id of this broker copy (ledger.Entry.Delivery).
	Delivery []byte
	// Late says Fingerprint and Delivery, if they are left out (ledger.Entry.Late); nil: they are there.
	Late ledger.Late
	// Window is how long the ledger keeps the message's row; zero: Options.Window.
	Window time.Duration
	// Deadline is when the broker forgets the message, less a margin; zero: never, or not known.
	Deadline time.Time
	// Original returns what the broker delivered, for the archive and for a next attempt: whatever a handler did to Msg.
	// Nil: Msg is taken for it.
	Original func(*Item) Content
	// Alive is asked right before the handler starts, without a lock: false means that the broker has taken the message
	// back (an expired handle, after a pause of the process), and the item is dropped. Nil: always alive.
	Alive func(*Item) bool
	// Lane is where it is parked, if that comes to be, so that those behind it in its ordering key are parked behind it, or wait.
	Lane Lane
	// Ref is the worker's own.
	Ref any

	// Whoever has the item in hand alone uses these: who claims it, its handler's goroutine.
	errors *[]ledger.AttemptError // of earlier attempts, valid while the item is ours; nil: none
	past

	answered chan struct{} // closed when its settlement, which is waited for, is answered; the kernel's lock guards it
}

// past is what became of an item in this process so far.
type past struct {
	broken  uint8 // runs in a row whose transaction broke off with the database, as far as it counts
	full    uint8 // runs in a row that found the outbox full
	spared  uint8 // attempts of it here that did not count, since most failed
	overdue bool  // its broker deadline had passed when it came
	ran     bool  // a handler of this process had the message
	laned   bool  // it is the ledger's own copy, from a lane
	marks   bool  // its lane is marked for it; the lane's lock guards it
}

// Content is what a broker delivered of a message. It is not changed.
type Content struct {
	Key, Body []byte
	Headers   []ledger.Header
}

// Identity is whose message a delivery is.
type Identity = flow.Identity

// Verdict says what becomes of a message at its broker when the engine lets go of it.
type Verdict = flow.Verdict

// Weight is how many bytes are in hand, against a limit.
type Weight = flow.Weight

// complete fills in what was left out until now. Only one goroutine has the item in hand.
func (it *Item) complete() {
	if it.Late != nil {
		it.Fingerprint, it.Delivery = it.Late.Identify()
		it.Late = nil
	}
}

// came fills in what follows from when the item came.
func (it *Item) came(at time.Time) {
	it.Of = it
	it.overdue = !it.Deadline.IsZero() && !at.Before(it.Deadline)
	if it.Size == 0 {
		it.Size = int64(len(it.Msg.Body)) // kept, since a handler may change its message
	}
}

// parks marks the lane of an item that is to be parked, until it is let go of.
func (it *Item) parks() {
	if !it.Lane.marked() {
		return
	}
	it.Lane.Of.change(func(is *flow.Lanes) {
		if !it.marks {
			it.marks = true
			is.Parks(it.Lane.Key)
		}
	})
}

// gone is told when the engine lets go of an item, or gives it back to its broker.
func (it *Item) gone() {
	if !it.Lane.marked() || it.Lane.Of.clear.Load() {
		return
	}
	it.Lane.Of.change(func(is *flow.Lanes) {
		if it.marks {
			it.marks = false
			is.Parked(it.Lane.Key)
		}
	})
}

// inCare is told when an item's message is found parked.
func (it *Item) inCare() {
	if it.Lane.marked() {
		it.Lane.Of.change(func(is *flow.Lanes) { is.Mark(it.Lane.Key) })
	}
}
