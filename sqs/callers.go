package sqs

import "sync"

// callers are goroutines that make requests, kept from one request to the next. A new goroutine's stack would have to grow
// anew in each, through all layers of the SDK: that took a twelfth of the processor's time of a busy worker.
type callers struct {
	most    int // at once
	kept    int
	work    chan func()
	running sync.WaitGroup
}

// newCallers starts none: each comes with the first request that finds the others busy.
func newCallers(most int) *callers { return &callers{most: most, work: make(chan func())} }

// do has a request made, and waits only until a caller is free for it. One goroutine at a time may call it.
func (c *callers) do(request func()) {
	select {
	case c.work <- request:
		return
	default:
	}
	if c.kept < c.most {
		c.kept++
		c.running.Go(c.loop)
	}
	c.work <- request
}

func (c *callers) loop() {
	for request := range c.work {
		request()
	}
}

// end waits for all requests. Nothing may be done after it.
func (c *callers) end() {
	close(c.work)
	c.running.Wait()
}
