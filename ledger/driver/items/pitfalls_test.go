package items_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
	"github.com/ackledger/ackledger/ledger/driver/items"
	"github.com/ackledger/ackledger/ledger/driver/items/itemstest"
)

// ahead is a way to a table on which somebody does something just before the next write of what was read.
type ahead struct {
	items.Table
	next func()
}

func (a *ahead) Write(ctx context.Context, sets []*items.Set) error {
	if do := a.next; do != nil && sets[0].Changes[0].Was != nil {
		a.next = nil
		do()
	}
	return a.Table.Write(ctx, sets)
}

func join(t *testing.T, table items.Table) ledger.Owner {
	t.Helper()
	l := driver.New(items.New(table), driver.Config{Name: "items", Limits: ledger.DefaultLimits, Keys: items.Messages, Parts: items.Parts})
	o, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return ledger.Ungroup(o)
}

// Two owners had one delivery of a message. While one claimed it, the other claimed it first, and it failed for good. The first was told
// that somebody was ahead, read the message anew, and knew from before that the delivery was not archived: so it took it for a redrive,
// and ran what had failed for good.
func TestPitfall201_FailedWhileClaimed(t *testing.T) {
	t.Parallel()
	table := itemstest.NewTable(0, 1)
	way := &ahead{Table: table}
	mine, other := join(t, way), join(t, table)
	ctx := t.Context()
	for n := range 20 { // a table may tell what stands there, or not
		e := ledger.Entry{Key: ledger.Key{Scope: "s", ID: fmt.Append(nil, "message ", n)}, Delivery: []byte("copy"), Window: time.Hour}
		claim := func(o ledger.Owner) ledger.Claim {
			t.Helper()
			claims, err := o.Claim(ctx, []ledger.Entry{e})
			if err != nil {
				t.Fatal(err)
			}
			return claims[0]
		}
		settle := func(o ledger.Owner, s ledger.Settlement) {
			t.Helper()
			if errs, err := o.Settle(ctx, []ledger.Settlement{s}); err != nil || errs[0] != nil {
				t.Fatal(errs, err)
			}
		}
		settle(other, ledger.Settlement{Ticket: claim(other).Ticket, Kind: ledger.Release})
		way.next = func() {
			settle(other, ledger.Settlement{Ticket: claim(other).Ticket, Kind: ledger.Fail,
				Dead: &ledger.Archive{Key: e.Key, Delivery: e.Delivery, Kind: ledger.KindTerminal, Keep: 24 * time.Hour}})
		}
		if got := claim(mine); got.Answer != ledger.Done || got.Outcome.State != ledger.Failed {
			t.Errorf("message %d, which failed for good: %v, %v", n, got.Answer, got.Outcome.State)
		}
	}
}

// between is a way to a table on which somebody does something between the reads of a message and of its archive.
type between struct {
	items.Table
	next func()
}

func (b *between) Get(ctx context.Context, names []items.Name) (map[items.Name]items.Item, error) {
	if do := b.next; do != nil && slices.ContainsFunc(names, func(n items.Name) bool { return n.Sort[0] == 'a' }) {
		b.next = nil
		do()
	}
	return b.Table.Get(ctx, names)
}

// A message that had failed was read, for a copy with another body. Then it was claimed anew for another delivery, and the copy was archived.
// The archive was read, and the copy was told that its message had failed, which was over before the copy was known.
func TestPitfall214_ArchivedWhileClaimed(t *testing.T) {
	t.Parallel()
	table := itemstest.NewTable(0, 1)
	way := &between{Table: table}
	mine, other := join(t, way), join(t, table)
	claim := func(o ledger.Owner, delivery string, body byte) ledger.Claim {
		t.Helper()
		claims, err := o.Claim(t.Context(), []ledger.Entry{{Key: ledger.Key{Scope: "s", ID: []byte("message")}, Delivery: []byte(delivery),
			Fingerprint: ledger.BodyFingerprint([]byte{body}), Window: time.Hour}})
		if err != nil {
			t.Fatal(err)
		}
		return claims[0]
	}
	fail := func(c ledger.Claim, delivery string) {
		t.Helper()
		errs, err := other.Settle(t.Context(), []ledger.Settlement{{Ticket: c.Ticket, Kind: ledger.Fail, Dead: &ledger.Archive{
			Key: ledger.Key{Scope: "s", ID: []byte("message")}, Delivery: []byte(delivery), Kind: ledger.KindTerminal, Keep: 24 * time.Hour}}})
		if err != nil || errs[0] != nil {
			t.Fatal(errs, err)
		}
	}
	fail(claim(other, "first", 1), "first")
	way.next = func() {
		if got := claim(other, "redriven", 1); got.Answer != ledger.Run {
			t.Fatalf("the redrive: %v", got.Answer)
		}
		fail(claim(other, "copy", 2), "copy")
	}
	if got := claim(mine, "copy", 2); got.Answer != ledger.Done || got.Outcome.State != ledger.Pending {
		t.Errorf("the copy that is archived: %v, %v; want it done, of a message that is pending", got.Answer, got.Outcome.State)
	}
}

