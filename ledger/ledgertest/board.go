package ledgertest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/ackledger/ackledger/ledger"
)

// RunBoard is the conformance suite of [ledger.Board] and [ledger.Boarded]: reports that go along with beats, and pauses that beats
// bring. The ledgers that open returns must be Boards and Operators, and their pauses nobody else's. Cases run one after the other, since
// a pause of all is everybody's.
func RunBoard(t *testing.T, open Open) {
	for _, c := range []testCase{
		{"Board_Report", boardReport},
		{"Board_ReportGoesWithItsOwner", boardGone},
		{"Board_ReportIsCut", boardCut},
		{"Board_HostileTexts", boardHostile},
		{"Board_Silent", boardSilent},
		{"Board_Pause", boardPause},
		{"Board_PauseOfAll", boardPauseAll},
		{"Board_PauseIsAudited", boardAudited},
		{"Board_PauseRefused", boardRefused},
		{"Board_MostPauses", boardMost},
		{"Board_PausesAtOnce", boardAtOnce},
		{"Board_JoinedUnderAPause", boardJoined},
		{"Board_SecondProcess", boardProcess},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(begin(t, open)) })
	}
}

func (e *env) board() ledger.Board {
	e.Helper()
	b, ok := e.Ledger.(ledger.Board)
	if !ok {
		e.Fatalf("%T is no Board", e.Ledger)
	}
	return b
}

func (e *env) boarded(o ledger.Owner) ledger.Boarded {
	e.Helper()
	b := ledger.BoardedOf(o)
	if b == nil {
		e.Fatalf("%T is not Boarded", o)
	}
	return b
}

func (e *env) beat(o ledger.Owner) {
	e.Helper()
	if _, err := o.Beat(e.ctx); err != nil {
		e.Fatalf("beat: %v", err)
	}
}

// worker is what the board says of an owner; false: nothing.
func (e *env) worker(o ledger.Owner) (ledger.WorkerStatus, bool) {
	e.Helper()
	all, err := e.board().Workers(e.ctx)
	if err != nil {
		e.Fatalf("workers: %v", err)
	}
	i := slices.IndexFunc(all, func(w ledger.WorkerStatus) bool { return w.Owner == o.ID() })
	if i < 0 {
		return ledger.WorkerStatus{}, false
	}
	return all[i], true
}

func (e *env) wantWorker(o ledger.Owner, fate ledger.Holder, want ledger.WorkerReport) {
	e.Helper()
	w, ok := e.worker(o)
	if !ok || w.Fate != fate || !w.Report.Started.Equal(want.Started) {
		e.Fatalf("the board has %+v, %t; want fate %d and %+v", w, ok, fate, want)
	}
	if live := fate == ledger.Live; live != (w.Lease > 0) || w.Lease > longLease+time.Second {
		e.Errorf("fate %d with a lease of %s", fate, w.Lease)
	}
	w.Report.Started = want.Started
	if !reflect.DeepEqual(w.Report, want) {
		e.Errorf("reported\n%+v, want\n%+v", w.Report, want)
	}
}

func (e *env) report(n int64) ledger.WorkerReport {
	return ledger.WorkerReport{
		Scope: e.scope, Scopes: []string{e.scope, "another"}, Host: "host", PID: 7, Version: "v1.2.3", Started: time.Now().Add(-time.Hour).Truncate(time.Microsecond),
		Held: 5, Running: 2, Waiting: 1, Oldest: 3 * time.Second, Succeeded: n, Failed: n + 1, Retried: n + 2, Duplicates: n + 3,
		Alive: true, Ready: true, Paused: "paused by x: y", Stalled: []string{"one", "two"}, Warnings: []string{"three"}, Error: "four",
		Lag: []ledger.Lag{{Source: "topic-1", Waiting: 1 << 40}, {Source: "topic-0", Waiting: 9}},
	}
}

func boardReport(e *env) {
	o, silent := e.owner(), e.owner()
	e.wantWorker(o, ledger.Live, ledger.WorkerReport{})
	first, second := e.report(1), e.report(2)
	e.boarded(o).Report(first)
	e.wantWorker(o, ledger.Live, ledger.WorkerReport{}) // it comes with a beat
	e.beat(o)
	e.wantWorker(o, ledger.Live, first)
	e.boarded(o).Report(second)
	e.beat(o)
	e.beat(o)
	e.wantWorker(o, ledger.Live, second)
	e.beat(silent)
	e.wantWorker(silent, ledger.Live, ledger.WorkerReport{})
}

