package sqs

import (
	"context"
	"fmt"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ackledger/ackledger/consumer"
	"go.uber.org/zap"
)

// Handlers that are slow, and a backlog that does not end: no more than MaxHeld messages are in flight for the worker,
// whatever has gone through, and its goroutines are as many as its handlers, polls and calls need.
func TestSlowHandlersAreBounded(t *testing.T) {
	const (
		messages = 9000
		held     = 200
		rounds   = 3
		further  = 5 // where the machine is so busy that the worker receives little ahead
		a, most  = 1000, 60
	)
	s := newSite(t, "", 100)
	s.send(numbers("m", messages)...)
	c := steady()
	c.Concurrency, c.MaxHeld, c.MaxPollers, c.Logger = 4, held, 4, zap.NewNop()
	turns := make(chan struct{})
	var begun atomic.Int64
	var r *running
	pprof.Do(t.Context(), pprof.Labels("worker", s.name), func(context.Context) {
		r = s.start(func(ctx context.Context, _ *consumer.Message) error {
			begun.Add(1)
			select {
			case <-turns:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}, c)
	})
	peak := 0
	for round := 0; round < rounds || peak <= most && round < rounds+further; round++ {
		want := int64(round*a + c.Concurrency)
		eventually(t, "the handlers stand still, and polling has stopped", func() bool { return begun.Load() == want })
		r.pollsNoMore()
		n := s.srv.Counts(s.name).InFlight
		if n > held {
			t.Errorf("round %d: %d messages are in flight, want at most %d", round, n, held)
		}
		peak = max(peak, n)
		if n := goroutinesOf(s.name); n < c.Concurrency || n > most {
			t.Errorf("round %d: %d goroutines, want %d to %d", round, n, c.Concurrency, most)
		}
		for range a {
			turns <- struct{}{}
		}
	}
	if peak <= most {
		t.Errorf("%d messages in flight at most: their goroutines would not have been noticed", peak)
	}
	r.end()
}

// goroutinesOf counts the goroutines that carry the label, as all do that were begun under it.
func goroutinesOf(worker string) int {
	var text strings.Builder
	if err := pprof.Lookup("goroutine").WriteTo(&text, 1); err != nil {
		panic(err)
	}
	total, n := 0, 0
	for line := range strings.Lines(text.String()) {
		if count, _, ok := strings.Cut(line, " @ "); ok {
			n, _ = strconv.Atoi(count)
		} else if strings.HasPrefix(line, "# labels: ") && strings.Contains(line, fmt.Sprintf("%q", worker)) {
			total += n
		}
	}
	return total
}
