package ledger

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// group merges concurrent calls on slices of I, answered by slices of O, into flushes.
type group[I, O any] struct {
	cfg  GroupConfig
	send func(context.Context, []I) ([]O, error)
	copy func(dst []I, buf []byte, src []I) ([]I, []byte)
	size func(*I) int
	hash func(*I) uint64
	// distinct is for claims: of a key that is repeated in a call only the first is asked, and after an unknown answer a
	// key stays busy until the flush's deadline.
	distinct bool
	calls    sync.Pool

	mu       sync.Mutex
	queue    []queued[I, O]
	busy     map[uint64]struct{} // what is in a flush
	flushes  int                 // in flight
	items    int                 // admitted and not answered
	bytes    int
	blocked  []*call[I, O] // callers that wait to be admitted, in order
	roomSize int
}

// call is one caller's call. Its fields are guarded by the group's lock once it is queued.
type call[I, O any] struct {
	items   []I
	buf     []byte
	answers []O
	n       int   // items admitted
	bytes   int   // bytes admitted
	sent    int   // items that went into a flush
	left    int   // items without an answer
	err     error // of a flush that failed
	some    bool  // some items were answered
	seen    map[uint64]struct{}
	wake    chan struct{} // admitted; then answered. Room for one
}

type queued[I, O any] struct {
	call *call[I, O]
	at   int
	size int
	hash uint64
}

func newGroup[I, O any](cfg GroupConfig, send func(context.Context, []I) ([]O, error),
	cp func([]I, []byte, []I) ([]I, []byte), size func(*I) int, hash func(*I) uint64,
) *group[I, O] {
	g := &group[I, O]{
		cfg: cfg, send: send, copy: cp, size: size, hash: hash,
		busy: make(map[uint64]struct{}), roomSize: (cfg.Queue/cfg.Items + 1) * cfg.Bytes,
	}
	g.calls.New = func() any { return &call[I, O]{wake: make(chan struct{}, 1)} }
	return g
}

// do is one call from its admission to its answer.
func (g *group[I, O]) do(ctx context.Context, items []I) ([]O, error) {
	if len(items) == 0 {
		return nil, ctx.Err()
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := g.calls.Get().(*call[I, O])
	c.n, c.bytes = len(items), 0
	for i := range items {
		c.bytes += g.size(&items[i])
	}
	if err := g.admit(ctx, c); err != nil {
		return nil, err
	}
	c.items, c.buf = g.copy(c.items[:0], c.buf, items)
	c.answers = make([]O, len(items))
	c.left, c.sent, c.err, c.some = len(items), 0, nil, false
	g.enqueue(c)
	select {
	case <-c.wake:
	case <-ctx.Done():
		if err := g.abandon(ctx, c); err != nil {
			return nil, err
		}
		<-c.wake // the answer was there already
	}
	answers, err := c.answers, c.err
	g.recycle(c)
	if err != nil {
		return nil, err
	}
	return answers, nil
}

// fits says whether a call may be admitted. A call larger than the bounds is admitted alone.
func (g *group[I, O]) fits(c *call[I, O]) bool {
	return g.items == 0 || g.items+c.n <= g.cfg.Queue && g.bytes+c.bytes <= g.roomSize
}

// admit waits until the group has room for c, and takes it.
func (g *group[I, O]) admit(ctx context.Context, c *call[I, O]) error {
	g.mu.Lock()
	if len(g.blocked) == 0 && g.fits(c) {
		g.items += c.n
		g.bytes += c.bytes
		g.mu.Unlock()
		return nil
	}
	g.blocked = append(g.blocked, c)
	g.mu.Unlock()
	select {
	case <-c.wake:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.blocked, c); i >= 0 {
		g.blocked = slices.Delete(g.blocked, i, i+1)
		g.unblock() // the one behind it may be smaller
		return fmt.Errorf("ledger: waiting for room in the queue: %w", ctx.Err())
	}
	<-c.wake // admitted at this very moment
	g.free(c)
	return ctx.Err()
}

// free gives back a call's room. The group is locked.
func (g *group[I, O]) free(c *call[I, O]) {
	g.items -= c.n
	g.bytes -= c.bytes
	g.unblock()
}

// unblock admits who waits, in order. The group is locked.
func (g *group[I, O]) unblock() {
	n := 0
	for ; n < len(g.blocked) && g.fits(g.blocked[n]); n++ {
		c := g.blocked[n]
		g.items += c.n
		g.bytes += c.bytes
		c.wake <- struct{}{}
	}
	g.blocked = slices.Delete(g.blocked, 0, n)
}

func (g *group[I, O]) enqueue(c *call[I, O]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range c.items {
		q := queued[I, O]{call: c, at: i, size: g.size(&c.items[i]), hash: g.hash(&c.items[i])}
		if c.repeats(q.hash, g.distinct) {
			c.left--
			continue
		}
		g.queue = append(g.queue, q)
	}
	g.start()
}

// repeats says whether a key came before in this call, if keys must be distinct. Its answer is the zero value then.
func (c *call[I, O]) repeats(hash uint64, distinct bool) bool {
	if !distinct || len(c.items) == 1 {
		return false
	}
	if c.seen == nil {
		c.seen = make(map[uint64]struct{}, len(c.items))
	}
	_, again := c.seen[hash]
	c.seen[hash] = struct{}{}
	return again
}

// start sends what may be sent. The group is locked.
func (g *group[I, O]) start() {
	for g.flushes < g.cfg.Flushes && (g.flushes == 0 || g.cfg.OneFlush == nil || !g.cfg.OneFlush()) {
		f := g.next()
		if f == nil {
			return
		}
		g.flushes++
		go func() {
			_ = deepen(len(f.items))
			g.flush(f)
		}()
	}
}

// abandon ends a call whose caller does not wait any more; nil if its answer is there already.
func (g *group[I, O]) abandon(ctx context.Context, c *call[I, O]) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.left == 0 {
		return nil
	}
	before := len(g.queue)
	g.queue = slices.DeleteFunc(g.queue, func(q queued[I, O]) bool { return q.call == c })
	c.left -= before - len(g.queue)
	if c.left == 0 {
		g.free(c)
	}
	if c.sent > 0 {
		return MarkUnknown(ctx.Err())
	}
	return ctx.Err()
}

