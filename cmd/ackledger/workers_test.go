package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// hostile is what a worker may write of itself.
const hostile = "\x1b[2J\x00\u202e\u009b\nhost\t"

// begins has a worker of a scope that reports.
func (s *store) begins(scope string, change func(*ledger.WorkerReport)) ledger.Owner {
	s.Helper()
	o, err := s.Join(s.Context(), time.Minute)
	if err != nil {
		s.Fatal(err)
	}
	r := ledger.WorkerReport{Scope: scope, Host: "worker-1", PID: 17, Version: "v1.2.3", Started: time.Now().Add(-time.Hour), Held: 1200, Running: 16,
		Waiting: 3, Oldest: 90 * time.Second, Succeeded: 5, Alive: true, Ready: true, Lag: []ledger.Lag{{Source: "orders-1", Waiting: 4000}, {Source: "orders-0", Waiting: 5}}}
	if change != nil {
		change(&r)
	}
	ledger.BoardedOf(o).Report(r)
	if _, err := o.Beat(s.Context()); err != nil {
		s.Fatal(err)
	}
	return o
}

func (s *store) crew() (c crew) {
	s.Helper()
	out := done(s.T, "workers", "--json", "--ledger", s.name)
	if err := json.Unmarshal([]byte(out), &c); err != nil || strings.Count(out, "\n") != 1 || strings.ContainsFunc(strings.TrimSuffix(out, "\n"), unprintable) {
		s.Fatalf("%v: %q", err, out)
	}
	return c
}

func TestWorkers(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s *store) {
		s.T = t
		s.begins(orders, nil)
		left := s.begins(payments, func(r *ledger.WorkerReport) { r.Lag, r.Stalled = nil, []string{"a: span limit", "b"} })
		if err := left.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.begins("shop\xff"+hostile, func(r *ledger.WorkerReport) {
			r.Host, r.Version, r.Paused, r.Error, r.Stalled, r.Warnings = hostile, hostile, hostile, hostile, []string{hostile}, []string{hostile}
			r.Lag[0].Source = hostile
		})
		out := done(t, "workers", "--ledger", s.name)
		for _, want := range []string{
			"OWNER", orders + "  ", "worker-1:17  ", "1,200  16       3        4,005  -", "left", "a: span limit and 1 more", `"shop\xff\x1b[2J`, "live  ",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
		if lines := strings.Split(strings.TrimSpace(out), "\n"); len(lines) != 5 || strings.ContainsFunc(out, func(r rune) bool { return r != '\n' && unprintable(r) }) {
			t.Errorf("%d lines:\n%q", len(lines), out)
		}
		var fates []string
		for _, w := range s.crew().Workers {
			of := "silent"
			if w.Report != nil {
				of = w.Report.Scope
			}
			fates = append(fates, w.Fate+" "+of)
			if (w.Lease != nil) != (w.Fate == "live") || w.Report != nil && (w.Report.Held != 1200 || w.Report.Oldest != 90) {
				t.Errorf("%+v of %s", w.Report, w.Fate)
			}
		}
		slices.Sort(fates)
		if want := []string{"left " + payments, `live "shop\xff`, "live silent", "live " + orders}; len(fates) != 4 || !slices.Contains(fates, want[0]) || !slices.Contains(fates, want[2]) ||
			!slices.Contains(fates, want[3]) || !slices.ContainsFunc(fates, func(f string) bool { return strings.HasPrefix(f, want[1]) }) {
			t.Errorf("%q", fates)
		}
	})
}

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s *store) {
		s.T = t
		o := s.begins(orders, nil)
		s.claim(payments, "a")
		run := func(args ...string) string { t.Helper(); return done(t, append(args, "--ledger", s.name)...) }
		out := run("pause", "--scope", "orders/", "--reason", "the bank "+strings.ReplaceAll(hostile, "\x00", ""), "--actor", "alice")
		if !strings.Contains(out, "paused: "+orders+"; 1 live workers") || !strings.Contains(out, "1 live workers have reported nothing") {
			t.Errorf("%s", out)
		}
		run("pause", "--scope", payments, "--reason", "them too") // no worker says that it is its own
		var all ordered
		if out := run("pause", "--all", "--reason", "everything", "--json"); json.Unmarshal([]byte(out), &all) != nil || all != (ordered{Paused: true, Workers: 1, Silent: 1}) {
			t.Errorf("%s", out)
		}
		if _, err := o.Beat(t.Context()); err != nil {
			t.Fatal(err)
		}
		hold := ledger.BoardedOf(o).Pauses()
		if len(hold) != 3 || hold[1].Scope != orders || hold[1].By.Actor != "alice" {
			t.Fatalf("%+v", hold)
		}
		if out := run("workers"); strings.Count(out, "\npaused: ") != 3 || !strings.Contains(out, "paused: all, by ") || strings.Contains(out, "\x1b") {
			t.Errorf("%q", out)
		}
		if r := ackledger(t, "doctor", "--ledger", s.name); strings.Count(r.out, "workers are paused: ") != 3 || strings.Contains(r.out, "\x1b") {
			t.Errorf("%q%q", r.out, r.errors)
		}
		if c := s.crew(); len(c.Pauses) != 3 || c.Pauses[1].Scope != orders || c.Pauses[0].Scope != "" || c.Pauses[1].Reason != "the bank "+strings.ReplaceAll(hostile, "\x00", "") {
			t.Errorf("%+v", c.Pauses)
		}
		if out := run("resume", "--all"); !strings.Contains(out, "resumed: all") || strings.Count(out, "still paused: ") != 2 || strings.Contains(out, "\x1b") {
			t.Errorf("%q", out)
		}
		if out := run("resume", "--scope", "orders/", "--json"); json.Unmarshal([]byte(out), &all) != nil || all != (ordered{Scope: orders}) {
			t.Errorf("%s", out)
		}
		run("resume", "--scope", payments)
		audited := 0
		for r, err := range s.Audits(t.Context(), ledger.AuditFilter{}) {
			if err != nil {
				t.Fatal(err)
			}
			if r.Action == ledger.ActionPause || r.Action == ledger.ActionResume {
				audited++
			}
		}
		if audited != 6 {
			t.Errorf("%d audit rows", audited)
		}
		if c := s.crew(); len(c.Pauses) != 0 {
			t.Errorf("%+v", c.Pauses)
		}
	})
}

