package ledgertest

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// Pitfall30 holds against this: two workers gave one scope different retentions, and the later one's shorter one swept the other's rows.
func Pitfall30(t *testing.T, open Open) {
	e := begin(t, open)
	a, m := e.owner(), e.entry("a")
	m.Window = 10 * 24 * time.Hour
	e.holds(a, release(e.inRow(a, m)))
	made := e.record(m)
	short := m
	short.Window = time.Minute
	b := e.owner()
	e.want(b, short, ledger.Run)
	e.declare(b)
	s := succeed(e.want(a, short, ledger.Run))
	if e.Ranged { // without a result, the row would go in ten minutes, and its range speak for it
		s.Result = []byte("result")
	}
	e.holds(a, s)
	e.want(e.owner(), short, ledger.Done)
	if r := e.record(m); !r.Expiry.Equal(made.Expiry) || !r.At.Equal(made.At) {
		e.Fatalf("expiry %s, was %s", r.Expiry, made.Expiry)
	}
}

// Pitfall67 holds against this: a message that killed its process was run again for ever.
func Pitfall67(t *testing.T, open Open) {
	e := begin(t, open)
	m := e.entry("a")
	m.Solo = true
	for crashes := range ledger.CrashLimit {
		o := e.owner()
		if c := e.want(o, m, ledger.Run); c.Crashes != crashes || c.Attempt != 1 {
			e.Fatalf("run: %+v, want %d crashes", c, crashes)
		}
		e.declare(o)
	}
	o := e.owner()
	s := fail(e.want(o, m, ledger.Spent), m)
	s.Dead.Kind = ledger.KindExhausted
	e.holds(o, s)
	e.want(o, m, ledger.Done)
	if r := e.record(m); r.State != ledger.Failed || len(r.Archived) != 1 || r.Archived[0].Kind != ledger.KindExhausted {
		e.Fatalf("row: %s", summary(r))
	}
}

// dates archives a delivery for each date, and checks that it comes back, whatever it is.
func dates(t *testing.T, open Open, sentAt []time.Time) {
	e := begin(t, open)
	o := e.owner()
	for i, sent := range sentAt {
		m := e.entry(number(i))
		c := e.want(o, m, ledger.Run)
		made := e.record(m)
		if got := made.Expiry.Sub(made.At); got < window-time.Second || got > window+time.Second {
			e.Fatalf("window %s, want %s", got, window)
		}
		s := fail(c, m)
		s.Dead.SentAt = sent
		s.Dead.Errors = []ledger.AttemptError{{Attempt: 1, Kind: ledger.KindError, Error: "x", At: time.Unix(1700000000, 0)}}
		e.holds(o, s)
		r := e.record(m)
		a := r.Archived[0]
		if got := a.Expiry.Sub(a.At); got < keep-time.Second || got > keep+time.Second {
			e.Fatalf("dated %s: the archive is kept for %s, want %s", sent, got, keep)
		}
		if stamp(a.SentAt) != stamp(sent) {
			e.Fatalf("sent at %s, stored %s", stamp(sent), stamp(a.SentAt))
		}
		e.want(e.owner(), m, ledger.Done)
	}
}

