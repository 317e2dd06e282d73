package web

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

func TestHandlerRefusesOptionsThatDoNotGoTogether(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{
		"Options.Authorize": {Write: true},
		"Options.Actor":     {Authorize: func(*http.Request, Action, string) error { return nil }},
		"Options.StampKeys": {StampKeys: []consumer.StampKey{{}}},
	} {
		if _, err := Handler(memory.New(), o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Handler(nil, Options{}); err == nil {
		t.Error("a nil ledger is taken")
	}
}

var everyPage = []string{"", "dead", "errors", "stuck", "jobs", "audit", "doctor", "message", "message?id=o1", "replay", "reopen", "purge", "replay?scope=" + url.QueryEscape(shop), "replay?" + fromQueue}

func TestPages(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(o *Options) {
		o.Doctor = func(context.Context) ([]Finding, error) {
			return []Finding{{Grade: "warning", Check: "sweep", Text: "late " + hostile, Remedy: "run it"}}, nil
		}
	})
	s.letter(shop, "o1", "no such SKU: 17", `{"sku":17}`)
	s.stray(shop, "o2")
	s.stray(ledger.PermitScope, "acme/0")
	if _, err := s.l.Sweep(t.Context(), ledger.MaintainConfig{}); err != nil {
		t.Fatal(err)
	}
	s.l.workers = []ledger.WorkerStatus{{Owner: "w1", Fate: ledger.Live, Lease: 20 * time.Second, Report: ledger.WorkerReport{
		Scope: shop, Host: "box", PID: 7, Version: "v1.2.3", Started: time.Now(), Held: 12, Running: 3, Alive: true, Ready: true,
		Lag: []ledger.Lag{{Source: "orders-0", Waiting: 1234}}, Stalled: []string{"the breaker is open"},
	}}}
	for _, path := range everyPage {
		a := s.get(path)
		s.want(a, http.StatusOK, "<h1>", "</html>")
		if a.header.Get("Content-Security-Policy") != policy || a.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: headers %v", path, a.header)
		}
		s.lacks(a, "<script>", "onclick", "style=", "ZgotmplZ")
	}
	s.want(s.get(""), http.StatusOK, "permits of Options.Limit", "box 7", "v1.2.3", "the breaker is open", "1,234", `http-equiv="refresh"`)
	s.want(s.get("dead"), http.StatusOK, "o1", "no such SKU: 17", "terminal")
	s.want(s.get("errors"), http.StatusOK, "no such SKU: #")
	s.want(s.get("stuck"), http.StatusOK, "o2")
	s.want(s.get("message?id=o1"), http.StatusOK, "attempt 1", "no such SKU: 17", "dead letter", "first claim")
	s.want(s.get("nothing"), http.StatusNotFound)
	s.want(s.get("message?id=never"), http.StatusNotFound)
	s.want(s.get("dead?kind=odd"), http.StatusBadRequest, "no kind of failure")
	s.want(s.get("dead?since=odd"), http.StatusBadRequest)
	s.want(s.do(http.MethodPut, "", nil, nil), http.StatusMethodNotAllowed)
	for _, name := range []string{"style.css", "app.js"} {
		s.want(s.get(name), http.StatusOK)
	}
	a := s.post("search?what=doctor", nil)
	if a.header.Get("Location") != "doctor" {
		t.Fatalf("search: %+v", a)
	}
	s.ended(s.ui.jobs.lastOf(kindDoctor, "all"))
	s.lacks(s.want(s.get("doctor"), http.StatusOK, "run it", "&lt;script&gt;"), "<script>", "<img")
}

// TestPagesAreSmall: all that a browser can load of them fits into 300 KB.
func TestPagesAreSmall(t *testing.T) {
	t.Parallel()
	n := 0
	for _, name := range []string{"assets/app.js", "assets/style.css"} {
		b, err := assets.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		n += len(b)
	}
	entries, _ := sources.ReadDir("pages")
	for _, e := range entries {
		b, err := sources.ReadFile("pages/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		n += len(b)
	}
	if n > 300<<10 {
		t.Errorf("assets and templates have %d bytes", n)
	}
	t.Logf("%d bytes", n)
}

// TestHostileTexts: ids, scopes, errors, headers, bodies, reports and reasons are texts of others.
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	scope := "kafka:c/" + hostile + "@g"
	s.letter(scope, hostile+"\xff", hostile, hostile)
	s.stray(scope, "2"+hostile)
	s.l.workers = []ledger.WorkerStatus{{Owner: hostile, Fate: ledger.Live, Report: ledger.WorkerReport{
		Scope: scope, Host: hostile, Version: hostile, Started: time.Now(), Paused: hostile, Stalled: []string{hostile}, Warnings: []string{hostile},
		Error: hostile, Lag: []ledger.Lag{{Source: hostile, Waiting: 1}},
	}}}
	s.want(s.post("pause", url.Values{"scope": {url.QueryEscape(scope)}, "reason": {hostile}}), http.StatusSeeOther)
	message := link(t, s.get("dead"), "message?")
	body := link(t, s.get(message), "body?")
	pages := []answer{s.get(""), s.get("dead"), s.get("errors"), s.get("stuck"), s.get(message), s.post(body, nil), s.get("audit"), s.get("jobs"),
		s.post(strings.Replace(message, "message?", "edit?", 1), nil), s.get("dead?scope=" + url.QueryEscape(hostile)), s.get("nothing" + url.PathEscape(hostile)),
		s.get("replay?id=" + url.QueryEscape(hostile))}
	job := s.started(s.post("replay?scope="+url.QueryEscape(scope), url.Values{"reason": {"why"}}))
	pages = append(pages, s.get("job?id="+job), s.get("jobs"))
	for i, a := range pages {
		a.body = fields.ReplaceAllString(a.body, "") // what is in a field of a form must come back as it is
		if strings.Contains(a.body, "<script>alert") || strings.Contains(a.body, "<img") || strings.ContainsAny(a.body, "\x1b\u202e") {
			t.Errorf("page %d has the text as it is:\n%s", i, a.body)
		}
	}
}

