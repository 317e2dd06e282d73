package ledger

import (
	"context"
	"time"
)

// The thresholds of the claim table (design §3). They are constants, not options: a row may be claimed by workers with
// different settings, and the table is one truth for all of them.
const (
	// CrashLimit is the number of counted crashes at which a message is Spent instead of run again. A crash is counted
	// only by a take-over from an owner that a peer declared dead.
	CrashLimit = 5
	// SuspectCrashes is the number of counted crashes from which on a message runs alone in its process (Entry.Solo).
	SuspectCrashes = 2
)

// Bounds of what identifies a message. An entry outside of them is refused by itself (Claim.Err), never its batch.
const (
	// MaxScope is the longest scope, in bytes.
	MaxScope = 512
	// MaxID is the longest message id, in bytes.
	MaxID = 1024
	// MaxDelivery is the longest delivery id, in bytes.
	MaxDelivery = 512
	// MaxWindow is the longest window and the longest archive retention.
	MaxWindow = 100 * 365 * 24 * time.Hour
)

// Ledger is a durable table of messages. Implementations are safe for concurrent use by any number of goroutines and
// of processes; one Ledger may be shared by many workers with different settings.
type Ledger interface {
	// Join makes a new owner whose lease ends lease after the database received the call, and returns it. The caller
	// counts its lease from before it called. It fails with an error for which [Unusable] is true if the ledger cannot
	// serve this program until somebody mends it (no tables, an incompatible schema, a refused login); any other error
	// may heal.
	Join(ctx context.Context, lease time.Duration) (Owner, error)
	// Limits says how much the ledger stores of one message.
	Limits() Limits
}

// Owner is one worker's life in the ledger: every pending message names the owner that runs it, and an owner's lease,
// not the messages', is what heartbeats extend. All methods may be called concurrently.
//
// The caller owns all slices again when a call returns; an implementation that needs bytes later copies them.
type Owner interface {
	// ID names the owner in logs. It is never used again for another owner of this ledger.
	ID() string

	// Claim answers the claim table for each entry, in the order of the entries. Keys in a call are distinct (else
	// every entry with a repeated key but the first is Busy). It writes only while this owner is live.
	//
	// The error is for the whole call: [ErrLost] if this owner is live no more; an error with [Unknown] true if some
	// entries may have been claimed without an answer (ask again with the same entries until answered, but only after
	// the deadline of ctx has passed: what arrives at the database after it changes nothing); else nothing was claimed.
	// An entry that is refused by itself has Claim.Err set and Answer Busy.
	//
	// A ctx without a deadline gets one of 10 s.
	Claim(ctx context.Context, entries []Entry) ([]Claim, error)

	// Settle finishes or gives back claimed messages. The slice of errors is in the order of the settlements: nil (it
	// holds, durably), ErrLost (the message is not ours any more and not settled by this ticket: never acknowledge),
	// an [*InvalidError] (this settlement alone was refused), or any other error: repeat it (its row was locked, and it is
	// not written; with [Unknown] true it may be). A settlement may be repeated: one that already holds answers nil again.
	//
	// The second error is for the whole call: with [Unknown] true some may have been written; repeat the call. A ctx
	// without a deadline gets one of 10 s.
	Settle(ctx context.Context, settlements []Settlement) ([]error, error)

	// Beat extends the lease and returns how long it lasts from the moment before the call was sent. ErrLost means
	// that everything of this owner is lost: somebody declared it dead, or it left. After beats without a gap for a
	// whole lease, a beat also declares overdue owners dead.
	Beat(ctx context.Context) (time.Duration, error)

	// Leave ends this owner's life on purpose: what it held is free at once and counts as nobody's crash. It is
	// idempotent; a dead owner stays dead, and Leave answers nil.
	Leave(ctx context.Context) error
}

// Limits bounds what the ledger stores of one message, in bytes.
type Limits struct {
	Result  int // a longer result is cut, with a marker at its end
	Archive int // body, headers and group of one failed delivery together; a larger one is refused with an InvalidError
	Errors  int // the list of an entry's attempt errors; the middle of a longer list is dropped
}

