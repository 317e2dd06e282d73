package driver

import (
	"context"
	"iter"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// Op says what a transaction is for.
type Op uint8

// The operations. Claims and settlements are many and short: a store may carry out several in one transaction, as long as
// each fails by itself.
const (
	Claim   Op = iota + 1
	Settle     // also of an owner's ranges
	Operate    // an operator's write
	Sweep
	Read // of View
)

// Call is what a store is told of a transaction before it begins. It is not kept.
type Call struct {
	Op Op
	// Owner is, of a claim, who claims.
	Owner OwnerID
	// Keys are of the messages that it will ask for, so many, and Logs the logs: a store behind a network reads them at once. Both
	// are complete for Claim and Settle, and may not be set for others. A key may come twice.
	Keys     iter.Seq[Key]
	Messages int
	Logs     []LogID
}

// Len is how many messages or logs the call is about.
func (c *Call) Len() int { return c.Messages + len(c.Logs) }

// Store is what the author of a store writes. All methods may be called concurrently, by any number of processes. A context
// without a deadline has none: the ledger above sets one where the contract of a call has one.
type Store interface {
	Owners
	// Update runs fn in one transaction, and commits if it returns nil. It may run fn again if nothing of the run before is
	// left. fn's error comes back as it is, or wrapped; one for which [Busy] is true says that a lock was not free in the time
	// of ctx, and that fn was never run to its end.
	Update(ctx context.Context, call Call, fn func(Tx) error) error
	// View runs fn on one state of the tables, which it does not change, and may run it again. It waits for no transaction. A
	// store that cannot read all at one moment reads each row as it is when it is asked for.
	View(ctx context.Context, call Call, fn func(Reader) error) error
	// Tables says how large the tables are, as far as it is known at no cost.
	Tables(ctx context.Context) ([]ledger.TableStats, error)
	// Now is this process' idea of the time that transactions have.
	Now() time.Time
}

// Apart is a [Store] that need not carry out a call as one: most of what a call claims or settles has nothing to do with the rest.
// Others get all of it in one Update.
type Apart interface {
	// Each runs fn once for each message, or else for each log, of a call that claims or settles, in the order of Keys or Logs, each
	// in a transaction of its own: what one of them reads and writes is as in a transaction, and an error of one says nothing of
	// the others. It may run fn again for one of them if nothing of the run before is left. busy are those of which nothing was written
	// since there was no room for them in time, each with an error of which [Busy] is true; the error is for the whole call.
	Each(ctx context.Context, call Call, fn func(tx Tx, i int) error) (busy map[int]error, err error)
}

// each is Each of any store.
func each(ctx context.Context, s Store, call Call, fn func(tx Tx, i int) error) (busy map[int]error, err error) {
	if apart, ok := s.(Apart); ok {
		return apart.Each(ctx, call, fn)
	}
	err = s.Update(ctx, call, func(tx Tx) error {
		for i := range call.Len() {
			if err := fn(tx, i); err != nil {
				return err
			}
		}
		return nil
	})
	if !Busy(err) {
		return nil, err
	}
	busy = make(map[int]error, call.Len())
	for i := range call.Len() { // before anything was looked at
		busy[i] = err
	}
	return busy, nil
}

// Owners are the owners' rows. Each method is a transaction of its own, which waits for none of Update for long.
type Owners interface {
	// Join adds a live owner, whose lease ends lease after the moment at which it is written.
	Join(ctx context.Context, lease time.Duration) (OwnerID, error)
	// Beat makes a live owner's lease end lease from now on, and keeps the report in the place of the one before, in the same write.
	// [ledger.ErrLost] if it is not live. A nil report says nothing.
	Beat(ctx context.Context, id OwnerID, lease time.Duration, report []byte) error
	// Workers returns the live owners, and those that left or died not longer ago than rest, as far as it is known: with more of them than
	// [ledger.MaxWorkers] it may leave out the others.
	Workers(ctx context.Context, rest time.Duration) ([]Worker, error)
	// Seal declares dead whoever lives and whose lease has ended, but for the caller.
	Seal(ctx context.Context, caller OwnerID) error
	// Leave makes a live owner one that left. It leaves others as they are.
	Leave(ctx context.Context, id OwnerID) error
	// CountOwners counts owners by their fates.
	CountOwners(ctx context.Context) (ledger.OwnerStats, error)
	// RemoveOwners removes those that left or died before a time and that are not named, and says how many.
	RemoveOwners(ctx context.Context, before time.Time, named func(OwnerID) bool) (int64, error)
	// AddDeliveries adds to the counts of scopes, which are distinct. Since is that of the first addition.
	AddDeliveries(ctx context.Context, more []ledger.Deliveries) error
	// Deliveries returns the counts of the scopes with the most messages, at most [ledger.MaxStatScopes], these first.
	Deliveries(ctx context.Context) ([]ledger.Deliveries, error)
}

// Reader reads, as of one moment. It is used by one goroutine, until its transaction ends. What it returns is the caller's,
// bytes included.
type Reader interface {
	// Now is the ledger's time: the same for the whole transaction.
	Now() time.Time

	// Message returns a message's row, and whether the delivery is archived under its key and not past its expiry; nil if there is none.
	Message(key Key, delivery []byte) (*Message, error)
	// Steps returns the steps of a message in the order in which they were recorded; without results their sizes are set.
	Steps(key Key, results bool) ([]ledger.Step, error)
	// Past returns what is kept of earlier lives of a key, the latest first, at most n; without results their sizes are set.
	Past(key Key, results bool, n int) ([]ledger.Past, error)
	// Owner returns an owner. One without a row is one that left: rows that name an owner keep it, unless it was lost.
	Owner(id OwnerID) (Owner, error)

	// Archive returns the archived deliveries under a key, the oldest first; without bodies BodyBytes says how long they are.
	Archive(key Key, bodies bool) ([]ledger.ArchiveRecord, error)

	// Log returns a log; nil if it is not known.
	Log(id LogID) (*Log, error)
	// Ranges appends the open ranges of a log that are [Wanted].
	Ranges(to []Range, id LogID, span Span, tokens []uint64) ([]Range, error)
	// Segments appends the segments of a log that touch a span, in ascending order; more of them do no harm.
	Segments(to []Segment, id LogID, span Span) ([]Segment, error)
	// Rows returns a function that says whether offsets of a span have rows. It is called for some of them, in ascending order.
	Rows(id LogID, span Span) func(offset int64) (bool, error)
	// Extent is from the first row of a log to behind its last, and the latest expiry of these; an empty span if there is none.
	Extent(id LogID) (Span, time.Time, error)
	// Next is the first offset of a log at from or behind it, and below top, where a row, range or segment lies; else top. A
	// store that does not know answers from.
	Next(id LogID, from, top int64) (int64, error)
	// LogFloor is the highest token of all logs that were dropped.
	LogFloor() (uint64, error)

	// Turn returns the right to sweep.
	Turn() (Turn, error)
	// Pauses returns the pauses that hold, as they were put.
	Pauses() ([]ledger.Pause, error)

	Lists
}

// Lists are pages of what is there. A page is short, and an empty one is the last.
type Lists interface {
	// Scopes returns the names of all scopes that the ledger has seen, sorted.
	Scopes() ([]string, error)
	// Logs returns the logs with an id at or above one, in the order of their ids, at most n.
	Logs(from LogID, n int) ([]Log, error)
	// LastMessage is the end of the list of messages, as of now.
	LastMessage() (Mark, error)
	// Messages returns messages behind a mark and not behind another, and where the next page begins: at until there is none. A
	// page may lack what the filter does not select.
	Messages(behind, until Mark, f *ledger.Filter) ([]Message, Mark, error)
	// DeadLetters returns archived deliveries behind a mark that are not purged and were archived until a time, the oldest
	// first, or the last ones first if the filter says Newest, at most n. It may leave out what the filter does not select.
	DeadLetters(behind Mark, until time.Time, f *ledger.Filter, n int) ([]DeadLetter, error)
	// Bodies fills in body and headers of dead letters, and returns those that are there still.
	Bodies(of []DeadLetter) ([]DeadLetter, error)
	// ArchivedKeys returns the keys under which deliveries of a message id are archived, at most n.
	ArchivedKeys(id []byte, n int) ([]ledger.Key, error)
	// PastKeys returns the keys under which something is kept of earlier lives of a message id, at most n.
	PastKeys(id []byte, n int) ([]ledger.Key, error)
	// ArchivedBytes adds up [ledger.Archive.Weight] of a page of a scope's deliveries that are not purged. more: there may be
	// another page.
	ArchivedBytes(scope string, behind Mark) (n int64, next Mark, more bool, err error)
	// LastAudit is the highest id of the audit rows, as of now.
	LastAudit() (int64, error)
	// Audits returns audit rows with an id above after and at most until, the oldest first, at most n. It may leave out what
	// the filter does not select.
	Audits(after, until int64, f *ledger.AuditFilter, n int) ([]ledger.AuditRecord, error)
}

// Tx also writes. What it writes, it reads. It copies what it keeps.
type Tx interface {
	Reader

	// Insert writes a message, unless there is a row with its key. It says whether it did.
	Insert(m *Message) (bool, error)
	// Put writes a message that this transaction has read. Its steps go if it is succeeded no more, or its generation has grown.
	Put(m *Message) error
	// Succeed is a shortcut: if the message is pending, of that owner and with that token, it is succeeded, nobody's and not
	// due from then on, with the result; if it is covered, has no result and nothing is archived under its key, it expires at
	// fold at the latest. It says whether it did that; false changes nothing, and costs no more than the way by Put.
	Succeed(key Key, token uint64, owner OwnerID, result []byte, fold time.Time) (bool, error)
	// Remove removes messages' rows and their steps; the archive stays. Of a row with a result (so no pending one), of a
	// scope for which KeepPast was told a time, it keeps the past for so long beyond the row's expiry.
	Remove(keys []Key) error

	// Record adds a step to a message that this transaction has read, unless it has one of that name.
	Record(key Key, s *ledger.Step) error

	// File puts a delivery into the archive, unless it is there under its key. One that is past its expiry counts as gone.
	File(a *ledger.ArchiveRecord) error
	// Alter changes an archived delivery, and says whether it was there and, to purge it, not purged before.
	Alter(key Key, delivery []byte, c ArchiveChange) (bool, error)
	// Note adds audit rows as of now. Their ids grow.
	Note(records []ledger.AuditRecord) error

	// PutLog writes a log, new or not.
	PutLog(g *Log) error
	// DropLog removes a log in which nothing is left. [Reader.LogFloor] is its token from then on, if that is higher.
	DropLog(id LogID) error
	// PutRange writes a range, new or not: of one that is there Done, Back and Messages alone change. It keeps no r.
	PutRange(id LogID, r *Range) error
	// DropRange removes a range.
	DropRange(id LogID, token uint64) error
	// PutSegment adds a segment.
	PutSegment(id LogID, s *Segment) error
	// DropSegment removes the segment that begins at an offset.
	DropSegment(id LogID, from int64) error
	// Trim removes the segments of all logs of a name that end at an offset or below, and grew last before a time.
	Trim(scope, name string, at int64, before time.Time) error

	// PutTurn writes the right to sweep.
	PutTurn(t Turn) error
	// PutPauses writes the pauses that hold, at most [ledger.MaxPauses], in the place of those before.
	PutPauses(hold []ledger.Pause) error
	// SweepMessages looks at about n messages behind a mark and not behind another, for the sweep to decide.
	SweepMessages(behind, until Mark, n int) (Swept, error)
	// SweepArchive looks at about n archived deliveries, and removes those that expired before a time.
	SweepArchive(behind Mark, n int, before time.Time) (last Mark, looked, removed int64, err error)
	// KeepPast says how long the past of a scope's messages is kept; 0: not at all.
	KeepPast(scope string, keep time.Duration) error
	// SweepPast removes what is kept of the past and expired before a time, at most about n.
	SweepPast(n int, before time.Time) (removed int64, err error)
	// SweepAudits removes audit rows from before a time, at most about n.
	SweepAudits(n int, before time.Time) (removed int64, err error)
}
