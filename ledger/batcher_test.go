package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
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

func TestGroupLoneCallGoesStraightThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := ledger.Group(&recorder{}, ledger.GroupConfig{})
		began := time.Now()
		check(t, <-claimLater(t.Context(), o, "a"), "a")
		if waited := time.Since(began); waited != 0 {
			t.Fatalf("a lone call waited %s for company", waited)
		}
	})
}

func TestGroupMergesWhileFlushesAreInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{gate: make(chan struct{})}
		o := ledger.Group(r, ledger.GroupConfig{})
		var calls []chan answered
		for i := range 100 {
			calls = append(calls, claimLater(t.Context(), o, strconv.Itoa(i)))
			synctest.Wait()
		}
		if n := len(r.seen()); n != 2 {
			t.Fatalf("%d flushes in flight, want 2", n)
		}
		close(r.gate)
		for i, c := range calls {
			check(t, <-c, strconv.Itoa(i))
		}
		if got := r.seen(); len(got) != 3 || len(got[2]) != 98 {
			t.Fatalf("%d flushes, want 3 with 98 in the last one", len(got))
		}
	})
}

// Where a second flush would only wait for the first, it is left to grow instead; and goes once it need not wait.
func TestGroupOneFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{gate: make(chan struct{})}
		var one atomic.Bool
		o := ledger.Group(r, ledger.GroupConfig{OneFlush: one.Load})
		var calls []chan answered
		ask := func(n int) {
			for range n {
				calls = append(calls, claimLater(t.Context(), o, strconv.Itoa(len(calls))))
				synctest.Wait()
			}
		}
		one.Store(true)
		ask(50)
		if n := len(r.seen()); n != 1 {
			t.Fatalf("%d flushes in flight, want 1", n)
		}
		one.Store(false)
		ask(1)
		if got := r.seen(); len(got) != 2 || len(got[1]) != 50 {
			t.Fatalf("%d flushes in flight, want 2 with 50 in the last one", len(got))
		}
		close(r.gate)
		for i, c := range calls {
			check(t, <-c, strconv.Itoa(i))
		}
	})
}

func TestGroupBoundsItemsBytesAndFlushes(t *testing.T) {
	for name, cfg := range map[string]ledger.GroupConfig{
		"items": {Items: 70, Flushes: 3},
		"bytes": {Bytes: 70 * 68, Flushes: 3}, // 64 and the bytes of an entry
		"queue": {Items: 70, Flushes: 3, Queue: 100},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &recorder{}
				o := ledger.Group(r, cfg)
				var calls []chan answered
				for i := range 20 {
					calls = append(calls, claimLater(t.Context(), o, numbers(1000+i*200, 1+i*10)...))
				}
				for i, c := range calls {
					check(t, <-c, numbers(1000+i*200, 1+i*10)...)
				}
				for _, f := range r.seen() {
					if len(f) > 72 {
						t.Fatalf("a flush of %d items", len(f))
					}
				}
				if r.most > 3 {
					t.Fatalf("%d flushes at once, want at most 3", r.most)
				}
			})
		})
	}
}

func TestGroupLargeItemTravelsAlone(t *testing.T) {
	l := memory.New()
	o, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	g := ledger.Group(o, ledger.GroupConfig{Bytes: 1000})
	claims, err := g.Claim(t.Context(), ask("a", "b", "c"))
	if err != nil {
		t.Fatal(err)
	}
	settlements := make([]ledger.Settlement, len(claims))
	for i, c := range claims {
		settlements[i] = ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed, Result: make([]byte, 5000)}
	}
	errs, err := g.Settle(t.Context(), settlements)
	if err != nil || slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		t.Fatalf("settle: %v, %v", errs, err)
	}
}

func TestGroupCallerGivesUpBeforeItWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{gate: make(chan struct{})}
		o := ledger.Group(r, ledger.GroupConfig{Flushes: 1})
		first := claimLater(t.Context(), o, "a")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		queued := <-claimLater(ctx, o, "b")
		if !errors.Is(queued.err, context.DeadlineExceeded) || ledger.Unknown(queued.err) {
			t.Fatalf("%v, want a known error", queued.err)
		}
		r.gate <- struct{}{}
		check(t, <-first, "a")
		close(r.gate)
		check(t, <-claimLater(t.Context(), o, "c"), "c")
		if got := fmt.Sprint(r.seen()); got != "[[a] [c]]" {
			t.Fatalf("sent %s, want no b", got)
		}
	})
}

// A caller that gives up holds nobody, and may use its bytes again at once.
func TestGroupCallerGivesUpAfterItWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{gate: make(chan struct{})}
		o := ledger.Group(r, ledger.GroupConfig{Flushes: 1})
		blocker := claimLater(t.Context(), o, "blocker")
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		entries := ask("b")
		gone := make(chan error, 1)
		go func() {
			_, err := o.Claim(ctx, entries)
			gone <- err
		}()
		synctest.Wait()
		other := claimLater(t.Context(), o, "c")
		synctest.Wait()
		r.gate <- struct{}{}
		check(t, <-blocker, "blocker")
		synctest.Wait() // b and c are in flight together
		cancel()
		if err := <-gone; !ledger.Unknown(err) || !errors.Is(err, context.Canceled) {
			t.Fatalf("%v, want an unknown answer", err)
		}
		copy(entries[0].Key.ID, "X")
		close(r.gate)
		check(t, <-other, "c")
		if got := fmt.Sprint(r.seen(), r.read); got != "[[blocker] [b c]] [blocker b c]" {
			t.Fatalf("sent and read %s", got)
		}
	})
}

func TestGroupErrorGoesToEveryCallerOfTheFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("down")
		r := &recorder{gate: make(chan struct{}), fail: func(ids []string) error {
			if slices.Contains(ids, "b") {
				return down
			}
			return nil
		}}
		o := ledger.Group(r, ledger.GroupConfig{Flushes: 1})
		first := claimLater(t.Context(), o, "a")
		synctest.Wait()
		b, c := claimLater(t.Context(), o, "b"), claimLater(t.Context(), o, "c")
		synctest.Wait()
		close(r.gate)
		check(t, <-first, "a")
		for _, got := range []answered{<-b, <-c} {
			if !errors.Is(got.err, down) || ledger.Unknown(got.err) {
				t.Fatalf("%v, want %v, known", got.err, down)
			}
		}
		check(t, <-claimLater(t.Context(), o, "c"), "c")
	})
}

// A call that was cut in two, of which one part failed, was carried out in part: its answer is unknown.
func TestGroupPartOfACallFails(t *testing.T) {
	r := &recorder{fail: func(ids []string) error {
		if slices.Contains(ids, "3") {
			return errors.New("down")
		}
		return nil
	}}
	o := ledger.Group(r, ledger.GroupConfig{Items: 2})
	if _, err := o.Claim(t.Context(), ask(numbers(0, 6)...)); !ledger.Unknown(err) {
		t.Fatalf("%v, want an unknown answer", err)
	}
}

func TestGroupRepeatedKeyInOneCall(t *testing.T) {
	r := &recorder{}
	o := ledger.Group(r, ledger.GroupConfig{Items: 2})
	claims, err := o.Claim(t.Context(), ask("a", "b", "a", "c", "a"))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []ledger.Answer{ledger.Run, ledger.Run, ledger.Busy, ledger.Run, ledger.Busy} {
		if claims[i].Answer != want {
			t.Errorf("claim %d: %v, want %v", i, claims[i].Answer, want)
		}
	}
}

// A key of two callers goes out once at a time.
func TestGroupNeverAsksAKeyTwiceAtOnce(t *testing.T) {
	r := &recorder{}
	o := ledger.Group(r, ledger.GroupConfig{Items: 5, Flushes: 4})
	var wg sync.WaitGroup
	for g := range 20 {
		wg.Go(func() {
			for i := range 50 {
				ids := numbers((g+i)%7, 1+i%6)
				check(t, <-claimLater(t.Context(), o, ids...), ids...)
			}
		})
	}
	wg.Wait()
	if len(r.twice) > 0 {
		t.Fatalf("in two flushes at once: %v", r.twice)
	}
}

