package ledgertest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// ownerCases are the life of owners, without waiting for leases.
var ownerCases = []testCase{
	{"OwnerJoin_Distinct", ownerDistinct},
	{"OwnerBeat_Lease", ownerBeat},
	{"OwnerBeat_Dead", func(e *env) { ownerBeatLost(e, e.declare) }},
	{"OwnerBeat_Left", func(e *env) { ownerBeatLost(e, e.leave) }},
	{"OwnerLeave_Idempotent", ownerLeave},
	{"OwnerFate_DeadStaysDead", ownerDeadStays},
	{"OwnerFate_LeftStaysLeft", ownerLeftStays},
	{"OwnerCall_CancelledBefore", ownerCancelled},
	{"OwnerCall_Concurrent", ownerConcurrent},
	{"LedgerID_Stays", ledgerID},
}

// leaseCases wait for leases to end. They run one after another, since the beats of one case may seal the overdue
// owners of another one in a shared ledger.
var leaseCases = []testCase{
	{"LeaseOverrun_NotDeclaredIsLive", leaseOverrun},
	{"LeaseOverrun_SealedByUnbrokenPeer", leaseSealed},
	{"LeaseBeats_KeepRows", leaseKept},
}

func ownerDistinct(e *env) {
	seen := map[string]bool{}
	for range 20 {
		id := e.owner().ID()
		if id == "" || seen[id] {
			e.Fatalf("owner id %q again", id)
		}
		seen[id] = true
	}
}

func ownerBeat(e *env) {
	o := e.join(20 * time.Second)
	rest, err := o.Beat(e.ctx)
	if err != nil || rest <= 0 || rest > 20*time.Second {
		e.Fatalf("beat: %s, %v; want at most the lease", rest, err)
	}
}

func ownerBeatLost(e *env, end func(ledger.Owner)) {
	o := e.owner()
	end(o)
	for range 2 {
		if _, err := o.Beat(e.ctx); !ledger.IsLost(err) {
			e.Fatalf("beat: %v, want ErrLost", err)
		}
	}
}

func ownerLeave(e *env) {
	o, m := e.owner(), e.entry("a")
	e.want(o, m, ledger.Run)
	e.leave(o)
	e.leave(o)
	if c := e.want(e.owner(), m, ledger.Run); c.Crashes != 0 || !c.TookOver {
		e.Fatalf("run: %+v", c)
	}
}

func ownerDeadStays(e *env) {
	o, m := e.owner(), e.entry("a")
	e.want(o, m, ledger.Run)
	e.declare(o)
	e.leave(o)
	if c := e.want(e.owner(), m, ledger.Run); c.Crashes != 1 {
		e.Fatalf("a dead owner that leaves stays dead: %+v", c)
	}
}

func ownerLeftStays(e *env) {
	o, m := e.owner(), e.entry("a")
	e.want(o, m, ledger.Run)
	e.leave(o)
	e.declare(o)
	if c := e.want(e.owner(), m, ledger.Run); c.Crashes != 0 {
		e.Fatalf("an owner that left is nobody's crash: %+v", c)
	}
}

// ownerCancelled: what is cancelled before it is sent changes nothing, and says so.
func ownerCancelled(e *env) {
	o, m := e.owner(), e.entry("a")
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	if _, err := o.Claim(ctx, []ledger.Entry{m}); err == nil || ledger.Unknown(err) || ledger.IsLost(err) {
		e.Fatalf("claim: %v, want a known error", err)
	}
	c := e.want(o, m, ledger.Run)
	if c.Token != 1 {
		e.Fatalf("the cancelled claim wrote: %+v", c)
	}
	if _, err := o.Settle(ctx, []ledger.Settlement{succeed(c)}); err == nil || ledger.Unknown(err) || ledger.IsLost(err) {
		e.Fatalf("settle: %v, want a known error", err)
	}
	if r := e.record(m); r.State != ledger.Pending {
		e.Fatalf("row: %s", summary(r))
	}
}

