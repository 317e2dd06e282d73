package ledgertest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// RunMaintain is the suite of [ledger.Maintainer] and [ledger.Inspector]. Sweeps see every row of a store, so each case
// needs one of its own. Stores with second processes are also swept by several at once, and killed meanwhile.
func RunMaintain(t *testing.T, open Open) {
	for _, c := range []testCase{
		{"Sweep_ExpiredGo", sweepExpired},
		{"Sweep_ArchiveHasItsOwnExpiry", sweepArchive},
		{"Sweep_HeldIsNotDropped", sweepHeld},
		{"Sweep_OwnersGoWhenNobodyNamesThem", sweepOwners},
		{"Sweep_OneAtATime", sweepTurns},
		{"Sweep_BadSettings", sweepSettings},
		{"Past_OutlivesItsRow", pastOutlives},
		{"Past_IsTheScopes", pastOfScopes},
		{"Past_HasItsOwnExpiry", pastExpiry},
		{"Sweep_Cancelled", sweepCancelled},
		{"Maintain_UntilCancelled", maintainUntilCancelled},
		{"Stats_CountsAndAges", statsCounts},
		{"Stats_FirstClaims", statsFirst},
		{"Stats_Deliveries", statsDeliveries},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(begin(t, open))
		})
	}
	s := open(t)
	if s.DSN == "" {
		return
	}
	t.Run("Process_EightMaintain", func(t *testing.T) { maintainEight(begin(t, open)) })
	t.Run("Process_KilledWhileSweeping", func(t *testing.T) { maintainKilled(begin(t, open)) })
}

func (e *env) maintainer() ledger.Maintainer {
	e.Helper()
	m, ok := e.Ledger.(ledger.Maintainer)
	if !ok || e.Rest == nil {
		e.Fatalf("%T is no ledger.Maintainer, or ledgertest.Store has no Rest", e.Ledger)
	}
	return m
}

// sweep makes one pass that keeps abandoned messages for so long.
func (e *env) sweep(keep time.Duration) ledger.SweepReport {
	e.Helper()
	r, err := e.maintainer().Sweep(e.ctx, ledger.MaintainConfig{Keep: keep})
	if err != nil {
		e.Fatalf("sweep: %v", err)
	}
	return r
}

func (e *env) stats() ledger.Stats {
	e.Helper()
	s, err := e.Ledger.(ledger.Inspector).Stats(e.ctx)
	if err != nil {
		e.Fatalf("stats: %v", err)
	}
	return s
}

// scopeStats is what the last pass counted of this case's scope.
func (e *env) scopeStats() ledger.ScopeStats {
	e.Helper()
	for _, s := range e.stats().Scopes {
		if s.Scope == e.scope {
			return s
		}
	}
	return ledger.ScopeStats{Scope: e.scope}
}

// kept makes a success leave a row: in a range, one with a result does.
func (e *env) kept(s ledger.Settlement) ledger.Settlement {
	if e.Ranged {
		s.Result = []byte("result")
	}
	return s
}

const shortWindow = 200 * time.Millisecond

// short asks for a message whose window is over soon.
func (e *env) short(id string) ledger.Entry {
	m := e.entry(id)
	m.Window = shortWindow
	return m
}

// pass waits until so much time is over, and a little more.
func (e *env) pass(d time.Duration) {
	e.Helper()
	until := time.Now().Add(d + 50*time.Millisecond)
	e.eventually("time passes", func() bool { return time.Now().After(until) })
}

func (e *env) gone(m ledger.Entry) bool {
	e.Helper()
	_, err := e.Get(e.ctx, m.Key)
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		e.Fatalf("get: %v", err)
	}
	return err != nil
}

// sweepExpired: what is finished goes at its own expiry, and nothing else does. What must stay has an hour, so that the
// case holds on a slow machine too.
func sweepExpired(e *env) {
	o := e.owner()
	kept, dead, pending := e.entry("kept"), e.entry("dead"), e.entry("pending")
	e.holds(o, succeed(e.want(o, kept, ledger.Run)))
	e.holds(o, fail(e.want(o, dead, ledger.Run), dead))
	e.want(o, pending, ledger.Run)
	rows := int64(3)
	if e.Ranged {
		rows = 1 // the failed one
	}
	if r := e.sweep(keep); r.Removed() != 0 || r.Rows != rows {
		e.Fatalf("before the expiry: %+v", r)
	}
	succeeded, failed := e.short("succeeded"), e.short("failed")
	claims := e.allRun(o, []ledger.Entry{succeeded, failed}) // in one call: memory drops what has expired at each claim
	for i, err := range e.settleAll(o, []ledger.Settlement{succeed(claims[0]), fail(claims[1], failed)}) {
		if err != nil {
			e.Fatalf("settlement %d: %v", i, err)
		}
	}
	if e.Ranged { // the failed one goes after its segment: Ranges_FailedIsNotSucceeded
		e.eventually("what succeeded goes", func() bool {
			if r := e.sweep(keep); r.Archives != 0 {
				e.Fatalf("a pass: %+v", r)
			}
			return e.gone(succeeded)
		})
		e.forgotten(o, succeeded)
		e.want(o, kept, ledger.Done)
		return
	}
	e.sweepBoth(rows + 2)
	for m, want := range map[string]bool{"succeeded": true, "failed": true, "kept": false, "dead": false, "pending": false} {
		if got := e.gone(e.entry(m)); got != want {
			e.Errorf("%s: gone %t, want %t", m, got, want)
		}
	}
	e.forgotten(o, succeeded)
	e.want(o, kept, ledger.Done)
}

