package memory_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// lostKey is a cipher whose key is not there.
type lostKey struct{}

var errLostKey = errors.New("the key is not there")

func (lostKey) Seal(_ context.Context, plain []byte) ([]byte, error) { return plain, nil }
func (lostKey) Open(context.Context, []byte) ([]byte, error)         { return nil, errLostKey }

// A list that cannot be read to its end says so: a short one would be taken for the whole.
func TestListsSayWhatTheyCannotRead(t *testing.T) {
	l := memory.New()
	o := join(t, l)
	dead := &ledger.Archive{Key: entry("a").Key, Delivery: []byte("a"), Body: []byte("b"), Keep: time.Hour}
	if err := dead.Seal(t.Context(), lostKey{}); err != nil {
		t.Fatal(err)
	}
	settle(t, o, ledger.Settlement{Ticket: claim(t, o, entry("a"), ledger.Run).Ticket, Kind: ledger.Fail, Dead: dead})
	settle(t, o, ledger.Settlement{Ticket: claim(t, o, entry("b"), ledger.Run).Ticket, Kind: ledger.Succeed})
	var got error
	for _, err := range l.DeadLetters(t.Context(), ledger.Filter{Body: true, Cipher: lostKey{}}) {
		got = err
	}
	if !errors.Is(got, errLostKey) {
		t.Errorf("dead letters: %v", got)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	me := ledger.By{Actor: "me", Reason: "why"}
	if r, err := l.Reopen(ended, ledger.ReopenRequest{Filter: ledger.Filter{Scope: "s"}, By: me}); !errors.Is(err, context.Canceled) || r.Reopened != 0 {
		t.Errorf("reopen: %+v, %v", r, err)
	}
	claim(t, o, entry("b"), ledger.Done)
}

// The audit keeps what it was given, whatever becomes of the caller's bytes.
func TestAuditKeepsACopy(t *testing.T) {
	l := memory.New()
	id, delivery := []byte("id"), []byte("delivery")
	r := ledger.AuditRecord{By: ledger.By{Actor: "x"}, Action: ledger.ActionReplay, Key: ledger.Key{Scope: "s", ID: id}.Known(), Delivery: delivery}
	if err := l.Audit(t.Context(), []ledger.AuditRecord{r}); err != nil {
		t.Fatal(err)
	}
	copy(id, "xx")
	copy(delivery, "xxxxxxxx")
	for a, err := range l.Audits(t.Context(), ledger.AuditFilter{}) {
		if err != nil || string(a.Key.ID) != "id" || string(a.Delivery) != "delivery" {
			t.Errorf("%q, %q, %v", a.Key.ID, a.Delivery, err)
		}
	}
}

// Limits are what was set, and never below nothing.
func TestWithLimits(t *testing.T) {
	l := memory.New(memory.WithLimits(ledger.Limits{Result: 8, Archive: -1, Errors: 100}))
	if got := l.Limits(); got != (ledger.Limits{Result: 8, Errors: 100}) {
		t.Errorf("%+v", got)
	}
}

// A store's own owner claims by rows, also what the owner above it would hold in a range.
func TestOwnOwnerClaimsByRows(t *testing.T) {
	l := memory.New()
	o := ledger.Unwrap(join(t, l))
	claimAll(t, o, []ledger.Entry{record(0, 0, 0), entry("a")}, ledger.Run)
	if l.Len() != 2 {
		t.Errorf("%d rows, want 2", l.Len())
	}
}

// A pass looks at every row, however many of them a transaction takes.
func TestSweepLooksAtEveryRow(t *testing.T) {
	l := memory.New()
	o := join(t, l)
	for i := range 250 {
		claim(t, o, entry(strconv.Itoa(i)), ledger.Run)
	}
	report, err := l.Sweep(t.Context(), ledger.MaintainConfig{Batch: 100})
	if err != nil || report.Rows != 250 || report.Transactions != 3 || scopeStats(t, l).Pending != 250 {
		t.Errorf("%+v, %v", report, err)
	}
}

// Owners whose lease is over, and whom nobody declared dead, are counted as overdue.
func TestStatsCountOverdueOwners(t *testing.T) {
	c := newClock()
	l := memory.New(memory.WithClock(c.Now))
	join(t, l)
	c.pass(time.Minute)
	join(t, l)
	s, err := l.Stats(t.Context())
	if err != nil || s.Owners.Live != 2 || s.Owners.Overdue != 1 {
		t.Errorf("%+v, %v", s.Owners, err)
	}
}

// Faults are told which call of the contract they meet, in ranges as with rows.
func TestFaultsSeeWhatIsCalled(t *testing.T) {
	l := memory.New()
	o := join(t, l)
	var ops []memory.Op
	l.FailBefore(func(_ context.Context, op memory.Op) error { ops = append(ops, op); return nil })
	claims := claimAll(t, o, []ledger.Entry{record(0, 0, 0), record(0, 1, 0)}, ledger.Run)
	succeedAll(t, o, claims[:1])
	if want := []memory.Op{memory.Claim, memory.Settle}; !slices.Equal(ops, want) {
		t.Errorf("%v, want %v", ops, want)
	}
}

// Rows that a range left behind go with their window by and by, while others are claimed and nobody sweeps.
func TestRowsOfRangesGoWhileOthersAreClaimed(t *testing.T) {
	for name, c := range map[string]struct {
		settle ledger.Settlement
		after  time.Duration
	}{
		"with a result":                   {ledger.Settlement{Kind: ledger.Succeed, Result: []byte("r")}, time.Hour},
		"that failed once, and succeeded": {ledger.Settlement{Kind: ledger.Succeed}, 10 * time.Minute},
	} {
		clock := newClock()
		l := memory.New(memory.WithClock(clock.Now))
		o := join(t, l)
		long := record(0, 0, 0) // its row is the first, and stays
		long.Window = 100 * time.Hour
		settle(t, o, ledger.Settlement{Ticket: claim(t, o, long, ledger.Run).Ticket, Kind: ledger.Succeed, Result: []byte("r")})
		m := record(0, 1, 0)
		run := claim(t, o, m, ledger.Run)
		if c.settle.Result == nil {
			settle(t, o, ledger.Settlement{Ticket: run.Ticket, Kind: ledger.Release, Count: true})
			run = claim(t, o, m, ledger.Run)
		}
		c.settle.Ticket = run.Ticket
		settle(t, o, c.settle)
		clock.pass(c.after)
		claim(t, o, record(0, 2, 0), ledger.Run)
		if l.Len() != 2 {
			t.Errorf("%s: %d rows at the end of their time, want 2", name, l.Len())
		}
		clock.pass(time.Second)
		claim(t, o, record(0, 3, 0), ledger.Run)
		if l.Len() != 1 {
			t.Errorf("%s: %d rows after it, want the one whose window is longer", name, l.Len())
		}
	}
}

// A pass names as many abandoned messages of a range as a report has room for.
func TestSweepNamesTheAbandonedOfARange(t *testing.T) {
	for n, want := range map[int]int{ledger.MaxAbandoned - 1: ledger.MaxAbandoned - 1, ledger.MaxAbandoned: ledger.MaxAbandoned, ledger.MaxAbandoned + 1: ledger.MaxAbandoned} {
		c := newClock()
		l := memory.New(memory.WithClock(c.Now))
		o := join(t, l)
		var entries []ledger.Entry
		for offset := range int64(n) {
			entries = append(entries, record(0, offset, 0))
		}
		claimAll(t, o, entries, ledger.Run)
		c.pass(2 * time.Hour)
		if r := sweep(t, l); r.Abandoned != int64(n) || len(r.Oldest) != want {
			t.Errorf("%d abandoned: %d counted, %d named, want %d", n, r.Abandoned, len(r.Oldest), want)
		}
	}
}
