package lambdasqs_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/sqlite"
	"github.com/ackledger/ackledger/sqs/lambdasqs"
)

// functionLedger names the environment's variable that makes a process of this binary a Lambda function, and names its ledger.
const functionLedger = "LAMBDASQS_TEST_LEDGER"

// shortLease is the function's.
const shortLease = 2 * time.Second

func TestMain(m *testing.M) {
	if path := os.Getenv(functionLedger); path != "" {
		h, err := openFunction(path, os.Getenv("AWS_LAMBDA_RUNTIME_API"))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		lambda.Start(h.Handle)
		return
	}
	os.Exit(m.Run())
}

// openFunction makes the function: its effect and its success are one transaction, and it passes a gate before and behind that.
func openFunction(path, api string) (*lambdasqs.Handler, error) {
	l, err := sqlite.Open(context.Background(), path, nil)
	if err != nil {
		return nil, err
	}
	pass := func(ctx context.Context, step string, m *consumer.Message) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("http://%s/gate/%s/%s/%d", api, step, m.ID, m.Attempt), nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}
	return lambdasqs.New(l, consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
		if err := pass(ctx, "before", m); err != nil {
			return err
		}
		err := sqlite.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO effect VALUES (?)", m.ID)
			return err
		})
		if err != nil {
			return err
		}
		return pass(ctx, "behind", m)
	}), &lambdasqs.Config{Options: consumer.Options{Name: "billing", Lease: shortLease}})
}

// files is a function's ledger and its effects, in one file, as the test sees them.
type files struct {
	*function
	path    string
	effects *sql.DB
}

