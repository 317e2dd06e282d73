package items_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
	"github.com/ackledger/ackledger/ledger/driver/items"
	"github.com/ackledger/ackledger/ledger/driver/items/itemstest"
)

// frozen is a way to a table of a process that freezes once, just before it asks or writes what stops says.
type frozen struct {
	items.Table
	stops func(q *items.Query, c *items.Change) bool
	then  func()     // what others do meanwhile
	stale items.Item // what the indexes have
	lost  bool       // the next request without a condition is
	fails error      // nothing is written any more; what is told then
}

func (f *frozen) freeze(q *items.Query, c *items.Change) {
	if f.then != nil && f.stops(q, c) {
		do := f.then
		f.then = nil
		do()
	}
}

func (f *frozen) Query(ctx context.Context, q items.Query) iter.Seq2[items.Item, error] {
	f.freeze(&q, nil)
	if x := q.Index; x != nil && f.stale != nil { // it lags
		return func(yield func(items.Item, error) bool) {
			if string(f.stale[x.Place].Bytes) == q.Place && string(f.stale[x.Sort].Bytes) >= q.From {
				yield(f.stale, nil)
			}
		}
	}
	return f.Table.Query(ctx, q)
}

// Get reads one item after the other. Each counts as a query from its name.
func (f *frozen) Get(ctx context.Context, names []items.Name) (map[items.Name]items.Item, error) {
	found := map[items.Name]items.Item{}
	for _, n := range names {
		f.freeze(&items.Query{Place: n.Place, From: n.Sort}, nil)
		one, err := f.Table.Get(ctx, []items.Name{n})
		if err != nil {
			return nil, err
		}
		maps.Copy(found, one)
	}
	return found, nil
}

// Any counts as a query of names, and it freezes behind that.
func (f *frozen) Any(ctx context.Context, places []string) (map[string]bool, error) {
	defer f.freeze(&items.Query{Place: places[0], Names: true}, nil)
	return f.Table.Any(ctx, places)
}

func (f *frozen) Delete(ctx context.Context, names []items.Name) error {
	if f.loses(len(names)) {
		return errNoAnswer
	}
	for _, n := range names {
		f.freeze(nil, &items.Change{Name: n})
	}
	return f.Table.Delete(ctx, names)
}

func (f *frozen) Put(ctx context.Context, list []items.Item) error {
	if f.loses(len(list)) {
		return errNoAnswer
	}
	for _, i := range list {
		f.freeze(nil, &items.Change{Name: items.NameOf(i), Is: i})
	}
	return f.Table.Put(ctx, list)
}

func (f *frozen) loses(n int) bool {
	is := f.lost && n > 0
	f.lost = f.lost && !is
	return is
}

var errNoAnswer = ledger.MarkUnknown(errors.New("no answer"))

func (f *frozen) Write(ctx context.Context, sets []*items.Set) error {
	for _, set := range sets {
		for i := range set.Changes {
			f.freeze(nil, &set.Changes[i])
		}
	}
	if f.fails != nil {
		return f.fails
	}
	return f.Table.Write(ctx, sets)
}

// world is a table, a ledger on a way to it that freezes, and an owner of another process.
type world struct {
	*testing.T
	table *itemstest.Table
	way   *frozen
	slow  *driver.Ledger
	hooks itemstest.Hooks
	other ledger.Owner
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, table: itemstest.NewTable(0, 1)}
	w.way = &frozen{Table: w.table}
	s := items.New(w.way)
	w.slow = driver.New(s, driver.Config{Name: "items", Limits: ledger.DefaultLimits, Keys: items.Messages, Parts: items.Parts})
	w.hooks = itemstest.Hooks{Store: s, Table: w.table}
	w.other = join(t, w.table)
	return w
}

// joins is an owner of the process that freezes.
func (w *world) joins() ledger.Owner {
	w.Helper()
	o, err := w.slow.Join(w.Context(), time.Minute)
	if err != nil {
		w.Fatal(err)
	}
	return ledger.Ungroup(o)
}

func (w *world) claim(o ledger.Owner, entries ...ledger.Entry) []ledger.Claim {
	w.Helper()
	claims, err := o.Claim(w.Context(), entries)
	if err != nil {
		w.Fatal(err)
	}
	return claims
}

func (w *world) settle(o ledger.Owner, s ledger.Settlement) {
	w.Helper()
	if errs, err := o.Settle(w.Context(), []ledger.Settlement{s}); err != nil || errs[0] != nil {
		w.Fatal(errs, err)
	}
}

func (w *world) sweep() {
	w.Helper()
	if _, err := w.slow.Sweep(w.Context(), ledger.MaintainConfig{}); err != nil {
		w.Fatal(err)
	}
}