// forgotten claims a message that was swept: it runs as if it had never come, but that no log's tokens begin anew.
func (e *env) forgotten(o ledger.Owner, m ledger.Entry) {
	e.Helper()
	if c := e.want(o, m, ledger.Run); (c.Token > 1) != e.Ranged {
		e.Errorf("a message that was forgotten: %+v", c)
	}
}

// sweepBoth sweeps until two finished messages are gone, of so many rows.
func (e *env) sweepBoth(rows int64) {
	e.Helper()
	removed := int64(0)
	e.eventually("both go", func() bool {
		r := e.sweep(keep)
		if r.Messages != r.Removed() || r.Rows != rows-removed || r.Transactions == 0 || r.Longest <= 0 || r.Began.IsZero() {
			e.Fatalf("a pass after %d were removed: %+v", removed, r)
		}
		removed += r.Messages
		return removed >= 2
	})
	if removed != 2 {
		e.Fatalf("%d messages went, want 2", removed)
	}
}

// sweepArchive: an archived delivery outlives its message, and goes at its own expiry.
func sweepArchive(e *env) {
	o, m := e.owner(), e.short("a")
	e.holds(o, fail(e.want(o, m, ledger.Run), m)) // its archive stays for a day
	e.pass(shortWindow)
	if r := e.sweep(keep); !e.Ranged && r.Messages != 1 || r.Archives != 0 {
		e.Fatalf("the message's window is over: %+v", r)
	}
	n := e.short("b")
	s := fail(e.want(o, n, ledger.Run), n)
	s.Dead.Keep = 2 * shortWindow
	e.holds(o, s)
	var messages, archives, removed int64
	e.eventually("the other archive goes", func() bool {
		r := e.sweep(keep)
		messages, archives, removed = messages+r.Messages, archives+r.Archives, removed+r.Removed()
		return archives > 0
	})
	if archives != 1 || !e.Ranged && (messages != 1 || removed != 2) {
		e.Fatalf("%d messages and %d archives went, %d in all", messages, archives, removed)
	}
	for entry, want := range map[string]int{"a": 1, "b": 0} {
		if r, _ := e.Get(e.ctx, e.key(entry)); len(r.Archived) != want {
			e.Fatalf("the archive of %s: %+v, want %d", entry, r, want)
		}
	}
}

// sweepHeld: a message stays as long as a live worker has it in hand, whatever the time.
func sweepHeld(e *env) {
	o, m := e.owner(), e.short("a")
	c := e.want(o, m, ledger.Run)
	e.pass(2 * shortWindow)
	if r := e.sweep(time.Millisecond); r.Dropped != 0 || r.Abandoned != 1 {
		e.Fatalf("%+v", r)
	}
	e.holds(o, succeed(c))
	if e.Ranged { // its window counts from the end of its range
		e.eventually("an expired segment goes", func() bool { e.sweep(time.Millisecond); return e.gone(m) })
		return
	}
	if r := e.sweep(time.Millisecond); r.Messages != 1 {
		e.Fatalf("%+v", r)
	}
}

// sweepOwners: the row of an owner that left or died goes, but not while a pending message names it: nobody could tell
// whether to wait for it.
func sweepOwners(e *env) {
	m := e.entry("a")
	e.crash(m)
	left := e.owner()
	e.leave(left)
	if r := e.sweep(keep); r.Owners != 0 {
		e.Fatalf("before their time: %+v", r)
	}
	e.rest()
	before := e.stats().Owners
	e.sweep(keep)
	after := e.stats().Owners
	if after.Left != 0 || after.Dead != before.Dead {
		e.Fatalf("owners: %+v, were %+v; a pending message names the dead one", after, before)
	}
	o := e.owner()
	c := e.want(o, m, ledger.Run)
	if c.Crashes != 1 || !c.TookOver {
		e.Fatalf("run: %+v", c)
	}
	e.rest()
	e.sweep(keep)
	if s := e.stats().Owners; s.Live != 1 || s.Left != 0 || s.Dead != 0 {
		e.Fatalf("owners: %+v", s)
	}
	e.holds(o, succeed(c))
}

func (e *env) rest() {
	e.Helper()
	if err := e.Rest(e.ctx); err != nil {
		e.Fatalf("rest: %v", err)
	}
}

// passes notes when each pass was, and finds those that overlap.
type passes struct {
	mu  sync.Mutex
	all []ledger.SweepReport
}

func (p *passes) note(r ledger.SweepReport) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, r)
}

