package browser

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/replay"
	"github.com/ackledger/ackledger/web"
)

const (
	queue = "arn:aws:sqs:eu-central-1:123456789012:orders"
	// hostile would be a script and an attribute's end, if a page wrote it as it is.
	hostile = `"><script>document.title="broken"</script><img src=x onerror='document.title="broken"'>`
)

var orders, mails = replay.Scope(queue, "billing"), replay.Scope("main/mails", "sender")

// board is a ledger in memory whose workers are what a test says.
type board struct {
	*memory.Ledger
	mu      sync.Mutex
	workers []ledger.WorkerStatus
}

func (b *board) Workers(context.Context) ([]ledger.WorkerStatus, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.workers), nil
}

// work lets the workers' counts grow.
func (b *board) work(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.workers {
		b.workers[i].Report.Succeeded += n * int64(i+1)
	}
}

// sink is a target that takes everything.
type sink struct {
	mu     sync.Mutex
	bodies []string
}

func (s *sink) String() string                            { return "where each came from" }
func (s *sink) Begin(context.Context, replay.Begin) error { return nil }
func (s *sink) Accept(*replay.Letter) error               { return nil }
func (s *sink) Most() int                                 { return 1 }
func (s *sink) End(context.Context) error                 { return nil }
func (s *sink) Send(_ context.Context, letters []*replay.Letter) []replay.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range letters {
		s.bodies = append(s.bodies, string(l.Message.Body))
	}
	return slices.Repeat([]replay.Result{{Outcome: replay.Sent}}, len(letters))
}

func (s *sink) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.bodies)
}

// stage is a ledger with things in it, and its pages.
type stage struct {
	t     *testing.T
	l     *board
	sent  *sink
	queue *letters
	base  string
	owner ledger.Owner
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, l: &board{Ledger: memory.New()}, sent: new(sink), queue: new(letters)}
	pages, err := web.Handler(s.l, web.Options{
		Write: true, Authorize: func(*http.Request, web.Action, string) error { return nil },
		Actor:  func(*http.Request) string { return "alex" },
		Target: func(context.Context, string) (replay.Target, error) { return s.sent, nil },
		Sources: []web.Source{{Name: dlq, Open: func(context.Context) (replay.Source, error) { return s.queue, nil }},
			{Name: hostile, Open: func(context.Context) (replay.Source, error) { return nil, errors.New(hostile) }}},
		Doctor: func(context.Context) ([]web.Finding, error) {
			return []web.Finding{{Grade: "warning", Check: "sweep", Text: "the last pass ended 2d ago: what has expired stays", Remedy: "let workers maintain the ledger"},
				{Grade: "ok", Check: "tables", Text: "of this program's version"}}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/ops/ackledger/", pages)
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		_ = pages.Close()
		server.Close()
	})
	s.base = server.URL + "/ops/ackledger/"
	if s.owner, err = s.l.Join(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	s.fill()
	return s
}

func (s *stage) fill() {
	for i := range 60 {
		s.letter(orders, queue, fmt.Sprintf("4711-%03d", i), ledger.KindExhausted, fmt.Sprintf("no such SKU: %d", i), fmt.Sprintf("{\n  \"sku\": %d,\n  \"amount\": 2\n}", i))
	}
	for i := range 7 {
		s.letter(mails, "main/mails", fmt.Sprintf("mails-0-%d", i), ledger.KindTerminal, fmt.Sprintf(`mailbox "u%d@example.com" is full`, i), "hello")
	}
	s.letter(orders, queue, hostile, ledger.KindPanic, hostile, hostile)
	s.succeed(orders, "5000")
	s.release(orders, "6000")
	if _, err := s.l.Sweep(s.t.Context(), ledger.MaintainConfig{Keep: time.Hour}); err != nil {
		s.t.Fatal(err)
	}
	now := time.Now()
	report := func(scope, host string, pid int) ledger.WorkerReport {
		return ledger.WorkerReport{Scope: scope, Host: host, PID: pid, Version: "v1.4.0", Started: now.Add(-3 * time.Hour), Held: 96, Running: 16, Waiting: 3,
			Oldest: 1200 * time.Millisecond, Alive: true, Ready: true}
	}
	a, b, c := report(orders, "billing-7c9d", 1), report(orders, "billing-8f2a", 1), report(mails, "sender-1", 1)
	b.Ready, b.Paused, b.Stalled = false, "the breaker is open", []string{"handler 1m30s"}
	c.Lag = []ledger.Lag{{Source: "mails-0", Waiting: 1834}, {Source: "mails-1", Waiting: 12}}
	s.l.workers = []ledger.WorkerStatus{{Owner: "b7d1", Fate: ledger.Live, Lease: 24 * time.Second, Report: a},
		{Owner: "c2e9", Fate: ledger.Live, Lease: 21 * time.Second, Report: b}, {Owner: "f00d", Fate: ledger.Live, Lease: 29 * time.Second, Report: c}}
}

func (s *stage) claim(key ledger.Key, body string) ledger.Claim {
	s.t.Helper()
	claims, err := s.owner.Claim(s.t.Context(), []ledger.Entry{{Key: key, Delivery: key.ID, Window: time.Hour, Fingerprint: ledger.BodyFingerprint([]byte(body))}})
	if err != nil {
		s.t.Fatal(err)
	}
	return claims[0]
}

func (s *stage) settle(one ledger.Settlement) {
	s.t.Helper()
	if _, err := s.owner.Settle(s.t.Context(), []ledger.Settlement{one}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) letter(scope, source, id string, kind ledger.FailureKind, text, body string) {
	s.t.Helper()
	key := ledger.Key{Scope: scope, ID: []byte(id)}
	s.settle(ledger.Settlement{Ticket: s.claim(key, body).Ticket, Kind: ledger.Fail, Dead: &ledger.Archive{
		Key: key, Delivery: key.ID, Kind: kind, Keep: time.Hour, Body: []byte(body), Source: source, Attempts: 3, Fingerprint: ledger.BodyFingerprint([]byte(body)),
		Headers: []ledger.Header{{Name: "tenant", Value: []byte("acme")}},
		Errors:  []ledger.AttemptError{{Attempt: 1, Kind: ledger.KindTimeout, Error: "no answer in 5s", At: time.Now().Add(time.Millisecond)}, {Attempt: 2, Kind: kind, Error: text, At: time.Now().Add(2 * time.Millisecond)}},
	}})
}

func (s *stage) succeed(scope, id string) {
	s.settle(ledger.Settlement{Ticket: s.claim(ledger.Key{Scope: scope, ID: []byte(id)}, "fine").Ticket, Kind: ledger.Succeed})
}

func (s *stage) release(scope, id string) {
	s.settle(ledger.Settlement{Ticket: s.claim(ledger.Key{Scope: scope, ID: []byte(id)}, "lost").Ticket, Kind: ledger.Release})
}

// chromium is the browser's program.
var chromium = sync.OnceValues(func() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no Chromium here: install it (Debian, Ubuntu: apt install --no-install-recommends chromium; macOS: brew install chromium)")
})

// tab is one tab of a browser.
type tab struct {
	*stage
	ctx      context.Context
	mu       sync.Mutex
	problems []string // that the browser complained of
}

// open starts a browser, with JavaScript or without.
func (s *stage) open(scripts bool) *tab {
	s.t.Helper()
	path, err := chromium()
	if err != nil {
		services.Missing(s.t, "the web pages: "+err.Error())
	}
	flags := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.WindowSize(1200, 800), chromedp.Flag("hide-scrollbars", true))
	if os.Getuid() == 0 {
		flags = append(flags, chromedp.NoSandbox)
	}
	alloc, end := chromedp.NewExecAllocator(s.t.Context(), flags...)
	b := &tab{stage: s}
	ctx, leave := chromedp.NewContext(alloc, chromedp.WithListener(b.hear))
	s.t.Cleanup(func() { leave(); end() })
	b.ctx = ctx
	b.do()
	command(b, log.Enable, cdp.Empty{})
	command(b, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Tokyo"})
	command(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !scripts})
	return b
}

