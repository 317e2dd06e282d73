package replay

import (
	"context"
	"iter"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
)

// Letter is one dead letter that a source has read.
type Letter struct {
	// DeadLetter is the message as it was delivered from where it came from, with its stamp, if it has one. Message.Source
	// empty: it does not say where it came from.
	consumer.DeadLetter
	// Key names the message's row; a source that is not the ledger leaves it zero, and Run finds it by Message.Source,
	// DeadLetter.Consumer and Message.ID.
	Key ledger.Key
	// Identified says that Message.ID names the message (see Case.Identified).
	Identified bool
	// Moved says that the broker itself moved the letter here and says where it came from (SQS: DeadLetterQueueSourceArn),
	// which nobody can forge.
	Moved bool
	// MovedID is the id that a letter had where the broker moved it from, which a worker that refuses its stamp knows it by.
	// Empty: it was not moved, or it is a copy that a worker or a replay has made.
	MovedID string
	// Vouched is Run's, for Target.Accept: not the letter alone says where it came from. The broker does, or the ledger, which
	// knows the message with this body, or Config.Origin.
	Vouched bool
	// Archived and Superseded are of the ledger's archive: see Case.
	Archived, Superseded bool
	// At is when it failed, or was archived, for filters; zero: not known.
	At time.Time
	// Errors are those of the attempts, as far as the source has them, for filters.
	Errors []ledger.AttemptError
	// Token is the failing claim's; 0: not known.
	Token uint64
	// Fingerprint is that of the message; zero: Run takes the body's.
	Fingerprint ledger.Fingerprint
	// Unreadable is why the letter cannot be read; nil: it can. Such a letter is refused.
	Unreadable error
	// Origin is the source's own, such as what it needs to remove the letter.
	Origin any

	status   ledger.Status
	decision Decision
	lane     string
	size     int
	own      bool  // it is sent as a message of its own
	why      error // with Refuse: the details
}

// Source has dead letters. One Run at a time uses a source. Each letter is given to Done or to Keep, which are called
// concurrently with each other and with Letters, unless the run is stopped.
type Source interface {
	// String names the source for people: a URL, a topic.
	String() string
	// Address is the name under which its messages would be consumed (consumer.Message.Source): a target with that name is
	// refused. Empty: none.
	Address(ctx context.Context) (string, error)
	// Count estimates how many letters there are that Letters would come upon; -1: not known.
	Count(ctx context.Context, f *ledger.Filter) (int64, error)
	// Letters yields what was there when it was called, in the order in which it is to be sent, and ends. An error ends it
	// too, and comes with a nil letter. A letter is the caller's. f is what the caller is interested in: a source may leave
	// out what it does not select, and may as well ignore it.
	Letters(ctx context.Context, f *ledger.Filter) iter.Seq2[*Letter, error]
	// Done removes letters that are sent, handled or dropped, if letters can be removed from the source. The error says that
	// some are still there: they are met again, and do no harm.
	Done(ctx context.Context, letters []*Letter) error
	// Keep says that nothing more is done with letters in this run: they stay where they are.
	Keep(letters []*Letter)
	// Removes says that what is done with is removed, so that nothing else may have it.
	Removes() bool
	// Warnings are what a report should say of the source, after Letters has ended.
	Warnings() []string
}

// Unreader is a [Source] that may have letters which a run cannot see, such as a queue that hides them.
type Unreader interface {
	// Unread is, about, how many there were, after Letters has ended.
	Unread() int64
}

// Target takes dead letters. It is used by one Run at a time.
type Target interface {
	// String names the target for people.
	String() string
	// Begin is called once, before anything else: with what would be a mistake it fails, and nothing has been changed.
	Begin(ctx context.Context, b Begin) error
	// Accept says why a letter cannot be sent here; nil: it can. It may ask a broker once for each source, in a dry run too.
	// An error that wraps [ErrElsewhere] is for a letter of another source.
	Accept(l *Letter) error
	// Send sends letters in their order, each with its DeadLetter.Stamp, and says of each what became of it, in the order of
	// the letters. Of one lane (a FIFO group, a Kafka key) nothing is sent after one that failed. Concurrent calls never
	// have letters of one lane.
	Send(ctx context.Context, letters []*Letter) []Result
	// Most is how many letters one Send takes at most.
	Most() int
	// End releases what Begin took.
	End(ctx context.Context) error
}

// Warner is a [Target] that has something to say in the report, after its last Send.
type Warner interface{ Warnings() []string }

// Begin is what a target is told when a run begins.
type Begin struct {
	Operator ledger.Operator
	// Source is the address of the dead letters (Source.Address); empty: none.
	Source string
	DryRun bool
	// Concurrency is how many calls of Send are under way at once at most.
	Concurrency int
}

// Result is what became of a letter at its target.
type Result struct {
	Outcome Outcome
	// Err is, with Kept, what went wrong; it counts as an error of the run. Nil with Kept: the message is left to others.
	Err error
	// Reason says why, for the report, where there is no Err.
	Reason Reason
}

// Outcome is what a target did with a letter. The zero value keeps it in its source.
type Outcome uint8

// The outcomes.
const (
	Kept    Outcome = iota // nothing has it but its source
	Sent                   // its broker has the copy, durably
	Handled                // the handler succeeded, and the ledger says so
	Broken                 // the handler failed for good once more: the ledger has archived that
)

// settled says that its source need not keep the letter.
func (r *Result) settled() bool { return r.Outcome != Kept }
