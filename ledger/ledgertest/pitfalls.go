package ledgertest

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// Pitfall01 holds against this: B took over a row that A had made a moment ago, because it had no lease end yet and was read as an orphan.
func Pitfall01(t *testing.T, open Open) {
	e := begin(t, open)
	a, b := e.owner(), e.owner()
	for i := range e.rounds(50) {
		m := e.entry(number(i))
		var first, second []ledger.Claim
		var errA, errB error
		var wg sync.WaitGroup
		wg.Go(func() { first, errA = a.Claim(e.ctx, []ledger.Entry{m}) })
		wg.Go(func() { second, errB = b.Claim(e.ctx, []ledger.Entry{m}) })
		wg.Wait()
		if errA != nil || errB != nil {
			e.Fatalf("claim: %v, %v", errA, errB)
		}
		if (first[0].Answer == ledger.Run) == (second[0].Answer == ledger.Run) {
			e.Fatalf("one must run: %v and %v", first[0].Answer, second[0].Answer)
		}
		if r := e.record(m); r.Owner == "" || r.Token != 1 {
			e.Fatalf("row: %s", summary(r))
		}
	}
}

// Pitfall02 holds against this: B read a stale row, A finished it, and B's take-over then wrote over the success.
func Pitfall02(t *testing.T, open Open) {
	e := begin(t, open)
	for i := range e.rounds(40) {
		a, b, m := e.owner(), e.owner(), e.entry(number(i))
		c := e.want(a, m, ledger.Run)
		e.declare(a)
		var taken []ledger.Claim
		var settled []error
		var errA, errB error
		var wg sync.WaitGroup
		wg.Go(func() { settled, errA = a.Settle(e.ctx, []ledger.Settlement{succeed(c)}) })
		wg.Go(func() { taken, errB = b.Claim(e.ctx, []ledger.Entry{m}) })
		wg.Wait()
		if e.Ranged && ledger.IsLost(errA) { // only a live owner writes in its ranges
			settled, errA = []error{errA}, nil
		}
		if errA != nil || errB != nil {
			e.Fatalf("settle %v, claim %v", errA, errB)
		}
		held, ran := settled[0] == nil, taken[0].Answer == ledger.Run
		if held == ran {
			if held || taken[0].Answer != ledger.Busy || !ledger.IsLost(settled[0]) {
				e.Fatalf("settled: %v, taken over: %+v", settled[0], taken[0])
			}
		}
		if r := e.record(m); held != (r.State == ledger.Succeeded) {
			e.Fatalf("settled: %v; row: %s", settled[0], summary(r))
		}
	}
}

// Pitfall03 holds against this: A outlived its lease and B claimed; A's failure, then its success, overwrote B's row.
func Pitfall03(t *testing.T, open Open) {
	e := begin(t, open)
	a, b, m := e.owner(), e.owner(), e.entry("a")
	old := e.want(a, m, ledger.Run)
	e.declare(a)
	c := e.want(b, m, ledger.Run)
	before := e.record(m)
	e.lost(a, fail(old, m))
	e.lost(a, failedAttempt(old, "late"))
	e.lost(a, succeed(old))
	e.same(before)
	e.holds(b, succeed(c))
}

// Pitfall04 holds against this: a beat ignored that it had changed no row, and the handlers of a dead owner ran on.
func Pitfall04(t *testing.T, open Open) {
	e := begin(t, open)
	o := e.owner()
	if _, err := o.Beat(e.ctx); err != nil {
		e.Fatalf("beat: %v", err)
	}
	e.declare(o)
	for range 3 {
		if rest, err := o.Beat(e.ctx); !ledger.IsLost(err) || rest > 0 {
			e.Fatalf("beat of the dead: %s, %v", rest, err)
		}
	}
}

// Pitfall05 holds against this: a worker that lost its lease joined anew and settled its own row with the token of its old life.
func Pitfall05(t *testing.T, open Open) {
	e := begin(t, open)
	a, m := e.owner(), e.entry("a")
	old := e.want(a, m, ledger.Run)
	e.declare(a)
	again := e.owner()
	c := e.want(again, m, ledger.Run)
	if c.Token != old.Token+1 || c.Crashes != 1 {
		e.Fatalf("run: %+v", c)
	}
	e.lost(a, succeed(old))
	e.lost(again, succeed(old))
	e.holds(again, succeed(c))
}

