package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

func (e *env) pauses(scope string) {
	e.Helper()
	if err := e.board().Pause(e.ctx, scope, by); err != nil {
		e.Fatalf("pause %q: %v", scope, err)
	}
	e.Cleanup(func() { _, _ = e.board().Resume(context.Background(), scope, by) }) // of a case that failed
}

func (e *env) resumes(scope string, want bool) {
	e.Helper()
	if was, err := e.board().Resume(e.ctx, scope, by); err != nil || was != want {
		e.Fatalf("resume %q: %t, %v; want %t", scope, was, err, want)
	}
}

func (e *env) wantPauses(scopes ...string) []ledger.Pause {
	e.Helper()
	hold, err := e.board().Pauses(e.ctx)
	if err != nil || !slices.Equal(scopesOf(hold), scopes) {
		e.Fatalf("the pauses are %q, %v; want %q", scopesOf(hold), err, scopes)
	}
	return hold
}

// hears checks what an owner's last beat brought.
func (e *env) hears(o ledger.Owner, scopes ...string) {
	e.Helper()
	if got := scopesOf(e.boarded(o).Pauses()); !slices.Equal(got, scopes) {
		e.Fatalf("the owner knows of %q, want %q", got, scopes)
	}
}

func scopesOf(hold []ledger.Pause) (scopes []string) {
	for _, p := range hold {
		scopes = append(scopes, p.Scope)
	}
	return scopes
}

func boardPause(e *env) {
	o := e.owner()
	e.wantPauses()
	e.hears(o)
	a, b := e.scope+" a", e.scope+" b"
	e.resumes(a, false)
	e.pauses(b)
	e.pauses(a)
	e.hears(o) // it comes with a beat
	e.beat(o)
	e.hears(o, a, b)
	first := e.wantPauses(a, b)
	if p := first[0]; p.By != by || time.Since(p.Since).Abs() > patience {
		e.Errorf("paused by %+v", p)
	}
	if got := e.boarded(o).Pauses()[0]; got.By != by || !got.Since.Equal(first[0].Since) {
		e.Errorf("a beat brought %+v, the board has %+v", got, first[0])
	}
	other := ledger.By{Actor: "somebody else", Reason: "another ☂ reason"}
	if err := e.board().Pause(e.ctx, a, other); err != nil {
		e.Fatal(err)
	}
	if again := e.wantPauses(a, b)[0]; again.By != other || !again.Since.Equal(first[0].Since) {
		e.Errorf("paused again: %+v, before that %+v", again, first[0])
	}
	e.resumes(a, true)
	e.resumes(a, false)
	e.hears(o, a, b)
	e.beat(o)
	e.hears(o, b)
	e.resumes(b, true)
	e.beat(o)
	e.hears(o)
}

func boardPauseAll(e *env) {
	o := e.owner()
	e.pauses("")
	e.pauses(e.scope)
	e.wantPauses("", e.scope)
	e.beat(o)
	hold := e.boarded(o).Pauses()
	if p, ok := ledger.PausedBy(hold, "any"); !ok || p.Scope != "" {
		e.Errorf("another scope: %+v, %t", p, ok)
	}
	e.resumes("", true)
	e.beat(o)
	hold = e.boarded(o).Pauses()
	if p, ok := ledger.PausedBy(hold, "any"); ok {
		e.Errorf("another scope after the pause of all: %+v", p)
	}
	if _, ok := ledger.PausedBy(hold, e.scope); !ok {
		e.Error("the end of the pause of all ended that of the scope")
	}
	e.resumes("", false)
	e.resumes(e.scope, true)
	e.wantPauses()
}

func boardAudited(e *env) {
	began := all(e, e.op().Audits(e.ctx, ledger.AuditFilter{}))
	e.pauses(e.scope)
	e.pauses(e.scope)
	e.resumes(e.scope, true)
	e.resumes(e.scope, false)
	e.pauses("")
	e.resumes("", true)
	var got []string
	for _, r := range all(e, e.op().Audits(e.ctx, ledger.AuditFilter{}))[len(began):] {
		got = append(got, fmt.Sprintf("%s %s %q", r.Action, strings.ReplaceAll(r.Key.Scope, e.scope, "S"), r.Key.ID))
		if r.By != by || r.Token != 0 || r.State != 0 || r.Delivery != nil {
			e.Errorf("audited as %+v", r)
		}
	}
	want := []string{`pause S ""`, `pause S ""`, `resume S ""`, `pause  ""`, `resume  ""`}
	if !slices.Equal(got, want) {
		e.Errorf("audited: %q, want %q", got, want)
	}
	key := ledger.Key{Scope: e.scope}
	if list := all(e, e.op().Audits(e.ctx, ledger.AuditFilter{Key: &key})); len(list) != 3 {
		e.Errorf("%d audit rows of the scope, want 3: %+v", len(list), list)
	}
	if list := all(e, e.op().Audits(e.ctx, ledger.AuditFilter{Action: ledger.ActionResume})); len(list) < 2 {
		e.Errorf("%d audit rows of resumptions", len(list))
	}
}

