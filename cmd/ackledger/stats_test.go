package main

import (
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// Counts that were made before the first message stood as an empty table beside tables with rows, and said nothing of when
// there would be others.
func TestStatsOfACountBeforeTheFirstMessage(t *testing.T) {
	t.Parallel()
	for messages, want := range map[int]string{0: "`ackledger maintain --once` now", 1: "abandoned"} {
		s := ledger.Stats{At: time.Unix(1e9, 0), Age: 5 * time.Second, Tables: []ledger.TableStats{{Name: "message", Rows: 4}}}
		for i := range messages {
			s.Scopes = append(s.Scopes, ledger.ScopeStats{Scope: "s", Pending: int64(i + 1)})
		}
		var out strings.Builder
		if err := printStats(&out, &s); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"counted 5s ago", want, "4"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%d scopes: no %q in\n%s", messages, want, out.String())
			}
		}
		if got := strings.Contains(out.String(), "succeeded"); got != (messages > 0) {
			t.Errorf("%d scopes: a table of counts: %t\n%s", messages, got, out.String())
		}
	}
}

// Permits stood among the messages, as pending ones of a scope of which nobody had heard.
func TestStatsSayWhatPermitsAre(t *testing.T) {
	t.Parallel()
	for scope, said := range map[string]bool{ledger.PermitScope: true, "s": false} {
		s := ledger.Stats{At: time.Unix(1e9, 0), Scopes: []ledger.ScopeStats{{Scope: scope, Pending: 1}}}
		var out strings.Builder
		if err := printStats(&out, &s); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(out.String(), "permits of Options.Limit"); got != said {
			t.Errorf("%s: said: %t\n%s", scope, got, out.String())
		}
	}
}