// Pitfall07 holds against this: twenty workers saw one stale row, and two of them took it.
func Pitfall07(t *testing.T, open Open) {
	e := begin(t, open)
	raceTakers(e, e.declare, 25)
}

// Pitfall08 holds against this: the answer of a claim was lost on the wire; the worker met its own row as a stranger's and waited for ever.
func Pitfall08(t *testing.T, open Open) {
	e := begin(t, open)
	o := e.owner()
	all := e.entries(5)
	lost := e.claimAll(o, all)
	again := e.claimAll(o, all)
	for i, c := range again {
		if c.Answer != ledger.Run || c.Token != lost[i].Token+1 || c.Attempt != 1 || c.Crashes != 0 {
			e.Fatalf("claim %d: %+v", i, c)
		}
		e.lost(o, succeed(lost[i]))
		e.holds(o, succeed(c))
	}
}

// Pitfall11 holds against this: a claim lost against another one, and the row was swept before it was read: it ran without a row.
func Pitfall11(t *testing.T, open Open) {
	e := begin(t, open)
	a, m := e.owner(), e.entry("a")
	for round := range 20 {
		var claims [2][]ledger.Claim
		var errs [2]error
		owners := [2]ledger.Owner{a, e.owner()}
		e.holds(a, succeed(e.want(a, m, ledger.Run)))
		var wg sync.WaitGroup
		drop := func() {
			if err := e.Drop(e.ctx, m.Key); err != nil {
				e.Errorf("drop: %v", err)
			}
		}
		if round%2 == 0 {
			wg.Go(drop)
		}
		for i, o := range owners {
			wg.Go(func() { claims[i], errs[i] = o.Claim(e.ctx, []ledger.Entry{m}) })
		}
		if round%2 != 0 {
			wg.Go(drop)
		}
		wg.Wait()
		runs := 0
		for i, c := range claims {
			if errs[i] != nil {
				e.Fatalf("claim: %v", errs[i])
			}
			if c[0].Answer != ledger.Run {
				continue
			}
			runs++
			if r, err := e.Get(e.ctx, m.Key); err == nil && r.Owner != owners[i].ID() {
				e.Fatalf("it runs, and the row is not its own: %s", summary(r))
			}
		}
		if runs > 1 {
			e.Fatalf("%d runs", runs)
		}
		if err := e.Drop(e.ctx, m.Key); err != nil {
			e.Fatal(err)
		}
	}
}

// Pitfall12 holds against this: one poll brought the same key twice, and the batch failed with a database error.
func Pitfall12(t *testing.T, open Open) {
	e := begin(t, open)
	o, m, n := e.owner(), e.entry("a"), e.entry("b")
	twin := m
	twin.Delivery = []byte("a#2")
	claims := e.claimAll(o, []ledger.Entry{m, n, twin, m})
	for i, want := range []ledger.Answer{ledger.Run, ledger.Run, ledger.Busy, ledger.Busy} {
		if claims[i].Answer != want {
			e.Fatalf("claim %d: %v, want %v", i, claims[i].Answer, want)
		}
	}
	if r := e.record(m); r.Token != 1 {
		e.Fatalf("row: %s", summary(r))
	}
	e.holds(o, succeed(claims[0]))
	e.want(o, twin, ledger.Done)
}

// Pitfall13 holds against this: two batches locked the same rows in opposite order and waited for each other.
func Pitfall13(t *testing.T, open Open) {
	e := begin(t, open)
	up := e.entries(200)
	down := make([]ledger.Entry, len(up))
	for i := range up {
		down[len(up)-1-i] = up[i]
	}
	raceBatches(e, [][]ledger.Entry{up, down, up, down}, 15)
}

