package ledger

import (
	"context"
	"iter"
	"time"
)

// Operator is what people and their tools ask of a ledger, beside the workers: look things up, list them, and the few
// guarded writes behind a replay. The stores of this module are Operators. All methods may be called concurrently, by any
// number of processes, while workers go on; all times are of the database's clock.
//
// A list is streamed in pages and holds one page in memory. It ends with the first error, which comes with a zero value.
// It is never of more than what was there when it began: what fails or comes later is the next list's. Break ends it.
//
// A write guards what it changes in the statement that changes it, goes in short transactions of a bounded number of rows,
// and waits for nobody's locks longer than a moment; an audit row is written in the same transaction. A process that is
// killed in the middle leaves whole messages behind, changed or not; the same call goes on with the rest.
type Operator interface {
	// Get returns all that the ledger knows of one message, by its key. [ErrNotFound] if there is no row; the record then
	// still carries the archive and the past ([Past]), which outlive it; with [WithoutBodies], without bodies and earlier results.
	Get(ctx context.Context, key Key) (Record, error)

	// Find looks a message up by its readable id, in one scope or (scope "") in all of them, and returns what it finds, at
	// most [MaxFound]; [ErrNotFound] if that is nothing. A record of which only the archive or the past is left has State
	// 0. Archives come as with Get.
	//
	// It costs two look-ups by index a scope, and one look at the logs of which there are ranges, whatever the size of the
	// tables. So it does not find all: a row that is kept by its position (Kafka) is found if its log has ranges or it has
	// failed, by its archive. Others are found by [Operator.Get] with the position, or by [Operator.Messages] with Filter.IDs,
	// which reads the table.
	Find(ctx context.Context, scope string, id []byte) ([]Record, error)

	// Scopes returns the names of all scopes that the ledger has seen, sorted.
	Scopes(ctx context.Context) ([]string, error)

	// Messages lists message rows (not those that a range holds), in no order that means anything; Filter.From and To are of the first claim. Results and
	// errors come with them, archives do not. It reads the table from end to end, without an index, so that it can be asked
	// anything: expect a million rows in a few seconds. With Filter.IDs, rows that are kept by their id are looked up.
	// A row that is written meanwhile may be missed or come twice, once as it was and once as it is.
	Messages(ctx context.Context, f Filter) iter.Seq2[Listed, error]

	// DeadLetters lists archived deliveries that failed, the oldest first, each with its message as it is when its page is
	// read; Filter.From and To are of the archiving. Purged ones are not listed. By time, scope and kinds it goes by an
	// index; the rest of the filter is applied to what these leave. Bodies and headers come only with Filter.Body.
	DeadLetters(ctx context.Context, f Filter) iter.Seq2[DeadLetter, error]

	// Status says how messages are at this moment, in the order of the keys: for the decision just before a send. At most
	// [MaxStatus] keys. What is known of a message without a row is the state of the range that holds it, with Live as the
	// holder of one that is pending; State 0: nothing is known. That a message has succeeded is answered once it is as durable
	// as a settlement: its last copy may be dropped.
	Status(ctx context.Context, keys []Key) ([]Status, error)

	// Renew makes a failed message another one on purpose, before it is sent again: fresh effects, or a mended body. See
	// [Renewal].
	Renew(ctx context.Context, r Renewal) (Renewed, error)

	// Reopen makes messages that succeeded pending again: nobody's, due now, with the next token, no attempts, and their
	// window begins anew. The broker or the operator brings the messages; an archived delivery of theirs runs when it comes
	// again. It writes only rows that succeeded before it began, so each once. Messages that are held in a range of their log
	// ([Entry.Ranged]) are selected by Filter.Offsets or IDs alone, with nothing that only a row knows of one message (From, To,
	// Error, FreshKeys: an [*InvalidError]), and are then as if they had never been claimed; their audit row names a span.
	Reopen(ctx context.Context, r ReopenRequest) (ReopenReport, error)

	// Purge empties archived deliveries for good: body, headers, error texts and group. It leaves those of messages that
	// are pending, whose only copy they may be. An empty row stays until its message's row goes, for it is what makes a
	// redelivery be acknowledged instead of run.
	Purge(ctx context.Context, r PurgeRequest) (PurgeReport, error)

	// Audit records what an operator does to messages outside of the ledger, such as sending them again. A record with the
	// action [ActionReplay] and a delivery also sets ArchiveRecord.Replayed of that delivery, as a hint. ID, At and Role
	// are the store's to fill. At most [MaxStatus] records; all or none are written.
	Audit(ctx context.Context, records []AuditRecord) error

	// Audits lists the audit, the oldest first. The ledger never removes audit rows.
	Audits(ctx context.Context, f AuditFilter) iter.Seq2[AuditRecord, error]
}

