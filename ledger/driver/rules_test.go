package driver_test

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/ledger/storage"
)

// world is a ledger over a store in memory, with a clock that only the test moves.
type world struct {
	*driver.Ledger
	store driver.Store
	now   time.Time
	o     ledger.Owner
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	w.store = memory.NewStore(memory.WithClock(func() time.Time { return w.now }))
	w.Ledger = driver.New(w.store, driver.Config{Name: "test", Limits: ledger.DefaultLimits})
	w.o = w.join(t)
	return w
}

func (w *world) join(t *testing.T) ledger.Owner {
	t.Helper()
	o, err := w.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// write is one transaction past the ledger.
func (w *world) write(t *testing.T, fn func(driver.Tx) error) {
	t.Helper()
	if err := w.store.Update(t.Context(), driver.Call{Op: driver.Operate}, fn); err != nil {
		t.Fatal(err)
	}
}

func entry(id string) ledger.Entry {
	return ledger.Entry{Key: ledger.Key{Scope: "s", ID: []byte(id)}, Delivery: []byte(id), Window: time.Hour}
}

// record is one of a log.
func record(offset int64) ledger.Entry {
	e := entry("t-0-" + strconv.FormatInt(offset, 10))
	e.Ranged, e.Key.Pos = true, &ledger.Position{Log: "log", Offset: offset, Prev: offset - 1}
	return e
}

func (w *world) claim(t *testing.T, o ledger.Owner, want ledger.Answer, entries ...ledger.Entry) []ledger.Claim {
	t.Helper()
	claims, err := o.Claim(t.Context(), entries)
	for i := range claims {
		if claims[i].Answer != want || claims[i].Err != nil {
			t.Fatalf("claim %d: %+v, want %v", i, claims[i], want)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return claims
}

func (w *world) settle(t *testing.T, s ledger.Settlement) {
	t.Helper()
	errs, err := w.o.Settle(t.Context(), []ledger.Settlement{s})
	if err = errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
}

// fail claims a message and fails it.
func (w *world) fail(t *testing.T, e ledger.Entry) {
	t.Helper()
	run := w.claim(t, w.o, ledger.Run, e)[0]
	w.settle(t, ledger.Settlement{Ticket: run.Ticket, Kind: ledger.Fail,
		Dead: &ledger.Archive{Key: e.Key, Delivery: e.Delivery, Kind: ledger.KindError, Keep: time.Hour, Body: []byte("body")}})
}

// meanwhile is a store in which something happens before an operator's transaction.
type meanwhile struct {
	driver.Store
	change func(driver.Tx) error
}

func (m *meanwhile) Update(ctx context.Context, call driver.Call, fn func(driver.Tx) error) error {
	return m.Store.Update(ctx, call, func(tx driver.Tx) error {
		if err := m.change(tx); err != nil {
			return err
		}
		return fn(tx)
	})
}

// TestPurgeLooksAgain: a letter whose message moved on since it was listed keeps its body, which may be the only copy.
func TestPurgeLooksAgain(t *testing.T) {
	t.Parallel()
	e := entry("a")
	change := func(fn func(*driver.Message)) func(driver.Tx) error {
		return func(tx driver.Tx) error {
			m, err := tx.Message(e.Key.Sum(), nil)
			if err != nil {
				return err
			}
			fn(m)
			return tx.Put(m)
		}
	}
	for name, c := range map[string]struct {
		meanwhile func(driver.Tx) error
		purged    int64
	}{
		"nothing":    {change(func(*driver.Message) {}), 1},
		"its state":  {change(func(m *driver.Message) { m.State = ledger.Pending }), 0},
		"its token":  {change(func(m *driver.Message) { m.Token++ }), 0},
		"it is gone": {func(tx driver.Tx) error { return tx.Remove([]driver.Key{e.Key.Sum()}) }, 0},
	} {
		w := newWorld(t)
		w.fail(t, e)
		l := driver.New(&meanwhile{w.store, c.meanwhile}, driver.Config{})
		report, err := l.Purge(t.Context(), ledger.PurgeRequest{By: ledger.By{Actor: "tester"}})
		if err != nil || report.Matched != 1 || report.Purged != c.purged {
			t.Errorf("%s: %+v, %v", name, report, err)
		}
	}
}

// TestFencedIsWhatIsStillOurs: a transaction commits what is still its owner's: nothing that was settled, given back, or is not
// in its range any more. What it cannot commit it does not write.
func TestFencedIsWhatIsStillOurs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*driver.Range)
		state  ledger.AttemptState
	}{
		"ours":            {func(*driver.Range) {}, ledger.AttemptSucceeded},
		"done":            {func(r *driver.Range) { r.Done.Add(driver.Span{From: 11, To: 12}) }, ledger.AttemptLost},
		"given back":      {func(r *driver.Range) { r.Back.Add(driver.Span{From: 12, To: 13}) }, ledger.AttemptLost},
		"another's done":  {func(r *driver.Range) { r.Done.Add(driver.Span{From: 13, To: 14}) }, ledger.AttemptSucceeded},
		"another owner's": {nil, ledger.AttemptLost},
	} {
		w := newWorld(t)
		claims := w.claim(t, w.o, ledger.Run, record(10), record(11), record(12), record(13))
		log, _ := driver.SplitKey(record(10).Key.Sum())
		w.write(t, func(tx driver.Tx) error {
			all, err := tx.Ranges(nil, log, driver.Span{To: 100}, nil)
			if err != nil || len(all) != 1 {
				t.Fatalf("%+v, %v", all, err)
			}
			if c.change == nil {
				all[0].Owner++
				err = tx.DropRange(log, all[0].Token)
			} else {
				c.change(&all[0])
			}
			return errors.Join(err, tx.PutRange(log, &all[0]))
		})
		a := ledger.NewBatchAttempt(w.o, []ledger.Ticket{claims[1].Ticket, claims[2].Ticket})
		f, store, err := driver.Begin[driver.Store](ledger.WithAttempt(t.Context(), a))
		if err != nil {
			t.Fatal(err)
		}
		err = f.Run(t.Context(), time.Second, func() (ledger.AttemptState, error) {
			check := store.Update(t.Context(), driver.Call{Op: driver.Settle}, f.Check)
			err := store.Update(t.Context(), driver.Call{Op: driver.Settle}, f.Write)
			if (check == nil) != (err == nil) {
				t.Errorf("%s: checked %v, written %v", name, check, err)
			}
			if ledger.IsLost(err) {
				return ledger.AttemptLost, err
			}
			f.Committed()
			return ledger.AttemptSucceeded, err
		})
		if state, _ := a.State(); state != c.state || (err == nil) != (state == ledger.AttemptSucceeded) {
			t.Errorf("%s: state %d, %v", name, state, err)
		}
	}
}

