package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Bounds of a transaction that calls share: the first of them waits for the last.
const (
	sharedCalls = 1000
	sharedItems = 100                   // a call of more is carried out by itself
	sharedTime  = 20 * time.Millisecond // after that it takes no more
)

// errShared says that nothing was written, for a fault of another call.
var errShared = errors.New("the transaction that it shared with other calls was rolled back")

// sharer is a call that waits to be carried out, in a transaction of its own or of another call.
type sharer struct {
	n     uint64 // of its coming
	came  time.Time
	items int
	ctx   context.Context
	fn    func(context.Context, *sql.Tx) error
	err   error
	done  chan struct{} // closed once err is there
}

// run is the call's part of a transaction.
func (s *sharer) run(tx *sql.Tx) error {
	got := time.Now()
	if err := s.fn(context.WithoutCancel(s.ctx), tx); err != nil {
		return err
	}
	return tooLate(s.ctx, s.came, got)
}

// share is as do, for short calls of which many come at once: whoever has the turn carries out those that wait for it, too, in
// one transaction with one flush to the disk, as long as nobody's time in it is up. Each waits for its own time only, and
// fails by itself.
func (w *writer) share(ctx context.Context, items int, fn func(context.Context, *sql.Tx) error) error {
	s := &sharer{came: time.Now(), items: items, ctx: ctx, fn: fn, done: make(chan struct{})}
	wait, cancel := waiting(ctx)
	defer cancel()
	w.mu.Lock()
	w.came++
	s.n = w.came
	w.sharers = append(w.sharers, s)
	w.mu.Unlock()
	select {
	case w.turn <- struct{}{}: // free: taken even if wait is over, as by take
	default:
		select {
		case w.turn <- struct{}{}:
		case <-s.done:
			return s.err
		case <-wait.Done():
			if w.leave(s) {
				return gaveUp(wait)
			}
			<-s.done
			return s.err
		}
	}
	defer w.turn.give()
	if !w.leave(s) { // carried out by whoever had the turn before
		<-s.done
		return s.err
	}
	var last uint64
	tx, err := begin(wait, func(ctx context.Context) (*sql.Tx, error) {
		w.mu.Lock()
		last = w.came
		w.mu.Unlock()
		return w.db.BeginTx(ctx, nil)
	})
	if err != nil {
		return err
	}
	return w.carryOut(s, last, tx)
}

// carryOut carries out first, and those that came until last, before BEGIN: the transaction reads the owners' file as it was
// then, and whoever came later must find what others had written to it by that time.
func (w *writer) carryOut(first *sharer, last uint64, tx *sql.Tx) error {
	end := time.Now().Add(sharedTime)
	var others []*sharer
	over := false
	defer func() {
		if !over { // a call of the others panicked
			_ = tx.Rollback()
			tell(others, errShared)
		}
	}()
	if err := first.run(tx); err != nil {
		over = true
		return errors.Join(err, ended(tx.Rollback()))
	}
	var broken error
	for s := first; broken == nil && len(others) < sharedCalls; {
		if due, ok := s.ctx.Deadline(); ok && due.Before(end) {
			end = due
		}
		if !time.Now().Before(end) {
			break
		}
		if s = w.next(last); s == nil {
			break
		}
		others = append(others, s)
		s.err, broken = inside(s, tx)
	}
	over = true
	if broken != nil {
		broken = errors.Join(fmt.Errorf("%w: %w", errShared, broken), ended(tx.Rollback()))
	} else if err := tx.Commit(); err != nil {
		broken = commitError(err)
	}
	tell(others, broken)
	return broken
}

// tell answers calls that shared a transaction with what became of it, unless they have failed by themselves.
func tell(all []*sharer, err error) {
	for _, s := range all {
		if s.err == nil {
			s.err = err
		}
		close(s.done)
	}
}

// inside carries out a call so that its failure undoes what it did alone. broken says that the whole transaction is over.
func inside(s *sharer, tx *sql.Tx) (err, broken error) {
	ctx := context.WithoutCancel(s.ctx)
	if _, broken := tx.ExecContext(ctx, "SAVEPOINT ackledger_call"); broken != nil {
		return nil, broken
	}
	if err = s.run(tx); err != nil {
		if _, back := tx.ExecContext(ctx, "ROLLBACK TO ackledger_call"); back != nil {
			return err, fmt.Errorf("%w, after: %s", back, err.Error())
		}
	}
	_, broken = tx.ExecContext(ctx, "RELEASE ackledger_call")
	return err, broken
}

// next takes the call that has waited longest, if it came until last and is short.
func (w *writer) next(last uint64) *sharer {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.sharers) == 0 || w.sharers[0].n > last || w.sharers[0].items > sharedItems {
		return nil
	}
	s := w.sharers[0]
	w.sharers = slices.Delete(w.sharers, 0, 1)
	return s
}

// leave takes a call out of those that wait. It says whether it was there: else somebody carries it out, or has.
func (w *writer) leave(s *sharer) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.sharers, s)
	if i < 0 {
		return false
	}
	w.sharers = slices.Delete(w.sharers, i, i+1)
	return true
}
