package web

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

var inShop = "scope=" + url.QueryEscape(shop)

func (s *stage) state(key ledger.Key) ledger.State {
	s.t.Helper()
	status, err := s.l.Status(s.t.Context(), []ledger.Key{key})
	if err != nil {
		s.t.Fatal(err)
	}
	return status[0].State
}

func TestReplay(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.letter(shop, "o1", "no such SKU: 17", "one")
	s.letter(shop, "o2", "no such SKU: 18", "two")
	s.letter(shop, "o3", "bad", "three")
	s.want(s.get("replay?error=SKU&"+inShop), http.StatusOK, "error SKU", "Dry run")
	dry := s.started(s.post("replay?error=SKU&"+inShop, url.Values{"reason": {"OPS-17"}}))
	s.want(s.get("job?id="+dry), http.StatusOK, "would be replayed", "done", "Do it", "OPS-17")
	if n := len(s.sent.all()); n != 0 {
		t.Fatalf("a dry run has sent %d", n)
	}
	job := s.started(s.post("go?id="+dry, nil))
	s.lacks(s.want(s.get("job?id="+job), http.StatusOK, "replayed", "done", `value="100"`), "Do it")
	if got := s.sent.all(); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("sent %q", got)
	}
	if n := s.audits(ledger.ActionReplay); n != 2 {
		t.Errorf("%d audit rows", n)
	}
	s.want(s.post("go?id="+job, nil), http.StatusConflict, "nothing to do")
	s.want(s.get("jobs"), http.StatusOK, "replay (dry run)", dry, job)
	s.want(s.get("dead"), http.StatusOK, "replayed")
	for _, bad := range []url.Values{{"rate": {"fast"}}, {"errors": {"many"}}, {"limit": {"x"}}} {
		s.want(s.post("replay?"+inShop, bad), http.StatusBadRequest)
	}
	job = s.started(s.post("replay?"+inShop, url.Values{"rate": {"-1"}}))
	s.want(s.get("job?id="+job), http.StatusOK, "failed", "Config.Rate")
}

func TestReopen(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	key := s.succeed("o1")
	s.want(s.get("message?id=o1"), http.StatusOK, "Reopen…")
	s.want(s.get("reopen"), http.StatusOK, "First claimed since")
	dry := s.started(s.post("reopen?id=o1&"+inShop, url.Values{"reason": {"OPS-18"}}))
	if s.state(key) != ledger.Succeeded {
		t.Fatal("a dry run has changed the message")
	}
	job := s.started(s.post("go?id="+dry, nil))
	s.want(s.get("job?id="+job), http.StatusOK, "1 reopened")
	if s.state(key) != ledger.Pending || s.audits(ledger.ActionReopen) != 1 {
		t.Errorf("%v, %d audit rows", s.state(key), s.audits(ledger.ActionReopen))
	}
	job = s.started(s.post("reopen", nil))
	s.want(s.get("job?id="+job), http.StatusOK, "failed", "a scope")
}

func TestPurge(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.letter(shop, "o1", "bad", "one")
	s.letter(shop, "o2", "bad", "two")
	dry := s.started(s.post("purge?"+inShop, nil))
	s.want(s.get("job?id="+dry), http.StatusOK, "purge 2", "2 dead letters")
	s.letter(shop, "o3", "bad", "three") // was not counted
	for _, typed := range []string{"", "purge", "purge 3", "2"} {
		s.want(s.post("go?id="+dry, url.Values{"phrase": {typed}}), http.StatusBadRequest, "nothing was done")
	}
	if s.audits(ledger.ActionPurge) != 0 {
		t.Fatal("purged without its phrase")
	}
	job := s.started(s.post("go?id="+dry, url.Values{"phrase": {" purge 2 "}}))
	s.want(s.get("job?id="+job), http.StatusOK, "2 purged")
	s.lacks(s.want(s.get("dead"), http.StatusOK, "o3"), ">o1<")
	if n := s.audits(ledger.ActionPurge); n != 2 {
		t.Errorf("%d audit rows", n)
	}
	s.want(s.get("message?id=o1"), http.StatusOK, "purged")
}

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.letter(shop, "o1", "bad", "one")
	s.want(s.post("pause", url.Values{}), http.StatusBadRequest)
	s.want(s.post("pause", url.Values{"scope": {url.QueryEscape(shop)}, "reason": {"OPS-19"}}), http.StatusSeeOther)
	s.want(s.get(""), http.StatusOK, "Paused", "OPS-19", "Resume")
	s.want(s.post("pause?scope=", url.Values{"all": {"yes"}}), http.StatusSeeOther)
	s.want(s.get(""), http.StatusOK, "all scopes")
	s.want(s.post("resume?scope=", nil), http.StatusSeeOther)
	s.want(s.post("resume?"+inShop, nil), http.StatusSeeOther)
	s.lacks(s.get(""), "OPS-19", "all scopes</strong>")
	if p, r := s.audits(ledger.ActionPause), s.audits(ledger.ActionResume); p != 2 || r != 2 {
		t.Errorf("the audit has %d pauses and %d resumes", p, r)
	}
	s.want(s.get("audit"), http.StatusOK, "pause", "OPS-19")
}

