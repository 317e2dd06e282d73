package engine

import (
	"encoding/binary"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
)

// Records are what a stretch is made of; the worker's. Calls may be concurrent.
type Records interface {
	Len() int
	// Messages fills in what handlers get of the records from the first on, one for each element. They are all the handlers':
	// they share no bytes with the records.
	Messages(first int, to []consumer.Message)
	// Items makes items of the records from <= i < to, as Offer takes them. They share no bytes with the records either, and
	// keep none of them in memory. A handler may have one's message of Messages in hand.
	Items(from, to int) []*Item
	// Offset is a record's offset.
	Offset(i int) int64
	// Size is the Item.Size of what is made of a record.
	Size(i int) int64
	// SentAt is a record's consumer.Message.SentAt.
	SentAt(i int) time.Time
	// Lane is the Item.Lane of a record.
	Lane(i int) Lane
}

// Stretch is records of one log that lie side by side, and go through the engine as one as long as nothing but their
// success becomes of them, see [flow.Range].
type Stretch struct {
	Records Records
	// Claim is what the ledger is asked.
	Claim ledger.Stretch
	// Ordered says that no two stretches of this log may run at the same time.
	Ordered bool
	// Lanes are what its records' Item.Lane are of; nil: they have none.
	Lanes *Lanes

	came time.Time
	flow.Range
}

// Size implements flow.Records.
func (st *Stretch) Size(i int) int64 { return st.Records.Size(i) }

// Expand implements flow.Records.
func (st *Stretch) Expand(from, to int) []*flow.Item {
	made := st.Records.Items(from, to)
	out := make([]*flow.Item, len(made))
	for i, it := range made {
		it.came(st.came)
		out[i] = &it.Item
	}
	return out
}

// sumAt is the stored key of a record at another offset of the same log and leader epoch, as [ledger.Key.Sum] lays it out.
func sumAt(sum [ledger.KeySize]byte, offset int64) [ledger.KeySize]byte {
	binary.BigEndian.PutUint64(sum[8:], uint64(offset))
	return sum
}
