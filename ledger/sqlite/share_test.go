package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// bubble runs a test with a clock that stands still while anything runs: what calls of a transaction may take of sharedTime is
// the test's to say, whatever else the machine does.
func bubble(t *testing.T, fn func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, fn)
}

// newShared opens a writer of a file with one table, and holds its turn until release is called, and all of n calls wait.
func newShared(t *testing.T, n int) (w *writer, release func()) {
	t.Helper()
	c, err := newConnector(filepath.Join(t.TempDir(), "shared.db"))
	if err != nil {
		t.Fatal(err)
	}
	w = &writer{db: openPool(c, 1), turn: newTurn()}
	t.Cleanup(func() {
		if err := w.db.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := w.db.ExecContext(t.Context(), "CREATE TABLE call (n INTEGER)"); err != nil {
		t.Fatal(err)
	}
	if err := w.turn.take(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w, func() {
		t.Helper()
		synctest.Wait()
		w.mu.Lock()
		waiting := len(w.sharers)
		w.mu.Unlock()
		if waiting != n {
			t.Fatalf("%d calls wait, want %d", waiting, n)
		}
		w.turn.give()
	}
}

// write is a call that leaves its number.
func write(n int) func(context.Context, *sql.Tx) error {
	return func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO call VALUES (?)", n)
		return err
	}
}

// written are the numbers of the calls whose work is there.
func written(t *testing.T, w *writer) string {
	t.Helper()
	var all sql.NullString
	if err := w.db.QueryRowContext(t.Context(), "SELECT group_concat(n, ' ') FROM (SELECT n FROM call ORDER BY n)").Scan(&all); err != nil {
		t.Fatal(err)
	}
	return all.String
}

// inTurn makes calls of so many items, which wait in their order.
func (w *writer) inTurn(t *testing.T, items int, calls ...func(context.Context, *sql.Tx) error) (done []chan error) {
	t.Helper()
	for _, fn := range calls {
		c := make(chan error, 1)
		done = append(done, c)
		go func() { c <- w.share(t.Context(), items, fn) }()
		synctest.Wait()
	}
	return done
}

// TestShare: calls that wait together share a transaction; each alone takes a flush to the disk of its own.
func TestShare(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const calls = 100
		w, release := newShared(t, calls)
		var mu sync.Mutex
		transactions := make(map[*sql.Tx]int)
		var all sync.WaitGroup
		for n := range calls {
			all.Go(func() {
				err := w.share(t.Context(), 1, func(ctx context.Context, tx *sql.Tx) error {
					mu.Lock()
					transactions[tx]++
					mu.Unlock()
					return write(n)(ctx, tx)
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		release()
		all.Wait()
		var n int
		if err := w.db.QueryRowContext(t.Context(), "SELECT count(DISTINCT n) FROM call").Scan(&n); err != nil || n != calls {
			t.Errorf("%d calls have written, %v", n, err)
		}
		if len(transactions) != 1 {
			t.Errorf("%d calls took %d transactions", calls, len(transactions))
		}
	})
}

// TestShareFailsAlone: of calls that share a transaction one that fails, or is late, has written nothing, and the others have.
func TestShareFailsAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, release := newShared(t, 4)
		broken := errors.New("broken")
		late, end := context.WithCancel(t.Context())
		calls := []struct {
			ctx context.Context
			fn  func(context.Context, *sql.Tx) error
		}{
			{t.Context(), write(0)},
			{t.Context(), func(ctx context.Context, tx *sql.Tx) error { return errors.Join(write(1)(ctx, tx), broken) }},
			{late, func(ctx context.Context, tx *sql.Tx) error { end(); return write(2)(ctx, tx) }},
			{t.Context(), write(3)},
		}
		errs := make([]error, len(calls))
		var all sync.WaitGroup
		for i, c := range calls {
			all.Go(func() { errs[i] = w.share(c.ctx, 1, c.fn) })
		}
		release()
		all.Wait()
		if errs[0] != nil || !errors.Is(errs[1], broken) || !errors.Is(errs[2], errTooLate) || errs[3] != nil {
			t.Errorf("%v", errs)
		}
		if got := written(t, w); got != "0 3" {
			t.Errorf("written by %s", got)
		}
	})
}

// TestShareIsBusy: a call whose time goes by while it waits is not carried out, by nobody.
func TestShareIsBusy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, release := newShared(t, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := w.share(ctx, 1, write(0)); !errors.Is(err, ErrBusy) || ledger.Unknown(err) {
			t.Errorf("%v, want ErrBusy", err)
		}
		done := make(chan error, 1)
		go func() { done <- w.share(t.Context(), 1, write(1)) }()
		release()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got := written(t, w); got != "1" {
			t.Errorf("written by %s", got)
		}
	})
}

// TestShareRolledBack: SQLite ends a transaction by itself where the disk is full. Those that shared it hear that nothing was
// written, and those that waited are carried out.
func TestShareRolledBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, release := newShared(t, 3)
		full := errors.New("as if the disk were full")
		done := w.inTurn(t, 1, write(0), func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "ROLLBACK")
			return errors.Join(err, full)
		}, write(2))
		release()
		first, second, third := <-done[0], <-done[1], <-done[2]
		if !errors.Is(first, errShared) || errors.Is(first, full) || ledger.Unknown(first) || !errors.Is(second, full) || third != nil {
			t.Errorf("%v; %v; %v", first, second, third)
		}
		if got := written(t, w); got != "2" {
			t.Errorf("written by %s", got)
		}
	})
}

