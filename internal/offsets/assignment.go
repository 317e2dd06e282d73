package offsets

import (
	"cmp"
	"time"

	"github.com/ackledger/ackledger/internal/flow"
)

// TopicPartition names a partition.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// Compare orders partitions by topic and number.
func (p TopicPartition) Compare(q TopicPartition) int {
	return cmp.Or(cmp.Compare(p.Topic, q.Topic), cmp.Compare(p.Partition, q.Partition))
}

// Assignment is one term in which a member owns a partition. A partition that goes and comes back is another assignment:
// what finishes late belongs to the old one and moves nothing. The exported fields are set before [Table.Install].
type Assignment struct {
	TopicPartition
	Start     int64 // where it begins
	Epoch     int32 // leader epoch that was committed with Start; -1: none was
	Committed int64 // what the broker has confirmed; -1: nothing yet
	// Unsure is until when its position is committed again and again, whether it has moved or not. Zero: never.
	Unsure time.Time
	Of     any // the caller's

	tracker  *Tracker
	closed   bool        // revoked, lost or replaced: it takes nothing in, and is committed once more at most
	gone     bool        // let go of: what finishes now moves nothing
	held     int         // records in hand
	weight   flow.Weight // their bytes
	high     int64       // high watermark; -1: not known
	pausedAt time.Time   // since when the span limit holds it; zero: it does not
	moved    time.Time   // when a record was last given back, or none was in hand
	stuck    bool        // it crowds, and is left out of polls: see Table.Crowded
}

// Commit is an offset to be committed, with the leader epoch of the record before it.
type Commit struct {
	Of     *Assignment
	Offset int64
	Epoch  int32
}

// Closed says whether it takes nothing in any more.
func (a *Assignment) Closed() bool { return a.closed }

// Gone says whether it was let go of.
func (a *Assignment) Gone() bool { return a.gone }

// Held is what of it is in hand.
func (a *Assignment) Held() (records int, bytes int64) { return a.held, a.weight.Total() }

// Drained says whether it is closed and nothing of it is in hand. Once that is true it stays so.
func (a *Assignment) Drained() bool { return a.closed && a.held == 0 }

// Position is what may be committed of it, see [Tracker.Position].
func (a *Assignment) Position() (offset int64, epoch int32) { return a.tracker.Position() }

// Oldest is the offset that holds the position, if there is one.
func (a *Assignment) Oldest() (offset int64, ok bool) { return a.tracker.Oldest() }

// Span is how many records were delivered past the position.
func (a *Assignment) Span() int { return a.tracker.Span() }

// Needs says whether a record before an offset is not finished. It was not lost with those behind the offset, and must not be
// passed over.
func (a *Assignment) Needs(before int64) bool {
	oldest, ok := a.tracker.Oldest()
	return ok && oldest < before
}

// Due is what is to be committed of it now, until it is let go of. A commit that was refused, or not answered, is due again.
func (a *Assignment) Due(now time.Time) (c Commit, due bool) {
	offset, epoch := a.tracker.Position()
	if a.gone || offset <= a.Committed && !now.Before(a.Unsure) {
		return Commit{}, false
	}
	return Commit{Of: a, Offset: offset, Epoch: epoch}, true
}

// Confirm notes that the broker has an offset. Answers may come in another order than the commits.
func (a *Assignment) Confirm(offset int64) { a.Committed = max(a.Committed, offset) }

// Saw notes the partition's high watermark.
func (a *Assignment) Saw(high int64) { a.high = max(a.high, high) }

// Lag is how many offsets lie between what is finished and the end of the log, if that is known.
func (a *Assignment) Lag() (n int64, known bool) {
	at, _ := a.tracker.Position()
	return max(a.high-at, 0), a.high >= 0
}

// close stops it from taking anything in. False: it was closed before.
func (a *Assignment) close() bool {
	was := a.closed
	a.closed = true
	return !was
}
