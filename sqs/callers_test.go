package sqs

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestCallersAreKeptAndBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most, requests = 3, 20
		c := newCallers(most)
		var open, peak, made atomic.Int64
		request := func() {
			if n := open.Add(1); n > peak.Load() {
				peak.Store(n)
			}
			time.Sleep(time.Second) // of the bubble's clock
			open.Add(-1)
			made.Add(1)
		}
		c.do(request)
		synctest.Wait()
		time.Sleep(2 * time.Second)
		c.do(request)
		if synctest.Wait(); c.kept != 1 {
			t.Errorf("%d goroutines for one request at a time, want 1", c.kept)
		}
		began := time.Now()
		for range requests - 2 {
			c.do(request)
		}
		c.end()
		if made.Load() != requests || peak.Load() != most || c.kept != most {
			t.Errorf("%d requests, %d at once, %d goroutines; want %d, %d, %d",
				made.Load(), peak.Load(), c.kept, requests, most, most)
		}
		if took := time.Since(began); took > requests/most*time.Second+time.Second {
			t.Errorf("took %s with %d at once", took, most)
		}
	})
}