// TestShareComesLate: a transaction reads the owners' file as it was at its BEGIN. A call that came later, of an owner that
// joined meanwhile, found itself dead.
func TestShareComesLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, release := newShared(t, 1)
		var first, second *sql.Tx
		done := make(chan error, 2)
		go func() {
			done <- w.share(t.Context(), 1, func(_ context.Context, tx *sql.Tx) error {
				first = tx
				go func() {
					done <- w.share(t.Context(), 1, func(_ context.Context, tx *sql.Tx) error {
						second = tx
						return nil
					})
				}()
				for waiting := 0; waiting == 0; runtime.Gosched() {
					w.mu.Lock()
					waiting = len(w.sharers)
					w.mu.Unlock()
				}
				return nil
			})
		}()
		release()
		if err := errors.Join(<-done, <-done); err != nil || second == nil || first == second {
			t.Errorf("%v; the second call was in the transaction of the first: %t", err, first == second)
		}
	})
}

// TestShareEnds: a transaction takes no more calls once somebody's time in it is up, and none that are long.
func TestShareEnds(t *testing.T) {
	for name, items := range map[string]int{"a call takes long": 1, "calls of many items": sharedItems + 1} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w, release := newShared(t, 3)
				seen := make([]*sql.Tx, 3)
				calls := make([]func(context.Context, *sql.Tx) error, 3)
				for i := range calls {
					calls[i] = func(_ context.Context, tx *sql.Tx) error {
						seen[i] = tx
						if i == 1 {
							time.Sleep(sharedTime) // the bubble's time
						}
						return nil
					}
				}
				done := w.inTurn(t, items, calls...)
				release()
				for i, c := range done {
					if err := <-c; err != nil {
						t.Errorf("call %d: %v", i, err)
					}
				}
				if seen[1] == seen[2] || items > sharedItems && seen[0] == seen[1] {
					t.Errorf("the first and the second shared a transaction: %t; the second and the third: %t", seen[0] == seen[1], seen[1] == seen[2])
				}
			})
		})
	}
}

// TestShareDeadline: the same for a deadline of one that is in it.
func TestShareDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, release := newShared(t, 3)
		short, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		over := &dueContext{Context: short}
		var first, third *sql.Tx
		led := make(chan error, 1)
		go func() {
			led <- w.share(over, 1, func(_ context.Context, tx *sql.Tx) error { first = tx; return nil })
		}()
		synctest.Wait()
		over.due = time.Now().Add(-time.Second) // from here on
		done := make(chan error, 2)
		for range 2 {
			go func() {
				done <- w.share(t.Context(), 1, func(_ context.Context, tx *sql.Tx) error { third = tx; return nil })
			}()
		}
		release()
		if err := errors.Join(<-led, <-done, <-done); err != nil || first == third {
			t.Errorf("%v; in the transaction of one whose time was up: %t", err, first == third)
		}
	})
}

// dueContext is one whose deadline is another from some time on.
type dueContext struct {
	context.Context
	due time.Time
}

func (c *dueContext) Deadline() (time.Time, bool) {
	if c.due.IsZero() {
		return c.Context.Deadline()
	}
	return c.due, true
}

// TestSharePanics: a panic in one call leaves none of the others waiting.
func TestSharePanics(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, release := newShared(t, 3)
		calls := []func(context.Context, *sql.Tx) error{write(0), func(context.Context, *sql.Tx) error { panic("ouch") }, write(2)}
		var all sync.WaitGroup
		var mu sync.Mutex
		panicked, failed := 0, 0
		for _, fn := range calls {
			all.Go(func() {
				defer func() {
					if recover() != nil {
						mu.Lock()
						defer mu.Unlock()
						panicked++
					}
				}()
				if err := w.share(t.Context(), 1, fn); errors.Is(err, errShared) {
					mu.Lock()
					defer mu.Unlock()
					failed++
				}
			})
			synctest.Wait() // in this order
		}
		release()
		all.Wait()
		if panicked != 1 || failed != 1 {
			t.Errorf("%d calls panicked, %d were rolled back with it", panicked, failed)
		}
		if err := w.share(t.Context(), 1, write(3)); err != nil {
			t.Error(err)
		}
	})
}

// A call had the write lock in the last moments of its time, since another transaction had held it until then, and was late
// with what it wrote: the ledger was said to be unreachable. It is busy, unless its own work was what took the time.
func TestPitfall264_LateAfterTheLock(t *testing.T) {
	calls := map[string]func(w *writer, ctx context.Context, fn func(context.Context, *sql.Tx) error) error{
		"alone": func(w *writer, ctx context.Context, fn func(context.Context, *sql.Tx) error) error {
			return w.do(ctx, fn)
		},
		"shared": func(w *writer, ctx context.Context, fn func(context.Context, *sql.Tx) error) error {
			return w.share(ctx, 1, fn)
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				const whole = 500 * time.Millisecond
				for waits, busy := range map[time.Duration]bool{whole * 4 / 5: true, whole / 5: false} {
					w, release := newShared(t, 0)
					ctx, cancel := context.WithTimeout(t.Context(), whole)
					defer cancel()
					time.AfterFunc(waits, w.turn.give)
					err := call(w, ctx, func(ctx context.Context, tx *sql.Tx) error {
						time.Sleep(whole - waits + time.Millisecond)
						return write(0)(ctx, tx)
					})
					if !errors.Is(err, errTooLate) || errors.Is(err, ErrBusy) != busy || ledger.Unknown(err) {
						t.Errorf("%v of %v went by with waiting: %v", waits, whole, err)
					}
					if err := w.turn.take(t.Context()); err != nil {
						t.Fatal(err)
					}
					release()
					if got := written(t, w); got != "" {
						t.Errorf("written by %s", got)
					}
				}
			})
		})
	}
}