func (p *passes) check(e *env, atLeast int) {
	e.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.all) < atLeast {
		e.Errorf("%d passes, want %d at least", len(p.all), atLeast)
	}
	for i, a := range p.all {
		for _, b := range p.all[:i] {
			if a.Began.Before(b.Began.Add(b.Took)) && b.Began.Before(a.Began.Add(a.Took)) {
				e.Errorf("two passes at once: from %s for %s, and from %s for %s", a.Began, a.Took, b.Began, b.Took)
			}
		}
	}
}

// sweepTurns: of many that sweep in one process, one does so at a time.
func sweepTurns(e *env) {
	m := e.maintainer()
	var seen passes
	ctx, cancel := context.WithTimeout(e.ctx, patience)
	defer cancel()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := m.Maintain(ctx, ledger.MaintainConfig{Interval: time.Millisecond, Report: seen.note}); err != nil {
				e.Errorf("maintain: %v", err)
			}
		})
	}
	for range 5 {
		if _, err := m.Sweep(e.ctx, ledger.MaintainConfig{Report: seen.note}); err != nil {
			e.Errorf("sweep: %v", err)
		}
	}
	cancel()
	wg.Wait()
	seen.check(e, 5)
}

func sweepSettings(e *env) {
	m := e.maintainer()
	for field, cfg := range map[string]ledger.MaintainConfig{
		"MaintainConfig.Keep": {Keep: -time.Hour}, "MaintainConfig.Interval": {Interval: -1}, "MaintainConfig.Batch": {Batch: 1 << 30},
	} {
		_, err := m.Sweep(e.ctx, cfg)
		e.invalid(err, field)
		e.invalid(m.Maintain(e.ctx, cfg), field)
	}
}

func sweepCancelled(e *env) {
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	if _, err := e.maintainer().Sweep(ctx, ledger.MaintainConfig{}); !errors.Is(err, context.Canceled) {
		e.Fatalf("sweep: %v", err)
	}
	if err := e.maintainer().Maintain(ctx, ledger.MaintainConfig{}); err != nil {
		e.Fatalf("maintain: %v", err)
	}
	e.sweep(keep) // the turn was given back
}

func maintainUntilCancelled(e *env) {
	o, m := e.owner(), e.short("a")
	e.holds(o, succeed(e.want(o, m, ledger.Run)))
	ctx, cancel := context.WithCancel(e.ctx)
	ended := make(chan error, 1)
	go func() { ended <- e.maintainer().Maintain(ctx, ledger.MaintainConfig{Interval: 10 * time.Millisecond}) }()
	e.eventually("the message goes", func() bool { return e.gone(m) })
	cancel()
	if err := <-ended; err != nil {
		e.Fatalf("maintain: %v", err)
	}
}

// statsCounts: the statistics are those of the last pass, and say how old they are.
func statsCounts(e *env) {
	if s := e.stats(); !s.At.IsZero() || len(s.Scopes) != 0 {
		e.Fatalf("before the first pass: %+v", s)
	}
	o := e.owner()
	var settlements []ledger.Settlement
	entries := e.entries(100)
	for i, c := range e.claimAll(o, entries) {
		switch {
		case i < 60:
			settlements = append(settlements, succeed(c))
		case i < 70:
			settlements = append(settlements, fail(c, entries[i]))
		}
	}
	e.settleAll(o, settlements)
	late := e.short("late")
	e.want(o, late, ledger.Run)
	e.pass(shortWindow)
	report := e.sweep(keep)
	s := e.scopeStats()
	if s.Succeeded != 60 || s.Failed != 10 || s.Pending != 31 || s.Abandoned != 1 {
		e.Errorf("counts: %+v", s)
	}
	if s.OldestPending < shortWindow || s.OldestPending > patience || s.PendingAgeP95 < shortWindow ||
		s.PendingAgeP99 < s.PendingAgeP95 || s.OldestPending < s.PendingAgeP99 {
		e.Errorf("ages: %+v", s)
	}
	before := e.stats().Answered
	e.want(o, entries[0], ledger.Done)
	e.want(e.owner(), late, ledger.Busy) // not decided
	all, rows := e.stats(), int64(101)
	if all.Answered.Decided != before.Decided+1 || all.Answered.Duplicates != before.Duplicates+1 || all.Answered.DedupRate() <= 0 {
		e.Errorf("answered before %+v, and after a duplicate %+v", before, all.Answered)
	}
	if e.Ranged {
		rows = 10
	}
	if all.At.Before(report.Began) || all.Age < 0 || all.Age > patience || all.Pass.Rows != rows || all.Owners.Live != 2 {
		e.Errorf("stats: %+v", all)
	}
	if len(all.Tables) == 0 || all.LockWaits != 0 {
		e.Errorf("tables: %+v, %d wait", all.Tables, all.LockWaits)
	}
	if r := report.Oldest; len(r) != 1 || r[0].Scope != e.scope || string(r[0].ID) != string(late.Key.ID) || !r[0].Expiry.After(r[0].At) ||
		!r[0].Expiry.Before(report.Began) {
		e.Errorf("abandoned: %+v", r)
	}
}
