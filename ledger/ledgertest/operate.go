package ledgertest

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// RunOperate is the conformance suite of [ledger.Operator]: look-ups, lists, and the guarded writes behind a replay. The
// ledgers that open returns must be Operators. Cases run one after the other: many of them are large batches, for which a
// file has one writer.
func RunOperate(t *testing.T, open Open) {
	for _, cases := range [][]testCase{listCases, operateCases, purgeCases} {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) { c.run(begin(t, open)) })
		}
	}
}

var by = ledger.By{Actor: "ledgertest", Reason: "conformance"}

func (e *env) op() ledger.Operator {
	e.Helper()
	o, ok := e.Ledger.(ledger.Operator)
	if !ok {
		e.Fatalf("%T is no Operator", e.Ledger)
	}
	return o
}

// all reads a list to its end.
func all[T any](e *env, list iter.Seq2[T, error]) (out []T) {
	e.Helper()
	for item, err := range list {
		if err != nil {
			e.Fatalf("the list ended: %v", err)
		}
		out = append(out, item)
	}
	return out
}

func (e *env) letters(f ledger.Filter) []ledger.DeadLetter {
	e.Helper()
	if f.Scope == "" {
		f.Scope = e.scope
	}
	return all(e, e.op().DeadLetters(e.ctx, f))
}

func (e *env) status(entries ...ledger.Entry) []ledger.Status {
	e.Helper()
	keys := make([]ledger.Key, len(entries))
	for i := range entries {
		keys[i] = entries[i].Key
	}
	out, err := e.op().Status(e.ctx, keys)
	if err != nil || len(out) != len(keys) {
		e.Fatalf("status of %d: %d, %v", len(keys), len(out), err)
	}
	return out
}

func (e *env) audits() []ledger.AuditRecord {
	e.Helper()
	return slices.DeleteFunc(all(e, e.op().Audits(e.ctx, ledger.AuditFilter{})), func(r ledger.AuditRecord) bool {
		return r.Key.Scope != e.scope
	})
}

// failed makes a message that failed, and returns the claim that did.
func (e *env) failed(o ledger.Owner, entry ledger.Entry) ledger.Claim {
	e.Helper()
	c := e.want(o, entry, ledger.Run)
	e.holds(o, fail(c, entry))
	return c
}

// copyOf is a re-sent copy: another delivery with the stamp of a failure.
func copyOf(entry ledger.Entry, n int, token uint64) ledger.Entry {
	entry.Delivery = fmt.Appendf(nil, "%s#copy%d", entry.Key.ID, n)
	entry.StampToken = token
	return entry
}

var operateCases = []testCase{
	{"Status", operateStatus},
	{"RenewGuard", renewGuard},
	{"RenewFreshKeys", renewFreshKeys},
	{"RenewMended", renewMended},
	{"Reopen", reopen},
	{"ReopenOnce", reopenOnce},
	{"Successes", operateSuccesses},
	{"ReopenTwice", reopenTwice},
	{"ReopenArchived", reopenArchived},
	{"ReopenRefused", reopenRefused},
	{"ReopenRanged", reopenRanged},
	{"ReopenCounts", reopenCounts},
}

func operateStatus(e *env) {
	o, left, dead := e.owner(), e.owner(), e.owner()
	entries := e.entries(8)
	e.want(o, entries[0], ledger.Run) // held
	c := e.want(o, entries[1], ledger.Run)
	e.holds(o, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Release, After: time.Hour})
	e.holds(o, release(e.want(o, entries[2], ledger.Run)))
	e.want(left, entries[3], ledger.Run)
	e.leave(left)
	e.want(dead, entries[4], ledger.Run)
	e.declare(dead)
	e.holds(o, succeed(e.want(o, entries[5], ledger.Run)))
	e.failed(o, entries[6])
	type want struct {
		state  ledger.State
		holder ledger.Holder
		free   bool
	}
	wants := []want{
		{ledger.Pending, ledger.Live, false}, {ledger.Pending, ledger.Nobody, false}, {ledger.Pending, ledger.Nobody, true},
		{ledger.Pending, ledger.Left, true}, {ledger.Pending, ledger.Dead, true}, {ledger.Succeeded, 0, false},
		{ledger.Failed, 0, false}, {},
	}
	status := e.status(append(slices.Clone(entries), entries[6])...)
	for i, w := range wants {
		s := status[i]
		if got := (want{s.State, s.Holder, s.Free()}); got != w {
			e.Errorf("message %d: %+v (%+v), want %+v", i, got, s, w)
		}
		if i < 7 && (s.Token != 1 || s.Fingerprint != entries[i].Fingerprint) {
			e.Errorf("message %d: token %d, fingerprint %x", i, s.Token, s.Fingerprint)
		}
	}
	if s := status[0]; s.HeldFor <= 0 || s.HeldFor > longLease {
		e.Errorf("held for %s of %s", s.HeldFor, longLease)
	}
	if s := status[1]; s.DueIn <= 0 || s.DueIn > time.Hour {
		e.Errorf("due in %s of 1h", s.DueIn)
	}
	if !bytes.Equal(status[6].Delivery, entries[6].Delivery) || !bytes.Equal(status[8].Delivery, entries[6].Delivery) {
		e.Errorf("failed of %q and %q, want %q", status[6].Delivery, status[8].Delivery, entries[6].Delivery)
	}
	if s, err := e.op().Status(e.ctx, nil); err != nil || len(s) != 0 {
		e.Errorf("status of nothing: %v, %v", s, err)
	}
	_, err := e.op().Status(e.ctx, make([]ledger.Key, ledger.MaxStatus+1))
	e.invalid(err, "keys")
}

