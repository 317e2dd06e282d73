package checks_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/internal/checks"
	"github.com/ackledger/ackledger/ledger"
)

func TestCheckEntry(t *testing.T) {
	good := ledger.Entry{Key: key, Delivery: []byte("d"), Window: time.Hour}
	if err := checks.Entry(&good); err != nil {
		t.Fatal(err)
	}
	for field, spoil := range map[string]func(*ledger.Entry){
		"Entry.Key.Scope": func(e *ledger.Entry) { e.Key.Scope = strings.Repeat("x", ledger.MaxScope+1) },
		"Entry.Key.ID":    func(e *ledger.Entry) { e.Key.ID = []byte{} },
		"Entry.Delivery":  func(e *ledger.Entry) { e.Delivery = make([]byte, ledger.MaxDelivery+1) },
		"Entry.Window":    func(e *ledger.Entry) { e.Window = ledger.MaxWindow + 1 },
		"Entry.Key.Pos":   func(e *ledger.Entry) { e.Key.Pos = &ledger.Position{Log: "", Offset: 1} },
	} {
		bad := good
		spoil(&bad)
		wantInvalid(t, checks.Entry(&bad), field)
	}
}

func TestCheckSettlement(t *testing.T) {
	limits := ledger.Limits{Archive: 10}
	ticket := ledger.NewTicket(key.Sum(), 1)
	dead := func(change func(*ledger.Archive)) ledger.Settlement {
		a := &ledger.Archive{Key: key, Delivery: []byte("d"), Body: make([]byte, 10), Keep: time.Hour}
		change(a)
		return ledger.Settlement{Ticket: ticket, Kind: ledger.Fail, Dead: a}
	}
	for _, good := range []ledger.Settlement{
		dead(func(*ledger.Archive) {}), {Ticket: ticket, Kind: ledger.Succeed}, {Ticket: ticket, Kind: ledger.Release, After: ledger.MaxWindow},
		dead(func(a *ledger.Archive) { a.SentAt = time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC) }),
	} {
		if err := checks.Settlement(&good, limits); err != nil {
			t.Errorf("%+v: %v", good, err)
		}
	}
	for field, bad := range map[string]ledger.Settlement{
		"Settlement.Ticket": {Kind: ledger.Succeed},
		"Settlement.Kind":   {Ticket: ticket, Kind: 9},
		"Settlement.After":  {Ticket: ticket, Kind: ledger.Release, After: -1},
		"Settlement.Dead":   {Ticket: ticket, Kind: ledger.Fail},
		"Archive":           dead(func(a *ledger.Archive) { a.Headers = []ledger.Header{{Name: "x"}} }),
		"Archive.Delivery":  dead(func(a *ledger.Archive) { a.Delivery = nil }),
		"Archive.Key.Scope": dead(func(a *ledger.Archive) { a.Key.Scope = "" }),
		"Archive.Key.ID":    dead(func(a *ledger.Archive) { a.Key.ID = make([]byte, ledger.MaxID+1) }),
		"Archive.Keep":      dead(func(a *ledger.Archive) { a.Keep = 0 }),
	} {
		wantInvalid(t, checks.Settlement(&bad, limits), field)
	}
}

// A request to reopen is refused for its filter's sake first, also as a dry run.
func TestReopenRequestChecksItsFilter(t *testing.T) {
	r := ledger.ReopenRequest{Filter: ledger.Filter{Scope: "s", Limit: -1}, DryRun: true}
	wantInvalid(t, checks.Reopen(&r), "Filter.Limit")
}

// A purge names who asks for it, unless it is a dry run, and its filter is checked in any case.
func TestPurgeRequestIsRefusedByName(t *testing.T) {
	me := ledger.By{Actor: "me", Reason: "why"}
	for field, r := range map[string]ledger.PurgeRequest{
		"PurgeRequest.Filter.Body": {By: me, Filter: ledger.Filter{Body: true}},
		"Filter.Limit":             {By: me, Filter: ledger.Filter{Limit: -1}},
		"By.Actor":                 {By: ledger.By{Reason: "why"}},
	} {
		wantInvalid(t, checks.Purge(&r), field)
	}
	for name, r := range map[string]ledger.PurgeRequest{"by somebody": {By: me}, "a dry run": {DryRun: true}} {
		if err := checks.Purge(&r); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A filter of the audit is refused if no record can be in it.
func TestAuditFilterIsRefusedByName(t *testing.T) {
	now := time.Unix(1700000000, 0)
	for field, f := range map[string]ledger.AuditFilter{
		"AuditFilter.To": {From: now, To: now}, "AuditFilter.Limit": {Limit: -1}, "AuditFilter.After": {After: -1},
	} {
		wantInvalid(t, checks.AuditFilter(&f), field)
	}
	if err := checks.AuditFilter(&ledger.AuditFilter{From: now, To: now.Add(1), Limit: 1}); err != nil {
		t.Error(err)
	}
}

func wantInvalid(t *testing.T, err error, field string) {
	t.Helper()
	var bad *ledger.InvalidError
	if !errors.As(err, &bad) || bad.Field != field || bad.Bound == "" || bad.Value == "" {
		t.Errorf("%v, want an InvalidError of %s", err, field)
	}
}
