package lambdasqs_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
)

// patience is for what must happen, however slow the machine is.
const patience = 2 * time.Minute

// runtimeAPI is Lambda's side of a function's process (Lambda developer guide, "Using the Lambda runtime API for custom runtimes"), and
// the gates at which handlers wait for the test.
type runtimeAPI struct {
	t    *testing.T
	addr string
	next chan *call

	mu    sync.Mutex
	calls map[string]*call // that were not answered, by their request id
	gates map[string]*gate
	runs  []string // step, message and attempt
	idle  int      // processes that wait for an invocation
}

// call is one invocation.
type call struct {
	id       string
	payload  []byte
	limit    time.Duration
	answered chan string // the response's body, or "error: " and the error's
}

// gate is where a handler waits.
type gate struct {
	reached chan struct{} // closed by the first that comes
	open    chan struct{}
	once    sync.Once
}

func newRuntimeAPI(t *testing.T) *runtimeAPI {
	t.Helper()
	a := &runtimeAPI{t: t, next: make(chan *call), calls: map[string]*call{}, gates: map[string]*gate{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /2018-06-01/runtime/invocation/next", a.serveNext)
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/{end}", a.serveEnd)
	mux.HandleFunc("POST /gate/{step}/{message}/{attempt}", a.serveGate)
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	a.addr = strings.TrimPrefix(srv.URL, "http://")
	return a
}

// serveNext hands out an invocation. Its time begins when it is handed out.
func (a *runtimeAPI) serveNext(w http.ResponseWriter, r *http.Request) {
	a.count(1)
	defer a.count(-1)
	select {
	case c := <-a.next:
		a.mu.Lock()
		a.calls[c.id] = c
		a.mu.Unlock()
		w.Header().Set("Lambda-Runtime-Aws-Request-Id", c.id)
		w.Header().Set("Lambda-Runtime-Deadline-Ms", fmt.Sprint(time.Now().Add(c.limit).UnixMilli()))
		_, _ = w.Write(c.payload)
	case <-r.Context().Done(): // the process is dead
	}
}

func (a *runtimeAPI) count(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.idle += n
}

// waiting says how many processes wait for an invocation.
func (a *runtimeAPI) waiting() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.idle
}

func (a *runtimeAPI) serveEnd(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // killed while it answered
	}
	a.mu.Lock()
	c := a.calls[r.PathValue("id")]
	delete(a.calls, r.PathValue("id"))
	a.mu.Unlock()
	if c == nil {
		http.Error(w, "no such invocation", http.StatusBadRequest)
		return
	}
	if r.PathValue("end") == "error" {
		body = append([]byte("error: "), body...)
	}
	w.WriteHeader(http.StatusAccepted)
	c.answered <- string(body)
}

func (a *runtimeAPI) serveGate(_ http.ResponseWriter, r *http.Request) {
	at := r.PathValue("step") + " " + r.PathValue("message")
	a.mu.Lock()
	a.runs = append(a.runs, at+" "+r.PathValue("attempt"))
	g := a.gates[at]
	a.mu.Unlock()
	if g == nil {
		return
	}
	g.once.Do(func() { close(g.reached) })
	select {
	case <-g.open:
	case <-r.Context().Done():
	}
}

// gate has handlers wait at a step of a message, until its open is closed.
func (a *runtimeAPI) gate(at string) *gate {
	g := &gate{reached: make(chan struct{}), open: make(chan struct{})}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gates[at] = g
	return g
}

// remove lets everybody pass who comes from now on.
func (a *runtimeAPI) remove(at string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.gates, at)
}

// times counts how often handlers came to a step of a message.
func (a *runtimeAPI) times(at string) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, run := range a.runs {
		if strings.HasPrefix(run, at+" ") {
			n++
		}
	}
	return n
}

// begin invokes the function, whichever process takes it.
func (a *runtimeAPI) begin(limit time.Duration, e events.SQSEvent) *call {
	a.t.Helper()
	payload, err := json.Marshal(e)
	if err != nil {
		a.t.Fatal(err)
	}
	c := &call{id: fmt.Sprint("request-", time.Now().UnixNano()), payload: payload, limit: limit, answered: make(chan string, 1)}
	select {
	case a.next <- c:
	case <-time.After(patience):
		a.t.Fatal("no process takes an invocation")
	}
	return c
}

// until begins invocations until one comes to a gate: one that is too slow to begin at all says so, and is repeated, as Lambda does.
func (a *runtimeAPI) until(g *gate, limit time.Duration, e events.SQSEvent) *call {
	a.t.Helper()
	for {
		c := a.begin(limit, e)
		select {
		case <-g.reached:
			return c
		case got := <-c.answered:
			a.t.Logf("not in time: %s", got)
		case <-time.After(patience):
			a.t.Fatal("no handler came to the gate")
		}
	}
}

// wait waits until a handler comes to a gate.
func (a *runtimeAPI) wait(g *gate) {
	a.t.Helper()
	select {
	case <-g.reached:
	case <-time.After(patience):
		a.t.Fatal("no handler came to the gate")
	}
}

// end waits for the end of an invocation.
func (a *runtimeAPI) end(c *call) string {
	a.t.Helper()
	select {
	case got := <-c.answered:
		return got
	case <-time.After(patience):
		a.t.Fatal("the invocation is not answered")
		return ""
	}
}

// process is a function's process.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
}

// start starts a process of the function whose ledger is this file.
func (a *runtimeAPI) start(ledgerFile string) *process {
	a.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		a.t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(a.t.TempDir(), "log"))
	if err != nil {
		a.t.Fatal(err)
	}
	p := &process{t: a.t, cmd: exec.Command(exe)}
	p.cmd.Env = append(os.Environ(), "AWS_LAMBDA_RUNTIME_API="+a.addr, functionLedger+"="+ledgerFile)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() {
		p.kill()
		if said, err := os.ReadFile(log.Name()); a.t.Failed() && err == nil {
			a.t.Logf("the process said:\n%s", bytes.TrimSpace(said))
		}
		_ = log.Close()
	})
	return p
}

// kill ends the process at once, if it has not ended, and waits for its end.
func (p *process) kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
}

// signal sends a signal to the process.
func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// eventually polls a condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}
