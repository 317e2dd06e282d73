package model

import "github.com/ackledger/ackledger/ledger"

// Bounds of a state. It is one array of bytes without pointers or gaps, so that it is compared, copied and hashed fast.
const (
	maxWorkers  = 3
	maxMessages = 3
	maxCopies   = 8 // deliveries: what the broker has, and replays in place
	maxOwners   = 8
	maxLetters  = 5
	maxReplays  = 2
	spareCopies = 3 // of maxCopies, for replays that recovery needs
)

// Fates of an owner row.
const (
	free uint8 = iota // no row, and nobody remembers the id
	live
	left
	dead
	gone // swept, but somebody still has the id
)

// What a worker knows of an owner's beat, where the ledger has no clock.
const (
	unseen uint8 = iota
	seen
	waited // it was the same for a lease, and the owner is to be declared dead
)

// Places of a copy.
const (
	unsent  uint8 = iota
	waiting       // at the broker, for whoever receives it. On Kafka, always: the offset says what is left
	flying        // SQS: received, and invisible to others
	deleted       // SQS: acknowledged
	moved         // SQS: moved to the dead-letter queue by the broker itself
	inPlace       // never at the broker: a replay handed it to a handler
)

// Phases of an item.
const (
	none     uint8 = iota
	queued         // to be claimed, or to be asked for again
	claimed        // ours, not started
	running        // in its handler
	fenced         // in its transaction, whose fence has passed
	reading        // COMMIT was sent and not answered
	publish        // failed: its dead letter is to be published
	settling       // its settlement is on its way
	acking         // SQS: to be deleted
)

// Marks of an item, and of a settlement.
const (
	maybe    uint8 = 1 << iota // the answer of its claim was lost: it may be ours
	dropped                    // the broker has it back
	suspect                    // to be asked for alone
	alone                      // was asked for alone
	mismatch                   // its ticket is a mismatch's
	counted                    // its release counts the attempt
	later                      // its release has a delay
	called                     // its handler's context is cancelled
)

// Tracking of a Kafka partition by a worker.
const (
	untracked uint8 = iota
	tracked
	closing // revoked: what runs may end
	stale   // discarded, but still there: only without the guard DiscardTracker
)

// Statements that a client has given up and that execute all the same.
const (
	noGhost uint8 = iota
	ghostClaim
	ghostSettle
	ghostFence // of a handler that returned while its transaction ran on
)

// Budgets: how often each fault may still happen.
const (
	crashes uint8 = iota
	leases
	losses
	lates
	dups
	rebalances
	exits
	moves
	failures // of publishing
	budgets
)

type row struct {
	State    ledger.State // 0: none
	Token    uint8
	Owner    uint8 // number + 1; 0: nobody
	Attempts uint8
	Crashes  uint8
	Waits    uint8 // 1: not due yet
	Lock     uint8 // worker + 1 whose transaction has passed its fence
	Sent     uint8 // 1: and its COMMIT was sent
	Failed   uint8 // copy + 1: the delivery that it failed of last
	Other    uint8 // which body it is of
	Parked   uint8 // 1: the whole message lies beside it
}

type copied struct {
	Message uint8
	Place   uint8
	Own     uint8 // 1: in place, so the delivery is named by its stamp; inCare: the ledger's
	Stamp   uint8 // token; 0: none
	Other   uint8 // 1: another body
	As      uint8 // of the ledger's: copy + 1 that was parked
	For     uint8 // the failure that a replay sent it for; 0: none. Nobody reads it but the promises
}

// inCare is a copied.Own.
const inCare = 2

type owner struct{ Fate, Overdue uint8 }

type item struct{ Phase, Owner, Token, Attempt, Kind, Marks uint8 }

type worker struct {
	Up        uint8
	Session   uint8 // owner + 1; 0: not joined
	Lost      uint8 // 1: it knows
	Tracking  uint8
	Position  uint8 // of the next record to fetch
	Known     uint8 // what it has committed
	Delivered uint8 // copies, bits
	Finished  uint8
	Seen      [maxOwners]uint8 // of the beat that each owner has now
	Items     [maxCopies]item
}

type letter struct{ Used, Message, Token, Other, Moved, Copy uint8 }

type ghost struct {
	Kind, Owner, Copy, Token, Settle, Marks uint8
	Snapshot                                uint8 // 1: a claim that has read its row, as it was then
	Asked                                   uint8 // 1: its worker waits for the answer
	Row                                     row   // that was read; as far as it is compared
}

