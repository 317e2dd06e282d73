package web

import (
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// parked makes a retry that waits in the ledger.
func (s *stage) parked(id string, after time.Duration) ledger.Key {
	s.t.Helper()
	key := ledger.Key{Scope: shop, ID: []byte(id)}
	s.settle(ledger.Settlement{Ticket: s.claim(key, "later").Ticket, Kind: ledger.Park, After: after, Count: true,
		Failure: ledger.AttemptError{Attempt: 1, Kind: ledger.KindError, Error: hostile, At: time.Now()},
		Dead: &ledger.Archive{Key: key, Delivery: key.ID, Keep: keep, Body: []byte("later"), Source: "a queue",
			Fingerprint: ledger.BodyFingerprint([]byte("later"))}})
	return key
}

// Retries that wait in the ledger are counted, listed and shown; they can be run now and dropped, after a dry run, with an audit.
func TestParked(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	now, gone := s.parked("p1", time.Hour), s.parked("p2", 2*time.Hour+30*time.Minute)
	s.want(s.get(""), http.StatusOK, "parked?scope=", "<th scope=\"col\" class=\"n\">Parked</th>")
	s.lacks(s.want(s.get("parked"), http.StatusOK, "p1", "p2", "in 2h", "Run these now…", "Drop these…"), "<script>alert")
	s.lacks(s.want(s.get("parked?id=p2"), http.StatusOK, "p2"), ">p1<")
	s.want(s.get("message?id=p1"), http.StatusOK, "the ledger has it whole", "Run now…", "Drop…")
	s.want(s.get("run-now?id=p1&"+inShop), http.StatusOK, "due now", "Dry run")
	s.want(s.get("drop?id=p2&"+inShop), http.StatusOK, "become dead letters", "Dry run")

	dry := s.started(s.post("run-now?id=p1&"+inShop, url.Values{"reason": {"OPS-1"}}))
	s.want(s.get("job?id="+dry), http.StatusOK, "1 parked messages are selected", "Do it")
	if status, err := s.l.Status(t.Context(), []ledger.Key{now}); err != nil || status[0].DueIn <= 0 {
		t.Fatalf("a dry run has changed it: %+v, %v", status, err)
	}
	job := s.started(s.post("go?id="+dry, nil))
	s.want(s.get("job?id="+job), http.StatusOK, "1 changed, 0 left")
	if status, err := s.l.Status(t.Context(), []ledger.Key{now}); err != nil || status[0].DueIn > 0 || s.audits(ledger.ActionRunNow) != 1 {
		t.Errorf("%+v, %v, %d audit rows", status, err, s.audits(ledger.ActionRunNow))
	}

	dry = s.started(s.post("drop?id=p2&"+inShop, nil))
	s.started(s.post("go?id="+dry, url.Values{"reason": {"OPS-2"}}))
	if s.state(gone) != ledger.Failed || s.audits(ledger.ActionDrop) != 1 {
		t.Errorf("%v, %d audit rows", s.state(gone), s.audits(ledger.ActionDrop))
	}
	s.want(s.get("dead"), http.StatusOK, "dropped", "p2")
}

// What may not be done is refused, and not offered.
func TestParkedRefused(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(o *Options) {
		o.Authorize = func(_ *http.Request, a Action, _ string) error {
			if a == RunNow || a == Drop {
				return errors.New("not you")
			}
			return nil
		}
	})
	s.parked("p1", time.Hour)
	s.lacks(s.want(s.get("parked"), http.StatusOK, "p1"), "Run these now", "Drop these")
	for _, act := range []string{"run-now", "drop"} {
		s.want(s.post(act+"?"+inShop, url.Values{}), http.StatusForbidden, "not you")
		s.want(s.get(act+"?"+inShop), http.StatusForbidden)
	}
}

// A long list has pages, each of other messages.
func TestParkedPages(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	const all = 2*pageRows + 10
	for i := range all {
		s.parked(fmt.Sprintf("p%03d.", i), time.Hour+time.Duration(i)*time.Second)
	}
	next, seen := "parked?"+inShop, map[string]bool{}
	for pages := 0; next != ""; pages++ {
		body := s.want(s.get(next), http.StatusOK).body
		for i := range all {
			if id := fmt.Sprintf(">p%03d.<", i); strings.Contains(body, id) {
				if seen[id] || i/pageRows != pages {
					t.Errorf("page %d has %s", pages, id)
				}
				seen[id] = true
			}
		}
		next = ""
		if m := regexp.MustCompile(`rel="next" href="([^"]+)"`).FindStringSubmatch(body); m != nil {
			next = html.UnescapeString(m[1])
		}
	}
	if len(seen) != all {
		t.Errorf("%d of %d are on the pages", len(seen), all)
	}
	for _, after := range []string{"x", "-1", "20001"} {
		s.want(s.get("parked?after="+after), http.StatusBadRequest, "not the place of a page")
	}
}