// What names no scope, nobody, or what is not there, is refused in one line, and changes nothing.
func TestPausesThatAreRefused(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s *store) {
		s.T = t
		s.begins(orders, nil)
		s.claim(payments, "a")
		for args, want := range map[string]struct {
			code int
			text string
		}{
			"resume --all":                           {exitFailed, "not paused: all; nothing was changed"},
			"resume --scope " + orders:               {exitFailed, "nothing was changed"},
			"pause --scope typo --reason x":          {exitFailed, `there is no scope "typo"; there is `},
			"pause --scope shipping --reason x":      {exitFailed, `may be any of`},
			"pause --all":                            {exitUsage, "--reason is missing"},
			"pause --reason x":                       {exitUsage, "either --scope or --all"},
			"pause --all --scope orders/ --reason x": {exitUsage, "either --scope or --all"},
			"pause --all --scope= --reason x":        {exitUsage, "must not be empty"},
			"resume":                                 {exitUsage, "either --scope or --all"},
			"resume --all --actor=":                  {exitUsage, "--actor must be"},
			"pause --all --reason " + strings.Repeat("r", ledger.MaxPauseReason+1): {exitUsage, "--reason must be 0 to 512 bytes"},
		} {
			r := ackledger(t, append(strings.Fields(args), "--ledger", s.name)...)
			if r.code != want.code || r.out != "" || !strings.Contains(r.errors, want.text) || strings.Count(r.errors, "\n") != 1 {
				t.Errorf("%s: code %d, %q%q; want %d, %q", args, r.code, r.out, r.errors, want.code, want.text)
			}
		}
		if c := s.crew(); len(c.Pauses) != 0 {
			t.Errorf("%+v", c.Pauses)
		}
		for i := range ledger.MaxPauses {
			if err := s.Ledger.(ledger.Board).Pause(t.Context(), fmt.Sprint("s", i), ledger.By{Actor: "x"}); err != nil {
				t.Fatal(err)
			}
		}
		if r := ackledger(t, "pause", "--all", "--reason", "x", "--ledger", s.name); r.code != exitUsage || !strings.Contains(r.errors, "at most 100") {
			t.Errorf("%+v", r)
		}
	})
}