// slow is a way to a table on which writes take their time once it is set.
type slow struct {
	items.Table
	by time.Duration
}

func (s *slow) Write(ctx context.Context, sets []*items.Set) error {
	time.Sleep(s.by)
	return s.Table.Write(context.WithoutCancel(ctx), sets)
}

// A claim was answered when the own lease was over. By then a peer may have declared its owner dead, and another may have the message.
func TestPitfall03_ClaimAnsweredAfterTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		way := &slow{Table: itemstest.NewTable(0, 1)}
		o := join(t, way)
		way.by = 2 * time.Minute
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		claims, err := o.Claim(ctx, []ledger.Entry{{Key: ledger.Key{Scope: "s", ID: []byte("m")}, Delivery: []byte("copy"), Window: time.Hour}})
		if !ledger.IsLost(err) {
			t.Errorf("claimed %+v, %v, a minute after the lease", claims, err)
		}
	})
}

// The same of a settlement of a range: a peer may have dissolved it, and its messages may run elsewhere.
func TestPitfall04_RangeSettledAfterTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		way := &slow{Table: itemstest.NewTable(0, 1)}
		o := join(t, way)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		claims, err := o.Claim(ctx, []ledger.Entry{{Key: ledger.Key{Scope: "s", ID: []byte("log-7"), Pos: &ledger.Position{Log: "log", Offset: 7, Prev: 6}},
			Delivery: []byte("log-7"), Window: time.Hour, Ranged: true}})
		if err != nil || claims[0].Answer != ledger.Run {
			t.Fatal(claims, err)
		}
		way.by = 2 * time.Minute
		if errs, err := o.Settle(ctx, []ledger.Settlement{{Ticket: claims[0].Ticket, Kind: ledger.Succeed}}); err == nil && errs[0] == nil {
			t.Error("settled a minute after the lease")
		}
	})
}

