package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/ackledger/ackledger/ledger"
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
const splitWait = 10 * time.Millisecond

// leanWait is how long the statements that go ahead wait for a lock (sqlFresh, sqlSucceed). Their batch has lost nothing by
// then: the full statement takes their place.
const leanWait = 10 * time.Millisecond

// refused says whether a statement that went ahead wrote nothing, for a reason that the full one can deal with: another
// transaction took a key (23505) or holds a row, or the values of one item.
func refused(err error) bool {
	if ledger.Unknown(err) {
		return false
	}
	switch code(err) {
	case codeLockTimeout, codeSerialization, codeDeadlock:
		return true
	}
	return isData(err)
}

// splitter sends parts of a batch so that one bad item costs its neighbours nothing.
type splitter struct {
	// exec sends one part in one statement, which waits at most so long for a lock.
	exec func(ctx context.Context, part []int32, wait time.Duration) error
	// locked notes the one item whose lock another transaction holds.
	locked func(item int32, err error)
	// refused notes the one item whose values the database refuses.
	refused func(item int32, err error)

	wrote bool // a part was carried out
}

// run sends part, and splits it as need be. After an error whatever was carried out has no answer, so then the error is
// an unknown one.
func (s *splitter) run(ctx context.Context, part []int32, wait time.Duration) error {
	err := s.part(ctx, part, wait)
	if err != nil && s.wrote && !ledger.IsLost(err) {
		return ledger.MarkUnknown(err)
	}
	return err
}

func (s *splitter) part(ctx context.Context, part []int32, wait time.Duration) error {
	err := s.try(ctx, part, wait)
	stuck, data := code(err) == codeLockTimeout, isData(err)
	switch {
	case err == nil:
		s.wrote = true
		return nil
	case !stuck && !data:
		return err
	case len(part) == 1 && stuck:
		s.locked(part[0], err)
		return nil
	case len(part) == 1:
		s.refused(part[0], err)
		return nil
	}
	if stuck {
		wait = min(wait, splitWait)
	}
	half := len(part) / 2
	if err := s.part(ctx, part[:half], wait); err != nil {
		return err
	}
	return s.part(ctx, part[half:], wait)
}

// try sends a part, again if the database chose it as the victim of a deadlock or of a serialization failure.
func (s *splitter) try(ctx context.Context, part []int32, wait time.Duration) error {
	pause := firstPause
	for tries := 1; ; tries++ {
		err := s.exec(ctx, part, wait)
		if c := code(err); c != codeSerialization && c != codeDeadlock || tries == maxTries || ledger.Unknown(err) {
			return err
		}
		timer := time.NewTimer(pause + rand.N(pause))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("postgres: %w (last: %w)", ctx.Err(), err)
		}
		pause *= 2
	}
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

// milliseconds is a duration as Postgres' settings take it, at least 1 (0 means no limit).
func milliseconds(d time.Duration) string {
	return strconv.FormatInt(max(d.Milliseconds(), 1), 10)
}
