package engine

import (
	"time"

	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
)

// Records are what a stretch is made of; the worker's. Calls may be concurrent.
type Records interface {
	Len() int
	// Items makes items of the records from <= i < to, as Offer takes them. What is in reuse are items of an earlier call,
	// of these or other records of the worker, that nobody has any more; it may make the new ones of them.
	Items(from, to int, reuse []*Item) []*Item
	// Keep is called before an item goes on without its stretch: what it refers to of the records, it has to copy. Its
	// handler may be running.
	Keep(it *Item)
	// Offset is a record's offset.
	Offset(i int) int64
	// Size is the Item.Size of what is made of a record.
	Size(i int) int64
	// SentAt is a record's consumer.Message.SentAt.
	SentAt(i int) time.Time
}

// Stretch is records of one log that lie side by side, and go through the engine as one as long as nothing but their
// success becomes of them, see [flow.Range].
type Stretch struct {
	Records Records
	// Claim is what the ledger is asked.
	Claim ledger.Stretch
	// Ordered says that no two stretches of this log may run at the same time.
	Ordered bool

	came time.Time
	flow.Range
}

// Size implements flow.Records.
func (st *Stretch) Size(i int) int64 { return st.Records.Size(i) }

// Expand implements flow.Records.
func (st *Stretch) Expand(from, to int) []*flow.Item {
	made := st.items(from, to, nil)
	out := make([]*flow.Item, len(made))
	for i, it := range made {
		st.Records.Keep(it)
		out[i] = &it.Item
	}
	return out
}

// Keep implements flow.Records.
func (st *Stretch) Keep(it *flow.Item) { st.Records.Keep(it.Of.(*Item)) }

// items makes items of records.
func (st *Stretch) items(from, to int, reuse []*Item) []*Item {
	made := st.Records.Items(from, to, reuse)
	for _, it := range made {
		it.came(st.came)
	}
	return made
}
