package memory_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// clock is a clock that only tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func entry(id string) ledger.Entry {
	return ledger.Entry{Key: ledger.Key{Scope: "s", ID: []byte(id)}, Delivery: []byte(id), Window: time.Hour}
}

func join(t *testing.T, l *memory.Ledger) ledger.Owner {
	t.Helper()
	o, err := l.Join(t.Context(), 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func claim(t *testing.T, o ledger.Owner, e ledger.Entry, want ledger.Answer) ledger.Claim {
	t.Helper()
	claims, err := o.Claim(t.Context(), []ledger.Entry{e})
	if err != nil || claims[0].Answer != want {
		t.Fatalf("claim: %+v, %v; want %v", claims, err, want)
	}
	return claims[0]
}

func settle(t *testing.T, o ledger.Owner, s ledger.Settlement) {
	t.Helper()
	errs, err := o.Settle(t.Context(), []ledger.Settlement{s})
	if err != nil || errs[0] != nil {
		t.Fatalf("settle: %v, %v", errs, err)
	}
}

func TestClockMovesLeasesBackoffsAndWindows(t *testing.T) {
	c := newClock()
	l := memory.New(memory.WithClock(c.Now))
	a, b, e := join(t, l), join(t, l), entry("a")
	claim(t, a, e, ledger.Run)
	if wait := claim(t, b, e, ledger.Busy).Wait; wait != 30*time.Second {
		t.Fatalf("wait %s, want 30s", wait)
	}
	for range 4 { // b beats without a gap, a does not
		c.pass(10 * time.Second)
		if _, err := b.Beat(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	run := claim(t, b, e, ledger.Run)
	if run.Crashes != 1 || !run.TookOver {
		t.Fatalf("run: %+v", run)
	}
	settle(t, b, ledger.Settlement{Ticket: run.Ticket, Kind: ledger.Release, After: 5 * time.Minute})
	if wait := claim(t, b, e, ledger.Busy).Wait; wait != 5*time.Minute {
		t.Fatalf("wait %s, want 5m", wait)
	}
	c.pass(5 * time.Minute)
	run = claim(t, b, e, ledger.Run)
	settle(t, b, ledger.Settlement{Ticket: run.Ticket, Kind: ledger.Succeed})
	c.pass(time.Hour)
	sweep(t, l)
	if l.Len() != 0 {
		t.Fatalf("%d rows past their window", l.Len())
	}
}

// TestPitfall71_YearsLaterWithinItsWindow: what failed under an absurd date is known as long as its window says, however the
// years go by, and not a day longer.
func TestPitfall71_YearsLaterWithinItsWindow(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, sent := range []time.Time{{}, time.Unix(0, 0), time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)} {
		c := newClock()
		l := memory.New(memory.WithClock(c.Now))
		o, e := join(t, l), entry("a")
		e.Window = 10 * year
		dead := &ledger.Archive{Key: e.Key, Delivery: e.Delivery, Body: []byte("body"), SentAt: sent, Keep: 11 * year}
		settle(t, o, ledger.Settlement{Ticket: claim(t, o, e, ledger.Run).Ticket, Kind: ledger.Fail, Dead: dead})
		for range 9 {
			c.pass(year)
			sweep(t, l)
			claim(t, join(t, l), e, ledger.Done)
		}
		c.pass(year + time.Second)
		sweep(t, l)
		claim(t, join(t, l), e, ledger.Run)
	}
}

// TestPitfall28_AbandonedIsKept: a pending row is kept past its expiry, until the archive's retention is over too.
func TestPitfall28_AbandonedIsKept(t *testing.T) {
	c := newClock()
	l := memory.New(memory.WithClock(c.Now), memory.WithKeep(24*time.Hour))
	o, e := join(t, l), entry("a")
	r := claim(t, o, e, ledger.Run)
	settle(t, o, ledger.Settlement{Ticket: r.Ticket, Kind: ledger.Release})
	c.pass(25 * time.Hour)
	sweep(t, l)
	if l.Len() != 1 {
		t.Fatal("a pending row went with its expiry")
	}
	c.pass(time.Hour + time.Second)
	sweep(t, l)
	if l.Len() != 0 {
		t.Fatal("an abandoned row stays for ever")
	}
}

func TestArchiveOutlivesItsRow(t *testing.T) {
	c := newClock()
	l := memory.New(memory.WithClock(c.Now))
	o, e := join(t, l), entry("a")
	dead := &ledger.Archive{Key: e.Key, Delivery: e.Delivery, Body: []byte("body"), Keep: 3 * time.Hour}
	settle(t, o, ledger.Settlement{Ticket: claim(t, o, e, ledger.Run).Ticket, Kind: ledger.Fail, Dead: dead})
	c.pass(2 * time.Hour)
	sweep(t, l)
	r, err := l.Get(t.Context(), e.Key)
	if !errors.Is(err, ledger.ErrNotFound) || len(r.Archived) != 1 || string(r.Archived[0].Body) != "body" {
		t.Fatalf("%+v, %v", r, err)
	}
	c.pass(2 * time.Hour)
	sweep(t, l)
	if r, _ := l.Get(t.Context(), e.Key); len(r.Archived) != 0 {
		t.Fatalf("archived past its retention: %+v", r)
	}
}

func TestDoesNotGrowForEver(t *testing.T) {
	c := newClock()
	l := memory.New(memory.WithClock(c.Now))
	o := join(t, l)
	most := 0
	for i := range 20_000 {
		r := claim(t, o, entry(strconv.Itoa(i)), ledger.Run)
		settle(t, o, ledger.Settlement{Ticket: r.Ticket, Kind: ledger.Succeed})
		c.pass(4 * time.Second) // 900 messages a window
		most = max(most, l.Len())
	}
	if most > 5000 {
		t.Fatalf("%d rows, of which 900 are in their window", most)
	}
}

func TestFailBeforeChangesNothing(t *testing.T) {
	l := memory.New()
	o, down := join(t, l), errors.New("down")
	l.FailBefore(func(_ context.Context, op memory.Op) error {
		if op == memory.Claim {
			return down
		}
		return nil
	})
	if _, err := o.Claim(t.Context(), []ledger.Entry{entry("a")}); !errors.Is(err, down) || ledger.Unknown(err) {
		t.Fatalf("claim: %v", err)
	}
	if _, err := o.Beat(t.Context()); err != nil || l.Len() != 0 {
		t.Fatalf("beat: %v; %d rows", err, l.Len())
	}
	l.FailBefore(nil)
	claim(t, o, entry("a"), ledger.Run)
}

func TestFailAfterLosesTheAnswer(t *testing.T) {
	l := memory.New()
	o, e := join(t, l), entry("a")
	c := claim(t, o, e, ledger.Run)
	l.FailAfter(func(context.Context, memory.Op) error { return errors.New("reset") })
	s := ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed}
	if _, err := o.Settle(t.Context(), []ledger.Settlement{s}); !ledger.Unknown(err) {
		t.Fatalf("settle: %v, want an unknown answer", err)
	}
	if _, err := l.Join(t.Context(), time.Second); !ledger.Unknown(err) {
		t.Fatalf("join: %v, want an unknown answer", err)
	}
	l.FailAfter(nil)
	settle(t, o, s)
	claim(t, o, e, ledger.Done)
}

// A beat without an answer breaks the chain: nobody is declared dead until the owner's beats lasted a lease again.
func TestMissedBeatSealsNobody(t *testing.T) {
	c := newClock()
	l := memory.New(memory.WithClock(c.Now))
	a, b, e := join(t, l), join(t, l), entry("a")
	claim(t, a, e, ledger.Run)
	beat := func() {
		t.Helper()
		c.pass(10 * time.Second)
		if _, err := b.Beat(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	beat()
	beat()
	l.FailBefore(func(context.Context, memory.Op) error { return errors.New("outage") })
	if _, err := b.Beat(t.Context()); err == nil {
		t.Fatal("a beat during the outage")
	}
	l.FailBefore(nil)
	beat()
	beat()
	claim(t, b, e, ledger.Busy) // a is overdue, and has time to return
	beat()
	claim(t, b, e, ledger.Run)
	if _, err := a.Beat(t.Context()); !ledger.IsLost(err) {
		t.Fatalf("beat: %v, want ErrLost", err)
	}
}

// InTx knows what became of a commit whose answer was lost.
func TestInTxLostAnswer(t *testing.T) {
	l := memory.New()
	o, e := join(t, l), entry("a")
	a := ledger.NewAttempt(o, claim(t, o, e, ledger.Run).Ticket)
	ctx := ledger.WithAttempt(t.Context(), a)
	l.FailAfter(func(context.Context, memory.Op) error { return errors.New("reset") })
	if err := memory.InTx(ctx, func(context.Context) error { return nil }); err != nil {
		t.Fatalf("InTx: %v", err)
	}
	if state, err := a.State(); state != ledger.AttemptSucceeded || err != nil {
		t.Fatalf("state %d, %v", state, err)
	}
	stranger := ledger.WithAttempt(t.Context(), ledger.NewAttempt(nil, ledger.Ticket{}))
	if err := memory.InTx(stranger, func(context.Context) error { return nil }); err == nil {
		t.Fatal("InTx of another store's attempt")
	}
}

func TestRefusesBadInput(t *testing.T) {
	l := memory.New()
	var bad *ledger.InvalidError
	if _, err := l.Join(t.Context(), 0); !errors.As(err, &bad) {
		t.Fatalf("join without a lease: %v", err)
	}
	if _, err := l.Get(t.Context(), ledger.Key{}); !errors.Is(err, ledger.ErrNotFound) {
		t.Fatalf("get of the zero key: %v", err)
	}
	if l.Declare("nobody") {
		t.Fatal("declared an owner that there is not")
	}
	if l.Limits() != ledger.DefaultLimits {
		t.Fatalf("limits %+v", l.Limits())
	}
}

func BenchmarkClaimSettle(b *testing.B) {
	const batch = 1000
	l := memory.New()
	o, err := l.Join(b.Context(), time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	entries, settlements := make([]ledger.Entry, batch), make([]ledger.Settlement, batch)
	b.ReportAllocs()
	for n := 0; b.Loop(); n += batch {
		for i := range entries {
			entries[i] = entry("orders-7-" + strconv.Itoa(n+i))
		}
		claims, err := o.Claim(b.Context(), entries)
		if err != nil {
			b.Fatal(err)
		}
		for i, c := range claims {
			settlements[i] = ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed}
		}
		if _, err := o.Settle(b.Context(), settlements); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch), "ns/message")
}

func sweep(t *testing.T, l *memory.Ledger) ledger.SweepReport {
	t.Helper()
	report, err := l.Sweep(t.Context(), ledger.MaintainConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return report
}
