package kafka

import (
	"strconv"

	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/internal/offsets"
	"github.com/ackledger/ackledger/ledger"
)

// place names a partition.
type place = offsets.TopicPartition

// assignment is one term in which this member owns a partition. The table's lock guards the decisions that it holds.
type assignment struct {
	offsets.Assignment
	id     topicID
	log    string // ledger.Position.Log
	name   string // topic and partition, for people
	source topicSource
	// horizon is how far the logs reach; nil: a stamp can name what is in this partition alone.
	horizon *horizon

	// lanes are the keys of which records may be parked, as this assignment knows them; nil: none ever is.
	lanes *engine.Lanes

	// Of poll's goroutine.
	cursor
	read   int64 // the offset after the last record that came; 0: none did
	astray bool  // records of it were thrown away: none is taken in any more, so that none is passed over

	empty chan struct{} // closed when it closes and the engine has none in hand
}

// cursor is what the items of a log's records are made with, one after the other.
type cursor struct {
	keys  ledger.LogKeys
	prev  int64 // ledger.Position.Prev of the next record
	first int64 // where the log begins; 0: not known
}

// newAssignment returns one of a partition that begins at its log's start.
func newAssignment(at place, id topicID, log string) *assignment {
	return &assignment{Assignment: offsets.Assignment{TopicPartition: at, Epoch: -1, Committed: -1}, id: id, log: log}
}

// begin makes it ready for its first record.
func (a *assignment) begin() {
	a.Of, a.empty = a, make(chan struct{})
	a.prev, a.read = -1, a.Start
	a.lanes = engine.NewLanes(a.source.scope, a.log)
	a.name, a.keys = a.Topic+"-"+strconv.Itoa(int(a.Partition)), ledger.LogKeys{Scope: a.source.scope, Log: a.log}
}

// assignmentOf is what a decision is of; nil: none.
func assignmentOf(a *offsets.Assignment) *assignment {
	if a == nil {
		return nil
	}
	return a.Of.(*assignment)
}

// tellEmpty tells who waits for it that the engine has none of it in hand, once it is closed.
func (a *assignment) tellEmpty() {
	if !a.Drained() {
		return
	}
	select {
	case <-a.empty:
	default:
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

// pointOf makes a commit's point.
func pointOf(c offsets.Commit) point {
	a := assignmentOf(c.Of)
	return point{place: a.TopicPartition, id: a.id, offset: c.Offset, epoch: c.Epoch, of: a}
}
