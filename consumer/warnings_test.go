package consumer_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
)

// Settings that NewWorker takes, and that are a mistake mostly. Each bound is tried from both sides.
func TestUnwiseSettings(t *testing.T) {
	for _, c := range []struct {
		name  string
		o     consumer.Options
		conns int
		want  string // how each warning begins, one a line
	}{
		{"the defaults", consumer.Options{}, 0, ""},
		{"the defaults, with a connection for each handler", consumer.Options{}, 16, ""},
		{"a lease of 100 ms", consumer.Options{Lease: 100 * time.Millisecond}, 0, "Lease: is 100ms, below 1s"},
		{"a lease of 1 s", consumer.Options{Lease: time.Second}, 0, ""},
		{"a drain above the grace", consumer.Options{Drain: 40 * time.Second}, 0,
			"Drain: is 40s, and Run needs up to 5s more to leave, but the platform kills the process after 30s (Options.Grace): give it 45s"},
		{"a drain that leaves no time to leave", consumer.Options{Drain: 26 * time.Second}, 0, "Drain: is 26s"},
		{"a drain with its grace", consumer.Options{Drain: 40 * time.Second, Grace: 45 * time.Second}, 0, ""},
		{"a short grace", consumer.Options{Grace: 10 * time.Second}, 0, "Drain: is 25s"},
		{"fewer held than handlers", consumer.Options{MaxHeld: 8}, 0, "MaxHeld: is 8, below the Concurrency of 16: no more than 8 handlers"},
		{"as many held as handlers", consumer.Options{MaxHeld: 16}, 0, ""},
		{"more claimed than held", consumer.Options{MaxHeld: 100, ClaimAhead: 101}, 0, "ClaimAhead: is 101, above the MaxHeld of 100"},
		{"as many claimed as held", consumer.Options{MaxHeld: 100, ClaimAhead: 100}, 0, ""},
		{"pgx's own pool", consumer.Options{}, 4, "Concurrency: 16 handlers run at once, and the pool that InTx uses has 4 connections"},
		{"one connection too few", consumer.Options{Concurrency: 5}, 4, "Concurrency: 5 handlers"},
		{"as many connections as handlers", consumer.Options{Concurrency: 4}, 4, ""},
		{"a limiter that keeps within the pool", consumer.Options{Limiter: consumer.NewLimiter(4)}, 4, ""},
		{"a limiter above the pool", consumer.Options{Limiter: consumer.NewLimiter(5)}, 4, "Concurrency: 5 handlers"},
		{"a limiter above the concurrency", consumer.Options{Concurrency: 4, Limiter: consumer.NewLimiter(5)}, 4, ""},
		{"all of it", consumer.Options{Lease: time.Second / 2, Drain: time.Minute, MaxHeld: 1, ClaimAhead: 2}, 1,
			"Lease: is 500ms\nDrain: is 1m0s\nMaxHeld: is 1,\nClaimAhead: is 2,\nConcurrency: 16 handlers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, err := c.o.WithDefaults()
			if err != nil {
				t.Fatal(err)
			}
			got, want := o.Warnings(c.conns), strings.FieldsFunc(c.want, func(r rune) bool { return r == '\n' })
			if len(got) != len(want) {
				t.Fatalf("got %q, want %q", got, want)
			}
			for i := range want {
				if !strings.HasPrefix(got[i], "consumer: Options."+want[i]) {
					t.Errorf("got %q, want %q", got[i], want[i])
				}
			}
		})
	}
}
