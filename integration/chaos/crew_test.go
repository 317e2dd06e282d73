package chaos_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ackledger/ackledger/integration/chaos/plan"
	"github.com/ackledger/ackledger/internal/killpoint"
	"github.com/ackledger/ackledger/internal/services"
)

// binaries is the folder of the programs that are killed.
var binaries string

func TestMain(m *testing.M) {
	var err error
	if binaries, err = os.MkdirTemp("", "ackledger-chaos-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(binaries) // a temporary folder
	os.Exit(code)
}

// workerBinary builds the program that is killed, once.
var workerBinary = sync.OnceValues(func() (string, error) { return buildWorker() })

func buildWorker(flags ...string) (string, error) {
	f, err := os.CreateTemp(binaries, "worker-")
	if err != nil {
		return "", err
	}
	if err := f.Close(); err != nil {
		return "", err
	}
	args := append([]string{"build", "-tags", "killpoints", "-ldflags=-w", "-o", f.Name()}, flags...)
	if out, err := exec.Command("go", append(args, "./worker")...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the worker: %w\n%s", err, out)
	}
	return f.Name(), nil
}

// crew is the worker processes of one arm. One that ends by itself is replaced, if keep is set.
type crew struct {
	t      *testing.T
	dir    string
	orders plan.Orders
	prefix string                                        // of names
	wire   func(*plan.Orders) (network []*link, _ error) // may put proxies before a new process
	clocks []time.Duration                               // how far the processes' wall clocks are off, in turn; nil: not

	mu      sync.Mutex
	keep    bool
	members []*member
	pages   []*plan.Page // of all that ever were
	off     []*member    // all that ever were whose clocks are off
	started int
	died    int // without being told to: poison
	gaveUp  int // ended by themselves, with an error
}

// member is one process.
type member struct {
	name    string
	page    *plan.Page
	clock   time.Duration // how far it is off
	network []*link
	cmd     *exec.Cmd
	done    chan struct{} // closed when it has ended
	busy    bool          // something is being done to it; guarded by the crew's lock
	told    bool          // it was told to end; guarded by the crew's lock
	over    bool          // it has ended, and another has taken its place unless it was told; guarded by the crew's lock
}

func newCrew(t *testing.T, dir, prefix string, o plan.Orders) *crew {
	c := &crew{t: t, dir: dir, prefix: prefix, orders: o}
	t.Cleanup(c.end)
	return c
}

// end kills what is left.
func (c *crew) end() {
	c.mu.Lock()
	c.keep = false
	members := slices.Clone(c.members)
	c.mu.Unlock()
	for _, m := range members {
		if c.t.Failed() { // it says where its goroutines are
			_ = m.cmd.Process.Signal(syscall.SIGQUIT)
			select {
			case <-m.done:
			case <-time.After(10 * time.Second):
			}
		}
		_ = m.cmd.Process.Kill() // it may have ended
		<-m.done
	}
	if c.t.Failed() {
		c.keepLogs()
	}
	for _, p := range c.pages {
		if err := p.Close(); err != nil {
			c.t.Error(err)
		}
	}
}

// keepLogs copies the logs of all processes, and the journal, to where they outlive the test.
func (c *crew) keepLogs() {
	to, err := os.MkdirTemp("", "ackledger-chaos-failed-")
	if err == nil {
		err = os.CopyFS(to, os.DirFS(c.dir))
	}
	c.t.Logf("the logs of %s's processes are in %s (%v)", c.prefix, to, err)
}

// start adds a process, which dies at a passage of a step (empty: it does not).
func (c *crew) start(step killpoint.Step, passage int) *member {
	m, err := c.tryStart(step, passage)
	if err != nil {
		c.t.Fatal(err)
	}
	return m
}

func (c *crew) tryStart(step killpoint.Step, passage int) (*member, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.started++
	o := c.orders
	o.Name = fmt.Sprintf("%s-%d", c.prefix, c.started)
	o.Page = filepath.Join(c.dir, o.Name+".page")
	m := &member{name: o.Name, done: make(chan struct{})}
	err := c.program(m)
	if err != nil {
		return nil, err
	}
	if m.page, err = plan.OpenPage(o.Page); err != nil {
		return nil, err
	}
	c.pages = append(c.pages, m.page)
	if c.wire != nil {
		if m.network, err = c.wire(&o); err != nil {
			return nil, err
		}
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	m.cmd.Env = append(os.Environ(), plan.Variable+"="+string(text), clockVariable+"="+m.clock.String())
	if step != "" {
		m.cmd.Env = append(m.cmd.Env, fmt.Sprintf("%s=%s@%d", killpoint.Variable, step, passage))
	}
	log, err := os.Create(filepath.Join(c.dir, o.Name+".log"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the child has its own
	m.cmd.Stderr = log
	if err := services.StartChild(m.cmd); err != nil {
		return nil, err
	}
	c.members = append(c.members, m)
	go c.await(m)
	return m, nil
}

// program is what the next process runs: one whose clock is off, if it is its turn.
func (c *crew) program(m *member) error {
	build := workerBinary
	if len(c.clocks) > 0 {
		m.clock = c.clocks[c.started%len(c.clocks)]
	}
	if m.clock != 0 {
		build = shiftedBinary
		c.off = append(c.off, m)
	}
	binary, err := build()
	if err != nil {
		return err
	}
	m.cmd = exec.Command(binary)
	return nil
}

// clock says how far the clock of a process is off.
func (c *crew) clock(process string) time.Duration {
	off := c.shifted()
	if i := slices.IndexFunc(off, func(m *member) bool { return m.name == process }); i >= 0 {
		return off[i].clock
	}
	return 0
}

// shifted are the processes whose clocks are off.
func (c *crew) shifted() []*member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.off)
}

// await replaces a member that has ended by itself.
func (c *crew) await(m *member) {
	_ = m.cmd.Wait() // ProcessState says how it ended
	for _, l := range m.network {
		l.close()
	}
	c.mu.Lock()
	c.members = slices.DeleteFunc(c.members, func(x *member) bool { return x == m })
	m.over = true
	again := c.keep && !m.told
	switch code := m.cmd.ProcessState.ExitCode(); {
	case code == 3:
		c.t.Errorf("%s left something behind:\n%s", m.name, c.tailOf(m, 4000))
	case m.told:
	case code < 0:
		c.died++
	default:
		c.gaveUp++
		c.t.Logf("%s ended by itself (%d):\n%s", m.name, code, c.tailOf(m, 1500))
	}
	c.mu.Unlock()
	close(m.done)
	if again {
		if _, err := c.tryStart("", 0); err != nil {
			c.t.Error(err)
		}
	}
}

// tails are the ends of the logs of those that live.
func (c *crew) tails() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var text strings.Builder
	for _, m := range c.members {
		fmt.Fprintf(&text, "%s, %d handlers run:\n%s\n", m.name, m.page.Get(plan.Running), c.tailOf(m, 1500))
	}
	return text.String()
}

func (c *crew) tailOf(m *member, n int) string {
	text, err := os.ReadFile(filepath.Join(c.dir, m.name+".log"))
	if err != nil {
		return err.Error()
	}
	return string(text[max(len(text)-n, 0):])
}

// kill ends a member, which was told, with SIGKILL, and says whether handlers of it were running then.
func (c *crew) kill(m *member) (hit bool) {
	if err := m.cmd.Process.Kill(); err != nil {
		return false // it was faster
	}
	<-m.done
	return m.page.Get(plan.Running) > 0
}

// tell notes that a member is to end, and that nobody replaces it; false: it has ended by itself.
func (c *crew) tell(m *member) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	m.told = true
	return !m.over
}