func boardRefused(e *env) {
	for field, call := range map[string]func() error{
		"Pause.Scope": func() error { return e.board().Pause(e.ctx, strings.Repeat("s", ledger.MaxScope+1), by) },
		"By.Actor":    func() error { return e.board().Pause(e.ctx, e.scope, ledger.By{Reason: "r"}) },
		"By.Reason": func() error {
			_, err := e.board().Resume(e.ctx, e.scope, ledger.By{Actor: "a", Reason: strings.Repeat("r", ledger.MaxPauseReason+1)})
			return err
		},
	} {
		e.invalid(call(), field)
	}
	e.wantPauses()
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	if err := e.board().Pause(ctx, e.scope, by); !errors.Is(err, context.Canceled) {
		e.Errorf("with a context that is over: %v", err)
	}
	e.resumes(e.scope, false)
}

func boardMost(e *env) {
	largest := ledger.By{Actor: strings.Repeat("\x01", ledger.MaxActor), Reason: strings.Repeat("\x02", ledger.MaxPauseReason)}
	name := func(i int) string { return fmt.Sprintf("%03d%s", i, strings.Repeat("\xff", ledger.MaxScope-3)) }
	for i := range ledger.MaxPauses {
		if err := e.board().Pause(e.ctx, name(i), largest); err != nil {
			e.Fatalf("pause %d: %v", i, err)
		}
	}
	e.invalid(e.board().Pause(e.ctx, name(ledger.MaxPauses), by), "Pause")
	if err := e.board().Pause(e.ctx, name(7), largest); err != nil {
		e.Errorf("one of those that hold: %v", err)
	}
	o := e.owner()
	e.beat(o)
	if n := len(e.boarded(o).Pauses()); n != ledger.MaxPauses {
		e.Errorf("a beat brought %d pauses", n)
	}
	for i := range ledger.MaxPauses {
		e.resumes(name(i), true)
	}
	e.wantPauses()
}

// boardAtOnce: operators who pause and resume at the same time lose nothing of each other's.
func boardAtOnce(e *env) {
	const many = 8
	o := e.owner()
	var wg sync.WaitGroup
	for i := range many {
		wg.Go(func() {
			keep, drop := fmt.Sprintf("%s keep %d", e.scope, i), fmt.Sprintf("%s drop %d", e.scope, i)
			e.repeat(func() error { return e.board().Pause(e.ctx, keep, by) })
			e.repeat(func() error { return e.board().Pause(e.ctx, drop, by) })
			e.repeat(func() error { _, err := e.board().Resume(e.ctx, drop, by); return err })
		})
	}
	wg.Go(func() {
		for range many {
			if _, err := o.Beat(e.ctx); err != nil {
				e.Errorf("beat: %v", err)
			}
		}
	})
	wg.Wait()
	var want []string
	for i := range many {
		want = append(want, fmt.Sprintf("%s keep %d", e.scope, i))
	}
	e.wantPauses(want...)
	e.beat(o)
	e.hears(o, want...)
	for _, scope := range want {
		e.resumes(scope, true)
	}
}

// repeat repeats a call that met others.
func (e *env) repeat(call func() error) {
	for began := time.Now(); ; {
		err := call()
		if err == nil {
			return
		}
		if time.Since(began) > patience {
			e.Errorf("not within %s: %v", patience, err)
			return
		}
	}
}

// boardJoined: who joins under a pause knows of it before its first beat.
func boardJoined(e *env) {
	e.pauses(e.scope)
	o := e.owner()
	e.hears(o, e.scope)
	e.resumes(e.scope, true)
	e.hears(e.owner())
}

// boardProcess: a worker of another process is told with its beats, and is seen from here.
func boardProcess(e *env) {
	if e.DSN == "" {
		return
	}
	p := e.start(doWatch, 600*time.Millisecond)
	id := p.waitFor("joined").Owner
	e.pauses(e.scope)
	if got := p.waitFor("pauses").Scopes; !slices.Equal(got, []string{e.scope}) {
		e.Errorf("the second process heard of %q", got)
	}
	e.eventually("its report comes", func() bool {
		workers, err := e.board().Workers(e.ctx)
		if err != nil {
			e.Fatal(err)
		}
		return slices.ContainsFunc(workers, func(w ledger.WorkerStatus) bool { return w.Owner == id && w.Report.PID == p.cmd.Process.Pid })
	})
	e.resumes(e.scope, true)
	if got := p.waitFor("pauses").Scopes; len(got) != 0 {
		e.Errorf("after the pause the second process knows of %q", got)
	}
	p.kill()
}