// Bounds of what an Operator is asked.
const (
	MaxFound  = 20   // records that Find returns
	MaxStatus = 5000 // keys and records of one call of Status and Audit
	MaxActor  = 256  // bytes of By.Actor
	MaxReason = 2048 // bytes of By.Reason and of AuditRecord.Detail

	MaxAuditSpan = 10_000 // offsets that one AuditRecord is about
)

// Status is how a message is at one moment.
type Status struct {
	State       State       // 0: nothing is known; the rest is zero
	Token       uint64      // 0: a range holds it
	Fingerprint Fingerprint // zero: not known yet
	Generation  int
	// Holder is, of a pending message, whose it is: Nobody, Live (or not to be seen, which counts as live), Left or Dead.
	Holder Holder
	// HeldFor is, with Live, the rest of the owner's lease: zero or less if it is overdue, and no peer declared it dead yet.
	HeldFor time.Duration
	// DueIn is, of a pending message, how long it waits for its next attempt; zero or less: no longer.
	DueIn time.Duration
	// Delivery is, of a failed message, the archived delivery that it failed of last.
	Delivery []byte
}

// Free says that a pending message waits for nothing but a copy of it: no live owner holds it (an owner whose lease is
// overdue does not count), and it is due.
func (s Status) Free() bool {
	return s.State == Pending && (s.Holder != Live || s.HeldFor <= 0) && s.DueIn <= 0
}

// Listed is one message row of a list.
type Listed struct {
	Record        // without Archived
	Status Status // as of the same moment
}

// DeadLetter is one archived delivery of a list.
type DeadLetter struct {
	ArchiveRecord
	Status Status // of its message, by the key under which the delivery is archived
	// Superseded says that a later letter of the same message is archived as well: of another failure, or a renewed one.
	Superseded bool
}

// By says who changes something, and why; it goes into the audit.
type By struct {
	Actor  string // 1 to MaxActor bytes of UTF-8, such as the login
	Reason string // at most MaxReason bytes of UTF-8; may be empty
}

// Renewal is one guarded write on a failed row: the generation and the token grow by one, so that child keys change and
// copies of the failure before it are recognised as old. The archived delivery carries the new token, so a process killed
// before the send leaves a message that is failed and listed as before.
//
// With a mended body the row gets its fingerprint, and the body an archive row of its own (delivery "renewed:" and the
// token) beside the one that failed, with its headers, source, group and errors: what is sent is archived before.
type Renewal struct {
	Key Key
	// Token guards the write: only while the row is failed with this token. Anything else is [ErrChanged].
	Token uint64
	// Mended says that Body and Fingerprint take the place of what failed.
	Mended      bool
	Body        []byte // nil is not empty; sealed by the caller if the archived delivery is (Archive.Sealed)
	Fingerprint Fingerprint
	By          By
}

// Renewed is what a Renewal made.
type Renewed struct {
	Token      uint64 // for the stamp of the copy
	Generation int    // for child keys
	Delivery   []byte // the archived delivery that carries the token
}