// dismiss ends a member with SIGTERM, and returns its exit code.
func (c *crew) dismiss(m *member) int {
	const patience = time.Minute
	deadline := time.Now().Add(patience)
	for m.page.Get(plan.Ready) == 0 && time.Now().Before(deadline) && !ended(m) {
		<-time.After(10 * time.Millisecond)
	}
	_ = c.tell(m)                             // it may have ended
	_ = m.cmd.Process.Signal(syscall.SIGTERM) // the same
	select {
	case <-m.done:
	case <-time.After(patience):
		c.t.Errorf("%s did not end within %s", m.name, patience)
		_ = m.cmd.Process.Kill()
		<-m.done
	}
	return m.cmd.ProcessState.ExitCode()
}

func ended(m *member) bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}

// dismissAll ends all members, which must drain cleanly.
func (c *crew) dismissAll() {
	c.mu.Lock()
	c.keep = false
	members := slices.Clone(c.members)
	c.mu.Unlock()
	var all sync.WaitGroup
	for _, m := range members {
		all.Go(func() {
			if code := c.dismiss(m); code != 0 && code != 3 { // 3 was reported
				c.t.Errorf("%s did not drain cleanly (%d):\n%s", m.name, code, c.tailOf(m, 3000))
			}
		})
	}
	all.Wait()
}

// take reserves a member to which nothing is being done, if asked one with handlers that run; nil: there is none. pick is
// any number.
func (c *crew) take(pick uint64, running bool) *member {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.members {
		m := c.members[(pick+uint64(i))%uint64(len(c.members))]
		if !m.busy && !m.told && m.page.Get(plan.Ready) > 0 && (!running || m.page.Get(plan.Running) > 0) {
			m.busy = true
			return m
		}
	}
	return nil
}

func (c *crew) letGo(m *member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m.busy = false
}

// sum adds a number up over all pages, most is their largest.
func (c *crew) sum(g plan.Gauge) (sum, most int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.pages {
		sum, most = sum+p.Get(g), max(most, p.Get(g))
	}
	return sum, most
}

// running says whether handlers of any living member run.
func (c *crew) running() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.members, func(m *member) bool { return m.page.Get(plan.Running) > 0 })
}
