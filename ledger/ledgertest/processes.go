package ledgertest

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// RunProcesses is the part with second processes, which are killed and stopped. The store has a DSN, and the test
// binary's TestMain calls [Main].
func RunProcesses(t *testing.T, open Open) {
	for _, c := range []testCase{
		{"Process_KilledHolderIsTakenOver", processKilled},
		{"Process_StoppedHolderIsFenced", processStopped},
		{"Process_KillsAmongWorkers", processKills},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(beginProcesses(t, open)) })
	}
}

func beginProcesses(t *testing.T, open Open) *env {
	t.Helper()
	e := begin(t, open)
	if e.DSN == "" {
		t.Fatal("ledgertest.Store: DSN is needed for second processes")
	}
	return e
}

// process is a running child.
type process struct {
	env *env
	cmd *exec.Cmd
	// events are what it said; the channel is closed when it ends.
	events chan event
	ended  chan struct{}
	err    error // of its end; read it after ended is closed
}

func (e *env) start(do string, lease time.Duration, ids ...string) *process {
	e.Helper()
	e.places.join(ids)
	todo := script{DSN: e.DSN, Do: do, IDs: ids, Lease: lease, Ranged: e.Ranged}
	for _, id := range ids {
		todo.Keys = append(todo.Keys, e.key(id))
	}
	text, err := json.Marshal(todo)
	if err != nil {
		e.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		e.Fatal(err)
	}
	p := &process{env: e, cmd: exec.Command(self), events: make(chan event, 1000), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		e.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		e.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		defer close(p.events)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var ev event
			if json.Unmarshal(lines.Bytes(), &ev) == nil && ev.Do != "" {
				p.events <- ev
			}
		}
		p.err = p.cmd.Wait()
	}()
	e.Cleanup(p.kill)
	return p
}

// kill ends the process as an outage does, and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.ended
}

func (p *process) signal(s os.Signal) {
	p.env.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.env.Fatalf("signal %v: %v", s, err)
	}
}

// waitFor returns the next event of that name.
func (p *process) waitFor(what string) event {
	p.env.Helper()
	timeout := time.After(patience)
	for {
		select {
		case ev, ok := <-p.events:
			if !ok || ev.Do == "failed" {
				p.env.Fatalf("the second process ended before it said %q: %s", what, ev.Error)
			}
			if ev.Do == what {
				return ev
			}
		case <-timeout:
			p.env.Fatalf("the second process did not say %q within %s", what, patience)
		}
	}
}

// takeOver beats and claims until the message runs here.
func (e *env) takeOver(lease time.Duration, m ledger.Entry) (ledger.Owner, ledger.Claim) {
	e.Helper()
	o := e.join(lease)
	var c ledger.Claim
	e.eventually("a peer takes over", func() bool {
		if _, err := o.Beat(e.ctx); ledger.IsLost(err) {
			o = e.join(lease)
			return false
		} else if err != nil {
			e.Fatalf("beat: %v", err)
		}
		c = e.claim(o, m)
		return c.Answer == ledger.Run
	})
	return o, c
}

// processKilled: a worker is killed while it holds messages. After its lease a peer whose beats were unbroken takes over.
func processKilled(e *env) {
	p := e.start(doHold, time.Second, "a", "b")
	if got := p.waitFor("claimed").Runs; got != 2 {
		e.Fatalf("the second process holds %d messages, want 2", got)
	}
	b := e.owner()
	e.want(b, e.entry("a"), ledger.Busy)
	p.kill()
	o, c := e.takeOver(time.Second, e.entry("a"))
	if c.Token != 2 || c.Crashes != 1 || !c.TookOver || c.Attempt != 1 {
		e.Fatalf("run: %+v", c)
	}
	e.holds(o, succeed(c))
	e.want(b, e.entry("a"), ledger.Done)
	if c := e.want(b, e.entry("b"), ledger.Run); c.Crashes != 1 {
		e.Fatalf("run: %+v", c)
	}
}

// processStopped: a worker is stopped, loses its lease, and wakes up: its beat tells it.
func processStopped(e *env) {
	p := e.start(doHold, time.Second, "a")
	p.waitFor("claimed")
	p.signal(syscall.SIGSTOP)
	o, c := e.takeOver(time.Second, e.entry("a"))
	before := e.record(e.entry("a"))
	p.signal(syscall.SIGCONT)
	timeout := time.After(patience)
	for lost := false; !lost; {
		select {
		case ev, ok := <-p.events:
			if !ok {
				e.Fatal("the second process ended without a word")
			}
			if lost = ev.Do == "failed"; lost && !strings.Contains(ev.Error, ledger.ErrLost.Error()) {
				e.Fatalf("the second process woke up and was told %q, want %q", ev.Error, ledger.ErrLost)
			}
		case <-timeout:
			e.Fatalf("the second process woke up and was not told within %s", patience)
		}
	}
	e.same(before)
	e.holds(o, succeed(c))
}

// processKills: one worker after another is killed in the middle of its work, then two finish it together. In the end
// every message has succeeded, and with InTx every effect is there once.
func processKills(e *env) {
	var ids []string
	for i := range 120 {
		ids = append(ids, number(i))
	}
	work := func() *process { return e.start(doWork, time.Second, ids...) }
	for i := range 5 {
		p := work()
		for range 5 + i {
			p.waitFor("handled")
		}
		p.kill()
	}
	for _, p := range []*process{work(), work()} {
		p.waitFor("done")
	}
	for _, id := range ids {
		m := e.entry(id)
		if r := e.record(m); r.State != ledger.Succeeded || r.Owner != "" {
			e.Fatalf("row: %s", summary(r))
		}
		if e.InTx != nil {
			e.wantEffects(m, 1)
		}
	}
}

// Pitfall86 holds against this: a worker was frozen between its fence and its commit, and every batch that touched its row waited for it.
// Stores with one writer (sqlite) freeze the holder between two calls instead.
func Pitfall86(t *testing.T, open Open) {
	e := beginProcesses(t, open)
	all := e.entries(50)
	frozen := all[20]
	do, said := doHold, "claimed"
	if e.Lock != nil && e.InTx != nil {
		do, said = doFreeze, "inside"
	}
	p := e.start(do, 2*time.Second, number(20))
	p.waitFor(said)
	p.signal(syscall.SIGSTOP)
	o := e.owner()
	began := time.Now()
	claims := e.claimAll(o, all)
	var settlements []ledger.Settlement
	for i, c := range claims {
		want := ledger.Run
		if i == 20 {
			want = ledger.Busy
		}
		if c.Answer != want {
			e.Fatalf("claim %d: %v, want %v", i, c.Answer, want)
		}
		if c.Answer == ledger.Run {
			settlements = append(settlements, succeed(c))
		}
	}
	for i, err := range e.settleAll(o, settlements) {
		if err != nil {
			e.Fatalf("settle %d: %v", i, err)
		}
	}
	if took := time.Since(began); took > 20*time.Second {
		e.Fatalf("the others waited %s for a frozen process", took)
	}
	p.kill()
	b, c := e.takeOver(time.Second, frozen)
	if c.Crashes != 1 || c.Token != 2 {
		e.Fatalf("run: %+v", c)
	}
	e.holds(b, succeed(c))
	if e.InTx != nil {
		e.wantEffects(frozen, 0)
	}
}