// A transaction without an answer was found not to be there, and the message was given back. Then the transaction arrived.
func TestPitfall77_CommitThatComesLate(t *testing.T) {
	table := itemstest.NewTable(0, 1)
	s := &store{items.New(table), table}
	l := driver.New(s, driver.Config{Name: "items", Limits: ledger.DefaultLimits, Keys: items.Messages, Parts: items.Parts})
	o, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	claims, err := o.Claim(t.Context(), []ledger.Entry{{Key: ledger.Key{Scope: "s", ID: []byte("m")}, Delivery: []byte("copy"), Window: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	ctx := ledger.WithAttempt(t.Context(), ledger.NewAttempt(o, claims[0].Ticket))
	f, _, err := driver.Begin[*store](ctx)
	if err != nil {
		t.Fatal(err)
	}
	var late *items.Set
	err = f.Run(ctx, time.Second, func() (ledger.AttemptState, error) {
		if late, err = s.Fenced(ctx, f, false); err != nil {
			return ledger.AttemptOpen, err
		}
		return ledger.AttemptUnknown, errors.New("no answer")
	})
	if err == nil {
		t.Fatal("a commit that was not there yet counts as one")
	}
	if err := table.Write(t.Context(), []*items.Set{late}); err != nil || late.Written {
		t.Errorf("the commit was carried out after it was found not to be there: %v", err)
	}
}

// behind is a way to a table of a process that freezes once, just after it has read an archive.
type behind struct {
	items.Table
	next func()
}

func (b *behind) Get(ctx context.Context, names []items.Name) (map[items.Name]items.Item, error) {
	found, err := b.Table.Get(ctx, names)
	if do := b.next; do != nil && slices.ContainsFunc(names, func(n items.Name) bool { return n.Sort[0] == 'a' }) {
		b.next = nil
		do()
	}
	return found, err
}

// A message had succeeded with a copy, and its first delivery was archived. That was read, then an operator reopened both, then the message
// was read again, as pending: the first delivery was told that it is done, with a message that is to run.
func TestPitfall214_DoneWhileReopened(t *testing.T) {
	t.Parallel()
	table := itemstest.NewTable(0, 1)
	way := &behind{Table: table}
	mine, other := join(t, way), join(t, table)
	key := ledger.Key{Scope: "s", ID: []byte("message")}
	claim := func(o ledger.Owner, delivery string) ledger.Claim {
		t.Helper()
		claims, err := o.Claim(t.Context(), []ledger.Entry{{Key: key, Delivery: []byte(delivery), Window: time.Hour}})
		if err != nil {
			t.Fatal(err)
		}
		return claims[0]
	}
	settle := func(s ledger.Settlement) {
		t.Helper()
		if errs, err := other.Settle(t.Context(), []ledger.Settlement{s}); err != nil || errs[0] != nil {
			t.Fatal(errs, err)
		}
	}
	settle(ledger.Settlement{Ticket: claim(other, "first").Ticket, Kind: ledger.Fail,
		Dead: &ledger.Archive{Key: key, Delivery: []byte("first"), Kind: ledger.KindTerminal, Keep: 24 * time.Hour}})
	settle(ledger.Settlement{Ticket: claim(other, "copy").Ticket, Kind: ledger.Succeed})
	way.next = func() {
		l := driver.New(items.New(table), driver.Config{Name: "items", Limits: ledger.DefaultLimits, Keys: items.Messages, Parts: items.Parts})
		if r, err := l.Reopen(t.Context(), ledger.ReopenRequest{Filter: ledger.Filter{Scope: "s"}, By: by}); err != nil || r.Reopened != 1 {
			t.Fatal(r, err)
		}
	}
	if got := claim(mine, "first"); got.Answer != ledger.Run || way.next != nil {
		t.Errorf("what was reopened meanwhile: %v, %v; want it run", got.Answer, got.Outcome.State)
	}
}

// twice keeps what was written last of an archive, as a request that comes once more.
type twice struct {
	items.Table
	kept *items.Set
}

func (w *twice) Write(ctx context.Context, sets []*items.Set) error {
	for _, set := range sets {
		if slices.ContainsFunc(set.Changes, func(c items.Change) bool { return c.Name.Sort[0] == 'a' && c.Is != nil }) {
			w.kept = &items.Set{Changes: slices.Clone(set.Changes)}
		}
	}
	return w.Table.Write(ctx, sets)
}

// A request that archived a copy with another body came twice. Between the two an operator reopened the message, and with it what is
// archived of it: the copy was a dead letter again, which nobody looked for, and was told so.
func TestPitfall218_MismatchArchivedTwice(t *testing.T) {
	t.Parallel()
	table := itemstest.NewTable(0, 1)
	way := &twice{Table: table}
	l := driver.New(items.New(way), driver.Config{Name: "items", Limits: ledger.DefaultLimits, Keys: items.Messages, Parts: items.Parts})
	o, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	key := ledger.Key{Scope: "s", ID: []byte("message")}
	claim := func(delivery string, body byte) ledger.Claim {
		t.Helper()
		claims, err := o.Claim(t.Context(), []ledger.Entry{{Key: key, Delivery: []byte(delivery), Fingerprint: ledger.BodyFingerprint([]byte{body}), Window: time.Hour}})
		if err != nil {
			t.Fatal(err)
		}
		return claims[0]
	}
	settle := func(s ledger.Settlement) {
		t.Helper()
		if errs, err := o.Settle(t.Context(), []ledger.Settlement{s}); err != nil || errs[0] != nil {
			t.Fatal(errs, err)
		}
	}
	settle(ledger.Settlement{Ticket: claim("first", 1).Ticket, Kind: ledger.Succeed})
	copied := claim("copy", 2)
	settle(ledger.Settlement{Ticket: copied.Ticket, Kind: ledger.Fail, Dead: &ledger.Archive{Key: key, Delivery: []byte("copy"),
		Fingerprint: ledger.BodyFingerprint([]byte{2}), Kind: ledger.KindMismatch, Keep: 24 * time.Hour}})
	if got := claim("copy", 2); copied.Answer != ledger.Mismatch || got.Answer != ledger.Done {
		t.Fatalf("the copy: %v, and archived: %v", copied.Answer, got.Answer)
	}
	late := way.kept
	if _, err := l.Reopen(t.Context(), ledger.ReopenRequest{Filter: ledger.Filter{Scope: "s"}, By: by}); err != nil {
		t.Fatal(err)
	}
	if err := table.Write(t.Context(), []*items.Set{late}); err != nil || late.Written {
		t.Errorf("written once more: %t, %v", late.Written, err)
	}
	if got := claim("copy", 2); got.Answer != ledger.Mismatch {
		t.Errorf("the copy, once its message was reopened: %v; want a mismatch", got.Answer)
	}
}
