package web

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// What a request can try on a stage that has a letter "o1", a success "o2" and a dry run.
func (s *stage) attempts(dry string) map[string]url.Values {
	message := link(s.t, s.get("dead?id=o1&"+inShop), "message?")
	query := strings.TrimPrefix(message, "message?")
	return map[string]url.Values{
		"replay?" + inShop: {}, "reopen?id=o2&" + inShop: {}, "purge?" + inShop: {}, "go?id=" + dry: {}, "stop?id=" + dry: {},
		"replay?" + fromQueue: {}, "pause": {"scope": {url.QueryEscape(shop)}}, "pause?scope=": {"all": {"yes"}}, "resume?" + inShop: {},
		"body?" + query + "&delivery=6f31": {}, "edit?" + query: {}, "mend?" + query: {"body": {"x"}},
	}
}

func guarded(t *testing.T, change func(*Options)) (*stage, string) {
	s := newStage(t, change)
	s.letter(shop, "o1", "bad", "secret")
	s.succeed("o2")
	v := &visit{UI: s.ui, r: &http.Request{}}
	j, err := v.begin(s.ui.reopening(ledger.ReopenRequest{Filter: ledger.Filter{Scope: shop}, DryRun: true}))
	if err != nil {
		t.Fatal(err)
	}
	s.ended(j)
	return s, j.ID
}

// untouched says that nothing has happened.
func (s *stage) untouched() {
	s.t.Helper()
	if n := s.audits(""); n != 0 {
		s.t.Errorf("%d audit rows", n)
	}
	if n := len(s.ui.jobs.all()); n != 1 {
		s.t.Errorf("%d jobs, want the dry run alone", n)
	}
	if p, _ := s.l.Pauses(s.t.Context()); len(p) != 0 || len(s.sent.all()) != 0 {
		s.t.Errorf("pauses %v, sent %q", p, s.sent.all())
	}
}

// TestForgedForms: no form of another site does anything, whatever its browser says of it.
func TestForgedForms(t *testing.T) {
	t.Parallel()
	s, dry := guarded(t, nil)
	for name, change := range map[string]func(*http.Request){
		"cross-site": func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"same-site":  func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") },
		"an old browser": func(r *http.Request) {
			r.Header.Del("Sec-Fetch-Site")
			r.Header.Set("Origin", "https://evil.example.com")
		},
		"an opaque origin": func(r *http.Request) {
			r.Header.Del("Sec-Fetch-Site")
			r.Header.Set("Origin", "null")
		},
	} {
		for path, form := range s.attempts(dry) {
			if a := s.do(http.MethodPost, path, form, change); a.status != http.StatusForbidden || strings.Contains(a.body, "secret") {
				t.Errorf("%s, %s: %d", name, path, a.status)
			}
		}
	}
	for path := range s.attempts(dry) { // nor does a link
		s.get(path)
	}
	s.untouched()
}

// TestReadOnly: without Options.Write nothing can be changed, whatever Authorize says.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	s, dry := guarded(t, func(o *Options) { o.Write = false })
	for path, form := range s.attempts(dry) {
		if strings.HasPrefix(path, "body?") {
			continue // a look changes nothing
		}
		s.lacks(s.want(s.post(path, form), http.StatusForbidden, "for reading"), "secret")
	}
	for _, path := range []string{"replay?" + inShop, "replay?" + fromQueue, "purge?" + inShop, "reopen?" + inShop} {
		s.want(s.get(path), http.StatusForbidden)
	}
	for _, path := range []string{"", "dead", "message?id=o1", "message?id=o2", "job?id=" + dry} {
		s.lacks(s.want(s.get(path), http.StatusOK, "read only"), "Pause", "Purge", "Replay", "Reopen", "Do it", "Edit")
	}
	s.untouched()
}

// TestZeroOptions: all can be read, but for bodies.
func TestZeroOptions(t *testing.T) {
	t.Parallel()
	s, dry := guarded(t, func(o *Options) { *o = Options{} })
	for path, form := range s.attempts(dry) {
		s.lacks(s.want(s.post(path, form), http.StatusForbidden), "secret")
	}
	s.lacks(s.get("message?id=o1"), "Show body")
	s.untouched()
}

// TestRoles: who may read one scope sees nothing of another one on any page, and does nothing to it.
func TestRoles(t *testing.T) {
	t.Parallel()
	const theirs = "sqs:arn:aws:sqs:eu-central-1:000000000000:theirs/other"
	s, dry := guarded(t, func(o *Options) {
		o.Authorize = func(_ *http.Request, a Action, scope string) error {
			if scope == theirs && (a == Read || a == Replay) {
				return nil
			}
			return errNot
		}
	})
	s.letter(theirs, "o1", "theirs failed", "their body")
	s.stray(theirs, "t1")
	s.stray(shop, "ours")
	s.l.workers = []ledger.WorkerStatus{{Owner: "their-worker", Report: ledger.WorkerReport{Scope: theirs, Started: time.Now()}},
		{Owner: "our-worker", Report: ledger.WorkerReport{Scope: shop, Started: time.Now()}},
		{Owner: "our-worker-of-both", Report: ledger.WorkerReport{Scope: theirs, Scopes: []string{theirs, shop}, Started: time.Now()}}}
	query := strings.TrimPrefix(messageLink(shop, []byte("o1"), ledger.Key{Scope: shop, ID: []byte("o1")}.Sum()), "message?")
	for path, form := range map[string]url.Values{
		"replay?" + inShop: {}, "replay": {}, "reopen?id=o2&" + inShop: {}, "purge?" + inShop: {}, "purge": {}, "go?id=" + dry: {}, "stop?id=" + dry: {},
		"pause": {"scope": {url.QueryEscape(shop)}}, "resume?" + inShop: {}, "search?what=errors": {}, "search?what=stuck&" + inShop: {},
		"body?" + query + "&delivery=6f31": {}, "edit?" + query: {}, "mend?" + query: {"body": {"x"}},
		"purge?scope=" + url.QueryEscape(theirs): {},
	} {
		s.lacks(s.want(s.post(path, form), http.StatusForbidden, "not yours"), "secret")
	}
	s.untouched()
	err := s.l.Audit(t.Context(), []ledger.AuditRecord{{By: ledger.By{Actor: "alex"}, Action: "mine", Key: ledger.Key{Scope: shop, ID: []byte("o1")}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", "dead", "errors", "stuck", "jobs", "audit", "message?id=o1"} {
		s.lacks(s.want(s.get(path), http.StatusOK), ":orders/billing", "our-worker", dry, ">ours<")
	}
	for _, path := range []string{"dead?" + inShop, "errors?" + inShop, "stuck?" + inShop, "message?" + query, "job?id=" + dry, "watch?id=" + dry, "doctor", "replay"} {
		s.want(s.get(path), http.StatusForbidden, "not yours")
	}
	// A key that belongs to another scope than the link says is not found by it.
	stolen := strings.Replace(query, url.QueryEscape(shop), url.QueryEscape(theirs), 1)
	s.lacks(s.get("message?"+stolen), "terminal", "first claim")
	s.want(s.get(""), http.StatusOK, "their-worker")
	s.want(s.get("dead"), http.StatusOK, "theirs failed")
	s.started(s.post("replay?scope="+url.QueryEscape(theirs), nil))
}