// After an unknown answer the statement may still reach the database until its deadline: the key waits, others do not.
func TestGroupKeyWaitsAfterAnUnknownAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := true
		r := &recorder{}
		r.fail = func([]string) error {
			if !broken {
				return nil
			}
			broken = false
			return ledger.MarkUnknown(errors.New("connection reset"))
		}
		o := ledger.Group(r, ledger.GroupConfig{Timeout: 7 * time.Second})
		began := time.Now()
		if got := <-claimLater(t.Context(), o, "a"); !ledger.Unknown(got.err) || time.Since(began) != 0 {
			t.Fatalf("%v after %s, want an unknown answer at once", got.err, time.Since(began))
		}
		again := claimLater(t.Context(), o, "a")
		check(t, <-claimLater(t.Context(), o, "b"), "b")
		if waited := time.Since(began); waited != 0 {
			t.Fatalf("another key waited %s", waited)
		}
		check(t, <-again, "a")
		if waited := time.Since(began); waited != 7*time.Second {
			t.Fatalf("asked again after %s, want after the flush's deadline", waited)
		}
	})
}

func TestGroupBlocksWhenTheQueueIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{gate: make(chan struct{})}
		o := ledger.Group(r, ledger.GroupConfig{Items: 2, Flushes: 1, Queue: 4})
		calls := []chan answered{claimLater(t.Context(), o, "a", "b"), claimLater(t.Context(), o, "c", "d")}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		blocked := claimLater(ctx, o, "e", "f", "g")
		synctest.Wait()
		behind := claimLater(t.Context(), o, "h")
		synctest.Wait()
		got := <-blocked
		if !errors.Is(got.err, context.DeadlineExceeded) || ledger.Unknown(got.err) ||
			!strings.Contains(got.err.Error(), "room in the queue") {
			t.Fatalf("%v, want a known error of the full queue", got.err)
		}
		close(r.gate)
		check(t, <-calls[0], "a", "b")
		check(t, <-calls[1], "c", "d")
		check(t, <-behind, "h")
		check(t, <-claimLater(t.Context(), o, numbers(0, 20)...), numbers(0, 20)...) // more than the queue: alone
	})
}

// The flush has a deadline of its own: a store that hangs holds nobody for ever.
func TestGroupFlushHasItsOwnDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{gate: make(chan struct{})}
		o := ledger.Group(r, ledger.GroupConfig{})
		began := time.Now()
		got := <-claimLater(t.Context(), o, "a")
		if !ledger.Unknown(got.err) || time.Since(began) != 10*time.Second {
			t.Fatalf("%v after %s, want unknown after 10s", got.err, time.Since(began))
		}
	})
}

type shortAnswers struct{ ledger.Owner }

func (shortAnswers) Settle(context.Context, []ledger.Settlement) ([]error, error) { return nil, nil }

func TestGroupStoreAnswersTooFew(t *testing.T) {
	o := ledger.Group(shortAnswers{}, ledger.GroupConfig{})
	if _, err := o.Settle(t.Context(), make([]ledger.Settlement, 2)); !ledger.Unknown(err) {
		t.Fatalf("%v, want an unknown answer", err)
	}
}

func TestUnwrap(t *testing.T) {
	l := memory.New()
	o, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	g := ledger.Group(ledger.Group(o, ledger.GroupConfig{}), ledger.GroupConfig{})
	if own := ledger.Unwrap(o); ledger.Unwrap(g) != own || ledger.Unwrap(own) != own || g.ID() != o.ID() {
		t.Fatal("Unwrap does not find the store's owner")
	}
	if err := g.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Beat(t.Context()); !ledger.IsLost(err) {
		t.Fatalf("beat after leaving through the group: %v", err)
	}
}