func TestBodies(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.letter(shop, "o1", "bad", `{"card":"4711","items":[1]}`)
	message := s.want(s.get("message?id=o1"), http.StatusOK)
	s.lacks(message, "4711", "acme")
	if s.audits(ActionBody) != 0 {
		t.Fatal("a look at the message is no look at the body")
	}
	body := s.want(s.post(link(t, message, "body?"), nil), http.StatusOK, `  &#34;card&#34;: &#34;4711&#34;`, "tenant", "acme")
	if body.header.Get("Cache-Control") != "no-store" {
		t.Errorf("a body may be stored: %v", body.header)
	}
	raw := s.post(link(t, message, "body?"), url.Values{"download": {"yes"}})
	if raw.body != `{"card":"4711","items":[1]}` || raw.header.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("downloaded %q as %v", raw.body, raw.header)
	}
	if n := s.audits(ActionBody); n != 2 {
		t.Errorf("%d looks are in the audit, want 2", n)
	}
	s.want(s.get("message?id=o1"), http.StatusOK, "<strong>body</strong> by alex")
	s.want(s.post(link(t, message, "body?")+"00", nil), http.StatusNotFound)
	s.want(s.post("body?id=o1&key=00&"+inShop, nil), http.StatusBadRequest)
	s.want(s.do(http.MethodGet, link(t, message, "body?"), nil, nil), http.StatusNotFound)
	s.letter(shop, "o2", "bad", "\x00\xff")
	s.want(s.post(link(t, s.get("message?id=o2"), "body?"), nil), http.StatusOK, "00000000  00 ff")
}

// TestBodiesNeedTheAudit: who cannot be written down sees nothing.
func TestBodiesNeedTheAudit(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(o *Options) { o.Actor = func(*http.Request) string { return "" } })
	s.letter(shop, "o1", "bad", "secret")
	s.lacks(s.want(s.post(link(t, s.get("message?id=o1"), "body?"), nil), http.StatusBadRequest, "By.Actor"), "secret")
}

func TestMask(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(o *Options) {
		o.Mask = func(_ string, b []byte) []byte { return bytes.ReplaceAll(b, []byte("4711"), []byte("****")) }
	})
	s.letter(shop, "o1", "bad", `{"card":"4711"}`)
	message := s.get("message?id=o1")
	s.lacks(s.want(s.post(link(t, message, "body?"), nil), http.StatusOK, "****", "parts are hidden"), "4711", "acme")
	s.lacks(s.post(link(t, message, "body?"), url.Values{"download": {"yes"}}), "4711")
	s.lacks(s.want(s.post(link(t, message, "edit?"), nil), http.StatusForbidden, "cannot be edited"), "4711")
	s.want(s.post(strings.Replace(link(t, message, "edit?"), "edit", "mend", 1), url.Values{"body": {`{"card":"****"}`}}), http.StatusForbidden)
}