func (e *env) renew(entry ledger.Entry, token uint64) ledger.Renewed {
	e.Helper()
	r, err := e.op().Renew(e.ctx, ledger.Renewal{Key: entry.Key, Token: token, By: by})
	if err != nil {
		e.Fatalf("renew: %v", err)
	}
	return r
}

// Only a row that is failed, with that very token, is renewed.
func renewGuard(e *env) {
	o := e.owner()
	entries := e.entries(4)
	c := e.failed(o, entries[0])
	e.holds(o, succeed(e.want(o, entries[1], ledger.Run)))
	e.want(o, entries[2], ledger.Run)
	before := []ledger.Record{e.record(entries[0]), e.record(entries[1]), e.record(entries[2])}
	for i, r := range []ledger.Renewal{
		{Key: entries[0].Key, Token: c.Token + 1, By: by}, {Key: entries[0].Key, By: by}, {Key: entries[1].Key, Token: 1, By: by},
		{Key: entries[2].Key, Token: 1, By: by}, {Key: entries[3].Key, Token: 1, By: by},
	} {
		if _, err := e.op().Renew(e.ctx, r); !errors.Is(err, ledger.ErrChanged) {
			e.Errorf("renewal %d: %v, want ErrChanged", i, err)
		}
	}
	_, err := e.op().Renew(e.ctx, ledger.Renewal{Key: entries[0].Key, Token: c.Token})
	e.invalid(err, "By.Actor")
	for _, rec := range before {
		e.same(rec)
	}
	if got := e.audits(); len(got) != 0 {
		e.Errorf("refused renewals left %d audit rows", len(got))
	}
}

// Fresh keys: the generation grows, copies of the failure before are recognised as old, and a replay that is killed before
// its send leaves a message that is failed and listed, with the token that its next copy needs.
func renewFreshKeys(e *env) {
	o := e.owner()
	entry := e.entry("m")
	c := e.failed(o, entry)
	r := e.renew(entry, c.Token)
	if r.Token != c.Token+1 || r.Generation != 1 || !bytes.Equal(r.Delivery, entry.Delivery) {
		e.Fatalf("renewed: %+v", r)
	}
	if _, err := e.op().Renew(e.ctx, ledger.Renewal{Key: entry.Key, Token: c.Token, By: by}); !errors.Is(err, ledger.ErrChanged) {
		e.Errorf("a second renewal of the same failure: %v", err)
	}
	d := e.letters(ledger.Filter{})
	if len(d) != 1 || d[0].Token != r.Token || d[0].Status.State != ledger.Failed || d[0].Status.Token != r.Token || d[0].Superseded {
		e.Fatalf("listed: %+v", d)
	}
	e.want(o, entry, ledger.Done)                     // its own redelivery
	e.want(o, copyOf(entry, 1, c.Token), ledger.Done) // a copy from before
	again := e.want(o, copyOf(entry, 2, r.Token), ledger.Run)
	if again.Generation != 1 || again.Attempt != 1 || again.Token != r.Token+1 {
		e.Errorf("the copy runs as %+v", again)
	}
	e.holds(o, succeed(again))
	notes := e.audits()
	if len(notes) != 1 {
		e.Fatalf("%d audit rows, want 1", len(notes))
	}
	n := notes[0]
	if n.Action != ledger.ActionRenew || n.By != by || n.State != ledger.Failed || n.Token != c.Token ||
		!bytes.Equal(n.Delivery, entry.Delivery) || n.Key.Sum() != entry.Key.Sum() || n.At.IsZero() || n.Detail != "fresh keys" {
		e.Errorf("audit: %+v", n)
	}
}

