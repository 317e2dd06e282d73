package engine

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/ackledger/ackledger/internal/flow"
)

// takenBack is an index past all runs: the rest of the chunk is not its goroutine's any more.
const takenBack = math.MaxInt32

// chunk is a dispatch in the hands of a goroutine: runs that begin one after the other, or, for a batch handler, together.
type chunk struct {
	dispatch *flow.Dispatch
	runs     []run
	spare    []*Item       // items of a stretch, once nobody has them any more
	items    []*Item       // of a stretch
	admitted bool          // by the rate and the shared limiter, before it was claimed
	born     time.Duration // since kernel.born
	done     time.Duration // when its goroutine had nothing left to begin
	next     atomic.Int64  // index of the next run to begin: its goroutine counts up, taking back sets it to takenBack
	at       atomic.Int64  // when the newest run began, since kernel.born
	seen     int64         // next at the rescuer's last look; -1: it has not looked. The kernel's lock guards it
	still    int           // for how many looks in a row it has been that
}

// newChunk takes a dispatch's items over. The kernel's lock is held.
func newChunk(of *calling, d *flow.Dispatch, born time.Duration) *chunk {
	c := &chunk{dispatch: d, runs: make([]run, len(d.Items)), born: born, seen: -1}
	d.Of = c
	for i, f := range d.Items {
		it, r := f.Of.(*Item), &c.runs[i]
		r.of, r.item, r.lead = of, it, r
		if d.Together {
			r.lead = &c.runs[0]
		}
	}
	c.at.Store(int64(born))
	return c
}

// begin returns the next run to begin; nil: there is none.
func (c *chunk) begin() *run {
	if i := c.next.Add(1) - 1; i < int64(len(c.runs)) {
		return &c.runs[i]
	}
	return nil
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
		c.runs[i].item = nil
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
