package engine

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/ackledger/ackledger/consumer"
)

// readied is an engine that does nothing by itself, with messages of the given sizes ready to start.
func readied(bodies ...int) *Engine {
	e := &Engine{s: newSched(), size: 1, chunks: map[*chunk]struct{}{}, born: time.Now()}
	e.toRescue = sync.NewCond(&e.mu)
	for i, n := range bodies {
		it := &Item{Msg: &consumer.Message{Body: make([]byte, n)}}
		it.Key.ID = []byte{byte(i), byte(i >> 8)}
		e.s.add(it)
		e.s.setPhase(it, claimed)
		e.s.readyQ.push(it)
	}
	return e
}

func repeat(n, body int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = body
	}
	return out
}

// How many messages a goroutine takes follows from how long handlers took of late, and is bounded in number and bytes.
func TestHowMuchAGoroutineTakes(t *testing.T) {
	for name, c := range map[string]struct {
		cost    time.Duration
		limited bool
		idle    int
		bodies  []int
		want    int
	}{
		"nothing is known":       {0, false, 0, repeat(100, 10), 1},
		"no time":                {1, false, 7, repeat(100, 10), chunkItems},
		"fewer than that":        {1, false, 0, repeat(5, 10), 5},
		"5 µs":                   {5 * time.Microsecond, false, 7, repeat(100, 10), 40},
		"20 µs":                  {20 * time.Microsecond, false, 0, repeat(100, 10), 10},
		"20 µs, others idle":     {20 * time.Microsecond, false, 7, repeat(24, 10), 3},
		"a millisecond":          {time.Millisecond, false, 0, repeat(100, 10), 1},
		"limited":                {1, true, 0, repeat(100, 10), 1},
		"large bodies":           {1, false, 0, repeat(100, 40<<10), 4},
		"huge bodies":            {1, false, 0, repeat(100, 1<<20), 1},
		"a large one among them": {1, false, 0, append([]int{10, 10, chunkBytes}, repeat(20, 10)...), 3},
	} {
		t.Run(name, func(t *testing.T) {
			e := readied(c.bodies...)
			e.cost, e.limited, e.idle = c.cost, c.limited, c.idle
			if got := len(e.takeReady()); got != c.want {
				t.Errorf("takes %d, want %d", got, c.want)
			}
		})
	}
}

// An item that lost its place and got it back stands twice among what is ready: it was run twice.
func TestNothingIsTakenTwice(t *testing.T) {
	e := readied(repeat(10, 10)...)
	for _, it := range e.s.readyQ.buf[:5:5] {
		e.s.readyQ.push(it)
		e.s.readyQ.pushFront(it)
	}
	e.cost = 1
	if got := len(e.takeReady()); got != 10 {
		t.Errorf("took %d of 10", got)
	}
}

// What a goroutine will not begin is not kept in memory by the one that it is in.
func TestWhatIsTakenBackIsForgotten(t *testing.T) {
	e := readied(repeat(10, 10)...)
	e.cost = 1
	c := e.newChunk(e.takeReady(), false, nil)
	c.begin()
	e.takeBack(c)
	for i := range c.runs {
		if (c.runs[i].item == nil) != (i > 0) {
			t.Errorf("run %d has the item %v", i, c.runs[i].item)
		}
	}
	if n := e.s.readyQ.len(); n != 9 || e.divisible != 0 || c.begin() != nil {
		t.Errorf("%d are ready, %d chunks to take from", n, e.divisible)
	}
	first := e.s.readyQ.pop()
	if first.Key.ID[0] != 1 {
		t.Errorf("their order is lost: %v is first", first.Key.ID)
	}
}

// Slow handlers make a goroutine take one message soon; fast ones bring it back to many.
func TestCostFollowsTheHandlers(t *testing.T) {
	e := readied()
	feel := func(each time.Duration, n int) {
		c := &chunk{runs: make([]run, n), limit: n, done: time.Duration(n) * each}
		c.next.Store(takenBack)
		c.applied = n
		e.chunks[c] = struct{}{}
		e.ended(c)
	}
	feel(time.Microsecond, 1)
	if e.cost != time.Microsecond {
		t.Errorf("the first: %s", e.cost)
	}
	feel(50*time.Millisecond, 1)
	if n := e.chunkSize(); n != 1 {
		t.Errorf("after a slow one a goroutine takes %d", n)
	}
	for i := 0; e.cost > spread; i++ {
		if feel(time.Microsecond, 1); i == 100 {
			t.Fatalf("still %s after 100 fast ones", e.cost)
		}
	}
	cost := e.cost
	feel(time.Hour, 0) // nothing of it began
	if e.cost != cost {
		t.Error("a chunk that did nothing counts")
	}
}

// What spoilt a batch runs alone, wherever it stands among what is ready.
func TestSingleMessagesAreTakenAlone(t *testing.T) {
	e := readied(repeat(7, 10)...)
	e.size, e.batch = 10, consumer.Batch(10, func(context.Context, []*consumer.Message) []error { return nil }).(consumer.BatchHandler)
	for _, i := range []int{1, 4, 5} {
		e.s.readyQ.buf[i].single = true
	}
	var got []int
	for items := e.takeReady(); len(items) > 0; items = e.takeReady() {
		got = append(got, len(items))
	}
	if fmt.Sprint(got) != "[1 1 2 1 1 1]" {
		t.Errorf("taken as %v", got)
	}
}

// Above 32 KiB less its header an array with pointers is a span of memory of its own, which is dear where a chunk lives for some
// microseconds.
func TestChunksAreSmallObjects(t *testing.T) {
	if size := chunkItems * unsafe.Sizeof(run{}); size > 32<<10-8 || size < 31<<10 {
		t.Errorf("the runs of a chunk are %d bytes (%d of %d): at most %d, and as many as fit", size, chunkItems, unsafe.Sizeof(run{}), 32<<10-8)
	}
}