// A mended body has a fingerprint and an archive row of its own; what failed stays beside it.
func renewMended(e *env) {
	o := e.owner()
	entry := e.entry("m")
	c := e.want(o, entry, ledger.Run)
	s := fail(c, entry)
	s.Dead.Headers = []ledger.Header{{Name: "a", Value: []byte("1")}, {Name: "a"}}
	s.Dead.Group = "g"
	e.holds(o, s)
	mended := entry
	mended.Fingerprint = ledger.BodyFingerprint([]byte("mended"))
	r, err := e.op().Renew(e.ctx, ledger.Renewal{
		Key: entry.Key, Token: c.Token, Mended: true, Body: []byte("mended"), Fingerprint: mended.Fingerprint, By: by,
	})
	if err != nil {
		e.Fatal(err)
	}
	d := e.letters(ledger.Filter{Body: true})
	if len(d) != 2 {
		e.Fatalf("%d dead letters, want the failed one and the mended one", len(d))
	}
	old, now := d[0], d[1]
	if string(old.Body) != "body of m#1" || old.Token != c.Token || !old.Superseded {
		e.Errorf("what failed: %+v", old)
	}
	if string(now.Body) != "mended" || now.Token != r.Token || now.Superseded || now.Fingerprint != mended.Fingerprint ||
		!bytes.Equal(now.Delivery, r.Delivery) || now.Group != "g" || now.Source != "source" || len(now.Headers) != 2 ||
		now.Headers[1].Value != nil || now.Sent {
		e.Errorf("what was mended: %+v", now)
	}
	if st := e.status(entry)[0]; st.Fingerprint != mended.Fingerprint || !bytes.Equal(st.Delivery, r.Delivery) {
		e.Errorf("status: %+v", st)
	}
	e.want(o, copyOf(entry, 1, 0), ledger.Mismatch) // the old body under the id
	if again := e.want(o, copyOf(mended, 2, r.Token), ledger.Run); again.Generation != 1 {
		e.Errorf("the mended copy runs as %+v", again)
	}
}

func (e *env) reopen(r ledger.ReopenRequest) ledger.ReopenReport {
	e.Helper()
	r.Filter.Scope, r.By = e.scope, by
	report, err := e.op().Reopen(e.ctx, r)
	if err != nil {
		e.Fatalf("reopen: %v", err)
	}
	return report
}

// Only what succeeded is reopened: unowned, due now, unattempted, under a new token, with its window ahead of it.
func reopen(e *env) {
	o := e.owner()
	entries := e.entries(6)
	for _, entry := range entries[:3] {
		c := e.want(o, entry, ledger.Run)
		s := succeed(c)
		s.Result = []byte("r")
		e.holds(o, s)
	}
	e.failed(o, entries[3])
	e.want(o, entries[4], ledger.Run)
	others := []ledger.Record{e.record(entries[3]), e.record(entries[4])}
	ids := [][]byte{entries[0].Key.ID, entries[1].Key.ID, entries[3].Key.ID, entries[4].Key.ID, entries[5].Key.ID}
	if r := e.reopen(ledger.ReopenRequest{Filter: ledger.Filter{IDs: ids}, DryRun: true}); r.Matched != 2 || r.Reopened != 0 {
		e.Errorf("dry run: %+v", r)
	}
	e.want(o, entries[0], ledger.Done)
	before := e.record(entries[0])
	var told ledger.ReopenReport
	r := e.reopen(ledger.ReopenRequest{Filter: ledger.Filter{IDs: ids[:1]}, Progress: func(r ledger.ReopenReport) { told = r }})
	if r.Matched != 1 || r.Reopened != 1 || r.Skipped != 0 || told != r || r.Began.IsZero() {
		e.Errorf("reopened: %+v, told %+v", r, told)
	}
	if r := e.reopen(ledger.ReopenRequest{Filter: ledger.Filter{IDs: ids[1:]}, FreshKeys: true}); r.Reopened != 1 {
		e.Errorf("reopened with fresh keys: %+v", r)
	}
	rec := e.record(entries[0])
	if rec.State != ledger.Pending || rec.Owner != "" || !rec.Due.IsZero() || rec.Token != 2 || rec.Attempts != 0 ||
		rec.Generation != 0 || rec.Result != nil || rec.At.Before(before.At) || rec.Expiry.Sub(rec.At) != before.Expiry.Sub(before.At) {
		e.Errorf("the reopened row: %s", summary(rec))
	}
	for i, generation := range []int{0, 1} {
		if c := e.want(o, entries[i], ledger.Run); c.Generation != generation || c.Token != 3 || c.Attempt != 1 {
			e.Errorf("message %d runs again as %+v", i, c)
		}
	}
	e.want(o, entries[2], ledger.Done)
	for _, rec := range others {
		e.same(rec)
	}
	notes := e.audits()
	if len(notes) != 2 || notes[0].Action != ledger.ActionReopen || notes[0].State != ledger.Succeeded || notes[0].Token != 1 ||
		notes[0].By != by || notes[1].Detail != "fresh keys" || notes[0].Key.Sum() != entries[0].Key.Sum() {
		e.Errorf("audit: %+v", notes)
	}
}

