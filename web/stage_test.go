package web

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/replay"
)

const shop = "sqs:arn:aws:sqs:eu-central-1:000000000000:orders/billing"

// hostile is a text that would be a script, an attribute's end, and a move of a terminal's cursor.
const hostile = `"><script>alert(1)</script>'` + "\x1b[2J\u202e<img src=x onerror=alert(2)>"

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

// stage is a ledger with its pages, served.
type stage struct {
	t      *testing.T
	l      *board
	ui     *UI
	server *httptest.Server
	sent   *sink
	owner  ledger.Owner
}

// sink is a target that takes everything.
type sink struct {
	mu     sync.Mutex
	bodies []string
	block  chan struct{} // nil: nothing waits
}

func (s *sink) String() string                            { return "a sink" }
func (s *sink) Begin(context.Context, replay.Begin) error { return nil }
func (s *sink) Accept(*replay.Letter) error               { return nil }
func (s *sink) Most() int                                 { return 10 }
func (s *sink) End(context.Context) error                 { return nil }
func (s *sink) Send(_ context.Context, letters []*replay.Letter) []replay.Result {
	if s.block != nil {
		<-s.block
	}
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
	return slices.Sorted(slices.Values(s.bodies))
}

// everything lets everybody do everything.
func everything(s *sink) Options {
	return Options{
		Write: true, Authorize: func(*http.Request, Action, string) error { return nil },
		Actor:   func(r *http.Request) string { return "alex" },
		Target:  func(context.Context, string) (replay.Target, error) { return s, nil },
		Sources: []Source{new(queue).source()},
	}
}

func newStage(t *testing.T, change func(*Options)) *stage {
	t.Helper()
	s := &stage{t: t, l: &board{Ledger: memory.New()}, sent: new(sink)}
	o := everything(s.sent)
	if change != nil {
		change(&o)
	}
	var err error
	if s.ui, err = Handler(s.l, o); err != nil {
		t.Fatal(err)
	}
	s.ui.look = time.Minute // a machine may be slow
	mux := http.NewServeMux()
	mux.Handle("/any/prefix/", s.ui)
	s.server = httptest.NewServer(mux)
	t.Cleanup(func() {
		_ = s.ui.Close()
		s.server.Close()
	})
	if s.owner, err = s.l.Join(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	return s
}

// keep is how long dead letters are kept.
const keep = 365 * 24 * time.Hour

// letter makes a dead letter.
func (s *stage) letter(scope, id, text, body string) ledger.Key {
	s.t.Helper()
	key := ledger.Key{Scope: scope, ID: []byte(id)}
	c := s.claim(key, body)
	s.settle(ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Fail, Dead: &ledger.Archive{
		Key: key, Delivery: key.ID, Kind: ledger.KindTerminal, Keep: keep, Body: []byte(body), Source: "arn:aws:sqs:eu-central-1:000000000000:orders",
		Fingerprint: ledger.BodyFingerprint([]byte(body)),
		Headers:     []ledger.Header{{Name: "tenant", Value: []byte("acme " + hostile)}}, Attempts: 1, Group: "g1",
		Errors: []ledger.AttemptError{{Attempt: 1, Kind: ledger.KindTerminal, Error: text, At: time.Now()}},
	}})
	return key
}

func (s *stage) claim(key ledger.Key, body string) ledger.Claim {
	s.t.Helper()
	claims, err := s.owner.Claim(s.t.Context(), []ledger.Entry{{Key: key, Delivery: key.ID, Window: time.Hour, Fingerprint: ledger.BodyFingerprint([]byte(body))}})
	if err != nil {
		s.t.Fatal(err)
	}
	return claims[0]
}

func (s *stage) settle(all ...ledger.Settlement) {
	s.t.Helper()
	if _, err := s.owner.Settle(s.t.Context(), all); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) succeed(id string) ledger.Key {
	s.t.Helper()
	key := ledger.Key{Scope: shop, ID: []byte(id)}
	s.settle(ledger.Settlement{Ticket: s.claim(key, "fine").Ticket, Kind: ledger.Succeed})
	return key
}

// stray makes a message that is pending, and nobody's.
func (s *stage) stray(scope, id string) {
	s.t.Helper()
	key := ledger.Key{Scope: scope, ID: []byte(id)}
	s.settle(ledger.Settlement{Ticket: s.claim(key, "lost").Ticket, Kind: ledger.Release})
}

// answer is what came back.
type answer struct {
	status int
	body   string
	header http.Header
}

func (s *stage) do(method, path string, form url.Values, change func(*http.Request)) answer {
	s.t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.server.URL+"/any/prefix/"+path, body)
	if err != nil {
		s.t.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	if change != nil {
		change(r)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{resp.StatusCode, string(got), resp.Header}
}

func (s *stage) get(path string) answer { s.t.Helper(); return s.do(http.MethodGet, path, nil, nil) }

func (s *stage) post(path string, form url.Values) answer {
	s.t.Helper()
	if form == nil {
		form = url.Values{}
	}
	return s.do(http.MethodPost, path, form, nil)
}

// want is a page that has these texts.
func (s *stage) want(a answer, status int, texts ...string) answer {
	s.t.Helper()
	if a.status != status {
		s.t.Fatalf("status %d, want %d:\n%s", a.status, status, a.body)
	}
	for _, text := range texts {
		if !strings.Contains(a.body, text) {
			s.t.Errorf("the page lacks %q:\n%s", text, a.body)
		}
	}
	return a
}

func (s *stage) lacks(a answer, texts ...string) {
	s.t.Helper()
	for _, text := range texts {
		if strings.Contains(a.body, text) {
			s.t.Errorf("the page has %q:\n%s", text, a.body)
		}
	}
}

// started is the id of a job that an answer sends the browser to, once the job has ended.
func (s *stage) started(a answer) string {
	s.t.Helper()
	to, ok := strings.CutPrefix(a.header.Get("Location"), "job?id=")
	if a.status != http.StatusSeeOther || !ok {
		s.t.Fatalf("no job was begun: %d %q\n%s", a.status, a.header.Get("Location"), a.body)
	}
	s.ended(s.ui.jobs.named(to))
	return to
}

func (s *stage) ended(j *job) {
	s.t.Helper()
	for end := time.Now().Add(30 * time.Second); !j.view().Ended; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("the job does not end: %+v", j.view())
		}
	}
}

func (s *stage) audits(action ledger.Action) (n int) {
	s.t.Helper()
	for a, err := range s.l.Audits(s.t.Context(), ledger.AuditFilter{Action: action}) {
		if err != nil {
			s.t.Fatal(err)
		}
		if a.By.Actor != "alex" {
			s.t.Errorf("the audit says %q", a.By.Actor)
		}
		n++
	}
	return n
}