// hear notes what the browser complains of.
func (b *tab) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case log.EventEntryAdded:
		b.note(e.Entry)
	case *log.EventEntryAdded:
		b.note(e.Entry)
	case runtime.EventExceptionThrown:
		b.problems = append(b.problems, e.ExceptionDetails.Text)
	case *runtime.EventExceptionThrown:
		b.problems = append(b.problems, e.ExceptionDetails.Text)
	}
}

func (b *tab) note(e *log.Entry) {
	if e.Level == log.EntryLevelError && !strings.HasSuffix(e.URL, "favicon.ico") {
		b.problems = append(b.problems, e.Text+" "+e.URL)
	}
}

const patience = 30 * time.Second

// do carries steps out.
func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// command is one of the browser's protocol.
func command[P, R any](b *tab, c cdp.Command[P, R], params P) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, c, params); err != nil {
		b.t.Fatal(err)
	}
}

// get carries a step out that has a value.
func get[T any](b *tab, step chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, step)
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

// see goes to a page.
func (b *tab) see(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.base + path))
}

// has waits for a text on the page, which may load itself again meanwhile.
func (b *tab) has(want string) {
	b.t.Helper()
	text := ""
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(b.ctx, patience)
		got, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.body ? document.body.innerText : ""`))
		cancel()
		if text = got; err == nil && strings.Contains(text, want) {
			return
		}
	}
	b.t.Fatalf("the page lacks %q:\n%s", want, text)
}

// notThere is the protocol's code where a node is gone, or has no box.
const notThere = -32000

// press clicks the button or link with a text, and waits for the page behind it. A live part may put another in its place between
// the look and the click, which is then not made: it is looked for again, as somebody would who looks at the page.
func (b *tab) press(text string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	path := fmt.Sprintf(`//main//*[self::button or self::a][contains(normalize-space(.), %q)]`, text)
	for {
		_, err := chromedp.RunResponse(ctx, chromedp.Click(path))
		if err == nil {
			return
		}
		var refused *cdproto.Error
		if gone := errors.As(err, &refused) && refused.Code == notThere; !gone || ctx.Err() != nil {
			b.t.Fatalf("press %q: %v", text, err)
		}
	}
}

// write puts a text into a field.
func (b *tab) write(field, text string) {
	b.t.Helper()
	b.do(chromedp.SetValue(chromedp.CSS(field), text))
}

// fine says that the browser had nothing to complain of.
func (b *tab) fine() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.problems) > 0 {
		b.t.Errorf("the browser says: %q", b.problems)
	}
	b.problems = nil
}

// axe is axe-core's script.
var axe = sync.OnceValues(func() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	path, err := services.AxeCore(ctx)
	if err != nil {
		return "", err
	}
	script, err := os.ReadFile(path)
	return string(script), err
})
