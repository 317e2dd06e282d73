package http_test

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/ackledger/ackledger/integration/http/plan"
	"github.com/ackledger/ackledger/internal/killpoint"
	"github.com/ackledger/ackledger/internal/services"
)

// lease is how long a dead server's requests stay closed to others.
const lease = time.Second

// uncommitted are the steps at which nothing is done, committed those at which all is done but the answer. What lies between them can be
// either on a machine so slow that a lease is lost.
var (
	uncommitted = []killpoint.Step{
		killpoint.Received, killpoint.Claimed, killpoint.BeforeEffect, plan.InTransaction, plan.Effected, plan.Answered,
	}
	committed = []killpoint.Step{plan.Committed, plan.Sending, plan.HalfSent}
)

// recorded are the steps at which the first outside call is recorded: nobody makes it again.
var recorded = []killpoint.Step{plan.Recorded, plan.Effected, killpoint.BeforeSettle, plan.Sending}

// A server is killed with SIGKILL at each step of a request's way, and its client repeats the request until it has an answer; or a proxy
// does, unseen. There is one effect, the answer is the effect's, and so is that of one more repetition. In `make test` the two ways take
// turns; the long run takes both.
func TestKilledAtEachStep(t *testing.T) {
	t.Parallel()
	services.NeedServers(t)
	for n, store := range plan.Stores {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			d := open(t, store)
			survivor := start(t, d, "", false)
			t.Run("steps", func(t *testing.T) { // the survivor outlives them
				each(t, n, plan.Pay, plan.Steps, d, survivor)
				each(t, n, plan.Outside, plan.OutsideSteps, d, survivor)
				each(t, n, plan.Calls, plan.CallSteps, d, survivor)
			})
		})
	}
}

// each kills a server at each step, of a client that comes directly or through a proxy: first says in which way at the first step.
func each(t *testing.T, first int, route string, steps []killpoint.Step, d *database, survivor *server) {
	for n, step := range steps {
		for w, way := range []string{"direct", "proxy"} {
			if (first+n+w)%2 != 0 && !long() {
				continue
			}
			t.Run(way+route+string(step), func(t *testing.T) {
				t.Parallel()
				killedAt(t, d, survivor, step, way == "proxy", route)
			})
		}
	}
}

// killedAt kills one server at a step.
func killedAt(t *testing.T, d *database, survivor *server, step killpoint.Step, proxied bool, route string) {
	doomed := start(t, d, step, false)
	path := route + services.Name(t)
	c := newClient(t, func() string {
		if doomed.alive() {
			return doomed.address
		}
		return survivor.address
	})
	var p *proxy
	if proxied {
		var front string
		p, front = newProxy(t, func() []string { return []string{doomed.address, survivor.address} })
		c.where = func() string { return front }
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got, err := c.ask(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	doomed.wasKilled()
	again, err := c.ask(ctx, path)
	if err != nil || !again.replayed {
		t.Errorf("the repetition got %+v, %v; the client had %+v", again, err, got)
	}
	h := d.of(t, path, got, again)
	if _, wrong := h.judge(); len(wrong) > 0 {
		t.Fatal(errors.Join(wrong...))
	}
	if proxied && p.resent.Load() == 0 {
		t.Error("the proxy has handed nothing on")
	}
	switch route {
	case plan.Pay:
		by := h.effects[path][0].process
		if slices.Contains(uncommitted, step) && by != survivor.name || slices.Contains(committed, step) && by != doomed.name {
			t.Errorf("the effect is of %s; %s was killed, %s not", by, doomed.name, survivor.name)
		}
		if slices.Contains(committed, step) && !got.replayed {
			t.Error("the answer of what was done is not marked as a replay")
		}
	case plan.Calls:
		made := h.made(path, plan.OutsideCalls[0])
		if step == plan.Called && made < 2 || slices.Contains(recorded, step) && made != 1 {
			t.Errorf("the first call was made %d times: %+v", made, h.calls[path])
		}
	}
}

// A server dies while it answers again: what it answers stays.
func TestKilledInAReplay(t *testing.T) {
	t.Parallel()
	d := open(t, "sqlite")
	first := start(t, d, "", false)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	path := plan.Pay + services.Name(t)
	want, err := newClient(t, func() string { return first.address }).ask(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	doomed := start(t, d, plan.HalfSent, false)
	got, err := newClient(t, func() string {
		if doomed.alive() {
			return doomed.address
		}
		return first.address
	}).ask(ctx, path)
	if err != nil || !got.replayed {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	doomed.wasKilled()
	if _, wrong := d.of(t, path, want, got).judge(); len(wrong) > 0 {
		t.Error(errors.Join(wrong...))
	}
}

// A server is stopped in its handler for longer than its lease, another one does its request, and it goes on as if nothing had happened: its
// transaction is refused, or the step that it is about to record, and its client gets the other's answer.
func TestStoppedForTooLong(t *testing.T) {
	t.Parallel()
	services.NeedServers(t)
	for _, store := range plan.Stores {
		for _, route := range []string{plan.Pay, plan.Calls} {
			t.Run(store+route, func(t *testing.T) {
				t.Parallel()
				stoppedForTooLong(t, open(t, store), route)
			})
		}
	}
}

// maxStop is when a stopped process is woken at the latest. In SQLite it may have been stopped in the middle of a beat: then it holds a file's
// lock, and nobody else gets on.
const maxStop = 15 * time.Second

func stoppedForTooLong(t *testing.T, d *database, route string) {
	stopped, other := start(t, d, "", true), start(t, d, "", false)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	path := route + services.Name(t)
	wake := func() { _ = stopped.cmd.Process.Signal(syscall.SIGCONT) } // it may have ended
	defer wake()
	answered := func(by *server) <-chan result {
		c, given := newClient(t, func() string { return by.address }), make(chan result, 1)
		go func() {
			got, err := c.ask(ctx, path)
			given <- result{got, err}
		}()
		return given
	}
	early := answered(stopped)
	if line := stopped.line(); line != plan.Stopping {
		t.Fatalf("it says %q", line)
	}
	second := answered(other)
	var want result
	tooLong := true // for its lease
	select {
	case want = <-second:
		wake()
	case <-time.After(maxStop):
		if tooLong = false; d.store != "sqlite" {
			t.Errorf("the other one has not taken over for %s", maxStop)
		}
		wake()
		want = <-second
	}
	got := <-early
	if got.err != nil || want.err != nil {
		t.Fatalf("the early client got %+v, the other one %+v", got, want)
	}
	h := d.of(t, path, got.answer, want.answer)
	if _, wrong := h.judge(); len(wrong) > 0 {
		t.Fatal(errors.Join(wrong...))
	}
	if tooLong && !got.replayed {
		t.Errorf("the early client's answer %+v is not marked as a replay", got)
	}
	if tooLong && route == plan.Pay && h.effects[path][0].process != other.name {
		t.Errorf("the effect %+v is not of %s", h.effects[path][0], other.name)
	}
	if tooLong && route == plan.Calls && h.made(path, plan.OutsideCalls[0]) < 2 {
		t.Errorf("both have made the first call, the rows are %+v", h.calls[path])
	}
}

// result is what a client has in the end.
type result struct {
	answer
	err error
}