// DefaultLimits covers the largest SQS message (1 MiB) and what Kafka topics are commonly set to.
var DefaultLimits = Limits{Result: 64 << 10, Archive: 64 << 20, Errors: 16 << 10}

// Entry asks for one message.
type Entry struct {
	Key         Key
	Fingerprint Fingerprint
	// Delivery is the id of this broker copy, the same at each of its redeliveries (SQS: MessageId; Kafka: cluster,
	// topic UUID, partition, epoch and offset), at most MaxDelivery bytes; never a receipt handle.
	Delivery []byte
	// StampToken is the token that the copy's stamp carries: the failing claim's. Zero: no stamp, or a producer's.
	StampToken uint64
	// Copy says that a stamp names the message, with a token or without: the copy says nothing of what lies next to that.
	Copy bool
	// Window is how long the ledger keeps the row, from its first claim on.
	Window time.Duration
	// Solo says that nothing else that is suspect runs in this process while this message does. Needed to claim a
	// suspect.
	Solo bool
	// Park says that the effect of the handler must not be repeated blindly: a take-over of an attempt that may have
	// begun is Spent and Uncertain instead of Run. So is a claim of this owner's own whose answer was lost, unless it was
	// the message's first: it may have been such a take-over.
	Park bool
	// KeepFailed says that a message which failed for good is not run for another delivery of it, but answered Done with its
	// [Outcome], unless the delivery has the StampToken of that failure: a redrive. For callers whose second request, or whose
	// producer's second send, asks for what came of the first.
	KeepFailed bool
	// Ranged says that the message needs no row of its own: with Key.Pos, the ledger may hold it in a range with its
	// neighbours, as long as nothing becomes of it but its success. Key.ID then ends in the offset, in decimal.
	Ranged bool
	// Parked says that the copy is the ledger's own ([Parking].Due). Without it a message that is parked is answered Parked. With it
	// the copy never begins a message anew that has failed.
	Parked bool
	// Late says Fingerprint and Delivery of a Ranged entry when they are needed, and they are not in it: a message that
	// stays in its range needs neither, and they cost a hash of its body. Nil: they are there. Only for an owner that is a
	// [LateOwner].
	Late Late
}

// Late is what an entry leaves out. It is called during the call of Claim alone, by one goroutine at a time.
type Late interface {
	Identify() (f Fingerprint, delivery []byte)
}

// LateOwner is an [Owner] that asks Entry.Late.
type LateOwner interface {
	Owner
	AsksLate()
}

// Answer says what a worker does with a message that it asked for. The zero value never runs and never acknowledges.
type Answer uint8

// The answers of the claim table.
const (
	Busy     Answer = iota // hold the message and ask again after Claim.Wait
	Run                    // handle it: this owner holds it now
	Done                   // it is finished: acknowledge, again if need be
	Spent                  // this owner holds it now, to dead-letter it without running it
	Mismatch               // the same id with another body: dead-letter this delivery, never run it
	InCare                 // it is parked: the ledger has it whole, so acknowledge the broker's copy
)

// String returns the answer in the vocabulary of logs and metrics.
func (a Answer) String() string { return nameIn(answerNames, a) }

var answerNames = []string{Busy: "busy", Run: "run", Done: "done", Spent: "spent", Mismatch: "mismatch", InCare: "in-care"}

func nameIn[T ~uint8](names []string, i T) string {
	if int(i) < len(names) {
		return names[i]
	}
	return "invalid"
}