func newFiles(t *testing.T) *files {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.db")
	l, err := sqlite.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(60000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.Exec("CREATE TABLE effect (id TEXT)"); err != nil {
		t.Fatal(err)
	}
	return &files{function: &function{t: t, ledger: l}, path: path, effects: db}
}

// succeeded checks that a message has its effect once, and how many crashes the ledger has counted.
func (f *files) succeeded(id string, crashes int) {
	f.t.Helper()
	var n int
	if err := f.effects.QueryRow("SELECT count(*) FROM effect WHERE id = ?", id).Scan(&n); err != nil || n != 1 {
		f.t.Errorf("message %s: %d effects, %v, want 1", id, n, err)
	}
	if r := f.record(id); r.State != ledger.Succeeded || int(r.Crashes) != crashes {
		f.t.Errorf("message %s in the ledger: %+v, want it succeeded, with %d crashes", id, r, crashes)
	}
}

const (
	allDone = `{"batchItemFailures":[]}`
	oneLeft = `{"batchItemFailures":[{"itemIdentifier":"1"}]}`
)

// A process is killed while one message is before its transaction, and another one behind it. The next delivery runs the one and
// acknowledges the other.
func TestAProcessKilledInMidInvocation(t *testing.T) {
	t.Parallel()
	f, a := newFiles(t), newRuntimeAPI(t)
	before, behind := a.gate("before 1"), a.gate("behind 2")
	p := a.start(f.path)
	c := a.until(before, 5*time.Minute, event(queue, "1", "2"))
	a.wait(behind)
	p.kill()
	if len(c.answered) > 0 {
		t.Fatalf("the invocation was answered: %s", <-c.answered)
	}
	a.remove("before 1")
	a.remove("behind 2")
	a.start(f.path)
	if got := a.end(a.begin(5*time.Minute, event(queue, "1", "2"))); got != allDone {
		t.Errorf("answered %s", got)
	}
	f.succeeded("1", 1)
	f.succeeded("2", 0)
	if n := a.times("before 2"); n != 1 {
		t.Errorf("the message that had succeeded was run %d times", n)
	}
}

// frozen stops a process for two leases, while a peer lives in the ledger that would declare owners dead.
func (f *files) frozen(p *process) {
	f.t.Helper()
	p.signal(syscall.SIGSTOP)
	peer, err := f.ledger.Join(f.t.Context(), shortLease)
	if err != nil {
		f.t.Fatal(err)
	}
	for end := time.Now().Add(2 * shortLease); time.Now().Before(end); time.Sleep(shortLease / 5) {
		if _, err := peer.Beat(f.t.Context()); err != nil && !ledger.IsLost(err) { // this process may be slow
			f.t.Fatal(err)
		}
	}
	if err := peer.Leave(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	p.signal(syscall.SIGCONT)
}

// Lambda freezes a process between two invocations, for longer than a lease: nothing is lost by that, and nobody was declared dead.
func TestAProcessFrozenBetweenInvocations(t *testing.T) {
	t.Parallel()
	f, a := newFiles(t), newRuntimeAPI(t)
	p := a.start(f.path)
	if got := a.end(a.begin(5*time.Minute, event(queue, "1"))); got != allDone {
		t.Fatalf("answered %s", got)
	}
	eventually(t, "the process waits for the next invocation", func() bool { return a.waiting() == 1 })
	stats := func() ledger.OwnerStats {
		s, err := f.ledger.(*sqlite.Ledger).Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return s.Owners
	}
	if o := stats(); o.Live != 0 {
		t.Errorf("between two invocations there are owners: %+v", o)
	}
	f.frozen(p)
	if got := a.end(a.begin(5*time.Minute, event(queue, "1", "2"))); got != allDone {
		t.Errorf("answered %s", got)
	}
	f.succeeded("1", 0)
	f.succeeded("2", 0)
	if o := stats(); o.Dead != 0 {
		t.Errorf("owners were declared dead: %+v", o)
	}
	if n := a.times("before 1"); n != 1 {
		t.Errorf("the duplicate was run: %d runs", n)
	}
}

// A process is frozen in mid-invocation, past the lease and past its deadline, and another one does its message meanwhile. What it does
// when it thaws has no effect, and it goes on with the next invocation.
func TestAProcessFrozenPastItsDeadline(t *testing.T) {
	t.Parallel()
	f, a := newFiles(t), newRuntimeAPI(t)
	const limit = 10 * time.Second
	gate := a.gate("before 1")
	p := a.start(f.path)
	c := a.until(gate, limit, event(queue, "1"))
	p.signal(syscall.SIGSTOP)
	deadline := time.Now().Add(limit)
	a.remove("before 1")
	other := a.start(f.path)
	if got := a.end(a.begin(5*time.Minute, event(queue, "1"))); got != allDone {
		t.Errorf("the other process answered %s", got)
	}
	other.kill()
	eventually(t, "no process takes an invocation", func() bool { return a.waiting() == 0 })
	time.Sleep(time.Until(deadline))
	close(gate.open)
	p.signal(syscall.SIGCONT)
	if got := a.end(c); got != oneLeft && got != allDone { // done it is, by the other one
		t.Errorf("thawed, it answered %s", got)
	}
	if got := a.end(a.begin(5*time.Minute, event(queue, "1", "2"))); got != allDone {
		t.Errorf("the next invocation was answered %s", got)
	}
	f.succeeded("1", 1)
	f.succeeded("2", 0)
}

// A message that takes longer than the invocation is given back before the deadline, and has its effect in the next invocation.
func TestADeadlineThatPasses(t *testing.T) {
	t.Parallel()
	f, a := newFiles(t), newRuntimeAPI(t)
	gate := a.gate("before 1")
	a.start(f.path)
	c := a.until(gate, 8*time.Second, event(queue, "1"))
	if got := a.end(c); got != oneLeft {
		t.Errorf("answered %s", got)
	}
	if r := f.record("1"); r.State != ledger.Pending || r.Attempts > 1 {
		t.Errorf("in the ledger: %+v", r)
	}
	a.remove("before 1")
	if got := a.end(a.begin(5*time.Minute, event(queue, "1", "2"))); got != allDone {
		t.Errorf("answered %s", got)
	}
	f.succeeded("1", 0)
	f.succeeded("2", 0)
}