// Many are reopened in batches, each once, whatever workers make of them meanwhile; and a run that is gone on with does not
// repeat what was done.
func reopenOnce(e *env) {
	const n = 600 // more than a batch
	o := e.owner()
	entries := e.entries(n)
	settle := func(part []ledger.Entry) {
		e.Helper()
		for chunk := range slices.Chunk(part, 400) {
			var done []ledger.Settlement
			for _, c := range e.claimAll(o, chunk) {
				if c.Answer == ledger.Run {
					done = append(done, succeed(c))
				}
			}
			for _, err := range e.settleAll(o, done) {
				if err != nil {
					e.Fatal(err)
				}
			}
		}
	}
	settle(entries)
	r := e.reopen(ledger.ReopenRequest{Progress: func(ledger.ReopenReport) { settle(entries) }})
	if r.Matched != n || r.Reopened != n {
		e.Fatalf("reopened: %+v, want %d", r, n)
	}
	settle(entries)
	tokens := map[uint64]int{}
	for _, s := range e.status(entries...) {
		tokens[s.Token]++
		if s.State != ledger.Succeeded {
			e.Fatalf("a message is %v", s.State)
		}
	}
	if tokens[3] != n {
		e.Errorf("tokens %v, want 3 for each: reopened once, claimed once", tokens)
	}
	if again := e.reopen(ledger.ReopenRequest{Filter: ledger.Filter{To: r.Began}}); again.Matched != 0 {
		e.Errorf("gone on with: %+v", again)
	}
	if got := len(e.audits()); got != n {
		e.Errorf("%d audit rows, want %d", got, n)
	}
}

// Two reopen the same messages at once: each is reopened once, whoever comes first.
func reopenTwice(e *env) {
	const n = 300
	o := e.owner()
	entries := e.entries(n)
	var done []ledger.Settlement
	for _, c := range e.claimAll(o, entries) {
		done = append(done, succeed(c))
	}
	for _, err := range e.settleAll(o, done) {
		if err != nil {
			e.Fatal(err)
		}
	}
	reports, errs := make([]ledger.ReopenReport, 2), make([]error, 2)
	var wg sync.WaitGroup
	for i := range reports {
		wg.Go(func() {
			reports[i], errs[i] = e.op().Reopen(e.ctx, ledger.ReopenRequest{Filter: ledger.Filter{Scope: e.scope}, FreshKeys: true, By: by})
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		e.Fatal(err)
	}
	if got := reports[0].Reopened + reports[1].Reopened; got != n {
		e.Errorf("%+v: %d reopened, want %d", reports, got, n)
	}
	for i, s := range e.status(entries...) {
		if s.State != ledger.Pending || s.Token != 2 || s.Generation != 1 {
			e.Fatalf("message %d: %+v", i, s)
		}
	}
}

// A message that once failed, and succeeded by a replay: its own delivery is archived, and runs all the same once it is
// reopened.
func reopenArchived(e *env) {
	o := e.owner()
	entry := e.entry("m")
	c := e.failed(o, entry)
	e.holds(o, succeed(e.want(o, copyOf(entry, 1, c.Token), ledger.Run)))
	e.want(o, entry, ledger.Done)
	if r := e.reopen(ledger.ReopenRequest{}); r.Reopened != 1 {
		e.Fatalf("reopened: %+v", r)
	}
	if d := e.letters(ledger.Filter{}); len(d) != 1 || d[0].Token != c.Token || !d[0].Status.Free() {
		e.Errorf("the archive: %+v", d)
	}
	e.holds(o, succeed(e.want(o, entry, ledger.Run)))
	e.want(o, entry, ledger.Done)
}

func reopenRefused(e *env) {
	for field, r := range map[string]ledger.ReopenRequest{
		"ReopenRequest.Filter.Scope": {By: by},
		"ReopenRequest.Filter.State": {By: by, Filter: ledger.Filter{Scope: e.scope, State: ledger.Failed}},
		"By.Actor":                   {Filter: ledger.Filter{Scope: e.scope}},
		"Filter.Group":               {By: by, Filter: ledger.Filter{Scope: e.scope, Group: "g"}},
		"Filter.Limit":               {By: by, Filter: ledger.Filter{Scope: e.scope, Limit: -1}},
	} {
		_, err := e.op().Reopen(e.ctx, r)
		e.invalid(err, field)
	}
}
