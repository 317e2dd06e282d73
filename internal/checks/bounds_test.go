package checks_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/internal/checks"
	"github.com/ackledger/ackledger/ledger"
)

var key = ledger.Key{Scope: "s", ID: []byte("a")}

// Every bound includes its own value: what is as long as allowed is taken, one more is refused by name.
func TestBoundsIncludeTheirValue(t *testing.T) {
	entry := func(change func(e *ledger.Entry, more int), more int) error {
		e := ledger.Entry{Key: key, Delivery: []byte("d"), Window: time.Hour}
		change(&e, more)
		return checks.Entry(&e)
	}
	archive := func(change func(a *ledger.Archive, more int), more int) error {
		a := ledger.Archive{Key: key, Delivery: []byte("d"), Keep: time.Hour}
		change(&a, more)
		s := ledger.Settlement{Ticket: ledger.NewTicket(key.Sum(), 1), Kind: ledger.Fail, Dead: &a}
		return checks.Settlement(&s, ledger.Limits{Archive: 10_000})
	}
	audit := func(change func(r *ledger.AuditRecord, more int), more int) error {
		r := ledger.AuditRecord{By: ledger.By{Actor: "a", Reason: "r"}, Action: ledger.ActionReplay, Key: key}
		change(&r, more)
		return checks.AuditRecord(&r)
	}
	for field, check := range map[string]func(more int) error{
		"Entry.Key.Scope": func(more int) error {
			return entry(func(e *ledger.Entry, more int) { e.Key.Scope = strings.Repeat("s", ledger.MaxScope+more) }, more)
		},
		"Entry.Key.ID": func(more int) error {
			return entry(func(e *ledger.Entry, more int) { e.Key.ID = make([]byte, ledger.MaxID+more) }, more)
		},
		"Entry.Delivery": func(more int) error {
			return entry(func(e *ledger.Entry, more int) { e.Delivery = make([]byte, ledger.MaxDelivery+more) }, more)
		},
		"Entry.Window": func(more int) error {
			return entry(func(e *ledger.Entry, more int) { e.Window = ledger.MaxWindow + time.Duration(more) }, more)
		},
		"Entry.Key.Pos": func(more int) error {
			return entry(func(e *ledger.Entry, more int) {
				e.Key.Pos = &ledger.Position{Log: "l", Offset: ledger.MaxOffset + int64(more)}
			}, more)
		},
		"Archive.Delivery": func(more int) error {
			return archive(func(a *ledger.Archive, more int) { a.Delivery = make([]byte, ledger.MaxDelivery+more) }, more)
		},
		"Archive.Key.Scope": func(more int) error {
			return archive(func(a *ledger.Archive, more int) { a.Key.Scope = strings.Repeat("s", ledger.MaxScope+more) }, more)
		},
		"Archive.Key.ID": func(more int) error {
			return archive(func(a *ledger.Archive, more int) { a.Key.ID = make([]byte, ledger.MaxID+more) }, more)
		},
		"Archive.Keep": func(more int) error {
			return archive(func(a *ledger.Archive, more int) { a.Keep = ledger.MaxWindow + time.Duration(more) }, more)
		},
		"AuditRecord.Action": func(more int) error {
			return audit(func(r *ledger.AuditRecord, more int) { r.Action = ledger.Action(strings.Repeat("a", 64+more)) }, more)
		},
		"AuditRecord.Detail": func(more int) error {
			return audit(func(r *ledger.AuditRecord, more int) { r.Detail = strings.Repeat("d", ledger.MaxReason+more) }, more)
		},
		"AuditRecord.Span": func(more int) error {
			return audit(func(r *ledger.AuditRecord, more int) { r.Span = ledger.MaxAuditSpan + int64(more) }, more)
		},
		"AuditRecord.Key.Scope": func(more int) error {
			return audit(func(r *ledger.AuditRecord, more int) { r.Key.Scope = strings.Repeat("s", ledger.MaxScope+more) }, more)
		},
		"AuditRecord.Key.ID": func(more int) error {
			return audit(func(r *ledger.AuditRecord, more int) { r.Key.ID = make([]byte, ledger.MaxID+more) }, more)
		},
		"id": func(more int) error { return checks.ID(make([]byte, ledger.MaxID+more)) },
	} {
		if err := check(0); err != nil {
			t.Errorf("at its bound: %v", err)
		}
		wantInvalid(t, check(1), field)
	}
}