// recycle keeps an answered call for the next caller, unless it grew large.
func (g *group[I, O]) recycle(c *call[I, O]) {
	clear(c.items)
	clear(c.seen)
	c.answers, c.err = nil, nil
	if cap(c.buf) <= 1<<20 && cap(c.items) <= g.cfg.Items {
		g.calls.Put(c)
	}
}

// batch is one flush on its way.
type batch[I, O any] struct {
	items []I
	from  []queued[I, O]
}

// next takes the next flush's items from the queue, in order; those whose key is in flight stay. The group is locked.
func (g *group[I, O]) next() *batch[I, O] {
	var from []queued[I, O]
	bytes, kept := 0, g.queue[:0]
	for i, q := range g.queue {
		_, wait := g.busy[q.hash]
		full := len(from) >= g.cfg.Items || len(from) > 0 && bytes+q.size > g.cfg.Bytes
		if full {
			kept = append(kept, g.queue[i:]...)
			break
		}
		if wait {
			kept = append(kept, q)
			continue
		}
		if from == nil {
			from = make([]queued[I, O], 0, min(len(g.queue), g.cfg.Items))
		}
		g.busy[q.hash] = struct{}{}
		bytes += q.size
		q.call.sent++
		from = append(from, q)
	}
	clear(g.queue[len(kept):])
	g.queue = kept
	if len(from) == 0 {
		return nil
	}
	return &batch[I, O]{items: merge(from), from: from}
}

// merge lines up the items; those of one whole call are not copied again.
func merge[I, O any](from []queued[I, O]) []I {
	c := from[0].call
	if from[0].at == 0 && len(from) == len(c.items) && from[len(from)-1].call == c {
		return c.items
	}
	items := make([]I, len(from))
	for i, q := range from {
		items[i] = q.call.items[q.at]
	}
	return items
}

// stackRoom is what the calls of a database driver take of a goroutine's stack, generously.
const stackRoom = 16 << 10

// deepen makes room on a new goroutine's stack at once. Else it grows by doubling, and each time what is there of a driver's
// deep calls is copied: 15 % of the processor's time at 1,000 messages/s.
//
//go:noinline
func deepen(at int) byte {
	var room [stackRoom]byte
	return room[at%stackRoom]
}

// flush sends one batch, answers its callers, and goes on with the next one while there is one.
func (g *group[I, O]) flush(f *batch[I, O]) {
	for f != nil {
		deadline := time.Now().Add(g.cfg.Timeout)
		ctx, cancel := context.WithDeadline(context.Background(), deadline)
		answers, err := g.send(ctx, f.items)
		cancel()
		if err == nil && len(answers) != len(f.items) {
			err = MarkUnknown(errShortAnswer)
		}
		g.mu.Lock()
		if g.distinct && Unknown(err) {
			from := f.from
			time.AfterFunc(time.Until(deadline), func() { g.release(from) })
		} else {
			g.unbusy(f.from)
		}
		for i, q := range f.from {
			g.answer(q, answers, i, err)
		}
		if f = g.next(); f == nil {
			g.flushes--
		}
		g.start()
		g.mu.Unlock()
	}
}

// answer notes one item's answer, and wakes its caller after the last one. The group is locked.
func (g *group[I, O]) answer(q queued[I, O], answers []O, i int, err error) {
	c := q.call
	switch {
	case err == nil:
		c.answers[q.at], c.some = answers[i], true
	case c.err == nil || Unknown(err):
		c.err = err
	}
	if c.left--; c.left > 0 {
		return
	}
	if c.some && !IsLost(c.err) {
		c.err = MarkUnknown(c.err) // of one call cut in two, one part was carried out
	}
	g.free(c)
	c.wake <- struct{}{} // there is room, also when the caller does not wait any more
}

func (g *group[I, O]) unbusy(from []queued[I, O]) {
	for _, q := range from {
		delete(g.busy, q.hash)
	}
}

// release lets keys be asked again whose flush may have changed something until now.
func (g *group[I, O]) release(from []queued[I, O]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.unbusy(from)
	g.start()
}