// Pitfall71 holds against this: a record dated in the future, in 1970 or in the year 1 got an expiry of that time, and ran again.
func Pitfall71(t *testing.T, open Open) {
	dates(t, open, []time.Time{
		{}, time.Date(1, 1, 1, 0, 0, 1, 0, time.UTC), time.Unix(0, 0), time.Unix(-1, 0),
		time.Date(2200, 1, 2, 3, 4, 5, 6000, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		time.Now().Add(10 * 365 * 24 * time.Hour).Truncate(time.Millisecond),
	})
}

// Pitfall109 holds against this: a backfill with timestamps of 2019 was read as past its deadline.
func Pitfall109(t *testing.T, open Open) {
	dates(t, open, []time.Time{time.Date(2019, 3, 31, 2, 30, 0, 0, time.UTC), time.Date(2019, 10, 27, 2, 30, 0, 0, time.UTC)})
}

// Pitfall77 holds against this: a success was committed while its answer was lost; the worker's release then put the row back to pending.
func Pitfall77(t *testing.T, open Open) {
	e := begin(t, open)
	o, m := e.owner(), e.entry("a")
	c := e.want(o, m, ledger.Run)
	e.holds(o, succeed(c))
	before := e.record(m)
	e.holds(o, failedAttempt(c, "the answer of my commit is lost"))
	e.same(before)
	e.want(e.owner(), m, ledger.Done)
	for i := range e.rounds(30) { // both at once
		n := e.entry(number(i))
		c := e.want(o, n, ledger.Run)
		var success []error
		var errS, errR error
		var wg sync.WaitGroup
		wg.Go(func() { success, errS = o.Settle(e.ctx, []ledger.Settlement{succeed(c)}) })
		wg.Go(func() { _, errR = o.Settle(e.ctx, []ledger.Settlement{release(c)}) })
		wg.Wait()
		if errS != nil || errR != nil {
			e.Fatalf("settle: %v, %v", errS, errR)
		}
		if e.Ranged && success[0] != nil {
			e.wantUnknown(n)
			continue
		}
		if r := e.record(n); (success[0] == nil) != (r.State == ledger.Succeeded) {
			e.Fatalf("success: %v; row: %s", success[0], summary(r))
		}
	}
}

// Pitfall79 holds against this: a pending row was past its expiry when its message came, and nobody ran it.
func Pitfall79(t *testing.T, open Open) {
	e := begin(t, open)
	o, m := e.owner(), e.entry("a")
	m.Window = 200 * time.Millisecond
	e.holds(o, failedAttempt(e.want(o, m, ledger.Run), "x"))
	expiry := time.Now().Add(m.Window)
	e.eventually("the window is over", func() bool { return time.Now().After(expiry.Add(100 * time.Millisecond)) })
	e.want(o, e.entry("b"), ledger.Run) // memory sweeps with each claim
	if c := e.want(o, m, ledger.Run); c.Attempt != 2 || c.Token != 2 {
		e.Fatalf("run: %+v", c)
	}
}

// Pitfall91 holds against this: an id with a NUL, or one huge archive, made a whole batch fail as if the database were down.
func Pitfall91(t *testing.T, open Open) {
	e := begin(t, open)
	o := e.owner()
	long := func(n int) []byte { return bytes.Repeat([]byte{0xff}, n) }
	good := []string{"\x00", "a\x00b", "\xff\xfe", "ü\u0000", "'; DROP", "{\"a\":\"\\u0000\"}", string(long(ledger.MaxID))}
	var entries []ledger.Entry
	for _, id := range good {
		m := e.entry(id)
		m.Delivery = []byte(id)
		if len(m.Delivery) > ledger.MaxDelivery {
			m.Delivery = m.Delivery[:ledger.MaxDelivery]
		}
		entries = append(entries, m)
	}
	bad := make([]ledger.Entry, 5)
	for i := range bad {
		bad[i] = e.entry(number(i))
	}
	bad[0].Key.ID, bad[1].Key.Scope, bad[2].Delivery = long(ledger.MaxID+1), string(long(ledger.MaxScope+1)), long(ledger.MaxDelivery+1)
	bad[3].Window, bad[4].Key.ID = -1, nil
	fields := []string{"Entry.Key.ID", "Entry.Key.Scope", "Entry.Delivery", "Entry.Window", "Entry.Key.ID"}
	claims, err := o.Claim(e.ctx, append(bad, entries...))
	if err != nil {
		e.Fatalf("claim: %v", err)
	}
	for i, field := range fields {
		e.invalid(claims[i].Err, field)
		if claims[i].Answer != ledger.Busy {
			e.Fatalf("a refused entry: %+v", claims[i])
		}
	}
	claims = claims[len(bad):]
	settlements := make([]ledger.Settlement, len(claims))
	for i, c := range claims {
		if c.Err != nil || c.Answer != ledger.Run {
			e.Fatalf("id %q: %+v", good[i], c)
		}
		settlements[i] = fail(c, entries[i])
		settlements[i].Dead.Source, settlements[i].Dead.Group = "a\x00b\xff", "\xff\x00"
		settlements[i].Dead.Errors = []ledger.AttemptError{{Attempt: 1, Kind: ledger.KindError, Error: "\x00\xff",
			At: time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC)}}
	}
	settlements[0].Dead.Body = make([]byte, e.Ledger.Limits().Archive+1)
	errs := e.settleAll(o, settlements)
	e.invalid(errs[0], "Archive")
	for i, err := range errs[1:] {
		if err != nil {
			e.Fatalf("id %q: %v", good[i+1], err)
		}
		if r := e.record(entries[i+1]); string(r.ID) != string(entries[i+1].Key.ID) || len(r.Archived) != 1 {
			e.Fatalf("row: %s", summary(r))
		}
		e.want(o, entries[i+1], ledger.Done)
	}
}

// Pitfall94 holds against this: a deploy changed the FingerprintFunc, and every redelivery was dead-lettered as a mismatch.
func Pitfall94(t *testing.T, open Open) {
	e := begin(t, open)
	o, m := e.owner(), e.entry("a")
	body := []byte(`{"id":7,"at":"now"}`)
	m.Fingerprint = ledger.BodyFingerprint(body)
	e.holds(o, release(e.want(o, m, ledger.Run)))
	deployed := m
	deployed.Fingerprint = ledger.NewFingerprint(body, []byte("7"))
	c := e.want(o, deployed, ledger.Run)
	e.holds(o, succeed(c))
	e.want(o, deployed, ledger.Done)
	e.want(o, m, ledger.Done)

	n := e.entry("b") // the other half: the same canonical bytes, another body
	n.Fingerprint = ledger.NewFingerprint(body, []byte("7"))
	e.holds(o, succeed(e.inRow(o, n)))
	n.Fingerprint = ledger.NewFingerprint([]byte(`{"at":"later","id":7}`), []byte("7"))
	e.want(o, n, ledger.Done)
	n.Fingerprint = ledger.NewFingerprint([]byte("8"), []byte("8"))
	e.want(o, n, ledger.Mismatch)
}