// TestNewLogIsBoundOverItsRows: the rows that lie in a log when it is made stay rows, for as long as the last of them is kept.
func TestNewLogIsBoundOverItsRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rows := ledger.Unwrap(w.o)
	for offset, window := range map[int64]time.Duration{7: time.Hour, 20: 3 * time.Hour, 12: 2 * time.Hour} {
		e := record(offset)
		e.Window = window
		w.claim(t, rows, ledger.Run, e)
	}
	w.claim(t, w.o, ledger.Run, record(30))
	log, _ := driver.SplitKey(record(0).Key.Sum())
	w.write(t, func(tx driver.Tx) error {
		g, err := tx.Log(log)
		if err != nil || g == nil || g.Top != 31 {
			t.Fatalf("%+v, %v", g, err)
		}
		all, err := tx.Segments(nil, log, driver.Span{To: 100})
		want := driver.Segment{Span: driver.Span{From: 7, To: 21}, Rows: true, Since: w.now, Until: w.now, Expiry: w.now.Add(3 * time.Hour)}
		if len(all) != 1 || all[0] != want {
			t.Errorf("%+v, want %+v", all, want)
		}
		return err
	})
}

// TestStripLeavesTheGeneration: a failed row that is kept for its state alone keeps no error, result or delivery; its generation
// it keeps.
func TestStripLeavesTheGeneration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := record(5)
	w.claim(t, w.o, ledger.Run, record(4))
	w.fail(t, e)
	w.write(t, func(tx driver.Tx) error {
		m, err := tx.Message(e.Key.Sum(), nil)
		if err == nil {
			m.Generation = 3
			err = tx.Put(m)
		}
		return err
	})
	sweep := func() *driver.Message {
		t.Helper()
		if _, err := w.Sweep(t.Context(), ledger.MaintainConfig{}); err != nil {
			t.Fatal(err)
		}
		var m *driver.Message
		w.write(t, func(tx driver.Tx) (err error) {
			m, err = tx.Message(e.Key.Sum(), nil)
			return err
		})
		return m
	}
	if m := sweep(); m == nil || m.Failed == nil {
		t.Fatalf("within its window: %+v", m)
	}
	w.now = w.now.Add(2 * time.Hour)
	if m := sweep(); m == nil || m.Failed != nil || m.Errors != nil || m.Generation != 3 || m.State != ledger.Failed {
		t.Errorf("past its window: %+v", m)
	}
}