func TestEditAndReplay(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	key := s.letter(shop, "o1", "no such SKU: 17", "{\n  \"sku\": 17\n}")
	edit := link(t, s.get("message?id=o1"), "edit?")
	s.want(s.post(edit, nil), http.StatusOK, "&#34;sku&#34;: 17")
	mend := strings.Replace(edit, "edit", "mend", 1)
	s.want(s.post(mend, url.Values{"body": {"{\r\n  \"sku\": 17\r\n}"}}), http.StatusBadRequest, "the one that failed")
	dry := s.started(s.post(mend, url.Values{"body": {"{\r\n  \"sku\": 18\r\n}"}, "reason": {"OPS-20"}}))
	s.want(s.get("job?id="+dry), http.StatusOK, "-  &#34;sku&#34;: 17", "&#43;  &#34;sku&#34;: 18", "would be replayed", "Do it")
	s.started(s.post("go?id="+dry, nil))
	if got := s.sent.all(); !slices.Equal(got, []string{"{\n  \"sku\": 18\n}"}) {
		t.Errorf("sent %q: browsers end lines with CR LF, the body did not", got)
	}
	if n := s.audits(ledger.ActionRenew); n != 1 {
		t.Errorf("%d audit rows", n)
	}
	if s.state(key) != ledger.Failed {
		t.Error("the row changes before the copy is claimed")
	}
	for id, body := range map[string]string{"b1": "\x00", "b2": "a\rb", "b3": "a\r\nb\n", "b4": strings.Repeat("x", maxEdit+1)} {
		s.letter(shop, id, "bad", body)
		s.want(s.post(link(t, s.get("message?id="+id), "edit?"), nil), http.StatusConflict, "cannot be edited in a browser")
	}
}

func TestStop(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	for _, id := range []string{"o1", "o2", "o3", "o4"} {
		s.letter(shop, id, "bad", id)
	}
	dry := s.started(s.post("replay?"+inShop, url.Values{"rate": {"0.001"}}))
	a := s.post("go?id="+dry, nil)
	id := strings.TrimPrefix(a.header.Get("Location"), "job?id=")
	s.want(s.get("job?id="+id), http.StatusOK, "running", "Stop", `http-equiv="refresh"`)
	s.want(s.post("stop?id="+id, nil), http.StatusSeeOther)
	s.ended(s.ui.jobs.named(id))
	s.want(s.get("job?id="+id), http.StatusOK, "stopped")
	s.want(s.post("stop?id=never", nil), http.StatusNotFound)
}

// TestJobsAreFew: at most maxJobs run, and one search of a kind; Close ends them.
func TestJobsAreFew(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(o *Options) {
		o.Doctor = func(ctx context.Context) ([]Finding, error) { <-ctx.Done(); return nil, ctx.Err() }
	})
	for _, id := range []string{"o1", "o2"} {
		s.letter(shop, id, "bad", id)
	}
	s.want(s.post("search?what=doctor", nil), http.StatusSeeOther)
	s.want(s.post("search?what=doctor", nil), http.StatusTooManyRequests, "runs already")
	s.want(s.post("search?what=odd", nil), http.StatusBadRequest)
	dry := s.started(s.post("replay?"+inShop, url.Values{"rate": {"0.001"}}))
	for range maxJobs - 1 {
		s.want(s.post("go?id="+dry, nil), http.StatusSeeOther)
	}
	s.want(s.post("go?id="+dry, nil), http.StatusTooManyRequests, "4 jobs run already")
	if err := s.ui.Close(); err != nil {
		t.Fatal(err)
	}
	for _, j := range s.ui.jobs.all() {
		if !j.view().Ended {
			t.Errorf("%s runs after Close", j.Kind)
		}
	}
	s.want(s.get(""), http.StatusServiceUnavailable)
}

func TestActsAreBounded(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.ui.acts.SetLimit(0) // none comes back while a slow machine posts
	last := answer{}
	for range actsAtOnce + 1 {
		last = s.post("search?what=errors", nil)
	}
	s.want(last, http.StatusTooManyRequests, "too many acts")
	if last.header.Get("Retry-After") == "" {
		t.Error("it does not say when to come again")
	}
}

func TestLive(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.letter(shop, "o1", "bad", "one")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.server.URL+"/any/prefix/live", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got strings.Builder
	buf := make([]byte, 4096)
	for !strings.Contains(got.String(), "\n\n") {
		n, err := resp.Body.Read(buf)
		got.Write(buf[:n])
		if err != nil {
			t.Fatal(err)
		}
	}
	if resp.Header.Get("Content-Type") != "text/event-stream" || !strings.HasPrefix(got.String(), "event: part\ndata: ") || !strings.Contains(got.String(), "Scopes") {
		t.Errorf("%v\n%s", resp.Header, got.String())
	}
}

var errNot = errors.New("not yours")