// Pitfall15 holds against this: a ledger with a table a day ran a message again that was redelivered after midnight.
func Pitfall15(t *testing.T, open Open) {
	e := begin(t, open)
	a, b, m := e.owner(), e.owner(), e.entry("a")
	e.holds(a, succeed(e.want(a, m, ledger.Run)))
	before := e.record(m)
	var wg sync.WaitGroup
	for _, o := range []ledger.Owner{a, b} {
		wg.Go(func() {
			tomorrow := m // the broker's copy of the next day, with a window that is counted from then
			tomorrow.Delivery, tomorrow.Window = []byte("copy of "+o.ID()), window+24*time.Hour
			claims, err := o.Claim(e.ctx, []ledger.Entry{tomorrow})
			for end := time.Now().Add(patience); err == nil && claims[0].Answer == ledger.Busy && !e.Failed() && time.Now().Before(end); {
				claims, err = o.Claim(e.ctx, []ledger.Entry{tomorrow}) // the other one has the row locked just now
			}
			if err != nil || claims[0].Answer != ledger.Done {
				e.Errorf("claim: %+v, %v", claims, err)
			}
		})
	}
	wg.Wait()
	e.same(before)
}

// Pitfall16 holds against this: a handler changed the message in place, and another row was settled.
func Pitfall16(t *testing.T, open Open) {
	e := begin(t, open)
	o, m := e.owner(), e.entry("a message")
	scratch := m
	scratch.Key.ID, scratch.Delivery = bytes.Clone(m.Key.ID), bytes.Clone(m.Delivery)
	c := e.want(o, scratch, ledger.Run)
	s := fail(c, scratch)
	s.Dead.Body, s.Dead.Headers = []byte("the body"), []ledger.Header{{Name: "h", Value: []byte("v")}}
	want := showArchive(s.Dead)
	e.holds(o, s)
	copy(scratch.Key.ID, "XXXXXXXXX")
	copy(scratch.Delivery, "XXXXXXXXX")
	copy(s.Dead.Body, "XXXXXXXXX")
	s.Dead.Headers[0].Value[0] = 'X'
	r := e.record(m)
	if r.State != ledger.Failed || string(r.ID) != string(m.Key.ID) || showArchive(&r.Archived[0].Archive) != want {
		e.Fatalf("row: %s", summary(r))
	}
	n := e.entry("with a result")
	result := []byte("result")
	success := succeed(e.want(o, n, ledger.Run))
	success.Result = result
	e.holds(o, success)
	copy(result, "XXXXXX")
	if got := e.want(o, n, ledger.Done).Outcome.Result; string(got) != "result" {
		e.Fatalf("result %q", got)
	}
}

// Pitfall17 holds against this: the fingerprint was dropped when the message was done, and rewritten by a take-over.
func Pitfall17(t *testing.T, open Open) {
	e := begin(t, open)
	m := e.entry("a")
	m.Fingerprint = ledger.NewFingerprint([]byte("body"), []byte("canonical"))
	e.crash(m)
	half := m
	half.Fingerprint = ledger.NewFingerprint([]byte("body"), []byte("canonical of a new version"))
	o := e.owner()
	c := e.want(o, half, ledger.Run)
	want := m.Fingerprint
	if e.Ranged { // the dead owner's range had none: the first one that is told is kept
		want = half.Fingerprint
	}
	kept := func() {
		e.Helper()
		if r := e.record(m); r.Fingerprint != want {
			e.Fatalf("fingerprint %x, want %x", r.Fingerprint, want)
		}
		mismatch(e, o, m)
	}
	kept()
	e.holds(o, fail(c, half))
	kept()
	half.Delivery = []byte("a#2")
	c = e.want(o, half, ledger.Run)
	kept()
	e.holds(o, succeed(c))
	kept()
}

