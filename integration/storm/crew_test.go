package storm_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ackledger/ackledger/internal/services"
)

// crew is a number of worker processes: some are killed now and then and replaced, one joins and leaves.
type crew struct {
	t      *testing.T
	orders orders

	mu      sync.Mutex
	members []*member
	started int
	killed  int
	left    int
	begins  []int64 // when handlers began, as the processes say
	logs    strings.Builder
	runs    runs
}

// member is one process.
type member struct {
	name  string
	cmd   *exec.Cmd
	ready chan struct{} // closed when it takes a SIGTERM for what it is
	done  chan struct{} // closed when it has ended, of err
	err   error
}

func newCrew(t *testing.T, o orders) *crew {
	c := &crew{t: t, orders: o}
	t.Cleanup(func() {
		for _, m := range c.all() {
			_ = m.cmd.Process.Kill() // it may have ended
			<-m.done
		}
		if t.Failed() {
			t.Log(tail(c.log(), 20_000))
		}
	})
	return c
}

func tail(s string, n int) string { return s[max(len(s)-n, 0):] }

func (c *crew) all() []*member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*member(nil), c.members...)
}

func (c *crew) log() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.logs.String()
}

// start adds a process.
func (c *crew) start() *member {
	c.t.Helper()
	c.mu.Lock()
	c.started++
	o := c.orders
	o.Name = fmt.Sprintf("p%d", c.started)
	c.mu.Unlock()
	text, err := json.Marshal(o)
	if err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	out, err := cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	cmd.Stderr = logWriter{c}
	if err := services.StartChild(cmd); err != nil {
		c.t.Fatal(err)
	}
	m := &member{name: o.Name, cmd: cmd, ready: make(chan struct{}), done: make(chan struct{})}
	c.mu.Lock()
	c.members = append(c.members, m)
	c.mu.Unlock()
	go func() {
		c.read(m, bufio.NewScanner(out))
		m.err = cmd.Wait()
		close(m.done)
	}()
	return m
}

// read notes when handlers began.
func (c *crew) read(m *member, lines *bufio.Scanner) {
	for lines.Scan() {
		if lines.Text() == "ready" {
			close(m.ready)
			continue
		}
		if c.runs.heard(m.name, lines.Text()) {
			continue
		}
		at, ok := strings.CutPrefix(lines.Text(), "begin ")
		n, err := strconv.ParseInt(at, 10, 64)
		if !ok || err != nil {
			continue // cut by a kill
		}
		c.mu.Lock()
		c.begins = append(c.begins, n)
		c.mu.Unlock()
	}
}

// beganBetween counts the handlers that began in a span of time.
func (c *crew) beganBetween(from, to time.Time) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, b := range c.begins {
		if b > from.UnixNano() && b < to.UnixNano() {
			n++
		}
	}
	return n
}

// expectTrouble says that what the storm is for has come to pass: processes were killed, others left, and it was heard when
// handlers began, without which their silence says nothing.
func (c *crew) expectTrouble(t *testing.T, kills, handlers int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.killed < kills || c.left == 0 {
		t.Errorf("%d processes were killed and %d left: too few to test anything", c.killed, c.left)
	}
	if len(c.begins) < handlers {
		t.Errorf("heard of %d handlers, there were at least %d", len(c.begins), handlers)
	}
}

// forget takes a member out of the crew.
func (c *crew) forget(m *member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, x := range c.members {
		if x == m {
			c.members = append(c.members[:i], c.members[i+1:]...)
			return
		}
	}
}

// kill ends a member with SIGKILL.
func (c *crew) kill(m *member) {
	if err := m.cmd.Process.Kill(); err != nil {
		c.t.Errorf("kill %s: %v", m.name, err)
	}
	<-m.done
	c.forget(m)
	c.mu.Lock()
	c.killed++
	c.mu.Unlock()
}

// dismiss ends a member with SIGTERM and expects a clean drain.
func (c *crew) dismiss(m *member) {
	const patience = time.Minute
	select {
	case <-m.ready:
	case <-m.done:
	case <-time.After(patience):
	}
	if err := m.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		c.t.Errorf("terminate %s: %v", m.name, err)
	}
	select {
	case <-m.done:
		if m.err != nil {
			c.t.Errorf("%s did not drain cleanly: %v", m.name, m.err)
		}
	case <-time.After(patience):
		c.t.Errorf("%s did not end within %s", m.name, patience)
		_ = m.cmd.Process.Kill()
		<-m.done
	}
	c.forget(m)
	c.mu.Lock()
	c.left++
	c.mu.Unlock()
}

// storm troubles the crew from the next effect on until want of all effects are there: at least one member is killed with
// work in hand, however quick the machine is.
func (c *crew) storm(d *database, all, want int, every time.Duration) {
	c.t.Helper()
	before := 0
	eventually(c.t, time.Minute, func() string {
		n, ok := d.tryCount(c.t.Context(), `SELECT count(*) FROM effect`)
		before = n
		if !ok {
			return "the database does not answer"
		}
		return ""
	})
	eventually(c.t, 5*time.Minute, func() string { return progress(d, all, min(before+1, all)) }) // all may be done by now, on a starved machine
	ctx, calm := context.WithCancel(c.t.Context())
	defer calm()
	troubled := make(chan struct{})
	go func() { defer close(troubled); c.trouble(ctx, every) }()
	eventually(c.t, 20*time.Minute, func() string { return progress(d, all, want) })
	calm()
	<-troubled
}

// trouble kills a random member at once and every so often and replaces it, and lets another join and leave, until ctx is
// done. The one that is about to leave then stays: work would go on while it is waited for.
func (c *crew) trouble(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	var guest *member
	for round := 0; ; round++ {
		if guest == nil {
			guest = c.start()
		} else if round%3 == 0 {
			c.dismiss(guest)
			guest = nil
		}
		members := slices.DeleteFunc(c.all(), func(m *member) bool { return m == guest })
		c.kill(members[rand.IntN(len(members))])
		c.start()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

type logWriter struct{ c *crew }

func (w logWriter) Write(p []byte) (int, error) {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	if w.c.logs.Len() < 64<<20 {
		w.c.logs.Write(p)
	}
	return len(p), nil
}