// ReopenRequest selects messages that succeeded.
type ReopenRequest struct {
	// Filter selects them; Scope is required, State must be zero or Succeeded, and what only dead letters have must not be
	// set.
	Filter Filter
	// FreshKeys makes the generation grow by one, so that child keys change and outside effects are done again on purpose.
	FreshKeys bool
	// DryRun only counts.
	DryRun bool
	By     By
	// Progress gets the report so far after each transaction; a slow one holds Reopen up. Default: none. For commands.
	Progress func(ReopenReport)
}

// ReopenReport is what Reopen did, or would do.
//
// A run that was killed is gone on with by the same request and Filter.To set to Began: what was reopened since is younger.
type ReopenReport struct {
	Began    time.Time // only messages first claimed before are selected
	Matched  int64     // messages that succeeded and that the filter selects
	Reopened int64     // of these: pending now; with DryRun 0
	Skipped  int64     // of these: locked by others, or changed meanwhile
}

// PurgeRequest selects archived deliveries.
type PurgeRequest struct {
	Filter   Filter            // as of DeadLetters
	DryRun   bool              // only counts
	By       By                // who, and why
	Progress func(PurgeReport) // as ReopenRequest.Progress. For commands
}

// PurgeReport is what Purge did, or would do.
type PurgeReport struct {
	Matched int64 // archived deliveries that the filter selects
	Purged  int64 // of these: emptied; with DryRun 0
	Left    int64 // of these: their message is pending, or locked by others
	// Last is when the youngest of these was archived, on the database's clock; zero: there is none. A request with
	// Filter.To just behind it selects none that came later.
	Last time.Time
}

// Action is what an audit row records. Users' tools may have actions of their own, of 1 to 64 bytes.
type Action string

// The actions that this module records.
const (
	ActionReplay Action = "replay" // sent again, or handled in place, as itself
	ActionSend   Action = "send"   // sent again as a message of its own: a mismatch, on request
	ActionRenew  Action = "renew"
	ActionReopen Action = "reopen"
	ActionPurge  Action = "purge"
	ActionPause  Action = "pause"   // of a scope, or of all: the Key has no ID, and for all no Scope
	ActionResume Action = "resume"  // as ActionPause
	ActionRunNow Action = "run-now" // of what is parked ([ParkingOperator])
	ActionDrop   Action = "drop"    // as ActionRunNow

	ActionRecover Action = "recover" // of all: the Key is empty
)

// AuditRecord is one thing that an operator did to one message, or to the workers of a scope.
type AuditRecord struct {
	ID     int64     // grows with time
	At     time.Time // the database's clock
	By     By
	Role   string // who the database says it was; empty where it does not know (sqlite, memory)
	Action Action
	Key    Key // without a position
	// Span is how many offsets of Key's log, from Key's on, it is about, at most MaxAuditSpan: what has no row of its own is
	// reopened together. 0: Key's message alone.
	Span  int64
	State State  // of the message before; 0: it had no row
	Token uint64 // of the row before
	// Delivery is the archived delivery that it was about; nil: none.
	Delivery []byte
	Detail   string // where it was sent, what was changed: at most MaxReason bytes of UTF-8
}

// AuditFilter selects audit rows. The zero value selects all.
type AuditFilter struct {
	Key      *Key      // of one message, also what a Span has together with its neighbours
	Action   Action    // empty: all
	From, To time.Time // From <= At < To; zero: unbounded
	After    int64     // AuditRecord.ID > After: where a page that was shown has ended
	Limit    int       // zero: none
}

// KeyOfSum returns a key whose stored bytes are known, such as those of a [Record]: it names the same row, though it has no
// position.
func KeyOfSum(scope string, id []byte, sum [KeySize]byte) Key {
	return Key{Scope: scope, ID: id, sum: sum, known: true}
}

// MessageKey is the key of the record's message, for other calls on it.
func (r *Record) MessageKey() Key { return KeyOfSum(r.Scope, r.ID, r.Key) }
