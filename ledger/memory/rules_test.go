package memory_test

import (
	"context"
	"errors"
	"maps"
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
	began := time.Now()
	report, err := l.Sweep(t.Context(), ledger.MaintainConfig{Batch: 100})
	if err != nil || report.Rows != 250 || report.Transactions != 3 || scopeStats(t, l).Pending != 250 {
		t.Errorf("%+v, %v", report, err)
	}
	if all := time.Since(began); report.Longest <= 0 || report.Longest > all {
		t.Errorf("the longest transaction took %s, all of them %s", report.Longest, all)
	}
}

// A pass that is given up in the middle says so, instead of what it had counted by then.
func TestSweepGivenUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	looks := -1000 // the claims
	l := memory.New(memory.WithClock(func() time.Time {
		if looks++; looks == 4 { // the second transaction over rows
			cancel()
		}
		return time.Unix(1_800_000_000, 0)
	}))
	o := join(t, l)
	for i := range 150 {
		claim(t, o, entry(strconv.Itoa(i)), ledger.Run)
	}
	looks = 0
	if r, err := l.Sweep(ctx, ledger.MaintainConfig{Batch: 100}); !errors.Is(err, context.Canceled) || r.Rows != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if s, err := l.Stats(t.Context()); err != nil || !s.At.IsZero() {
		t.Errorf("stats of a pass that was given up: %+v, %v", s, err)
	}
}

// A reader of the audit whose time is up is told so: what it has got is not all.
func TestAuditsOfACallThatEnded(t *testing.T) {
	l := memory.New()
	r := ledger.AuditRecord{By: ledger.By{Actor: "x"}, Action: ledger.ActionReplay, Key: entry("a").Key}
	if err := l.Audit(t.Context(), []ledger.AuditRecord{r, r}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var errs []error
	for _, err := range l.Audits(ctx, ledger.AuditFilter{}) {
		errs = append(errs, err)
		cancel()
	}
	if len(errs) != 2 || errs[0] != nil || !errors.Is(errs[1], context.Canceled) {
		t.Errorf("%v", errs)
	}
}

// Declare says whether there was such an owner, and whether it was live.
func TestDeclareSaysWhom(t *testing.T) {
	l := memory.New()
	o := join(t, l)
	if !l.Declare(o.ID()) || l.Declare(o.ID()) || l.Declare("nobody") {
		t.Error("a live owner is declared dead once, and nobody else is")
	}
}

// The archived delivery of a failure says how often its message was renewed by then, and nothing of that is said of a mismatch,
// which is another message's. A mended copy was not sent again by anybody yet, whatever its original was.
func TestArchiveOfARenewedMessage(t *testing.T) {
	l := memory.New()
	o := join(t, l)
	me, e := ledger.By{Actor: "me", Reason: "why"}, entry("a")
	dead := func(delivery string) *ledger.Archive {
		return &ledger.Archive{Key: e.Key, Delivery: []byte(delivery), Body: []byte("b"), Keep: time.Hour}
	}
	run := claim(t, o, e, ledger.Run)
	settle(t, o, ledger.Settlement{Ticket: run.Ticket, Kind: ledger.Fail, Dead: dead("first")})
	sent := ledger.AuditRecord{By: me, Action: ledger.ActionReplay, Key: e.Key, Delivery: []byte("first")}
	if err := l.Audit(t.Context(), []ledger.AuditRecord{sent}); err != nil {
		t.Fatal(err)
	}
	renewed, err := l.Renew(t.Context(), ledger.Renewal{Key: e.Key, Token: run.Token, By: me, Mended: true, Body: []byte("m"), Fingerprint: ledger.Fingerprint{1}})
	if err != nil {
		t.Fatal(err)
	}
	e.Fingerprint, e.Delivery, e.StampToken = ledger.Fingerprint{1}, renewed.Delivery, renewed.Token
	other := e
	other.Fingerprint, other.Delivery = ledger.Fingerprint{1: 1, 15: 1}, []byte("other's")
	odd := claim(t, o, other, ledger.Mismatch)
	settle(t, o, ledger.Settlement{Ticket: odd.Ticket, Kind: ledger.Fail, Dead: dead("other's")})
	e.Delivery = []byte("second")
	settle(t, o, ledger.Settlement{Ticket: claim(t, o, e, ledger.Run).Ticket, Kind: ledger.Fail, Dead: dead("second")})
	rec, err := l.Get(t.Context(), e.Key)
	if err != nil {
		t.Fatal(err)
	}
	generations, replayed := map[string]int{}, map[string]bool{}
	for _, a := range rec.Archived {
		generations[string(a.Delivery)], replayed[string(a.Delivery)] = a.Generation, !a.Replayed.IsZero()
	}
	copied := string(renewed.Delivery)
	if want := map[string]int{"first": 0, copied: 1, "other's": 0, "second": 1}; !maps.Equal(generations, want) {
		t.Errorf("generations %v, want %v", generations, want)
	}
	if !replayed["first"] || replayed[copied] {
		t.Errorf("replayed: %v", replayed)
	}
}

// What is purged goes with its message, if that goes before it would.
func TestPurgedGoesWithItsMessage(t *testing.T) {
	l := memory.New()
	o := join(t, l)
	e := entry("a")
	dead := &ledger.Archive{Key: e.Key, Delivery: []byte("d"), Body: []byte("b"), Keep: 100 * time.Hour}
	settle(t, o, ledger.Settlement{Ticket: claim(t, o, e, ledger.Run).Ticket, Kind: ledger.Fail, Dead: dead})
	r := ledger.PurgeRequest{Filter: ledger.Filter{Scope: e.Key.Scope}, By: ledger.By{Actor: "me", Reason: "why"}}
	if report, err := l.Purge(t.Context(), r); err != nil || report.Purged != 1 {
		t.Fatalf("%+v, %v", report, err)
	}
	rec, err := l.Get(t.Context(), e.Key)
	if err != nil || len(rec.Archived) != 1 || !rec.Archived[0].Expiry.Equal(rec.Expiry) {
		t.Errorf("the message goes at %s, what is purged: %+v, %v", rec.Expiry, rec.Archived, err)
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
