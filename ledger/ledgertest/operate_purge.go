package ledgertest

import (
	"bytes"
	"errors"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

var purgeCases = []testCase{
	{"Purge", purge},
	{"PurgeLeavesPending", purgeLeavesPending},
	{"PurgeRowGone", purgeRowGone},
	{"Audit", audit},
	{"AuditRefused", auditRefused},
	{"ArchivedBytes", archivedBytes},
}

func (e *env) purge(r ledger.PurgeRequest) ledger.PurgeReport {
	e.Helper()
	r.Filter.Scope, r.By = e.scope, by
	report, err := e.op().Purge(e.ctx, r)
	if err != nil {
		e.Fatalf("purge: %v", err)
	}
	return report
}

// What is purged is gone for readers, and still recognised: a redelivery is acknowledged, a redrive runs.
func purge(e *env) {
	o := e.owner()
	kept, gone := e.entry("kept"), e.entry("gone")
	e.failed(o, kept)
	c := e.want(o, gone, ledger.Run)
	s := fail(c, gone)
	s.Dead.Group, s.Dead.Headers = "secret", []ledger.Header{{Name: "h", Value: []byte("secret")}}
	s.Dead.Errors = []ledger.AttemptError{{Attempt: 1, Kind: ledger.KindError, Error: "secret"}}
	e.holds(o, s)
	f := ledger.Filter{IDs: [][]byte{gone.Key.ID}}
	counted := e.purge(ledger.PurgeRequest{Filter: f, DryRun: true})
	if counted.Matched != 1 || counted.Purged != 0 {
		e.Errorf("dry run: %+v", counted)
	}
	if d := e.letters(ledger.Filter{}); len(d) != 2 || !counted.Last.Equal(d[1].At) {
		e.Errorf("a dry run purged, or does not say when the last was archived: %+v, %+v", counted, d)
	}
	f.To = counted.Last
	if r := e.purge(ledger.PurgeRequest{Filter: f, DryRun: true}); r.Matched != 0 || !r.Last.IsZero() {
		e.Errorf("before the only one: %+v", r)
	}
	f.To = counted.Last.Add(time.Microsecond)
	if r := e.purge(ledger.PurgeRequest{Filter: f}); r.Matched != 1 || r.Purged != 1 || r.Left != 0 {
		e.Errorf("purged: %+v", r)
	}
	if d := e.letters(ledger.Filter{}); len(d) != 1 || string(d[0].Key.ID) != "kept" {
		e.Errorf("listed: %+v", d)
	}
	rec := e.record(gone)
	if rec.State != ledger.Failed || len(rec.Archived) != 1 {
		e.Fatalf("the row: %s", summary(rec))
	}
	a := rec.Archived[0]
	if a.Body != nil || a.Headers != nil || a.Errors != nil || a.Group != "" || a.Purged.IsZero() || a.Expiry.Before(rec.Expiry) {
		e.Errorf("the emptied row: %+v", a)
	}
	e.want(o, gone, ledger.Done)
	if _, err := e.op().Renew(e.ctx, ledger.Renewal{Key: gone.Key, Token: c.Token, By: by}); !errors.Is(err, ledger.ErrChanged) {
		e.Errorf("renewal of a purged message: %v, want ErrChanged", err)
	}
	if r := e.purge(ledger.PurgeRequest{Filter: f}); r.Matched != 0 {
		e.Errorf("purged again: %+v", r)
	}
	e.want(o, copyOf(gone, 1, 0), ledger.Run) // a person sent it again
	notes := e.audits()
	if len(notes) != 1 || notes[0].Action != ledger.ActionPurge || notes[0].State != ledger.Failed || string(notes[0].Delivery) != "gone#1" {
		e.Errorf("audit: %+v", notes)
	}
}

// A message that is pending may have no other copy than its archive: a replay in place was killed.
func purgeLeavesPending(e *env) {
	o := e.owner()
	entry := e.entry("m")
	c := e.failed(o, entry)
	dead := e.owner()
	e.want(dead, copyOf(entry, 1, c.Token), ledger.Run)
	e.declare(dead)
	if r := e.purge(ledger.PurgeRequest{}); r.Matched != 1 || r.Purged != 0 || r.Left != 1 {
		e.Errorf("purged: %+v", r)
	}
	if d := e.letters(ledger.Filter{Body: true}); len(d) != 1 || d[0].Body == nil {
		e.Errorf("listed: %+v", d)
	}
}

func purgeRowGone(e *env) {
	o := e.owner()
	entry := e.entry("m")
	e.failed(o, entry)
	if err := e.Drop(e.ctx, entry.Key); err != nil {
		e.Fatal(err)
	}
	if d := e.letters(ledger.Filter{}); len(d) != 1 || d[0].Status.State != 0 {
		e.Fatalf("listed: %+v", d)
	}
	if r := e.purge(ledger.PurgeRequest{}); r.Purged != 1 {
		e.Errorf("purged: %+v", r)
	}
	if d := e.letters(ledger.Filter{}); len(d) != 0 {
		e.Errorf("listed: %+v", d)
	}
	e.want(o, entry, ledger.Run)
}

func audit(e *env) {
	o := e.owner()
	entry, odd := e.entry("m"), e.entry("odd\x00\xff")
	e.failed(o, entry)
	records := []ledger.AuditRecord{
		{By: by, Action: ledger.ActionReplay, Key: entry.Key, State: ledger.Failed, Token: 1, Delivery: entry.Delivery, Detail: "to queue"},
		{By: ledger.By{Actor: "é"}, Action: "mine", Key: odd.Key},
	}
	if err := e.op().Audit(e.ctx, records); err != nil {
		e.Fatal(err)
	}
	got := e.audits()
	if len(got) != 2 || got[0].ID >= got[1].ID {
		e.Fatalf("audit: %+v", got)
	}
	for i, r := range got {
		if r.At.IsZero() || r.Key.Scope != records[i].Key.Scope || !bytes.Equal(r.Key.ID, records[i].Key.ID) || r.Key.Sum() != records[i].Key.Sum() {
			e.Errorf("audit row %d: %+v", i, r)
		}
		want := records[i]
		if r.By != want.By || r.Action != want.Action || r.State != want.State || r.Token != want.Token || r.Detail != want.Detail || !bytes.Equal(r.Delivery, want.Delivery) {
			e.Errorf("audit row %d: %+v, want %+v", i, r, want)
		}
	}
	for n, f := range []ledger.AuditFilter{
		{Key: &odd.Key}, {Key: &odd.Key, Action: ledger.ActionReplay}, {Key: &entry.Key, Limit: 1, From: got[0].At},
		{Key: &entry.Key, To: got[0].At}, {After: got[0].ID}, {After: got[1].ID}, {Key: &entry.Key, After: got[0].ID}, {After: got[1].ID + 9},
	} {
		if got, want := len(all(e, e.op().Audits(e.ctx, f))), []int{1, 0, 1, 0, 1, 0, 0, 0}[n]; got != want {
			e.Errorf("audit filter %d: %d rows, want %d", n, got, want)
		}
	}
	if d := e.letters(ledger.Filter{}); len(d) != 1 || d[0].Replayed.IsZero() {
		e.Errorf("the hint of a replay: %+v", d)
	}
	if err := e.op().Audit(e.ctx, nil); err != nil {
		e.Error(err)
	}
}

func auditRefused(e *env) {
	good := ledger.AuditRecord{By: by, Action: ledger.ActionReplay, Key: e.key("m")}
	for field, change := range map[string]func(*ledger.AuditRecord){
		"By.Actor":              func(r *ledger.AuditRecord) { r.By.Actor = "" },
		"By.Reason":             func(r *ledger.AuditRecord) { r.By.Reason = "\x00" },
		"AuditRecord.Action":    func(r *ledger.AuditRecord) { r.Action = "" },
		"AuditRecord.Detail":    func(r *ledger.AuditRecord) { r.Detail = "\xff" },
		"AuditRecord.Key.Scope": func(r *ledger.AuditRecord) { r.Key.Scope = "" },
	} {
		bad := good
		change(&bad)
		e.invalid(e.op().Audit(e.ctx, []ledger.AuditRecord{good, bad}), field)
	}
	e.invalid(e.op().Audit(e.ctx, make([]ledger.AuditRecord, ledger.MaxStatus+1)), "records")
	if n := len(e.audits()); n != 0 {
		e.Errorf("%d rows of refused calls", n)
	}
}
