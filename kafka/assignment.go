package kafka

import (
	"time"

	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/internal/offsets"
	"github.com/ackledger/ackledger/ledger"
)

// place names a partition.
type place struct {
	topic     string
	partition int32
}

// assignment is one term in which this member owns a partition. A partition that goes and comes back is another
// assignment: what finishes late belongs to the old one and moves nothing. The table's lock guards what follows epoch.
type assignment struct {
	place
	id     topicID
	log    string // ledger.Position.Log
	name   string // topic and partition, for people
	source topicSource
	start  int64
	epoch  int32
	// horizon is how far the logs reach; nil: a stamp can name what is in this partition alone.
	horizon *horizon
	// unsure is until when its position is committed at each interval, whether it has moved or not. Zero: never.
	unsure time.Time

	// Of poll's goroutine.
	cursor
	read   int64 // the offset after the last record that came; 0: none did
	astray bool  // records of it were thrown away: none is taken in any more, so that none is passed over

	tracker   *offsets.Tracker
	committed int64         // what the broker confirmed; -1: nothing yet
	closing   bool          // revoked, lost or replaced: nothing more is taken in, and the committer leaves it alone
	gone      bool          // let go of: what finishes now moves nothing
	held      int           // records that the engine has in hand
	empty     chan struct{} // closed when it closes and the engine has none in hand
	high      int64         // high watermark; -1: not known
	weight    engine.Weight // their bytes
	pausedAt  time.Time     // since when the span limit holds it; zero: it does not
	moved     time.Time     // when the engine last gave a record back, or had none
	stuck     bool          // it crowds and does not move: see table.crowded
}

// cursor is what the items of a log's records are made with, one after the other.
type cursor struct {
	keys  ledger.LogKeys
	prev  int64 // ledger.Position.Prev of the next record
	first int64 // where the log begins; 0: not known
}

func (a *assignment) close() {
	if a.closing {
		return
	}
	if a.closing = true; a.held == 0 {
		close(a.empty)
	}
}

// point is an offset to commit.
type point struct {
	place
	id     topicID
	offset int64
	epoch  int32
	of     *assignment // nil: nobody's, see begin
}

func (a *assignment) appendDue(out []point, now time.Time) []point {
	offset, epoch := a.tracker.Position()
	if offset <= a.committed && !now.Before(a.unsure) {
		return out
	}
	return append(out, point{place: a.place, id: a.id, offset: offset, epoch: epoch, of: a})
}