// Claim is the answer to one [Entry].
type Claim struct {
	Answer     Answer
	Ticket     Ticket // for Settle; valid with Run, Spent and Mismatch
	Token      uint64 // fencing token; grows with every claim of the message
	Attempt    int    // with Run: which attempt this is, from 1
	Crashes    int    // counted crashes, this take-over included
	Generation int    // grows when an operator asks for fresh effects; part of child keys
	// Wait is, with Busy, how long the reason lasts at most, as far as it is known (the rest of a lease or a backoff).
	// Zero: not known.
	Wait time.Duration
	// Suspect comes with Busy: ask again with Entry.Solo, when the message can run at once.
	Suspect bool
	// Uncertain comes with Spent: not the crash limit but Park. Whether the effect happened is not known.
	Uncertain bool
	// Held comes with Busy: a live owner has the message, and Wait is the rest of its lease.
	Held bool
	// First comes with Run: the ledger knew nothing of the message before. It comes again with the next claim of the same
	// owner, which is asked because the answer was lost, or a release was not confirmed; not if two in a row were lost.
	First bool
	// Ranged comes with Run: the message lies in a range. Released without a wait and uncounted it leaves no trace there, so
	// that its next claim is its first.
	Ranged bool
	// TookOver says that a live attempt of another owner, dead or left, was taken over.
	TookOver bool
	// Outcome comes with Done.
	Outcome Outcome
	// Errors are the failures of earlier attempts, oldest first, with Run and Spent.
	Errors []AttemptError
	// Err refuses this entry alone (an [*InvalidError]).
	Err error
}

// Outcome is what the ledger knows of a finished message.
type Outcome struct {
	State  State
	Result []byte // nil is not empty; as stored, so possibly cut
}

// State is the state of a message's row.
type State uint8

// The states. The zero value is none of them.
const (
	Pending   State = iota + 1 // claimed or waiting for its next attempt
	Succeeded                  // handled; kept until its expiry to recognise redeliveries
	Failed                     // failed for good; its deliveries are in the archive
)

// String returns the state in the vocabulary of logs and commands.
func (s State) String() string { return nameIn(stateNames, s) }

var stateNames = []string{"invalid", Pending: "pending", Succeeded: "succeeded", Failed: "failed"}

// SettleKind says how a claim ends, or, of RecordStep, goes on. The zero value is invalid.
type SettleKind uint8

// The kinds of settlements.
const (
	Succeed SettleKind = iota + 1
	Fail
	Release
	// RecordStep keeps a step of the message, and leaves the message pending and its owner's.
	RecordStep
	// Park is Release, and puts the whole message beside its row, durably and in the same transaction: its broker need not keep it
	// any longer. Only for a ledger that parks ([Parking]). A message that is parked already is given back by Release.
	Park
)

// String returns the kind in the vocabulary of logs and metrics.
func (k SettleKind) String() string { return nameIn(settleNames, k) }

var settleNames = []string{"invalid", Succeed: "succeed", Fail: "fail", Release: "release", RecordStep: "record-step", Park: "park"}

// Settlement ends one claim, or records a step under it.
type Settlement struct {
	Ticket Ticket
	Kind   SettleKind
	// Fingerprint is of a message whose entry left it out (Entry.Late), if it is to have a row now. Zero: as claimed.
	Fingerprint Fingerprint

	Result []byte // Succeed or Fail: kept with the row, up to Limits.Result; nil is not empty
	// Dead is required with Fail and Park, and stored in the same statement.
	Dead *Archive
	// Lane is, with Park, in which lane the message is parked; nil: in none.
	Lane *ParkLane
	// After is, with Release and Park, how long the message waits before it may be claimed again, by anybody.
	After time.Duration
	// Count says, with Release and Park, that the attempt counts: the handler's own error, panic, Goexit or time limit, and
	// nothing else.
	Count bool
	// Failure is, with a counted Release, what the attempt failed of; it is appended to the row's bounded list.
	Failure AttemptError
	// Step is, with RecordStep, what is kept, with the ledger's own time. Of a name that is recorded already the first result stays,
	// and the settlement holds. A message that has ended, or is somebody else's, records nothing: [ErrLost].
	Step *Step
}

// CallTimeout is what a call of a ledger gets whose context has no deadline.
const CallTimeout = 10 * time.Second
