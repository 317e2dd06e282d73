package storm_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/sqs/sqstest"
)

// tellRun says that a handler runs, and, when what it returns is called, that it does not any more. What it does after its lease was lost is
// beyond the limit.
func (o orders) tellRun(ctx context.Context, id string) (end func()) {
	began := time.Now().UnixNano()
	if o.Limit == 0 {
		return func() {}
	}
	fmt.Printf("runs %s/%d %d\n", id, began, began)
	end = sync.OnceFunc(func() { fmt.Printf("ran %s/%d %d\n", id, began, time.Now().UnixNano()) })
	context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), ledger.ErrLost) {
			end()
		}
	})
	return end
}

// runs is what processes say of their handlers. What they said before they were killed or frozen may be read after it.
type runs struct {
	mu   sync.Mutex
	open map[string]map[string]int64 // of each process, those that run, and since when
	cuts map[string]int64            // of each process, when it was killed or frozen last
	ends map[string]int              // of those that were cut off: where they are in all
	all  []span
}

type span struct{ from, to int64 }

func (r *runs) heard(process, line string) bool {
	var what, id string
	var at int64
	if n, _ := fmt.Sscanf(line, "%s %s %d", &what, &id, &at); n != 3 || what != "runs" && what != "ran" {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil {
		r.open, r.cuts, r.ends = map[string]map[string]int64{}, map[string]int64{}, map[string]int{}
	}
	if r.open[process] == nil {
		r.open[process] = map[string]int64{}
	}
	from, runs := r.open[process][id]
	cut, wasCut := r.ends[process+" "+id]
	switch {
	case what == "runs" && at < r.cuts[process]:
		r.end(process, id, span{at, r.cuts[process]})
	case what == "runs":
		r.open[process][id] = at
	case runs:
		r.all = append(r.all, span{from, at})
		delete(r.open[process], id)
	case wasCut:
		r.all[cut].to = min(r.all[cut].to, at) // it had ended before
	}
	return true
}

// end notes one that was cut off.
func (r *runs) end(process, id string, s span) {
	r.ends[process+" "+id] = len(r.all)
	r.all = append(r.all, s)
}

// cut ends all that runs in a process.
func (r *runs) cut(process string, at time.Time) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, from := range r.open[process] {
		r.end(process, id, span{from, max(from, at.UnixNano())})
		delete(r.open[process], id)
		n++
	}
	r.cuts[process] = at.UnixNano()
	return n
}

// running is how many handlers of a process run.
func (r *runs) running(process string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.open[process])
}

// most is how many ran at once at most.
func (r *runs) most() (most, all int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	type edge struct {
		at int64
		by int
	}
	var edges []edge
	for _, s := range r.all {
		edges = append(edges, edge{s.from, 1}, edge{s.to, -1})
	}
	slices.SortFunc(edges, func(a, b edge) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return a.by - b.by
	})
	n := 0
	for _, e := range edges {
		n += e.by
		most = max(most, n)
	}
	return most, len(r.all)
}

// stop freezes a process for longer than its lease. What its handlers do when it goes on, until they are cancelled, is beyond the limit; what
// begins then is not.
func (c *crew) stop(m *member, lasts time.Duration) (running int) {
	if err := m.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		c.t.Errorf("stop %s: %v", m.name, err)
	}
	// On a busy machine handlers begin after the signal: a process has stopped when its last thread has.
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(m.cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		c.t.Errorf("stop %s: %v, status %#x", m.name, err, status)
	}
	running = c.runs.cut(m.name, time.Now())
	time.Sleep(lasts) // the length of the freeze is what is tested
	if err := m.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		c.t.Errorf("continue %s: %v", m.name, err)
	}
	return running
}

// Three processes that are killed, replaced and frozen past their leases: never do more handlers run than the limit, of all of them together,
// each message has its effect once, and all are done.
func TestLimitStorm(t *testing.T) {
	t.Parallel()
	const limit = 5
	n, kills := 1500, 10
	if long() {
		n, kills = 10_000, 100
	}
	endpoint := sqstest.Start(t, nil).URL
	d, q := newDatabase(t), newMailbox(t, endpoint, false)
	c := newCrew(t, orders{
		Database: d.server.URL(), Queue: q.url, Endpoint: endpoint, Group: "storm", Work: 100 * time.Millisecond, Limit: limit,
	})
	for range 3 {
		c.start()
	}
	q.send(0, n)
	eventually(t, time.Minute, func() string { return progress(d, n, 10) })
	killed, frozen := 0, 0
	for round := range kills {
		m := c.all()[0] // the oldest one
		eventually(t, time.Minute, func() string {
			if c.runs.running(m.name) == 0 {
				return "no handler runs in " + m.name
			}
			return ""
		})
		if round%3 == 2 {
			frozen += c.stop(m, lease+time.Second)
		} else {
			c.kill(m)
			killed += c.runs.cut(m.name, time.Now())
			c.start()
		}
		done := d.count(t, `SELECT count(*) FROM effect`)
		eventually(t, time.Minute, func() string { return progress(d, n, min(n, done+25)) }) // between two troubles
	}
	eventually(t, 10*time.Minute, func() string { return progress(d, n, n) })
	eventually(t, 5*time.Minute, q.left)
	for _, m := range c.all() {
		c.dismiss(m)
	}
	most, all := c.runs.most()
	if most != limit {
		t.Errorf("%d ran at once, the limit is %d", most, limit)
	}
	if rows, bodies := d.count(t, `SELECT count(*) FROM effect`), d.count(t, `SELECT count(DISTINCT body) FROM effect`); rows != n || bodies != n {
		t.Errorf("%d effects of %d messages of %d", rows, bodies, n)
	}
	if open := d.count(t, `SELECT count(*) FROM ackledger.message m JOIN ackledger.scope s ON s.id = m.scope WHERE m.state <> 2 AND s.name <> 'ackledger:limit'`); open > 0 {
		t.Errorf("%d rows are not succeeded", open)
	}
	if killed == 0 || frozen == 0 || all < n {
		t.Errorf("%d handlers were killed, %d frozen, %d ran: too little happened", killed, frozen, all)
	}
	t.Logf("%d messages, %d handlers ran, %d killed, %d frozen", n, all, killed, frozen)
}