// TestSplitSaysWhatIsUnknown: of a call of several transactions some may have been written when a later one fails.
func TestSplitSaysWhatIsUnknown(t *testing.T) {
	t.Parallel()
	down := errors.New("down")
	for fails, unknown := range map[int]bool{0: false, 1: true, 2: true} {
		w := newWorld(t)
		n := 0
		l := driver.New(&meanwhile{w.store, func(driver.Tx) error {
			if n++; n > fails {
				return down
			}
			return nil
		}}, driver.Config{Keys: 1})
		o, err := l.Join(t.Context(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		_, err = o.Claim(t.Context(), []ledger.Entry{entry("a"), entry("b"), entry("c")})
		if !errors.Is(err, down) || ledger.Unknown(err) != unknown {
			t.Errorf("transaction %d fails: %v", fails, err)
		}
	}
}

// TestBusyIsNoOutage: where a lock is not free, claims are busy, and settlements are to be repeated.
func TestBusyIsNoOutage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	held := driver.MarkBusy(errors.New("held"))
	l := driver.New(&meanwhile{w.store, func(driver.Tx) error { return held }}, driver.Config{Name: "test"})
	o, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	w.claim(t, o, ledger.Busy, entry("a"), record(1))
	errs, err := o.Settle(t.Context(), []ledger.Settlement{{Ticket: ledger.NewTicket(driver.Key{1}, 1), Kind: ledger.Succeed}})
	if err != nil || !errors.Is(errs[0], held) {
		t.Errorf("settle: %v, %v", errs, err)
	}
	if driver.Busy(nil) || driver.MarkBusy(nil) != nil || driver.Busy(errors.New("other")) || !driver.Busy(held) {
		t.Error("what is busy")
	}
}

// A store that is paid by what a pass reads says how long it rests, where nobody says anything else.
func TestIntervalOfTheStore(t *testing.T) {
	t.Parallel()
	for _, asked := range []time.Duration{0, time.Minute} {
		store := memory.NewStore()
		l := driver.New(store, driver.Config{Limits: ledger.DefaultLimits, Interval: 20 * time.Hour})
		ctx, cancel := context.WithCancel(t.Context())
		if err := l.Maintain(ctx, ledger.MaintainConfig{Interval: asked, Report: func(ledger.SweepReport) { cancel() }}); err != nil {
			t.Fatal(err)
		}
		err := store.View(t.Context(), driver.Call{Op: driver.Read}, func(r driver.Reader) error {
			turn, err := r.Turn()
			rest, want := turn.Due.Sub(r.Now()), cmp.Or(asked, 20*time.Hour)
			if rest > want || rest < want-time.Minute/2 {
				t.Errorf("asked for %s, it rests for %s, want %s", asked, rest, want)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// partly is a store in which the first message of a call is written, and the rest is busy. It may not say so of each.
type partly struct {
	driver.Store
	says bool
}

func (p partly) Each(ctx context.Context, call driver.Call, fn func(driver.Tx, int) error) (map[int]error, error) {
	busy := driver.MarkBusy(errors.New("the rest was not free"))
	if err := p.Update(ctx, call, func(tx driver.Tx) error { return cmp.Or(fn(tx, 1), busy) }); !driver.Busy(err) {
		return nil, err
	}
	err := p.Update(ctx, call, func(tx driver.Tx) error { return fn(tx, 0) })
	if !p.says || err != nil {
		return nil, cmp.Or(err, storage.MarkPartly(true, busy))
	}
	return map[int]error{1: busy}, nil
}

// A call of which a part is busy and another written is not answered as Busy: the worker would forget what it owns.
func TestBusyInPartIsUnknown(t *testing.T) {
	t.Parallel()
	o, err := driver.New(partly{memory.NewStore(), false}, driver.Config{Limits: ledger.DefaultLimits}).Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if claims, err := o.Claim(t.Context(), []ledger.Entry{entry("a"), entry("b")}); !ledger.Unknown(err) {
		t.Errorf("claim: %+v, %v; want that nobody knows", claims, err)
	}
}

// A store that knows which part is busy says so, and the others are answered. What a run in vain has answered does not hold.
func TestBusyByItself(t *testing.T) {
	t.Parallel()
	store := memory.NewStore()
	l := driver.New(partly{store, true}, driver.Config{Limits: ledger.DefaultLimits})
	o, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	entries := []ledger.Entry{entry("a"), entry("b")}
	claims, err := o.Claim(t.Context(), entries)
	if err != nil || claims[0].Answer != ledger.Run || claims[1].Answer != ledger.Busy || !claims[1].Ticket.IsZero() {
		t.Fatalf("claims: %+v, %v; want the second alone to be busy", claims, err)
	}
	second := ledger.Settlement{Ticket: ledger.NewTicket(entries[1].Key.Sum(), 1), Kind: ledger.Succeed}
	errs, err := o.Settle(t.Context(), []ledger.Settlement{{Ticket: claims[0].Ticket, Kind: ledger.Succeed}, second})
	if err != nil || errs[0] != nil || !driver.Busy(errs[1]) {
		t.Errorf("settlements: %v, %v; want the second alone to be busy", errs, err)
	}
}