var fields = regexp.MustCompile(`(?s) value="[^"]*"|<textarea.*</textarea>`)

var links = regexp.MustCompile(`(?:href|action)="([^"]*)"`)

// link is the first of a page that begins so.
func link(t *testing.T, a answer, begins string) string {
	t.Helper()
	for _, m := range links.FindAllStringSubmatch(a.body, -1) {
		if to := html.UnescapeString(m[1]); strings.HasPrefix(to, begins) {
			return to
		}
	}
	t.Fatalf("no link to %s:\n%s", begins, a.body)
	return ""
}

// TestPagesOfDeadLetters: each is shown once, in both orders, also where many were archived at one time and where days lie between.
func TestPagesOfDeadLetters(t *testing.T) {
	t.Parallel()
	now := time.Now().Add(-10 * 365 * 24 * time.Hour)
	s := newStage(t, nil)
	clocked := memory.New(memory.WithClock(func() time.Time { return now }))
	s.l.Ledger, s.ui.op = clocked, clocked
	var err error
	if s.owner, err = clocked.Join(t.Context(), 100*365*24*time.Hour); err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range 9*pageRows + 7 {
		id := fmt.Sprintf("o-%03d", i)
		s.letter(shop, id, "failed", "{}")
		want = append(want, id)
		switch {
		case i < 20:
			now = now.Add(10 * 24 * time.Hour)
		case i > 400: // 380 at one time
			now = now.Add(time.Duration(i) * time.Millisecond)
		}
	}
	for _, begin := range []string{"dead?order=oldest", "dead"} {
		var got []string
		pages := 0
		for path := begin; path != ""; pages++ {
			a := s.want(s.get(path), http.StatusOK)
			for _, id := range regexp.MustCompile(`>(o-\d+)</a>`).FindAllStringSubmatch(a.body, -1) {
				got = append(got, id[1])
			}
			if path = ""; strings.Contains(a.body, `rel="next"`) {
				path = html.UnescapeString(regexp.MustCompile(`rel="next" href="([^"]*)"`).FindStringSubmatch(a.body)[1])
			}
		}
		ordered := slices.Clone(got)
		if slices.Sort(ordered); !slices.Equal(ordered, want) || pages < 10 { // more where the time was up
			t.Errorf("%s: %d rows on %d pages, want %d on 10 at least", begin, len(got), pages, len(want))
		}
		if first, last := got[0] == want[0], got[len(got)-1] == want[0]; first == last || first != strings.Contains(begin, "oldest") {
			t.Errorf("%s begins with %s and ends with %s", begin, got[0], got[len(got)-1])
		}
	}
}

// TestPagesOfTheAudit: each record is shown once, the latest first, also where ids have gaps, and those of an action or a time alone.
func TestPagesOfTheAudit(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	var want []string
	note := func(action ledger.Action, n int) {
		t.Helper()
		all := make([]ledger.AuditRecord, n)
		for i := range all {
			id := fmt.Sprintf("a-%05d", len(want))
			all[i] = ledger.AuditRecord{By: ledger.By{Actor: "alex"}, Action: action, Key: ledger.Key{Scope: shop, ID: []byte(id)}}
			want = append(want, id)
		}
		if err := s.l.Audit(t.Context(), all); err != nil {
			t.Fatal(err)
		}
	}
	read := func(path string) (got []string) {
		for path != "" {
			a := s.want(s.get(path), http.StatusOK)
			for _, id := range regexp.MustCompile(`>(a-\d+)</a>`).FindAllStringSubmatch(a.body, -1) {
				got = append(got, id[1])
			}
			if path = ""; strings.Contains(a.body, `rel="next"`) {
				path = html.UnescapeString(regexp.MustCompile(`rel="next" href="([^"]*)"`).FindStringSubmatch(a.body)[1])
			}
		}
		return got
	}
	for _, n := range []int{0, 1, 6, 300, 700} {
		note(ledger.ActionReplay, n)
		got := read("audit")
		slices.Reverse(got)
		if !slices.Equal(got, want) {
			t.Fatalf("%d records, want %d: %v", len(got), len(want), got)
		}
	}
	note("mine", 3)
	note(ledger.ActionReplay, 60)
	if got := read("audit?action=mine"); len(got) != 3 {
		t.Errorf("of one action: %v", got)
	}
	if got := read("audit?since=1h"); len(got) != len(want) {
		t.Errorf("of the last hour: %d", len(got))
	}
	if got := read("audit?since=2100-01-01"); len(got) != 0 {
		t.Errorf("of later: %d", len(got))
	}
	s.want(s.get("audit?upto=x"), http.StatusBadRequest)
	s.want(s.get("audit?since=x"), http.StatusBadRequest)
}

func TestSlowLedger(t *testing.T) {
	t.Parallel()
	ui, err := Handler(slow{memory.New()}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	ui.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "did not answer") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// slow is a ledger that answers when the caller waits no more.
type slow struct{ *memory.Ledger }

func (slow) Stats(ctx context.Context) (ledger.Stats, error) {
	<-ctx.Done()
	return ledger.Stats{}, errors.Join(errors.New("no answer"), ctx.Err())
}
