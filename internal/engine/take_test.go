package engine

import (
	"fmt"
	"testing"
	"time"
	"unsafe"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
)

// many is a chunk of as many messages as fast handlers take at once.
func many(t *testing.T, e *Engine) *chunk {
	t.Helper()
	e.joins(nil)
	e.runs(plainItem("first"), flow.Outcome{}) // handlers are fast
	var items []*Item
	for i := range 500 {
		items = append(items, plainItem(fmt.Sprint(i)))
	}
	e.Offer(items)
	e.claims(ledger.Claim{Answer: ledger.Run, Attempt: 1})
	return e.dispatches()
}

// What a goroutine will not begin is not kept in memory by the one that it is in, and is taken by another in its order.
func TestWhatIsTakenBackIsForgotten(t *testing.T) {
	e, _ := watched(t, func(o *consumer.Options) { o.Concurrency = 500 })
	c := many(t, e)
	first := c.begin()
	e.do(func(f *flow.Flow, now time.Duration) { f.Stuck(now, c.dispatch) })
	if first == nil || first.item == nil || first != &c.runs[0] {
		t.Fatal("what has begun is taken back")
	}
	for i := range c.runs {
		if (c.runs[i].item == nil) != (i > 0) {
			t.Errorf("run %d has the item %v", i, c.runs[i].item)
		}
	}
	if c.begin() != nil || c.dispatch.Limit() != 1 || c.begun() != 1 {
		t.Errorf("there is something to begin: %d of %d", c.begun(), c.dispatch.Limit())
	}
	next := e.dispatches()
	for i := range next.runs {
		if it := next.runs[i].item; string(it.Key.ID) != fmt.Sprint(i+1) || next.dispatch.Items[i] != &it.Item {
			t.Fatalf("their order is lost: %s is at %d", it.Key.ID, i)
		}
	}
}

// A batch begins as a whole or not at all: what is taken back before is all taken back, and after that nothing is.
func TestBatchIsTakenBackAsAWhole(t *testing.T) {
	for _, begun := range []bool{false, true} {
		e, _ := watched(t, func(o *consumer.Options) { o.Concurrency = 500 })
		c := many(t, e)
		if begun && !c.beginAll() {
			t.Fatal("it does not begin")
		}
		e.do(func(f *flow.Flow, now time.Duration) { f.Stuck(now, c.dispatch) })
		if want := map[bool]int{true: len(c.runs)}[begun]; c.begun() != want || c.beginAll() || !c.gone() {
			t.Errorf("begun %v: %d of %d begin, want %d", begun, c.begun(), len(c.runs), want)
		}
	}
}

// Above 32 KiB less its header an array with pointers is a span of memory of its own, which is dear where a chunk lives for some
// microseconds.
func TestChunksAreSmallObjects(t *testing.T) {
	e, _ := watched(t, func(o *consumer.Options) { o.Concurrency = 500 })
	n := uintptr(len(many(t, e).runs))
	for what, each := range map[string]uintptr{"runs": unsafe.Sizeof(run{}), "messages": unsafe.Sizeof(consumer.Message{})} {
		if size := n * each; size > 32<<10-8 {
			t.Errorf("the %s of a chunk are %d bytes (%d of %d): at most %d", what, size, n, each, 32<<10-8)
		}
	}
}