// boardGone: what a worker said stays as long as its owner, whether it left or died.
func boardGone(e *env) {
	left, dead := e.owner(), e.owner()
	for _, o := range []ledger.Owner{left, dead} {
		e.boarded(o).Report(e.report(1))
		e.beat(o)
	}
	e.leave(left)
	e.declare(dead)
	for o, fate := range map[ledger.Owner]ledger.Holder{left: ledger.Left, dead: ledger.Dead} {
		w, ok := e.worker(o)
		if !ok || w.Fate != fate || w.Lease != 0 || w.Report.Succeeded != 1 {
			e.Errorf("fate %d: %+v, %t", fate, w, ok)
		}
		if _, err := o.Beat(e.ctx); !ledger.IsLost(err) {
			e.Errorf("fate %d: its beat: %v", fate, err)
		}
		if err := e.DropOwner(e.ctx, o.ID()); err != nil {
			e.Fatal(err)
		}
		if w, ok := e.worker(o); ok {
			e.Errorf("fate %d: it is gone, and the board has %+v", fate, w)
		}
	}
}

func boardCut(e *env) {
	o, r := e.owner(), e.report(1)
	r.Scopes, r.Lag, r.Stalled, r.Warnings = nil, nil, nil, nil
	for i := range 5000 {
		r.Scopes = append(r.Scopes, fmt.Sprint("scope ", i))
		r.Lag = append(r.Lag, ledger.Lag{Source: fmt.Sprint("topic-", i), Waiting: int64(5000 - i)})
		r.Stalled = append(r.Stalled, strings.Repeat("s", i))
		r.Warnings = append(r.Warnings, strings.Repeat("ü", i))
	}
	r.Error = strings.Repeat("<", 5000)
	e.boarded(o).Report(r)
	e.beat(o)
	w, _ := e.worker(o)
	got := w.Report
	if n := len(got.Lag); n == 0 || !slices.Equal(got.Lag, r.Lag[:n]) {
		e.Errorf("the largest lags stay: %v", got.Lag)
	}
	if got.Scope != r.Scope || got.Host != r.Host || got.Succeeded != 1 || got.Error == "" || len(got.Stalled) == 0 || len(got.Warnings) == 0 || len(got.Scopes) == 0 {
		e.Errorf("cut to %+v", got)
	}
	for _, text := range append(got.Warnings, got.Error) {
		if !utf8.ValidString(text) || strings.ContainsRune(text, utf8.RuneError) {
			e.Errorf("cut inside of a character: %q", text)
		}
	}
	if b, err := json.Marshal(got); err != nil || len(b) > 2*ledger.MaxReport {
		e.Errorf("%d bytes came back: %v", len(b), err)
	}
}

func boardHostile(e *env) {
	o, r := e.owner(), ledger.WorkerReport{Started: time.Now().Truncate(time.Microsecond)}
	const bad = "\x00\xff\x1b[2J'\";--\u202e{{"
	r.Scope, r.Scopes, r.Host, r.Version, r.Error, r.Paused = bad, []string{bad}, bad, bad, bad, bad
	r.Stalled, r.Warnings, r.Lag = []string{bad}, []string{bad}, []ledger.Lag{{Source: bad, Waiting: -1}}
	e.boarded(o).Report(r)
	e.beat(o)
	want := strings.ToValidUTF8(bad, "\ufffd")
	r.Host, r.Version, r.Error, r.Paused = want, want, want, want
	r.Stalled, r.Warnings, r.Lag = []string{want}, []string{want}, []ledger.Lag{{Source: want, Waiting: -1}}
	e.wantWorker(o, ledger.Live, r) // scopes are as they were
	if err := e.board().Pause(e.ctx, bad, by); err != nil {
		e.Fatalf("pause of a hostile scope: %v", err)
	}
	e.wantPauses(bad)
	e.resumes(bad, true)
	r.Started = time.Date(20_000, 1, 1, 0, 0, 0, 0, time.UTC) // JSON has no such year
	e.boarded(o).Report(r)
	e.beat(o)
	if w, _ := e.worker(o); w.Report.Scope != bad {
		e.Errorf("a date of no use: %+v", w.Report)
	}
}

// boardSilent: who reports nothing is there, with its fate.
func boardSilent(e *env) {
	o := e.owner()
	e.beat(o)
	e.wantWorker(o, ledger.Live, ledger.WorkerReport{})
	e.leave(o)
	e.wantWorker(o, ledger.Left, ledger.WorkerReport{})
}
