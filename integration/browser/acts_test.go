package browser

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/ackledger/ackledger/ledger"
)

// TestActs: each act is done by pressing what is there, with scripts and without.
func TestActs(t *testing.T) {
	t.Parallel()
	for _, scripts := range []bool{true, false} {
		for name, act := range map[string]func(*tab){
			"replay": replayed, "replay of a queue": requeued, "edit": edited, "reopen": reopened, "purge": purged, "pause": paused, "search": searched, "stop": stopped,
		} {
			t.Run(fmt.Sprintf("%s, scripts=%v", name, scripts), func(t *testing.T) {
				b := newStage(t).open(scripts)
				act(b)
				b.fine()
			})
		}
	}
}

func (b *tab) audited(action ledger.Action) (n int) {
	b.t.Helper()
	for a, err := range b.l.Audits(b.t.Context(), ledger.AuditFilter{Action: action}) {
		if err != nil || a.By.Actor != "alex" {
			b.t.Fatalf("%+v, %v", a, err)
		}
		n++
	}
	return n
}

func replayed(b *tab) {
	b.see("dead?" + url.Values{"scope": {orders}, "error": {"no such SKU: 1"}}.Encode())
	b.press("Replay these…")
	b.write("#reason", "OPS-17")
	b.press("Dry run")
	b.has("would be replayed")
	b.has("Do it")
	b.press("Do it")
	b.has("done")
	if n := len(b.sent.all()); n != 11 || b.audited(ledger.ActionReplay) != 11 { // 1, 10 to 19
		b.t.Errorf("%d were sent", n)
	}
}

func requeued(b *tab) {
	b.see("dead?" + url.Values{"scope": {orders}}.Encode())
	b.press(dlq)
	b.has("Consumer, of letters that name none")
	b.write("#reason", "OPS-21")
	b.press("Dry run")
	b.has("would be replayed")
	b.has("hidden for a while")
	if len(b.sent.all()) != 0 || b.queue.left() != 6 {
		b.t.Errorf("a dry run has sent %q, %d are left", b.sent.all(), b.queue.left())
	}
	b.press("Do it")
	b.has("done")
	if n := len(b.sent.all()); n != 5 || b.queue.left() != 1 || b.audited(ledger.ActionReplay) != 5 { // one is of another scope
		b.t.Errorf("%d were sent, %d are left", n, b.queue.left())
	}
	b.see("dead")
	b.press("<script>document.title=")
	b.press("Dry run")
	b.has("failed")
}

func edited(b *tab) {
	b.see("message?" + only(orders, "4711-003"))
	b.press("Edit and replay")
	b.write("#body", strings.Replace(get(b, chromedp.Value(chromedp.CSS("#body"))), `"sku": 3`, `"sku": 4`, 1))
	b.press("Show the difference")
	b.has(`-  "sku": 3`)
	b.has(`+  "sku": 4`)
	b.has("Do it")
	b.press("Do it")
	b.has("done")
	if got := b.sent.all(); !slices.Equal(got, []string{"{\n  \"sku\": 4,\n  \"amount\": 2\n}"}) {
		b.t.Errorf("sent %q", got)
	}
	if b.audited("body") != 2 || b.audited(ledger.ActionRenew) != 1 {
		b.t.Error("the audit lacks the looks, or the renewal")
	}
}

func reopened(b *tab) {
	b.see("message?" + only(orders, "5000"))
	b.press("Reopen…")
	b.press("Dry run")
	b.has("Do it")
	b.press("Do it")
	b.has("1 reopened")
}

func purged(b *tab) {
	b.see("dead?" + url.Values{"scope": {mails}}.Encode())
	b.press("Purge these…")
	b.press("Dry run")
	b.has("purge 7")
	b.do(chromedp.SendKeys(chromedp.CSS("#phrase"), "purge 7"))
	b.press("Purge")
	b.has("7 purged")
	b.see("dead?" + url.Values{"scope": {mails}}.Encode())
	b.has("No dead letter is selected")
}

func paused(b *tab) {
	b.see("")
	b.write("#p-scope", url.QueryEscape(orders))
	b.write("#p-reason", "OPS-18")
	b.press("Pause")
	b.has("OPS-18")
	if p, _ := b.l.Pauses(b.t.Context()); len(p) != 1 || p[0].Scope != orders || p[0].By.Actor != "alex" {
		b.t.Fatalf("pauses: %+v", p)
	}
	b.press("Resume")
	b.has("Pause workers")
	if p, _ := b.l.Pauses(b.t.Context()); len(p) != 0 {
		b.t.Errorf("pauses: %+v", p)
	}
}

func searched(b *tab) {
	b.see("errors")
	b.has("no such SKU: #")
	b.press("Read all of them")
	b.see("errors")
	b.has("All of it was read")
	b.see("stuck")
	b.press("Read the whole table")
	b.see("stuck")
	b.has("6000")
	b.see("doctor")
	b.press("Examine")
	b.see("doctor")
	b.has("the last pass ended 2d ago")
	b.see("message?" + only(orders, hostile))
	b.press("Show body and headers")
	b.has("acme")
	if b.audited("body") != 1 {
		b.t.Error("the look is not in the audit")
	}
}

func stopped(b *tab) {
	b.see("replay?" + url.Values{"scope": {orders}}.Encode())
	b.write("#rate", "0.1")
	b.press("Dry run")
	b.has("Do it")
	b.press("Do it")
	b.has("running")
	b.press("Stop")
	b.has("stopped")
	if n := len(b.sent.all()); n >= 60 {
		b.t.Errorf("%d were sent", n)
	}
}
