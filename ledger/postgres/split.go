package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// Bounds of one statement: what is more goes in several.
const (
	maxItems = 2000
	maxBytes = 8 << 20 // one larger item goes alone
)

// How often a statement is tried that the database gave up for another one's sake, and the first pause before that.
const (
	maxTries   = 6
	firstPause = 2 * time.Millisecond
)

// splitWait is how long a part of a batch waits for a lock when the whole has waited already.
const splitWait = 2 * time.Millisecond

// splitLimit is how long a batch is split at most for the sake of locks: that, or half of what its call has left, so that what
// was written gets its answer. One locked item of 2,000 takes 22 parts.
const splitLimit = 500 * time.Millisecond

// leanWait is how long the statements that go ahead wait for a lock (sqlFresh, sqlSucceed). Their batch has lost nothing by
// then: the full statement takes their place.
const leanWait = 10 * time.Millisecond

// refused says whether a statement that went ahead wrote nothing, for a reason that the full one can deal with: another
// transaction took a key (23505) or holds a row, or the values of one item.
func refused(err error) bool {
	return !ledger.Unknown(err) && (code(err) == codeLockTimeout || isTransient(err) || isData(err))
}

// splitter sends parts of a batch so that one bad item costs its neighbours nothing.
type splitter struct {
	// exec sends one part in one statement, which waits at most so long for a lock.
	exec func(ctx context.Context, part []int32, wait time.Duration) error
	// locked notes an item whose lock another transaction holds, or for which alone the database takes too long (57014), or that
	// shares a part with such a one.
	locked func(item int32, err error)
	// refused notes the one item whose values the database refuses.
	refused func(item int32, err error)

	wrote bool // a part was carried out
	slow  bool // the database canceled a part
	most  int  // parts with more items take the database too long; 0: none is known to
	fits  int  // the longest part that did not
}

// run sends part, and splits it as need be. After an error whatever was carried out has no answer, so then the error is
// an unknown one.
func (s *splitter) run(ctx context.Context, part []int32, wait time.Duration) error {
	err := s.parts(ctx, part, wait)
	return storage.MarkPartly(s.wrote, err)
}

// parts sends a batch, and halves of what is refused, waits for a lock, or takes too long. Once a lock was waited for in vain that
// goes on for splitLimit at most, and once a part took too long as long as there is time for another such one: what is undecided
// then is noted as locked, so that such items can neither keep the others for long nor make their call fail. Parts are taken at
// random: when the batch is asked again, others of it are decided.
//
// What the database cancels (57014) takes too long: a role may have a statement_timeout. But the first time it may have waited for
// a lock, or have been an operator's hand: so that part is sent once more as it is, with less patience for locks.
func (s *splitter) parts(ctx context.Context, whole []int32, wait time.Duration) error {
	began, end := time.Now(), ledger.CallTimeout
	if deadline, ok := ctx.Deadline(); ok {
		end = deadline.Sub(began)
	}
	until, locked := end, false // when halving ends
	var why error               // what began it
	for left := [][]int32{whole}; len(left) > 0; {
		if why != nil && time.Since(began) >= until {
			for _, item := range slices.Concat(left...) {
				s.locked(item, why)
			}
			return nil
		}
		at, last := rand.IntN(len(left)), len(left)-1
		part := left[at]
		left[at], left = left[last], left[:last]
		half := len(part) / 2
		if s.most > 0 && len(part) > s.most {
			left = append(left, part[:half], part[half:])
			continue
		}
		before := time.Since(began)
		err := s.try(ctx, part, wait)
		now := time.Since(began)
		stuck, slow, data := code(err) == codeLockTimeout, isCanceled(err) && ctx.Err() == nil, isData(err)
		if stuck || slow {
			why, wait = err, min(wait, splitWait)
		}
		if stuck && !locked {
			locked = true
			until = min(until, now+min(splitLimit, (end-now)/2))
		}
		if slow {
			until = min(until, end-(now-before))
			if !s.slow {
				s.slow, left = true, append(left, part)
				continue
			}
			s.most = max(half, s.fits) // if as many items did fit, it is for the sake of one
		}
		switch {
		case err == nil:
			s.wrote, s.fits = true, max(s.fits, len(part))
		case !stuck && !slow && !data:
			return err
		case half > 0:
			left = append(left, part[:half], part[half:])
		case data:
			s.refused(part[0], err)
		default:
			s.locked(part[0], err)
		}
	}
	return nil
}

// try sends a part, again if the database chose it as the victim of a deadlock or of a serialization failure. If it canceled the
// part, only no part at all is sent again: an update of ranges, which cannot be halved.
func (s *splitter) try(ctx context.Context, part []int32, wait time.Duration) error {
	pause := firstPause
	for tries := 1; ; tries++ {
		err := s.exec(ctx, part, wait)
		if !isTransient(err) || tries == maxTries || isCanceled(err) && len(part) > 0 {
			return err
		}
		select {
		case <-time.After(pause + rand.N(pause)):
		case <-ctx.Done():
			return fmt.Errorf("postgres: %w (last: %w)", ctx.Err(), err)
		}
		pause *= 2
	}
}

// wroteOf says which of a part a statement wrote: all, or those with these keys.
func wroteOf(part []int32, written int, keys [][ledger.KeySize]byte) func([ledger.KeySize]byte) bool {
	if written == len(part) {
		return func([ledger.KeySize]byte) bool { return true }
	}
	these := among(keys)
	return func(key [ledger.KeySize]byte) bool { return these[key] }
}

// chunks cuts items into parts of at most maxItems and maxBytes.
func chunks(items []int32, size func(int32) int) [][]int32 {
	var out [][]int32
	from, bytes := 0, 0
	for i, item := range items {
		n := size(item)
		if i > from && (i-from >= maxItems || bytes+n > maxBytes) {
			out = append(out, items[from:i])
			from, bytes = i, 0
		}
		bytes += n
	}
	if from < len(items) {
		out = append(out, items[from:])
	}
	return out
}
