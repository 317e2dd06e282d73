package postgres

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ackledger/ackledger/ledger"
)

// slowServer carries out parts of a batch as a server would: those with a bad item end with an error after a while.
type slowServer struct {
	bad   func(part []int32) bool
	code  string
	takes time.Duration // until the error of a bad part; 0: as long as a part waits for a lock
	done  map[int32]bool
	calls int
}

func (f *slowServer) exec(ctx context.Context, part []int32, wait time.Duration) error {
	f.calls++
	bad := f.bad(part)
	takes := time.Millisecond
	switch {
	case bad && f.takes > 0:
		takes = f.takes
	case bad:
		takes = wait
	}
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return ledger.MarkUnknown(ctx.Err())
	}
	if bad {
		return &pgconn.PgError{Severity: "ERROR", Code: f.code}
	}
	for _, i := range part {
		f.done[i] = true
	}
	return nil
}

// splitFor splits 2,000 items for so long. It says how many items had another's lock, or were too slow, and the time it took.
func splitFor(t *testing.T, f *slowServer, limit, wait time.Duration) (left int, took time.Duration, err error) {
	t.Helper()
	f.done = map[int32]bool{}
	items := make([]int32, 2000)
	for i := range items {
		items[i] = int32(i)
	}
	s := &splitter{exec: f.exec, locked: func(item int32, err error) {
		if left++; f.done[item] || code(err) != f.code {
			t.Errorf("item %d, done %v, is left for %v", item, f.done[item], err)
		}
	}}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	began := time.Now()
	err = s.run(ctx, items, wait)
	if err == nil && left+len(f.done) != len(items) {
		t.Errorf("%d items done, %d left", len(f.done), left)
	}
	return left, time.Since(began), err
}

// TestSplitEndsBeforeItsCall: a batch with many locked items was split for half a second whatever time its call had left, so a
// call that had less ended in the middle, without an answer for what was written.
func TestSplitEndsBeforeItsCall(t *testing.T) {
	t.Parallel()
	locked := func(part []int32) bool { return slices.ContainsFunc(part, func(i int32) bool { return i < 500 }) }
	for limit, want := range map[time.Duration]time.Duration{
		100 * time.Millisecond: 60 * time.Millisecond, 300 * time.Millisecond: 160 * time.Millisecond, 10 * time.Second: 520 * time.Millisecond,
	} {
		t.Run(limit.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &slowServer{bad: locked, code: codeLockTimeout}
				left, took, err := splitFor(t, f, limit, 20*time.Millisecond)
				if err != nil || left < 500 || len(f.done) == 0 || took > want+2*splitWait {
					t.Errorf("%d left, %d done after %s: %v", left, len(f.done), took, err)
				}
			})
		})
	}
}

// TestSplitTooSlow: the database canceled a batch each time (a role's statement_timeout), and it was sent whole until its call
// ended. Two tries tell that it is too long; what fits is found in a few steps.
func TestSplitTooSlow(t *testing.T) {
	t.Parallel()
	poison := func(part []int32) bool { return slices.Contains(part, 1234) }
	for name, c := range map[string]struct {
		bad   func(part []int32) bool
		takes time.Duration
		left  int           // how many get no answer
		most  time.Duration // it takes
	}{
		"more than 100":   {func(part []int32) bool { return len(part) > 100 }, time.Second, 0, 7 * time.Second},
		"one":             {poison, 400 * time.Millisecond, 1, 7 * time.Second},
		"all":             {func([]int32) bool { return true }, time.Second, 2000, 12 * time.Second},
		"all, for long":   {func([]int32) bool { return true }, 4 * time.Second, 2000, 9 * time.Second},
		"more than 1,000": {func(part []int32) bool { return len(part) > 1000 }, 3 * time.Second, 0, 7 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &slowServer{bad: c.bad, code: codeCanceled, takes: c.takes}
				left, took, err := splitFor(t, f, 12*time.Second, 20*time.Millisecond)
				if err != nil || left != c.left || took > c.most || f.calls > 600 {
					t.Errorf("%d left, %d done after %s in %d statements: %v", left, len(f.done), took, f.calls, err)
				}
			})
		})
	}
}

// TestChunks: all items go out, in their order and in parts of a bounded size; one that is larger goes alone.
func TestChunks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		items, bytes int
		want         []int
	}{
		"none": {0, 1, nil}, "one": {1, 1, []int{1}}, "as many as may be": {maxItems, 1, []int{maxItems}},
		"many":  {2*maxItems + 500, 1, []int{maxItems, maxItems, 500}},
		"heavy": {5, maxBytes / 2, []int{2, 2, 1}}, "too heavy": {3, maxBytes + 1, []int{1, 1, 1}},
	} {
		items := make([]int32, c.items)
		for i := range items {
			items[i] = int32(i)
		}
		var sizes []int
		parts := chunks(items, func(int32) int { return c.bytes })
		for _, part := range parts {
			sizes = append(sizes, len(part))
		}
		if !slices.Equal(sizes, c.want) || !slices.Equal(slices.Concat(parts...), items) {
			t.Errorf("%s: parts of %v, want %v", name, sizes, c.want)
		}
	}
}

// TestSplitFailsLate: after a part was carried out the error of another is unknown, or a lost owner's: never one that says that
// nothing was written.
func TestSplitFailsLate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err           error
		unknown, lost bool
	}{{errors.New("the server is away"), true, false}, {ledger.ErrLost, false, true}} {
		calls := 0
		s := &splitter{exec: func(context.Context, []int32, time.Duration) error {
			if calls++; calls == 1 {
				return nil
			}
			return c.err
		}}
		if err := s.run(t.Context(), []int32{0}, time.Second); err != nil {
			t.Fatal(err)
		}
		if err := s.run(t.Context(), []int32{1}, time.Second); ledger.Unknown(err) != c.unknown || ledger.IsLost(err) != c.lost {
			t.Errorf("%v: %v", c.err, err)
		}
	}
}

// TestTriesPauseLonger: what the database gives up for another's sake is sent again after a pause that doubles each time.
func TestTriesPauseLonger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &slowServer{bad: func([]int32) bool { return true }, code: codeDeadlock, takes: time.Nanosecond, done: map[int32]bool{}}
		began := time.Now()
		err := (&splitter{exec: f.exec}).try(t.Context(), []int32{0}, time.Second)
		least := firstPause * (1<<(maxTries-1) - 1)
		if took := time.Since(began); code(err) != codeDeadlock || f.calls != maxTries || took < least || took > 2*least+time.Millisecond {
			t.Errorf("%d tries in %s: %v", f.calls, took, err)
		}
	})
}