// archived are the items of what is archived of a message.
func (w *world) archived(k ledger.Key) (list []items.Item) {
	w.Helper()
	for i, err := range w.table.Query(w.Context(), items.Query{Place: items.MessageName(k.Sum()).Place, Prefix: "a"}) {
		if err != nil {
			w.Fatal(err)
		}
		list = append(list, i)
	}
	return list
}

// holding is how many items in a message's place have a text.
func (w *world) holding(k ledger.Key, text []byte) (n int) {
	w.Helper()
	for i, err := range w.table.Query(w.Context(), items.Query{Place: items.MessageName(k.Sum()).Place}) {
		if err != nil {
			w.Fatal(err)
		}
		for _, v := range i {
			if bytes.Contains(v.Bytes, text) {
				n++
			}
		}
	}
	return n
}

// purge purges all that is archived, by the process that freezes.
func (w *world) purge() (ledger.PurgeReport, error) {
	return w.slow.Purge(w.Context(), ledger.PurgeRequest{Filter: ledger.Filter{Scope: "s"}, By: by})
}

// remove removes items, as a table does with what is over.
func (w *world) remove(names ...items.Name) {
	w.Helper()
	if err := w.table.Delete(w.Context(), names); err != nil {
		w.Fatal(err)
	}
}

func message() ledger.Entry {
	return ledger.Entry{Key: ledger.Key{Scope: "s", ID: []byte("m")}, Delivery: []byte("copy"), Window: time.Hour}
}

// records are so many of a log, which may be held in a range.
func records(log string, n int) (entries []ledger.Entry) {
	for offset := range int64(n) {
		id := fmt.Appendf(nil, "%s-%d", log, offset)
		entries = append(entries, ledger.Entry{Key: ledger.Key{Scope: "s", ID: id, Pos: &ledger.Position{Log: log, Offset: offset, Prev: offset - 1}},
			Delivery: id, Window: 24 * time.Hour, Ranged: true})
	}
	return entries
}

func fails(e *ledger.Entry, c *ledger.Claim) ledger.Settlement {
	return ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Fail,
		Dead: &ledger.Archive{Key: e.Key, Delivery: e.Delivery, Kind: ledger.KindTerminal, Body: []byte("body"), Keep: time.Hour}}
}

// A message was reopened, and what its steps had left was to be removed next. The process froze there; meanwhile the message was claimed and
// recorded a step anew. That one was removed with the others, and so it was done twice.
func TestPitfall202_StepsOfTheNextLife(t *testing.T) {
	t.Parallel()
	w, e := newWorld(t), message()
	step := func(c ledger.Claim) ledger.Settlement {
		return ledger.Settlement{Ticket: c.Ticket, Kind: ledger.RecordStep, Step: &ledger.Step{Name: "step", Result: []byte("done")}}
	}
	c := w.claim(w.other, e)[0]
	w.settle(w.other, step(c))
	w.settle(w.other, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed})
	var again ledger.Claim
	w.way.stops = func(q *items.Query, _ *items.Change) bool { return q != nil && q.Names }
	w.way.then = func() {
		again = w.claim(w.other, e)[0]
		w.settle(w.other, step(again))
	}
	if r, err := w.slow.Reopen(t.Context(), ledger.ReopenRequest{Filter: ledger.Filter{Scope: "s"}, By: by}); err != nil || r.Reopened != 1 {
		t.Fatal(r, err)
	}
	if w.way.then != nil || again.Answer != ledger.Run {
		t.Fatalf("it did not freeze: %+v", again)
	}
	if list, err := ledger.ReadSteps(t.Context(), w.other, again.Ticket); err != nil || len(list) != 1 {
		t.Errorf("steps of the next life: %v, %v; want one", list, err)
	}
}

// A delivery failed for good that had failed before, beyond what its row and its archive are kept for; the table had not removed the archive
// yet. It was taken for archived, and then removed. The claim that came between was even told that it was done.
func TestPitfall203_ArchivedInWhatIsOver(t *testing.T) {
	t.Parallel()
	w, e := newWorld(t), message()
	c := w.claim(w.other, e)[0]
	w.settle(w.other, fails(&e, &c))
	w.table.Age(2 * time.Hour)
	w.remove(items.MessageName(e.Key.Sum()))
	c = w.claim(w.other, e)[0]
	w.settle(w.other, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Release})
	if c = w.claim(w.other, e)[0]; c.Answer != ledger.Run {
		t.Fatalf("a message that nobody has finished, and whose archive is over: %v", c.Answer)
	}
	w.settle(w.other, fails(&e, &c))
	w.sweep()
	if n := len(w.archived(e.Key)); n != 1 {
		t.Errorf("%d deliveries are archived of a message that has just failed, want 1", n)
	}
}

