package history_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// childVariable names the store of a child process; in a process that has it, this test binary plays clients of histories.
const childVariable = "ACKLEDGER_HISTORY_CHILD"

func TestMain(m *testing.M) {
	store := os.Getenv(childVariable)
	if store == "" {
		os.Exit(m.Run())
	}
	if err := serve(store, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "history child:", err)
		os.Exit(1)
	}
}

// order asks a child to play a client.
type order struct {
	DSN    string
	Plan   plan
	Client int
}

// line is what a child tells: calls that begin, calls that ended, and the end of a client.
type line struct {
	History int
	Call    int64 // names the call until it ended; 0: the client is done
	Ended   bool
	Ops     []*op
}

// crew is a number of child processes. Now and then one is killed, and replaced.
type crew struct {
	t     *testing.T
	store string
	dsn   func(plan) string
	every time.Duration // between kills, on average

	mu      sync.Mutex
	members []*member
	kills   atomic.Int64
}

// member is one child.
type member struct {
	cmd *exec.Cmd
	in  io.WriteCloser

	mu   sync.Mutex
	gone bool
	jobs map[int]*job
	done chan struct{}
}

// job is a client that a child plays.
type job struct {
	world *world
	book  *book
	calls map[int64][]*op // begun, not ended
	done  chan struct{}
	cut   int
}

const members = 2

// newCrew starts the children, and the kills; both end with the test.
func newCrew(t *testing.T, store string, dsn func(plan) string, every time.Duration) *crew {
	t.Helper()
	c := &crew{t: t, store: store, dsn: dsn, every: every}
	for range members {
		c.members = append(c.members, c.start())
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { c.kill(ctx) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		for _, m := range c.members {
			_ = m.in.Close() // it ends with its input
			<-m.done
		}
	})
	return c
}

func (c *crew) start() *member {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+c.store)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		c.t.Error(err)
		return nil
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		c.t.Error(err)
		return nil
	}
	m := &member{cmd: cmd, in: in, jobs: map[int]*job{}, done: make(chan struct{})}
	go m.listen(out)
	return m
}

// kill ends a child with SIGKILL every so often, in the middle of its calls, and starts another.
func (c *crew) kill(ctx context.Context) {
	for next := c.every/2 + rand.N(c.every); ; {
		timer := time.NewTimer(next)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		c.mu.Lock()
		i := rand.IntN(len(c.members))
		old := c.members[i]
		c.mu.Unlock()
		if old.idle() {
			next = rand.N(c.every / 100)
			continue
		}
		next = c.every/2 + rand.N(c.every)
		if err := old.cmd.Process.Kill(); err != nil {
			c.t.Errorf("kill: %v", err)
		}
		<-old.done
		c.kills.Add(1)
		fresh := c.start()
		c.mu.Lock()
		c.members[i] = fresh
		c.mu.Unlock()
	}
}

// idle says whether no call of the child is under way: a kill would hit nothing.
func (m *member) idle() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, j := range m.jobs {
		if len(j.calls) > 0 {
			return false
		}
	}
	return true
}

// play lets each child play a client of a history, and returns how many of their calls were cut by a kill.
func (c *crew) play(w *world, b *book) (cut int) {
	c.mu.Lock()
	all := append([]*member(nil), c.members...)
	c.mu.Unlock()
	var jobs []*job
	for i, m := range all {
		j := &job{world: w, book: b, calls: map[int64][]*op{}, done: make(chan struct{})}
		if m.give(order{DSN: c.dsn(w.plan), Plan: w.plan, Client: 10 + i}, j) {
			jobs = append(jobs, j)
		}
	}
	for _, j := range jobs {
		<-j.done
		cut += j.cut
	}
	return cut
}

func (m *member) give(o order, j *job) bool {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err) // numbers and strings
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone {
		return false
	}
	m.jobs[o.Plan.Number] = j
	if _, err := m.in.Write(append(text, '\n')); err != nil { // it is being killed
		delete(m.jobs, o.Plan.Number)
		return false
	}
	return true
}

// listen notes what a child tells until it ends. What had begun by then is not known.
func (m *member) listen(out io.Reader) {
	lines := json.NewDecoder(bufio.NewReader(out))
	for {
		var l line
		if err := lines.Decode(&l); err != nil {
			break // cut by a kill, or its end
		}
		m.note(&l)
	}
	_ = m.cmd.Wait() // it was killed, or said on stderr what went wrong
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gone = true
	for _, j := range m.jobs {
		for _, ops := range j.calls {
			j.cut += len(ops)
		}
		close(j.done)
	}
	m.jobs = nil
	close(m.done)
}

func (m *member) note(l *line) {
	m.mu.Lock()
	defer m.mu.Unlock()
	j := m.jobs[l.History]
	switch {
	case l.Call == 0:
		delete(m.jobs, l.History)
		close(j.done)
	case !l.Ended:
		for _, o := range l.Ops {
			o.Return = never
		}
		j.book.begin(l.Ops)
		j.calls[l.Call] = l.Ops
	default:
		for i, o := range j.calls[l.Call] {
			*o = *l.Ops[i]
			if o.Kind == doJoin && o.Owner != "" {
				j.world.mu.Lock()
				j.world.known = append(j.world.known, o.Owner)
				j.world.mu.Unlock()
			}
		}
		delete(j.calls, l.Call)
	}
}

// teller is the recorder of a child.
type teller struct {
	mu      *sync.Mutex // of out
	out     io.Writer
	history int
	calls   map[*op]int64
	last    *atomic.Int64
}

func (r *teller) tell(l line) {
	l.History = r.history
	text, err := json.Marshal(l)
	if err == nil {
		_, err = r.out.Write(append(text, '\n'))
	}
	if err != nil && !errors.Is(err, os.ErrClosed) {
		panic(err) // a call that nobody knows of would make every answer after it look wrong
	}
}

func (r *teller) begin(ops []*op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls[ops[0]] = r.last.Add(1)
	r.tell(line{Call: r.calls[ops[0]], Ops: ops})
}

func (r *teller) end(ops []*op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tell(line{Call: r.calls[ops[0]], Ended: true, Ops: ops})
	delete(r.calls, ops[0])
}

// serve is a child: it plays clients until its input ends.
func serve(store string, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	doors := map[string]door{}
	var mu sync.Mutex
	var last atomic.Int64
	var wg sync.WaitGroup
	defer wg.Wait()
	orders := json.NewDecoder(in)
	for {
		var o order
		if err := orders.Decode(&o); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		d, there := doors[o.DSN]
		if !there {
			var err error
			if d, err = stores[store](ctx, o.DSN); err != nil {
				return err
			}
			doors[o.DSN] = d
		}
		wg.Go(func() {
			r := &teller{mu: &mu, out: out, history: o.Plan.Number, calls: map[*op]int64{}, last: &last}
			c := &client{world: newWorld(o.Plan, r), door: d, number: o.Client, chance: o.Plan.chance(o.Client)}
			c.run(ctx)
			mu.Lock()
			defer mu.Unlock()
			r.tell(line{})
		})
	}
}

// stores are those that a child can open. It keeps them until it ends.
var stores = map[string]func(ctx context.Context, dsn string) (door, error){"sqlite": childSQLite, "postgres": childPostgres, "dynamodb": childDynamo}
