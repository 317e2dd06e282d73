package sqstest

import (
	"container/heap"
	"sync"
	"time"
)

// Clock is where a Server takes its time from. Both methods may be called
// concurrently, and AfterFunc must not call f before it has returned.
type Clock interface {
	// Now is the present.
	Now() time.Time
	// AfterFunc calls f once d has passed. stop reports whether it prevented that.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

// realClock is the process's clock.
type realClock struct{}

func (realClock) Now() time.Time { return time.Now() }

func (realClock) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}

// ManualClock is a Clock that stands still until Advance moves it. One clock may
// be shared by several servers and by the code under test. It is safe for
// concurrent use.
type ManualClock struct {
	mu     sync.Mutex
	now    time.Time
	serial int
	alarms alarms
}

// NewManualClock returns a clock that shows start; the zero time means
// 2026-01-01 00:00 UTC.
func NewManualClock(start time.Time) *ManualClock {
	if start.IsZero() {
		start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	return &ManualClock{now: start}
}

// Now is the time the clock shows.
func (c *ManualClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// AfterFunc calls f from the Advance that reaches d from now; d <= 0 calls it at
// once in a goroutine of its own.
func (c *ManualClock) AfterFunc(d time.Duration, f func()) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d <= 0 {
		go f()
		return func() bool { return false }
	}
	c.serial++
	a := &alarm{at: c.now.Add(d), serial: c.serial, f: f}
	heap.Push(&c.alarms, a)
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		if a.index < 0 {
			return false
		}
		heap.Remove(&c.alarms, a.index)
		return true
	}
}

// Advance moves the clock forward by d and runs, in order of their time and
// before it returns, the functions that fall due on the way. A d below zero does
// nothing.
func (c *ManualClock) Advance(d time.Duration) {
	if d < 0 {
		return
	}
	c.mu.Lock()
	end := c.now.Add(d)
	for len(c.alarms) > 0 && !c.alarms[0].at.After(end) {
		a := heap.Pop(&c.alarms).(*alarm)
		c.now = a.at
		c.mu.Unlock()
		a.f()
		c.mu.Lock()
	}
	if c.now.Before(end) {
		c.now = end
	}
	c.mu.Unlock()
}

type alarm struct {
	at     time.Time
	serial int // keeps alarms of one instant in the order they were set
	index  int // -1: fired or stopped
	f      func()
}

type alarms []*alarm

func (h alarms) Len() int { return len(h) }
func (h alarms) Less(i, j int) bool {
	if h[i].at.Equal(h[j].at) {
		return h[i].serial < h[j].serial
	}
	return h[i].at.Before(h[j].at)
}
func (h alarms) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *alarms) Push(x any) {
	a := x.(*alarm)
	a.index = len(*h)
	*h = append(*h, a)
}
func (h *alarms) Pop() any {
	old := *h
	a := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	a.index = -1
	return a
}
