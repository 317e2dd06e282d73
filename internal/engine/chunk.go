package engine

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/flow"
)

// takenBack is an index past all runs: the rest of the chunk is not its goroutine's any more.
const takenBack = math.MaxInt32

// chunk is a dispatch in the hands of a goroutine: runs that begin one after the other, or, for a batch handler, together.
type chunk struct {
	shared
	runs       []run
	admitted   bool          // by the rate and the shared limiter, before it was claimed
	taken      time.Duration // since kernel.born
	admittedAt time.Duration // when its handlers might begin
	done       time.Duration // when its goroutine had nothing left to begin
	next       atomic.Int64  // index of the next run to begin: its goroutine counts up, taking back sets it to takenBack
	at         atomic.Int64  // when the newest run began, since kernel.born
	seen       int64         // next at the rescuer's last look; -1: it has not looked. The kernel's lock guards it
	still      int           // for how many looks in a row it has been that
}

// newChunk makes a chunk with a run for each message.
func newChunk(of *calling, messages []consumer.Message) *chunk {
	c := &chunk{shared: shared{calling: of}, runs: make([]run, len(messages)), seen: -1}
	for i := range c.runs {
		r := &c.runs[i]
		r.of, r.msg, r.lead, r.at = &c.shared, &messages[i], r, int32(i)
	}
	return c
}

// partChunk makes a chunk of records of a stretch, which have no items as long as all goes well. No lock is needed.
func partChunk(of *calling, part flow.Part) *chunk {
	st, messages := part.Range.Of.(*Stretch), make([]consumer.Message, part.To-part.From)
	st.Records.Messages(part.From, messages)
	c := newChunk(of, messages)
	c.claim = &claim{sess: part.Range.Session(), first: st.Range.Claim.First.Key.Sum(), token: part.Range.Token()}
	c.lanes, c.records, c.from = st.Lanes, st.Records, part.From
	for i := range c.runs {
		r := &c.runs[i]
		r.id, r.offset, r.msg.Attempt = r.msg.ID, st.Records.Offset(part.From+i), 1
	}
	return c
}

// takes takes a dispatch over. The kernel's lock is held.
func (c *chunk) takes(d *flow.Dispatch, now time.Duration) {
	c.dispatch, d.Of, c.taken = d, c, now
	c.at.Store(int64(now))
	if len(d.Items) > 0 {
		c.claims = make([]itemClaim, len(d.Items))
	}
	for i, it := range d.Items {
		c.runs[i].item, c.claims[i] = it.Of.(*Item), itemClaim{it.Session(), it.Ticket(), it.Generation()}
	}
	if d.Together {
		for i := range c.runs {
			c.runs[i].lead = &c.runs[0]
		}
	}
}

// begin returns the next run to begin; nil: there is none.
func (c *chunk) begin() *run {
	if i := c.next.Add(1) - 1; i < int64(len(c.runs)) {
		return &c.runs[i]
	}
	return nil
}

// itemAt is the item of a run that is not over; nil: it is one of a whole stretch. The kernel's lock is held.
func (c *chunk) itemAt(at int32) *Item {
	if len(c.dispatch.Items) == 0 {
		return nil
	}
	return c.dispatch.Items[at].Of.(*Item)
}

// gone says that nothing is left to begin.
func (c *chunk) gone() bool { return c != nil && c.next.Load() >= takenBack }

// beginAll begins all runs together, unless they were taken back.
func (c *chunk) beginAll() bool { return c.next.CompareAndSwap(0, takenBack) }

// begun says how many runs have begun. The kernel's lock is held.
func (c *chunk) begun() int { return min(int(c.next.Load()), c.dispatch.Limit()) }

// recall takes back what has not begun. The kernel's lock is held.
func (c *chunk) recall(f *flow.Flow) {
	begun := c.next.Swap(takenBack)
	if begun >= takenBack {
		return
	}
	for i := min(int(begun), len(c.runs)); i < len(c.runs); i++ {
		c.runs[i].item, *c.runs[i].msg = nil, consumer.Message{}
	}
	f.Recalled(c.dispatch, int(begun))
}

// plain says whether all that the chunk was to run went well.
func (c *chunk) plain() bool {
	if c.next.Load() < int64(len(c.runs)) {
		return false
	}
	for i := range c.runs {
		if !c.runs[i].plain() {
			return false
		}
	}
	return true
}