// The sweep found an archived delivery in the index, whose time was over, and removed it by its name. By then the table had removed it by
// itself, and the same delivery had failed again: what went was the new one.
func TestPitfall204_SweptByALaggingIndex(t *testing.T) {
	t.Parallel()
	w, e := newWorld(t), message()
	c := w.claim(w.other, e)[0]
	w.settle(w.other, fails(&e, &c))
	was := w.archived(e.Key)[0]
	w.table.Age(2 * time.Hour)
	w.remove(items.MessageName(e.Key.Sum()), items.NameOf(was))
	c = w.claim(w.other, e)[0]
	w.settle(w.other, fails(&e, &c))
	w.way.stale = was
	w.sweep()
	if n := len(w.archived(e.Key)); n != 1 {
		t.Errorf("%d deliveries are archived of a message that has just failed, want 1", n)
	}
}

// A process that carried out the rows that a log owed froze. Others carried them out, and claimed and finished the messages, and their rows
// went. Then it woke up, and wrote the rows as they had been: the messages ran again.
func TestPitfall205_OwedRowsWrittenLate(t *testing.T) {
	t.Parallel()
	w, entries := newWorld(t), records("log", 60)
	dead := join(t, w.table)
	w.claim(dead, entries...)
	if err := w.hooks.Declare(t.Context(), dead.ID()); err != nil {
		t.Fatal(err)
	}
	var names []items.Name
	for i := range entries {
		names = append(names, items.MessageName(entries[i].Key.Sum()))
	}
	w.way.stops = func(_ *items.Query, c *items.Change) bool { return c != nil && c.Was == nil && c.Name == names[0] }
	w.way.then = func() {
		for _, c := range w.claim(w.other, entries...) {
			w.settle(w.other, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed})
		}
		w.remove(names...)
	}
	if _, err := w.joins().Claim(t.Context(), entries); err != nil {
		t.Fatal(err)
	}
	if w.way.then != nil {
		t.Fatal("it did not freeze")
	}
	for i, c := range w.claim(w.other, entries...) {
		if c.Answer != ledger.Done {
			t.Fatalf("message %d, which has succeeded: %v", i, c.Answer)
		}
	}
}

// The sweep dissolved the ranges of a dead owner, several logs in one transaction. The rows of each were few enough for it, but not those of
// all: every pass ended there, and nothing was swept any more.
func TestPitfall206_RowsOfManyLogs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dead := join(t, w.table)
	var names []items.Name
	for _, log := range []string{"a", "b", "c", "d"} {
		entries := records(log, 40)
		w.claim(dead, entries...)
		for i := range entries {
			names = append(names, items.MessageName(entries[i].Key.Sum()))
		}
	}
	if err := w.hooks.Declare(t.Context(), dead.ID()); err != nil {
		t.Fatal(err)
	}
	w.table.Age(2 * time.Hour)
	w.sweep()
	if there, err := w.table.Get(t.Context(), names); err != nil || len(there) != len(names) {
		t.Errorf("%d messages have rows, %v; want %d", len(there), err, len(names))
	}
}

// A purge emptied an archived delivery, and its large body was to be removed next: that request was lost. The purge said so, and was repeated,
// and found nothing that was not purged. The body stayed for as long as the delivery was to be kept.
func TestPitfall208_BodyOfWhatIsPurged(t *testing.T) {
	t.Parallel()
	w, e := newWorld(t), message()
	c := w.claim(w.other, e)[0]
	s, secret := fails(&e, &c), bytes.Repeat([]byte("secret"), 10_000)
	s.Dead.Body = secret
	w.settle(w.other, s)
	w.way.lost = true
	if _, err := w.purge(); err == nil {
		t.Fatal("a purge is done, and what it had to remove is there")
	}
	if _, err := w.purge(); err != nil {
		t.Fatal(err)
	}
	w.sweep()
	if n := w.holding(e.Key, secret[:100]); n != 0 {
		t.Errorf("%d items have the body", n)
	}
}

// Logs that have gone since they were listed took a page of the sweep, which took the empty page for the last one: no log behind them was
// swept, nor trimmed.
func TestTheSweepGoesPastLogsThatAreGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const gone = 25 // more than a page has
	for i := range gone {
		n := items.LogNames(driver.LogID{7: byte(i + 1)})[1]
		if err := w.table.Put(t.Context(), []items.Item{n.Item()}); err != nil {
			t.Fatal(err)
		}
	}
	e := records("log", 1)[0]
	w.settle(w.other, ledger.Settlement{Ticket: w.claim(w.other, e)[0].Ticket, Kind: ledger.Succeed})
	w.table.Age(49 * time.Hour)
	if err := w.other.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.sweep()
	id, _ := driver.SplitKey(e.Key.Sum())
	there, err := w.table.Get(t.Context(), items.LogNames(id))
	if err != nil || len(there) != 0 {
		t.Errorf("%d items of a log that is over are left, %v", len(there), err)
	}
}