// Pitfall98 holds against this: a revoke released two thousand claims one by one, counted them, and lost them at the tenth time.
func Pitfall98(t *testing.T, open Open) {
	e := begin(t, open)
	all := e.entries(inLongRun(2000, 500))
	var o ledger.Owner
	for round := range 10 {
		o = e.owner()
		settlements := make([]ledger.Settlement, len(all))
		for i, c := range e.claimAll(o, all) {
			if c.Answer != ledger.Run || c.Attempt != 1 || c.Crashes != 0 || c.Token != uint64(round+1) {
				e.Fatalf("round %d, claim %d: %+v", round, i, c)
			}
			settlements[i] = release(c)
		}
		for i, err := range e.settleAll(o, settlements) {
			if err != nil {
				e.Fatalf("round %d, release %d: %v", round, i, err)
			}
		}
	}
}

// Pitfall100 holds against this: sorted batches of very different size on one table still waited for each other.
func Pitfall100(t *testing.T, open Open) {
	e := begin(t, open)
	all := e.entries(1000)
	raceBatches(e, [][]ledger.Entry{all, all[:1], all[500:510], all[999:], all[300:800], all[:50]}, 12)
}

// Pitfall104 holds against this: two records with one business key both failed; redeliveries of the first were run again and again, since
// only the last failed delivery was known.
func Pitfall104(t *testing.T, open Open) {
	e := begin(t, open)
	o, first := e.owner(), e.entry("order 7")
	second := first
	second.Delivery = []byte("order 7#2")
	e.holds(o, fail(e.want(o, first, ledger.Run), first))
	e.holds(o, fail(e.want(o, second, ledger.Run), second))
	before := e.record(first)
	if len(before.Archived) != 2 || before.Token != 2 {
		e.Fatalf("row: %s", summary(before))
	}
	for range 5 {
		e.want(o, first, ledger.Done)
		e.want(e.owner(), second, ledger.Done)
	}
	e.same(before)
}

// Pitfall113 holds against this: an owner was declared dead and its row swept while it was frozen; it woke up and claimed rows that nobody
// could take from it.
func Pitfall113(t *testing.T, open Open) {
	e := begin(t, open)
	o, m := e.owner(), e.entry("a")
	e.declare(o)
	if err := e.DropOwner(e.ctx, o.ID()); err != nil {
		e.Fatalf("drop owner: %v", err)
	}
	if _, err := o.Claim(e.ctx, []ledger.Entry{m}); !ledger.IsLost(err) {
		e.Fatalf("claim: %v, want ErrLost", err)
	}
	if _, err := o.Beat(e.ctx); !ledger.IsLost(err) {
		e.Fatalf("beat: %v, want ErrLost", err)
	}
	e.leave(o)
	if c := e.want(e.owner(), m, ledger.Run); c.Token != 1 {
		e.Fatalf("run: %+v", c)
	}
}

// Pitfall114 holds against this: the answer of a claim was lost and its copy was gone: nobody asked again, and the message was Busy for ever.
func Pitfall114(t *testing.T, open Open) {
	e := begin(t, open)
	a, m := e.owner(), e.entry("a")
	e.want(a, m, ledger.Run) // never seen by the worker
	e.want(e.owner(), m, ledger.Busy)
	e.holds(a, release(e.want(a, m, ledger.Run))) // asked again until answered, then released
	if c := e.want(e.owner(), m, ledger.Run); c.Crashes != 0 || c.Attempt != 1 || c.TookOver {
		e.Fatalf("run: %+v", c)
	}
	n := e.entry("b")
	e.want(a, n, ledger.Run) // the other way out: leave, and join anew
	e.leave(a)
	if c := e.want(e.owner(), n, ledger.Run); c.Crashes != 0 {
		e.Fatalf("run: %+v", c)
	}
}

// Pitfall115 holds against this: a release that was given up arrived late, after the same worker had claimed the message again.
func Pitfall115(t *testing.T, open Open) {
	e := begin(t, open)
	o, m := e.owner(), e.entry("a")
	first := e.want(o, m, ledger.Run)
	second := e.want(o, m, ledger.Run)
	before := e.record(m)
	e.lost(o, release(first))
	e.lost(o, failedAttempt(first, "late"))
	e.same(before)
	e.holds(o, release(second))
	third := e.want(o, m, ledger.Run)
	before = e.record(m)
	e.lost(o, release(second))
	e.same(before)
	// A claim whose deadline has passed changes nothing either.
	past, cancel := context.WithDeadline(e.ctx, time.Now().Add(-time.Second))
	defer cancel()
	if _, err := o.Claim(past, []ledger.Entry{m}); err == nil || ledger.Unknown(err) {
		e.Fatalf("claim past its deadline: %v", err)
	}
	e.same(before)
	e.holds(o, succeed(third))
}
