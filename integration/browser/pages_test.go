package browser

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/ackledger/ackledger/internal/services"
)

func only(scope, id string) string {
	return url.Values{"scope": {scope}, "id": {id}}.Encode()
}

// pages are all that a link leads to.
func pages() map[string]string {
	return map[string]string{
		"now": "", "dead": "dead", "errors": "errors", "stuck": "stuck", "message": "message?" + only(orders, "4711-000"), "hostile": "message?" + only(orders, hostile),
		"jobs": "jobs", "audit": "audit", "doctor": "doctor", "find": "message", "replay": "replay?" + url.Values{"scope": {orders}}.Encode(),
		"source": "replay?" + url.Values{"source": {dlq}, "scope": {orders}}.Encode(), "reopen": "reopen?" + only(orders, "5000"), "purge": "purge", "missing": "message?id=never",
	}
}

const runAxe = `axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}).then(r =>
  r.violations.map(v => v.id + ": " + v.nodes.map(n => n.html + " " + n.failureSummary).join("; ")))`

// scheme is what the viewer likes: light or dark.
func (b *tab) scheme(name string) {
	b.t.Helper()
	command(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
}

// TestPagesAreReadable: axe-core finds nothing on any page, in light and dark, wide and narrow, and nothing is wider than the window.
func TestPagesAreReadable(t *testing.T) {
	t.Parallel()
	script, err := axe()
	if err != nil {
		services.Missing(t, "the web pages: "+err.Error())
	}
	b := newStage(t).open(true)
	b.see("doctor")
	b.press("Examine")
	b.see("dead")
	paths := pages()
	b.see(paths["replay"])
	b.press("Dry run")
	b.has("would be replayed")
	paths["job"] = strings.TrimPrefix(get(b, chromedp.Location()), b.base)
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{1200, 360} {
			b.scheme(scheme)
			command(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 800, DeviceScaleFactor: 1})
			for name, path := range paths {
				b.see(path)
				b.do(chromedp.Evaluate[chromedp.Void](script))
				found := get(b, chromedp.Evaluate[[]string](runAxe, chromedp.EvalAwaitPromise))
				wide := get(b, chromedp.Evaluate[int64](`document.documentElement.scrollWidth`))
				if len(found) > 0 || wide > width {
					t.Errorf("%s, %s, %d wide (%d): %s", name, scheme, width, wide, strings.Join(found, "\n"))
				}
			}
		}
	}
	b.mu.Lock()
	b.problems = nil // the page that is missing is one
	b.mu.Unlock()
}

// TestPagesInABrowser: each page is there with scripts and without, and the browser has nothing to complain of: no script that the
// policy refused, no style, no error.
func TestPagesInABrowser(t *testing.T) {
	t.Parallel()
	for _, scripts := range []bool{true, false} {
		t.Run(fmt.Sprintf("scripts=%v", scripts), func(t *testing.T) {
			t.Parallel()
			b := newStage(t).open(scripts)
			for name, path := range pages() {
				if name == "missing" {
					continue
				}
				b.see(path)
				if title := get(b, chromedp.Title()); title == "broken" || !strings.HasSuffix(title, "ackledger") {
					t.Errorf("%s has the title %q", name, title)
				}
				if name == "message" {
					when := get(b, chromedp.TextContent(chromedp.CSS("time")))
					if utc := strings.HasSuffix(when, "Z"); utc == scripts {
						t.Errorf("with scripts %v a time is shown as %q", scripts, when)
					}
				}
				b.fine()
			}
		})
	}
}

// TestLivePages: what changes is seen without a reload; without scripts the page loads itself again.
func TestLivePages(t *testing.T) {
	t.Parallel()
	for _, scripts := range []bool{true, false} {
		t.Run(fmt.Sprintf("scripts=%v", scripts), func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			b := s.open(scripts)
			b.see("")
			b.do(chromedp.Evaluate[chromedp.Void](`window.here = true`))
			s.l.mu.Lock()
			s.l.workers[0].Report.Version = "v9.9.9"
			s.l.mu.Unlock()
			b.has("v9.9.9")
			if here := get(b, chromedp.Evaluate[bool](`!!window.here`)); here != scripts {
				t.Errorf("with scripts %v the page is the same: %v", scripts, here)
			}
			b.fine()
		})
	}
}

// TestKeyboard: the slash leads to the search, and the first tab to the page itself.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	b := newStage(t).open(true)
	b.see("dead")
	b.do(chromedp.KeyEvent("\t"))
	first := get(b, chromedp.Evaluate[string](`document.activeElement.textContent`))
	b.do(chromedp.KeyEvent("/"))
	second := get(b, chromedp.Evaluate[string](`document.activeElement.id`))
	if first != "Skip to the page" || second != "find" {
		t.Errorf("focus is on %q, then %q", first, second)
	}
	b.write("#find", "4711-000")
	b.do(chromedp.KeyEvent("\r"))
	b.has("What happened")
}

// TestPictures writes the pictures of docs/web.md.
func TestPictures(t *testing.T) {
	folder := os.Getenv("ACKLEDGER_PICTURES")
	if folder == "" {
		t.Skip("ACKLEDGER_PICTURES names no folder")
	}
	s := newStage(t)
	b := s.open(true)
	for i := range 8 {
		s.l.work(int64(1500 + 400*(i%3)))
		b.see("")
		time.Sleep(2100 * time.Millisecond) // the page samples each two seconds
	}
	shot := func(name, scheme string) {
		b.scheme(scheme)
		png := get(b, chromedp.CaptureScreenshot())
		if len(png) > 150<<10 {
			t.Errorf("%s has %d bytes", name, len(png))
		}
		if err := os.WriteFile(filepath.Join(folder, name+".png"), png, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	shot("now", "light")
	for name, path := range map[string]string{"errors": "errors", "message": pages()["message"]} {
		b.see(path)
		shot(name, "light")
	}
	b.see("dead?" + url.Values{"scope": {orders}}.Encode())
	shot("dead-dark", "dark")
	b.see(pages()["message"])
	b.press("Edit and replay")
	b.write("#body", "{\n  \"sku\": 17,\n  \"amount\": 2\n}")
	b.press("Show the difference")
	b.has("would be replayed")
	shot("edit", "light")
}
