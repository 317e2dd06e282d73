package consumer_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
)

// Workers with a backlog and handlers of the same length: slots come in turns of weights, a level that is not the first has every 17th.
func TestSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := consumer.NewSlots(4)
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		var all sync.WaitGroup
		runs := map[string]int{}
		for name, share := range map[string]consumer.Share{"three": {Weight: 3}, "one": {}, "low": {Level: 1}} {
			limiter := s.Limiter(share)
			for range 8 {
				all.Go(func() {
					for limiter.Acquire(ctx) == nil {
						time.Sleep(time.Second)
						mu.Lock()
						runs[name]++
						mu.Unlock()
						limiter.Release()
					}
				})
			}
		}
		time.Sleep(1700*time.Second + 500*time.Millisecond)
		mu.Lock()
		three, one, low := runs["three"], runs["one"], runs["low"]
		mu.Unlock()
		if three+one+low != 6800 || low < 395 || low > 405 || three < 4750 || three > 4850 {
			t.Errorf("of 6800 runs %d, %d and %d, want 4800, 1600 and 400", three, one, low)
		}
		cancel()
		all.Wait()
		for range 4 { // all are back
			if err := s.Limiter(consumer.Share{Level: 9}).Acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Whoever gives up while waiting gives up its turn, and a slot that comes at the same moment is not lost.
func TestSlotsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := consumer.NewSlots(1)
		first, second := s.Limiter(consumer.Share{}), s.Limiter(consumer.Share{Level: 1})
		for range 200 {
			if err := first.Acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			ended := make(chan error)
			go func() {
				err := first.Acquire(ctx)
				if err == nil {
					first.Release()
				}
				ended <- err
			}()
			time.AfterFunc(time.Second, first.Release)
			if err := second.Acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
			second.Release()
			if err := <-ended; err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			cancel()
		}
		over, end := context.WithCancel(t.Context())
		end()
		if err := first.Acquire(over); err == nil {
			t.Error("what must not start any more has a slot")
		}
	})
}

// What is out of bounds is refused by name when a worker is built.
func TestSlotsRefused(t *testing.T) {
	t.Parallel()
	for want, l := range map[string]*consumer.Limiter{
		"NewSlots: must be for at least 1 handler, is for 0":    consumer.NewSlots(0).Limiter(consumer.Share{}),
		"Share.Level: must be 0 to 9, is 10":                    consumer.NewSlots(1).Limiter(consumer.Share{Level: 10}),
		"Share.Level: must be 0 to 9, is -1":                    consumer.NewSlots(1).Limiter(consumer.Share{Level: -1}),
		"Share.Weight: must be 1 to 1,000, or 0 for 1, is -1":   consumer.NewSlots(1).Limiter(consumer.Share{Weight: -1}),
		"Share.Weight: must be 1 to 1,000, or 0 for 1, is 1001": consumer.NewSlots(1).Limiter(consumer.Share{Weight: 1001}),
		"must be made by NewLimiter":                            {},
	} {
		if _, err := (consumer.Options{Limiter: l}).WithDefaults(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	o, err := consumer.Options{Limiter: consumer.NewSlots(2).Limiter(consumer.Share{})}.WithDefaults()
	if warnings := o.Warnings(1); err != nil || !slices.ContainsFunc(warnings, func(w string) bool { return strings.Contains(w, "2 handlers run at once") }) {
		t.Errorf("%v, %v", err, warnings)
	}
}