// replayer is one replay: what it decided about one letter, and how far it got.
type replayer struct {
	Stage, Number, Token, For, Copy uint8

	Letter letter // as it was looked at
}

// Stages of a replayer.
const (
	idle    uint8 = iota
	toSend        // looked up, to be sent
	inHands       // a handler has it
	toDrop        // done with, to be removed from its source
)

// state is everything: database, broker, network and the memory of all processes.
type state struct {
	Rows     [maxMessages]row
	Archive  [maxCopies]uint8 // token of the claim that failed it; 0: not archived
	Copies   [maxCopies]copied
	Owners   [maxOwners]owner
	Workers  [maxWorkers]worker
	Letters  [maxLetters]letter
	Replays  [maxReplays]replayer
	Ghost    ghost
	Next     uint8 // copies used
	Assigned uint8 // Kafka: worker + 1; 0: nobody
	Offset   uint8 // Kafka: committed
	Left     [budgets]uint8

	// What only the promises look at.
	Effects [maxMessages]uint8 // committed effects of transactions; or effects, with Park
	High    [maxMessages]uint8 // highest token that the outside world accepted an effect with
	HighBy  [maxMessages]uint8 // whose: owner + 1
	Fails   [maxMessages]uint8 // real failures of handlers since the row began anew
	Kills   [maxMessages]uint8 // processes that a message's handler killed, where the ledger has no clock
	Deaths  uint8              // owners declared dead
}

// mismatched stands in Archive for a mismatch, which has no token.
const mismatched = 255

func (i *item) is(mark uint8) bool { return i.Marks&mark != 0 }

func (i *item) held() bool { return i.Phase >= claimed && i.Phase <= settling }

// knows says whether any worker has an item of a copy.
func (s *state) known(c uint8) bool {
	for w := range s.Workers {
		if s.Workers[w].Items[c].Phase != none {
			return true
		}
	}
	return false
}

// member says whether a worker is joined, as far as it knows.
func (w *worker) member() bool { return w.Up == 1 && w.Session != 0 && w.Lost == 0 }

// archived says whether a copy's delivery is in the archive. All copies in place of one failure and body are one delivery.
func (s *state) archived(c uint8) bool {
	c = s.delivery(c)
	if s.Archive[c] != 0 || s.Copies[c].Own == 0 {
		return s.Archive[c] != 0
	}
	for d := range s.Next {
		o := &s.Copies[d]
		if s.Archive[d] != 0 && o.Own == 1 && o.Message == s.Copies[c].Message && o.Stamp == s.Copies[c].Stamp && o.Other == s.Copies[c].Other {
			return true
		}
	}
	return false
}

// body says whether a message's own body is in the archive.
func (s *state) body(m uint8) bool {
	for c := range s.Next {
		if s.Archive[c] != 0 && s.Archive[c] != mismatched && s.Copies[c].Message == m {
			return true
		}
	}
	return false
}

func (s *state) terminal(m uint8) bool {
	return s.Rows[m].State == ledger.Succeeded || s.Rows[m].State == ledger.Failed
}

// inLog says whether a copy is a record of the log.
func (s *state) inLog(c uint8) bool { return c < s.Next && s.Copies[c].Own == 0 }

// joinable returns a free owner number.
func (s *state) joinable() (uint8, bool) {
	for o := range uint8(maxOwners) {
		if s.Owners[o].Fate == free {
			return o, true
		}
	}
	return 0, false
}

// forget frees the numbers of swept owners that nothing names any more.
func (s *state) forget() {
	for o := range s.Owners {
		if s.Owners[o].Fate == gone && !s.mentioned(uint8(o)+1) {
			s.Owners[o] = owner{}
			for w := range s.Workers {
				s.Workers[w].Seen[o] = unseen
			}
		}
	}
}

func (s *state) mentioned(id uint8) bool {
	if s.named(id) || s.Ghost.Owner == id {
		return true
	}
	for w := range s.Workers {
		if s.Workers[w].Session == id {
			return true
		}
		for c := range s.Workers[w].Items {
			if s.Workers[w].Items[c].Owner == id {
				return true
			}
		}
	}
	return false
}

// named says whether a pending row names an owner.
func (s *state) named(id uint8) bool {
	for m := range s.Rows {
		if s.Rows[m].Owner == id {
			return true
		}
	}
	return false
}