func ownerConcurrent(e *env) {
	o := e.owner()
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for j := range 10 {
				m := e.entry(number(i*100 + j))
				claims, err := o.Claim(e.ctx, []ledger.Entry{m})
				if err != nil || claims[0].Answer != ledger.Run {
					e.Errorf("claim: %+v, %v", claims, err)
					return
				}
				if _, err := o.Beat(e.ctx); err != nil {
					e.Errorf("beat: %v", err)
				}
				errs, err := o.Settle(e.ctx, []ledger.Settlement{succeed(claims[0])})
				if err != nil || errs[0] != nil {
					e.Errorf("settle: %v, %v", errs, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func leaseOverrun(e *env) {
	a, b, m := e.join(time.Second), e.owner(), e.entry("a")
	e.want(a, m, ledger.Run)
	before := e.record(m)
	e.eventually("the lease is over, nobody declared its owner dead", func() bool {
		if _, err := b.Beat(e.ctx); err != nil { // b's own beats have not lasted for its lease
			e.Fatalf("beat: %v", err)
		}
		return e.want(b, m, ledger.Busy).Wait == 0
	})
	e.same(before)
	if _, err := a.Beat(e.ctx); err != nil { // it returns first
		e.Fatalf("beat: %v", err)
	}
}

func leaseSealed(e *env) {
	a, m := e.join(time.Second), e.entry("a")
	c := e.want(a, m, ledger.Run)
	b := e.join(time.Second)
	var taken ledger.Claim
	e.eventually("a peer whose beats are unbroken takes over", func() bool {
		if _, err := b.Beat(e.ctx); ledger.IsLost(err) { // the machine stalled for a second, and a third owner sealed b
			b = e.join(time.Second)
			return false
		} else if err != nil {
			e.Fatalf("beat: %v", err)
		}
		taken = e.claim(b, m)
		return taken.Answer == ledger.Run
	})
	if taken.Crashes != 1 || taken.Token != 2 || !taken.TookOver {
		e.Fatalf("run: %+v", taken)
	}
	if _, err := a.Beat(e.ctx); !ledger.IsLost(err) {
		e.Fatalf("beat: %v, want ErrLost", err)
	}
	e.lost(a, succeed(c))
}

// leaseKept: an owner that beats in time keeps its rows. A try in which the machine stalled for a whole lease says
// nothing, and another one is made.
func leaseKept(e *env) {
	const tries = 20
	for try := range tries {
		if e.keeps(time.Second, e.entry(number(try))) {
			return
		}
	}
	e.Fatalf("the machine stalled for a lease in each of %d tries", tries)
}

// keeps beats for two leases and a half, and returns false when a beat came too late.
func (e *env) keeps(lease time.Duration, m ledger.Entry) bool {
	e.Helper()
	last := time.Now() // both leases last until a lease after this
	a, b := e.join(lease), e.join(lease)
	c := e.want(a, m, ledger.Run)
	before := e.record(m)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := last.Add(2*lease + lease/2); time.Now().Before(end); <-tick.C {
		began := time.Now()
		_, errA := a.Beat(e.ctx)
		_, errB := b.Beat(e.ctx)
		claims, err := b.Claim(e.ctx, []ledger.Entry{m})
		if time.Since(last) >= lease {
			return false
		}
		if err := errors.Join(errA, errB, err); err != nil || claims[0].Answer != ledger.Busy {
			e.Fatalf("beats within the lease: %+v, %v; want Busy", claims, err)
		}
		last = began
	}
	e.same(before) // beats never touch a message
	err := e.settle(a, succeed(c))
	if time.Since(last) >= lease {
		return false
	}
	if err != nil {
		e.Fatalf("a settlement within the lease: %v", err)
	}
	return true
}

// ledgerID: a ledger that can be told from others has one id, whoever asks.
func ledgerID(e *env) {
	l, ok := e.Ledger.(ledger.Identified)
	if !ok {
		e.Log("a ledger without an id")
		return
	}
	ids := make([]string, 4)
	var asking sync.WaitGroup
	for i := range ids {
		asking.Go(func() {
			var err error
			if ids[i], err = l.ID(e.ctx); err != nil {
				e.Error(err)
			}
		})
	}
	asking.Wait()
	e.owner()
	after, err := l.ID(e.ctx)
	if err != nil || !storage.IsLedgerID(after) {
		e.Errorf("id %q, %v", after, err)
	}
	for _, id := range ids {
		if id != after {
			e.Errorf("ids %q and %q", id, after)
		}
	}
}
