package main

import (
	"math/bits"
	"sync"
	"time"
)

// fine is how many buckets lie between a number and its double: three digits are exact.
const fine = 1024

// histogram counts durations of up to an hour, in microseconds.
type histogram [24 * fine]uint32

// bucket is where a duration is counted.
func bucket(d time.Duration) int {
	us := min(uint64(max(0, d.Microseconds())), uint64(time.Hour/time.Microsecond))
	shift := max(0, bits.Len64(us)-bits.Len64(fine))
	return shift*fine + int(us>>shift)
}

// from is the shortest duration of a bucket.
func from(bucket int) time.Duration {
	shift := max(0, bucket/fine-1)
	return time.Duration((bucket-shift*fine)<<shift) * time.Microsecond
}

// latencies are what was counted in the last samples' time. Their memory is bounded.
type latencies struct {
	mu    sync.Mutex
	slots []histogram
	now   int
}

func newLatencies(samples int) *latencies {
	return &latencies{slots: make([]histogram, max(1, samples))}
}

func (l *latencies) add(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slots[l.now][bucket(d)]++
}

// take returns quantiles in milliseconds, 0 if nothing was counted, and begins the next sample.
func (l *latencies) take(quantiles []float64) []float64 {
	l.mu.Lock()
	var sum histogram
	total := 0.0
	for s := range l.slots {
		for i, n := range l.slots[s] {
			sum[i] += n
			total += float64(n)
		}
	}
	l.now = (l.now + 1) % len(l.slots)
	l.slots[l.now] = histogram{}
	l.mu.Unlock()
	out := make([]float64, len(quantiles))
	for q, quantile := range quantiles {
		below := 0.0
		for i, n := range sum {
			if below += float64(n); n > 0 && below >= quantile*total {
				out[q] = float64(from(i)) / float64(time.Millisecond)
				break
			}
		}
	}
	return out
}
