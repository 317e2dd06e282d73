package ledger_test

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// recorder is an owner that notes each flush and answers when it is told to.
type recorder struct {
	ledger.Owner
	gate    chan struct{} // nil: open
	fail    func(ids []string) error
	mu      sync.Mutex
	flushes [][]string
	flying  map[string]bool
	now     int
	most    int
	twice   []string // keys that were in two flushes at once
	read    []string // ids as they were when a flush ended
}

func (r *recorder) enter(ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.flying == nil {
		r.flying = map[string]bool{}
	}
	r.flushes = append(r.flushes, ids)
	r.now++
	r.most = max(r.most, r.now)
	for _, id := range ids {
		if r.flying[id] {
			r.twice = append(r.twice, id)
		}
		r.flying[id] = true
	}
}

func (r *recorder) leave(ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now--
	for _, id := range ids {
		delete(r.flying, id)
	}
}

func (r *recorder) Claim(ctx context.Context, entries []ledger.Entry) ([]ledger.Claim, error) {
	ids := make([]string, len(entries))
	for i := range entries {
		ids[i] = string(entries[i].Key.ID)
	}
	r.enter(ids)
	defer r.leave(ids)
	if r.gate != nil {
		select {
		case <-r.gate:
		case <-ctx.Done():
			return nil, ledger.MarkUnknown(ctx.Err())
		}
	}
	if r.fail != nil {
		if err := r.fail(ids); err != nil {
			return nil, err
		}
	}
	claims := make([]ledger.Claim, len(entries))
	for i := range entries {
		r.note(string(entries[i].Key.ID))
		claims[i] = ledger.Claim{Answer: ledger.Run, Outcome: ledger.Outcome{Result: slices.Clone(entries[i].Key.ID)}}
	}
	return claims, nil
}

func (r *recorder) note(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read = append(r.read, id)
}

func (r *recorder) seen() [][]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.flushes)
}

func ask(ids ...string) []ledger.Entry {
	out := make([]ledger.Entry, len(ids))
	for i, id := range ids {
		out[i] = ledger.Entry{Key: ledger.Key{Scope: "s", ID: []byte(id)}, Delivery: []byte("d"), Window: time.Hour}
	}
	return out
}

func numbers(from, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = strconv.Itoa(from + i)
	}
	return out
}

type answered struct {
	claims []ledger.Claim
	err    error
}

// claimLater calls Claim in a goroutine.
func claimLater(ctx context.Context, o ledger.Owner, ids ...string) chan answered {
	out := make(chan answered, 1)
	go func() {
		claims, err := o.Claim(ctx, ask(ids...))
		out <- answered{claims, err}
	}()
	return out
}

func check(t *testing.T, got answered, ids ...string) {
	t.Helper()
	if got.err != nil || len(got.claims) != len(ids) {
		t.Fatalf("%d answers, %v; want %d", len(got.claims), got.err, len(ids))
	}
	for i, id := range ids {
		if string(got.claims[i].Outcome.Result) != id {
			t.Fatalf("answer %d is for %q, want %q", i, got.claims[i].Outcome.Result, id)
		}
	}
}
