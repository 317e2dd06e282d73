package itemstest

import (
	"context"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver/items"
)

// Table is a table in memory. It is safe for concurrent use.
type Table struct {
	mu      sync.Mutex
	there   map[items.Name]items.Item
	shift   time.Duration
	chance  *rand.Rand
	ahead   float64
	written int
}

var _ items.Table = (*Table)(nil)

// NewTable returns an empty table. Ahead of that share of all sets, 0 to 1, somebody else writes what they change, as it is: the seed draws
// which.
func NewTable(ahead float64, seed uint64) *Table {
	return &Table{there: map[items.Name]items.Item{}, chance: rand.New(rand.NewPCG(seed, seed)), ahead: ahead}
}

// Age lets time pass.
func (t *Table) Age(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.shift += d
}

// Written is how many sets were carried out.
func (t *Table) Written() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.written
}

// Now implements [items.Table].
func (t *Table) Now() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Now().Add(t.shift)
}

// Bounds implements [items.Table]: those of DynamoDB.
func (t *Table) Bounds() items.Bounds { return items.Bounds{Item: 400 << 10, Set: 100, Get: 100} }

// Get implements [items.Table].
func (t *Table) Get(ctx context.Context, names []items.Name) (map[items.Name]items.Item, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	found := map[items.Name]items.Item{}
	for _, n := range names {
		if i := t.there[n]; i != nil {
			found[n] = i
		}
	}
	return found, ctx.Err()
}

// Any implements [items.Table].
func (t *Table) Any(ctx context.Context, places []string) (map[string]bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	some := map[string]bool{}
	for n := range t.there {
		some[n.Place] = true
	}
	maps.DeleteFunc(some, func(place string, _ bool) bool { return !slices.Contains(places, place) })
	return some, ctx.Err()
}

// Query implements [items.Table].
func (t *Table) Query(ctx context.Context, q items.Query) iter.Seq2[items.Item, error] {
	place, sort := items.Place, items.Sort
	if q.Index != nil {
		place, sort = q.Index.Place, q.Index.Sort
	}
	t.mu.Lock()
	var found []items.Item
	for _, i := range t.there {
		in, listed := i[place]
		at := string(i[sort].Bytes)
		if listed && string(in.Bytes) == q.Place && strings.HasPrefix(at, q.Prefix) && at >= q.From && (q.To == "" || at < q.To) {
			found = append(found, i)
		}
	}
	t.mu.Unlock()
	slices.SortFunc(found, func(a, b items.Item) int {
		if by := strings.Compare(string(a[sort].Bytes), string(b[sort].Bytes)); by != 0 {
			return by
		}
		return items.NameOf(a).Compare(items.NameOf(b))
	})
	if q.Down {
		slices.Reverse(found)
	}
	return func(yield func(items.Item, error) bool) {
		for _, i := range found {
			if !yield(i, ctx.Err()) {
				return
			}
		}
	}
}

// Scan implements [items.Table].
func (t *Table) Scan(ctx context.Context, s items.Scan) (page []items.Item, last items.Name, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	names := slices.SortedFunc(maps.Keys(t.there), items.Name.Compare)
	from, met := slices.BinarySearchFunc(names, s.Behind, items.Name.Compare)
	if met {
		from++
	}
	to := min(from+s.Most, len(names))
	for _, n := range names[from:to] {
		if strings.HasPrefix(n.Place, s.Place) && slices.ContainsFunc(s.Sorts, func(begin string) bool { return strings.HasPrefix(n.Sort, begin) }) {
			page = append(page, t.there[n])
		}
	}
	if to < len(names) {
		last = names[to-1]
	}
	return page, last, ctx.Err()
}

// Write implements [items.Table].
func (t *Table) Write(ctx context.Context, sets []*items.Set) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, set := range sets {
		if t.chance.Float64() < t.ahead {
			t.disturb(set)
		}
		for _, c := range set.Changes {
			if is := t.there[c.Name]; (is == nil) != (c.Was == nil) || !is[items.Version].Equal(c.Was[items.Version]) {
				set.Behind = true
				if len(set.Changes) == 1 && t.chance.IntN(2) == 0 {
					set.Stands = is
				}
			}
		}
		if set.Behind {
			continue
		}
		t.written++
		set.Written = true
		for _, c := range set.Changes {
			switch {
			case c.Check:
			case c.Is == nil:
				delete(t.there, c.Name)
			default:
				t.there[c.Name] = c.Is
			}
		}
	}
	return nil
}

// disturb writes an item of a set as it is: its version is another one then.
func (t *Table) disturb(set *items.Set) {
	c := set.Changes[t.chance.IntN(len(set.Changes))]
	if is := t.there[c.Name]; is != nil {
		again := maps.Clone(is)
		again[items.Version] = items.Number(t.chance.Int64())
		t.there[c.Name] = again
	}
}

// Put implements [items.Table].
func (t *Table) Put(ctx context.Context, list []items.Item) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, i := range list {
		t.there[items.NameOf(i)] = i
	}
	return nil
}

// Delete implements [items.Table].
func (t *Table) Delete(ctx context.Context, names []items.Name) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, n := range names {
		delete(t.there, n)
	}
	return nil
}

// Add implements [items.Table].
func (t *Table) Add(ctx context.Context, n items.Name, sums, first items.Item) (items.Item, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	is := n.Item()
	maps.Copy(is, first)
	maps.Copy(is, t.there[n])
	for attr, v := range sums {
		is[attr] = items.Number(is[attr].Number + v.Number)
	}
	t.there[n] = is
	return is, nil
}

// Sizes implements [items.Table].
func (t *Table) Sizes(context.Context) ([]ledger.TableStats, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return []ledger.TableStats{{Name: "memory", Rows: int64(len(t.there))}}, nil
}
