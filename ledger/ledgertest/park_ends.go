package ledgertest

import (
	"bytes"
	"sync"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// parkCrashes: the crashes of what is parked count as of any message, up to its end.
func parkCrashes(e *env) {
	o, m := e.owner(), e.entry("m")
	e.parked(o, m, soon)
	for n := range ledger.CrashLimit {
		list := e.untilDue(1, soon)
		entry := fromCare(m)
		if n > ledger.SuspectCrashes {
			if c := e.want(o, entry, ledger.Busy); !c.Suspect {
				e.Fatalf("after %d crashes: %+v", n, c)
			}
		}
		entry.Solo = true
		dies := e.owner()
		if c := e.want(dies, entry, ledger.Run); c.Crashes != n || c.TookOver != (n > 0) || !bytes.Equal(list[0].Body, []byte("body of m#1")) {
			e.Fatalf("crash %d: %+v", n, c)
		}
		e.want(o, m, ledger.InCare)
		e.declare(dies)
		e.want(o, m, ledger.InCare)
	}
	e.untilDue(1, time.Hour)
	c := e.want(o, fromCare(m), ledger.Spent)
	if c.Crashes != ledger.CrashLimit {
		e.Fatalf("%+v", c)
	}
	e.holds(o, fail(c, m))
	e.wantParked(0)
}

// parkInTx: the effect, the success and the end of what was parked are one commit.
func parkInTx(e *env) {
	if e.InTx == nil {
		return
	}
	o, m := e.owner(), e.entry("m")
	e.parked(o, m, soon)
	e.untilDue(1, time.Hour)
	c := e.want(o, fromCare(m), ledger.Run)
	ctx, a := e.attempt(o, c)
	if err := e.InTx(ctx, e.effect(m)); err != nil {
		e.Fatal(err)
	}
	e.wantState(a, ledger.AttemptSucceeded)
	e.wantEffects(m, 1)
	e.wantParked(0)
	e.want(o, m, ledger.Done)
}

// parkMismatch: another body under a known id is another message, parked or not.
func parkMismatch(e *env) {
	o, m := e.owner(), e.entry("m")
	e.parked(o, m, soon)
	bad := m
	bad.Fingerprint, bad.Delivery = ledger.BodyFingerprint([]byte("another")), []byte("m#2")
	c := e.want(o, bad, ledger.Mismatch)
	e.invalid(e.settle(o, park(c, bad, time.Hour)), "Settlement.Ticket")
	e.holds(o, fail(c, bad))
	e.want(o, bad, ledger.Done)
	e.want(o, m, ledger.InCare)
	e.wantParked(1)
}

// parkRowGone: what is parked runs though its row is gone.
func parkRowGone(e *env) {
	o, m := e.owner(), e.entry("m")
	e.parked(o, m, soon)
	if err := e.Drop(e.ctx, m.Key); err != nil {
		e.Fatal(err)
	}
	e.untilDue(1, time.Hour)
	e.holds(o, succeed(e.want(o, fromCare(m), ledger.Run)))
	e.wantParked(0)
}

// parkFailedElsewhere: the ledger's own copy begins nothing anew of a message that has failed, and what is left of it goes.
func parkFailedElsewhere(e *env) {
	o, m := e.owner(), e.entry("m")
	e.parked(o, m, soon)
	if err := e.Drop(e.ctx, m.Key); err != nil {
		e.Fatal(err)
	}
	another := m // no row says that the message is parked: a program that knows nothing of it
	another.Delivery, another.Ranged = []byte("m#2"), false
	c := e.want(o, another, ledger.Run)
	e.holds(o, fail(c, another))
	e.want(o, fromCare(m), ledger.Done)
	if reply := e.due(time.Hour); len(reply.Messages) != 0 {
		e.Fatalf("%+v", reply)
	}
	e.eventually("what is left of it goes", func() bool {
		e.due(time.Hour)
		s, err := e.parking().ParkedIn(e.ctx, e.scope)
		return err == nil && s.Messages == 0
	})
}

// parkOutlives: the row of what is parked is there for as long as it waits, and then some.
func parkOutlives(e *env) {
	o, m := e.owner(), e.entry("m")
	m.Window = time.Second
	e.parked(o, m, ledger.MaxPark)
	if r := e.record(m); r.State != ledger.Pending || r.Owner != "" || r.Expiry.Sub(r.Due) < keep-time.Second || time.Until(r.Due) < ledger.MaxPark-time.Minute {
		e.Fatal(summary(r))
	}
}

// parkOutlivesAgain: it is there for as long as it may wait again, however often it was given back.
func parkOutlivesAgain(e *env) {
	o, m := e.owner(), e.entry("m")
	m.Window = time.Second
	s := park(e.want(o, m, ledger.Run), m, soon)
	s.Dead.Keep = time.Hour
	e.holds(o, s)
	e.untilDue(1, time.Hour)
	again := failedAttempt(e.want(o, fromCare(m), ledger.Run), "not yet")
	again.After = ledger.MaxPark
	e.holds(o, again)
	if r := e.record(m); r.State != ledger.Pending || time.Until(r.Due) < ledger.MaxPark-time.Minute || r.Expiry.Sub(r.Due) < time.Hour-time.Second {
		e.Fatal(summary(r))
	}
	e.wantParked(1)
}

// parkInOneCall: what is parked beside other settlements of one call.
func parkInOneCall(e *env) {
	o, entries := e.owner(), e.entries(6)
	claims := e.claimAll(o, entries)
	for i, err := range e.settleAll(o, []ledger.Settlement{
		succeed(claims[0]), park(claims[1], entries[1], soon), fail(claims[2], entries[2]),
		park(claims[3], entries[3], time.Hour), failedAttempt(claims[4], "again"), park(claims[5], entries[5], soon),
	}) {
		if err != nil {
			e.Fatalf("%d: %v", i, err)
		}
	}
	for i, want := range []ledger.Answer{ledger.Done, ledger.InCare, ledger.Done, ledger.InCare, ledger.Run, ledger.InCare} {
		e.want(o, entries[i], want)
	}
	e.wantParked(3)
	e.untilDue(2, time.Hour)
	both := e.claimAll(o, []ledger.Entry{fromCare(entries[1]), fromCare(entries[5])})
	for i, err := range e.settleAll(o, []ledger.Settlement{succeed(both[0]), release(both[1])}) {
		if err != nil {
			e.Fatalf("%d: %v", i, err)
		}
	}
	e.wantParked(2)
}

// parkTwo: two processes that look at the same time run each message once.
func parkTwo(e *env) {
	const n = 60
	o, entries := e.owner(), e.entries(n)
	claims := e.claimAll(o, entries)
	sets := make([]ledger.Settlement, n)
	for i := range sets {
		sets[i] = park(claims[i], entries[i], soon)
	}
	for _, err := range e.settleAll(o, sets) {
		if err != nil {
			e.Fatal(err)
		}
	}
	byID := map[string]ledger.Entry{}
	for _, m := range entries {
		byID[string(m.Key.ID)] = m
	}
	owners := []ledger.Owner{e.owner(), e.owner(), e.owner()}
	var mu sync.Mutex
	ran := map[string]int{}
	e.eventually("all have run", func() bool {
		var wg sync.WaitGroup
		for _, looks := range owners {
			wg.Go(func() {
				reply, err := e.parking().Due(e.ctx, ledger.DueRequest{Scope: e.scope, Most: 17, Bytes: 1 << 20, Hide: soon})
				for _, p := range reply.Messages {
					answers, failed := looks.Claim(e.ctx, []ledger.Entry{fromCare(byID[string(p.Key.ID)])})
					if err = failed; err != nil || answers[0].Answer != ledger.Run {
						continue
					}
					mu.Lock()
					ran[string(p.Key.ID)]++
					mu.Unlock()
					_, err = looks.Settle(e.ctx, []ledger.Settlement{succeed(answers[0])})
				}
				if err != nil {
					e.Error(err)
				}
			})
		}
		wg.Wait()
		return e.Failed() || len(ran) == n
	})
	for id, times := range ran {
		if times != 1 {
			e.Fatalf("%q ran %d times", id, times)
		}
	}
	e.wantParked(0)
}

// parkInvalid: what cannot be parked is refused by itself, and nothing else of its call.
func parkInvalid(e *env) {
	o, entries := e.owner(), e.entries(3)
	claims := e.claimAll(o, entries)
	tooLong, none, large := park(claims[0], entries[0], ledger.MaxPark+1), park(claims[0], entries[0], soon), park(claims[0], entries[0], soon)
	none.Dead = nil
	large.Dead.Body = make([]byte, e.Ledger.Limits().Archive+1)
	for _, c := range []struct {
		bad   ledger.Settlement
		field string
	}{
		{tooLong, "Settlement.After"}, {park(claims[0], entries[0], 0), "Settlement.After"}, {none, "Settlement.Dead"}, {large, "Archive"},
	} {
		e.invalid(e.settle(o, c.bad), c.field)
	}
	errs := e.settleAll(o, []ledger.Settlement{tooLong, park(claims[1], entries[1], soon)})
	e.invalid(errs[0], "Settlement.After")
	if errs[1] != nil {
		e.Fatal(errs[1])
	}
	e.wantParked(1)
	for field, r := range map[string]ledger.DueRequest{
		"DueRequest.Scope": {Most: 1, Bytes: 1, Hide: 1}, "DueRequest.Most": {Scope: e.scope, Most: ledger.MaxDue + 1, Bytes: 1, Hide: 1},
		"DueRequest.Bytes": {Scope: e.scope, Most: 1, Hide: 1}, "DueRequest.Hide": {Scope: e.scope, Most: 1, Bytes: 1},
	} {
		_, err := e.parking().Due(e.ctx, r)
		e.invalid(err, field)
	}
}