// Pitfall18 holds against this: two workers shared a store, and the one that was made later changed the other one's lease and window.
func Pitfall18(t *testing.T, open Open) {
	e := begin(t, open)
	a, b := e.join(20*time.Minute), e.join(10*time.Second)
	m, n := e.entry("a"), e.entry("b")
	n.Window = 48 * time.Hour
	e.want(a, m, ledger.Run)
	e.want(b, n, ledger.Run)
	for o, lease := range map[ledger.Owner]time.Duration{a: 20 * time.Minute, b: 10 * time.Second} {
		if rest, err := o.Beat(e.ctx); err != nil || rest > lease || rest < lease-patience {
			e.Fatalf("beat: %s, %v; the lease is %s", rest, err, lease)
		}
	}
	if c := e.want(b, m, ledger.Busy); c.Wait < 10*time.Minute || c.Wait > 20*time.Minute {
		e.Fatalf("busy for %s, want about 20m", c.Wait)
	}
	if c := e.want(a, n, ledger.Busy); c.Wait > 10*time.Second {
		e.Fatalf("busy for %s, want at most 10s", c.Wait)
	}
	for _, entry := range []ledger.Entry{m, n} {
		r := e.record(entry)
		if got := r.Expiry.Sub(r.At); got < entry.Window-time.Second || got > entry.Window+time.Second {
			e.Fatalf("window %s, want %s", got, entry.Window)
		}
	}
}

// Pitfall19 holds against this: the message was marked as seen before it was handled; its handler failed once, and the redelivery was
// dropped as a duplicate.
func Pitfall19(t *testing.T, open Open) {
	e := begin(t, open)
	o, m := e.owner(), e.entry("a")
	e.holds(o, failedAttempt(e.want(o, m, ledger.Run), "once"))
	m.Delivery = []byte("a#2")
	c := e.want(o, m, ledger.Run)
	if c.Attempt != 2 {
		e.Fatalf("run: %+v", c)
	}
	e.holds(o, succeed(c))
	e.want(o, m, ledger.Done)
}

// Pitfall23 holds against this: a result that was nil, empty, not text or too large could not be stored, and its message ran again.
func Pitfall23(t *testing.T, open Open) {
	e := begin(t, open)
	o, limit := e.owner(), e.Ledger.Limits().Result
	results := [][]byte{nil, {}, []byte("\x00"), []byte("a\x00\u0000b"), []byte("\xff\xfe\xc3("), []byte(`{"a":1,"a":2}`),
		bytes.Repeat([]byte("x"), limit), bytes.Repeat([]byte("y"), limit+1), bytes.Repeat([]byte("\x00"), 3*limit)}
	for i, result := range results {
		m := e.entry(number(i))
		s := succeed(e.want(o, m, ledger.Run))
		s.Result = result
		e.holds(o, s)
		got := e.want(o, m, ledger.Done).Outcome.Result
		if want := storage.CutResult(result, limit); !bytes.Equal(got, want) || (got == nil) != (want == nil) || len(got) > limit {
			e.Fatalf("result %d: %d bytes (nil %t), want %d (nil %t)", i, len(got), got == nil, len(want), want == nil)
		}
		if cut := strings.Contains(string(got), "cut from"); cut != (len(result) > limit) {
			e.Fatalf("result %d of %d bytes: marked as cut: %t", i, len(result), cut)
		}
	}
}

// Pitfall26 holds against this: the lease was the retention: after a crash the key was wedged for days.
func Pitfall26(t *testing.T, open Open) {
	e := begin(t, open)
	m := e.entry("a")
	m.Window = 30 * 24 * time.Hour
	e.crash(m)
	o := e.owner()
	c := e.want(o, m, ledger.Run)
	if r := e.record(m); r.Expiry.Sub(r.At) < m.Window-time.Second {
		e.Fatalf("row: %s", summary(r))
	}
	e.holds(o, succeed(c))
}

// Pitfall27 holds against this: a retryable error deleted the row, and with it the count of attempts.
func Pitfall27(t *testing.T, open Open) {
	e := begin(t, open)
	o, m := e.owner(), e.entry("a")
	e.holds(o, release(e.inRow(o, m)))
	made := e.record(m)
	before := made.Attempts
	for i := range 4 {
		e.holds(o, failedAttempt(e.want(o, m, ledger.Run), "again"))
		r := e.record(m)
		if r.Attempts != before+i+1 || r.State != ledger.Pending || !r.At.Equal(made.At) || !r.Expiry.Equal(made.Expiry) {
			e.Fatalf("row: %s", summary(r))
		}
		e.holds(o, release(e.want(o, m, ledger.Run))) // an interruption by us neither counts nor resets
		if got := e.record(m).Attempts; got != before+i+1 {
			e.Fatalf("%d attempts, want %d", got, before+i+1)
		}
	}
}
