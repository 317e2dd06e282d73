package items

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
)

// ErrTooLarge is in the error of a write that the table cannot hold: an item is too large, or a transaction has too many. Nothing was
// written.
var ErrTooLarge = driver.ErrTooLarge

// errConflict says that others were ahead each time.
var errConflict = errors.New("ledger: others changed the same messages first")

// Bounds of a call, for [driver.Config].
const (
	Messages = 1000 // Keys: more are split
	Parts    = 20   // of an operator's transaction, with the archives and checks of each
)

// Store implements [driver.Store] and [driver.Apart] on a [Table]. It is safe for concurrent use.
type Store struct {
	table  Table
	bounds Bounds
	began  time.Time // what the watch counts from

	mu     sync.Mutex
	lives  map[driver.OwnerID]*life // owners of this process
	sealed map[driver.OwnerID]driver.Owner
	watch  driver.Watch
	held   map[driver.Key]Item // messages of owners of this process, as they were left
	scopes map[string]bool     // which are known to be listed
	blocks map[Name]bool       // which are known to be marked
	trims  map[trim]int64      // to where segments were trimmed
}

var (
	_ driver.Store = (*Store)(nil)
	_ driver.Apart = (*Store)(nil)
)

// New returns the store in a table. It asks nothing of the table.
func New(table Table) *Store {
	return &Store{table: table, bounds: table.Bounds(), began: time.Now(), lives: map[driver.OwnerID]*life{}, sealed: map[driver.OwnerID]driver.Owner{},
		held: map[driver.Key]Item{}, scopes: map[string]bool{}, blocks: map[Name]bool{}, trims: map[trim]int64{}}
}

// Now implements [driver.Store].
func (s *Store) Now() time.Time { return s.table.Now() }

// Tables implements [driver.Store].
func (s *Store) Tables(ctx context.Context) ([]ledger.TableStats, error) { return s.table.Sizes(ctx) }

// Update implements [driver.Store].
func (s *Store) Update(ctx context.Context, call driver.Call, fn func(driver.Tx) error) error {
	var set *Set
	for n := 0; ; n++ {
		names := namesOf(call)
		if set != nil { // what it meets it may not have read
			for _, c := range set.Changes {
				names = append(names, c.Name)
			}
		}
		var err error
		if set, err = s.try(ctx, call, names, fn); set == nil || err != nil {
			return err
		}
		if why := Rest(ctx, min(n, 6)); why != nil {
			return conflict(why)
		}
	}
}

// try runs a transaction once, on what it may ask for. It returns what it had to write if others were ahead: then it is to be run again.
func (s *Store) try(ctx context.Context, call driver.Call, names []Name, fn func(driver.Tx) error) (behind *Set, err error) {
	known := map[Name]Item{}
	if err := s.fetch(ctx, names, known); err != nil {
		return nil, err
	}
	t := s.newTx(ctx, call.Op, known)
	err = fn(t)
	if len(t.wants) > 0 {
		return &Set{}, nil
	}
	if err == nil {
		err = t.finish()
	}
	if err != nil {
		return nil, err
	}
	set, writes := t.set()
	if writes == 0 && call.Op == driver.Settle {
		writes = t.touch(set)
	}
	if writes == 0 {
		return nil, nil
	}
	if err := s.write(ctx, set); err != nil || !set.Written {
		return set, err
	}
	return nil, t.after()
}

// write writes sets, and remembers what was written.
func (s *Store) write(ctx context.Context, sets ...*Set) error {
	if len(sets) == 0 {
		return nil
	}
	for _, set := range sets {
		if n := len(set.Changes); n > s.bounds.Set {
			return fmt.Errorf("%w: a transaction of %d items, at most %d", ErrTooLarge, n, s.bounds.Set)
		}
	}
	err := s.table.Write(ctx, sets)
	for _, set := range sets {
		if set.Written {
			s.Remember(set)
		}
	}
	return err
}

// namesOf are the items that a call says it will ask for.
func namesOf(call driver.Call) (names []Name) {
	if call.Keys != nil {
		for key := range call.Keys {
			names = append(names, MessageName(key))
		}
	}
	for _, id := range call.Logs {
		names = append(names, logName(id))
	}
	return names
}

// viewTries is how often a view is read until no message has changed while it was.
const viewTries = 10

// View implements [driver.Store]: each item is as it is at some moment of the call, and a message with its archive and steps as they are at
// one; so with its log.
func (s *Store) View(ctx context.Context, call driver.Call, fn func(driver.Reader) error) error {
	for n := 1; ; n++ {
		known := map[Name]Item{}
		if err := s.fetch(ctx, namesOf(call), known); err != nil {
			return err
		}
		t := s.newTx(ctx, call.Op, known)
		err := fn(t)
		if errors.Is(err, errPart) && n < viewTries {
			continue
		}
		if err != nil || !t.skewed {
			return err
		}
		same, err := t.unchanged(t.messages())
		if err != nil || same || n == viewTries {
			return err
		}
	}
}

// messages are the messages that a transaction knows of.
func (t *tx) messages() (names []Name) {
	for n := range t.cells {
		if isMessage(n) {
			names = append(names, n)
		}
	}
	return names
}

// unchanged says whether items are as they were when they were read.
func (t *tx) unchanged(names []Name) (bool, error) {
	found, err := t.table.Get(t.ctx, names)
	for _, n := range names {
		if !found[n][Version].Equal(t.cells[n].was[Version]) {
			return false, err
		}
	}
	return true, err
}

// fetch reads what is wanted.
func (s *Store) fetch(ctx context.Context, names []Name, known map[Name]Item) error {
	if len(names) == 0 {
		return nil
	}
	slices.SortFunc(names, Name.Compare)
	names = slices.Compact(names)
	found, err := s.table.Get(ctx, names)
	for _, n := range names {
		known[n] = found[n]
	}
	return err
}

// collect are the first items of a query, at most so many.
func (s *Store) collect(ctx context.Context, q Query, most int) (list []Item, err error) {
	if q.Most == 0 {
		q.Most = most
	}
	for i, err := range s.table.Query(ctx, q) {
		if err != nil {
			return nil, err
		}
		if list = append(list, i); len(list) == most {
			break
		}
	}
	return list, nil
}

// Fenced is what the attempts of a fence have to write when they succeed, for a transaction that is more than a [Table] can do. Of what
// this process remembers nothing is read, unless it is to be read afresh. Whoever has written the set calls [Store.Remember].
func (s *Store) Fenced(ctx context.Context, f *driver.Fence, afresh bool) (*Set, error) {
	t := s.newTx(ctx, driver.Settle, map[Name]Item{})
	t.trust = !afresh
	err := f.Write(t)
	if err == nil {
		err = t.finish()
	}
	set, _ := t.set()
	return set, err
}

// conflict is the error of a call that others were ahead of until its time was over.
func conflict(why error) error {
	return driver.MarkBusy(fmt.Errorf("%w until its time was over (%w)", errConflict, why))
}

// patience is how long a request is repeated for which the table has no room, while the rest of its call waits for it.
const patience = time.Second

var errPatience = errors.New("the rest of its call waits")

type untilKey struct{}

// impatient is the context of requests that others wait for.
func impatient(ctx context.Context) context.Context {
	return context.WithValue(ctx, untilKey{}, time.Now().Add(patience))
}

const (
	// restFirst and restMost bound the pause before something is tried again.
	restFirst = 10 * time.Millisecond
	restMost  = 2 * time.Second
)

// Rest waits before the n-th repetition, counted from 0: by chance, so that those who met each other do not come together again. It
// returns why there is to be none: ctx has ended, or others of the same call have waited for long.
func Rest(ctx context.Context, n int) error {
	if until, is := ctx.Value(untilKey{}).(time.Time); is && time.Now().After(until) {
		return errPatience
	}
	most := min(restFirst<<min(n, 10), restMost)
	t := time.NewTimer(time.Duration(rand.Int64N(int64(most))) + time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
