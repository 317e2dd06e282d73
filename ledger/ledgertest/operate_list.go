package ledgertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

var listCases = []testCase{
	{"Find", find},
	{"GetWithoutBodies", getWithoutBodies},
	{"Scopes", scopes},
	{"Messages", messages},
	{"MessagesMany", messagesMany},
	{"DeadLetters", deadLetters},
	{"DeadLettersMany", deadLettersMany},
	{"DeadLettersSealed", deadLettersSealed},
	{"DeadLettersOddBytes", deadLettersOddBytes},
	{"ListsEnd", listsEnd},
	{"ListsRefused", listsRefused},
}

func find(e *env) {
	o := e.owner()
	plain, gone := e.entry("plain"), e.entry("gone")
	e.holds(o, succeed(e.want(o, plain, ledger.Run)))
	e.failed(o, gone)
	if err := e.Drop(e.ctx, gone.Key); err != nil {
		e.Fatal(err)
	}
	placed := e.entry("topic-3-7")
	placed.Key.Pos = &ledger.Position{Log: "log of " + e.scope, Epoch: 4, Offset: 7, Prev: 6}
	c := e.failed(o, placed)
	for _, scope := range []string{e.scope, ""} {
		for id, want := range map[string]ledger.State{"plain": ledger.Succeeded, "gone": 0, "topic-3-7": ledger.Failed} {
			found, err := e.op().Find(e.ctx, scope, []byte(id))
			mine := slices.DeleteFunc(found, func(r ledger.Record) bool { return r.Scope != e.scope })
			if err != nil || len(mine) != 1 || mine[0].State != want || string(mine[0].ID) != id {
				e.Errorf("find %q in %q: %+v, %v", id, scope, mine, err)
			}
		}
	}
	found, err := e.op().Find(e.ctx, e.scope, placed.Key.ID)
	if err != nil || len(found[0].Archived) != 1 {
		e.Fatalf("find: %+v, %v", found, err)
	}
	a := found[0].Archived[0]
	if found[0].MessageKey().Sum() != placed.Key.Sum() || a.Key.Pos == nil || *a.Key.Pos != *placed.Key.Pos || a.Token != c.Token {
		e.Errorf("the record's key, and the archive's position: %+v", found[0])
	}
	if _, err := e.op().Find(e.ctx, e.scope, []byte("unknown")); !errors.Is(err, ledger.ErrNotFound) {
		e.Errorf("unknown id: %v", err)
	}
	if _, err := e.op().Find(e.ctx, "unknown "+e.scope, plain.Key.ID); !errors.Is(err, ledger.ErrNotFound) {
		e.Errorf("unknown scope: %v", err)
	}
	_, err = e.op().Find(e.ctx, e.scope, nil)
	e.invalid(err, "id")
}

func scopes(e *env) {
	if names, err := e.op().Scopes(e.ctx); err != nil || slices.Contains(names, e.scope) {
		e.Errorf("before: %v, %v", names, err)
	}
	e.want(e.owner(), e.entry("m"), ledger.Run)
	if names, err := e.op().Scopes(e.ctx); err != nil || !slices.Contains(names, e.scope) || !slices.IsSorted(names) {
		e.Errorf("after: %v, %v", names, err)
	}
}

func (e *env) messages(f ledger.Filter) string {
	e.Helper()
	if f.Scope == "" {
		f.Scope = e.scope
	}
	var ids []string
	for _, m := range all(e, e.op().Messages(e.ctx, f)) {
		if m.State != m.Status.State || m.Token != m.Status.Token || m.Scope != e.scope {
			e.Errorf("%q: %+v", m.ID, m)
		}
		ids = append(ids, string(m.ID))
	}
	slices.Sort(ids)
	return strings.Join(ids, " ")
}

func messages(e *env) {
	o, dead := e.owner(), e.owner()
	e.holds(o, succeed(e.want(o, e.entry("t-1-10"), ledger.Run)))
	e.holds(o, succeed(e.want(o, e.entry("t-1-11"), ledger.Run)))
	e.holds(o, succeed(e.want(o, e.entry("t-2-11"), ledger.Run)))
	e.failed(o, e.entry("failed"))
	e.want(o, e.entry("held"), ledger.Run)
	e.want(dead, e.entry("stuck"), ledger.Run)
	e.declare(dead)
	c := e.want(o, e.entry("waits"), ledger.Run)
	s := failedAttempt(c, "connection refused by x")
	s.After = time.Hour
	e.holds(o, s)
	first := e.record(e.entry("t-1-10")).At
	for _, c := range []struct {
		f    ledger.Filter
		want string
	}{
		{ledger.Filter{}, "failed held stuck t-1-10 t-1-11 t-2-11 waits"},
		{ledger.Filter{State: ledger.Pending}, "held stuck waits"},
		{ledger.Filter{State: ledger.Failed}, "failed"},
		{ledger.Filter{Stuck: true}, "stuck"},
		{ledger.Filter{Error: "refused by"}, "waits"},
		{ledger.Filter{Error: "REFUSED"}, ""},
		{ledger.Filter{IDs: [][]byte{[]byte("held"), []byte("no"), []byte("waits")}}, "held waits"},
		{ledger.Filter{IDs: [][]byte{[]byte("held")}, State: ledger.Failed}, ""},
		{ledger.Filter{Offsets: &ledger.OffsetRange{Partition: 1, First: 11, Last: 20}}, "t-1-11"},
		{ledger.Filter{Offsets: &ledger.OffsetRange{Partition: 1, Last: 20}, State: ledger.Succeeded}, "t-1-10 t-1-11"},
		{ledger.Filter{To: first}, ""},
		{ledger.Filter{From: first, State: ledger.Succeeded}, "t-1-10 t-1-11 t-2-11"},
		{ledger.Filter{Scope: "no such " + e.scope}, ""},
	} {
		if got := e.messages(c.f); got != c.want {
			e.Errorf("%+v: %q, want %q", c.f, got, c.want)
		}
	}
	if got := e.messages(ledger.Filter{Limit: 2}); strings.Count(got, " ") != 1 {
		e.Errorf("two of them: %q", got)
	}
	m := all(e, e.op().Messages(e.ctx, ledger.Filter{Scope: e.scope, IDs: [][]byte{[]byte("waits")}}))[0]
	if len(m.Errors) != 1 || m.Attempts != 1 || m.Status.DueIn <= 0 || m.Due.IsZero() || m.MessageKey().Sum() != e.key("waits").Sum() {
		e.Errorf("what waits: %+v", m)
	}
}

// messagesMany: every message once, over many pages; those that are kept by their position among them, found by their id.
func messagesMany(e *env) {
	const n = 1200
	o := e.owner()
	entries := e.entries(n)
	for i := range entries {
		if i%2 == 0 {
			entries[i].Key.ID = fmt.Appendf(nil, "topic-0-%d", i)
			entries[i].Key.Pos = &ledger.Position{Log: "log of " + e.scope, Epoch: 1, Offset: int64(i), Prev: int64(i) - 1}
		}
	}
	for part := range slices.Chunk(entries, 500) {
		e.claimAll(o, part)
	}
	seen := map[string]int{}
	for _, m := range all(e, e.op().Messages(e.ctx, ledger.Filter{Scope: e.scope})) {
		seen[string(m.ID)]++
	}
	for i := range entries {
		if got := seen[string(entries[i].Key.ID)]; got != 1 {
			e.Fatalf("%q came %d times", entries[i].Key.ID, got)
		}
	}
	if got := e.messages(ledger.Filter{IDs: [][]byte{entries[0].Key.ID, entries[1].Key.ID, entries[n-1].Key.ID}}); strings.Count(got, " ") != 2 {
		e.Errorf("by id: %q", got)
	}
	for _, err := range e.op().Messages(e.ctx, ledger.Filter{Scope: e.scope}) { // a list may be left
		if err != nil {
			e.Error(err)
		}
		break
	}
}

// archived fails a message with what change makes of its archive.
func (e *env) archived(o ledger.Owner, id string, change func(*ledger.Archive)) {
	e.Helper()
	entry := e.entry(id)
	c := e.want(o, entry, ledger.Run)
	s := fail(c, entry)
	change(s.Dead)
	e.holds(o, s)
}

func ids(list []ledger.DeadLetter) string {
	var out []string
	for _, d := range list {
		out = append(out, string(d.Key.ID))
	}
	return strings.Join(out, " ")
}

func deadLetters(e *env) {
	o := e.owner()
	e.archived(o, "a", func(a *ledger.Archive) {
		a.Kind, a.Group = ledger.KindExhausted, "g"
		a.Errors = []ledger.AttemptError{{Kind: ledger.KindError, Error: "first"}, {Kind: ledger.KindPanic, Error: "index out of range"}}
		a.Headers = []ledger.Header{{Name: "tenant", Value: []byte("acme")}, {Name: "tenant"}}
	})
	e.archived(o, "b", func(a *ledger.Archive) { a.Body = nil })
	e.archived(o, "t-3-9", func(a *ledger.Archive) { a.Kind = ledger.KindTimeout; a.Body = []byte{} })
	known := e.entry("b")
	known.Fingerprint, known.Delivery = ledger.BodyFingerprint([]byte("other")), []byte("b#other")
	mismatch := e.want(o, known, ledger.Mismatch)
	s := fail(mismatch, known)
	s.Dead.Kind = ledger.KindMismatch
	e.holds(o, s)
	list := e.letters(ledger.Filter{Body: true})
	if got := ids(list); got != "a b t-3-9 b" {
		e.Fatalf("listed %q, want the oldest first", got)
	}
	if got := ids(e.letters(ledger.Filter{Newest: true})); got != "b t-3-9 b a" {
		e.Fatalf("listed %q, want the last ones first", got)
	}
	for i, d := range list {
		rec := e.record(ledger.Entry{Key: d.Key})
		at := slices.IndexFunc(rec.Archived, func(a ledger.ArchiveRecord) bool { return bytes.Equal(a.Delivery, d.Delivery) })
		if at < 0 {
			e.Fatalf("%d: Get does not know it", i)
		}
		if got, want := showArchive(&d.Archive), showArchive(&rec.Archived[at].Archive); got != want {
			e.Errorf("%d: listed as\n%s, got as\n%s", i, got, want)
		}
		if d.Status.State != ledger.Failed || d.Status.Token != 1 || d.Superseded || d.Token != rec.Archived[at].Token || !d.At.Equal(rec.Archived[at].At) {
			e.Errorf("%d: %+v", i, d)
		}
	}
	if list[3].Token != 0 || list[3].Status.Fingerprint == list[3].Fingerprint {
		e.Errorf("the mismatch: %+v", list[3])
	}
	for _, c := range []struct {
		f    ledger.Filter
		want string
	}{
		{ledger.Filter{Kinds: []ledger.FailureKind{ledger.KindExhausted}}, "a"},
		{ledger.Filter{Kinds: []ledger.FailureKind{ledger.KindTimeout, ledger.KindExhausted, "unknown"}}, "a t-3-9"},
		{ledger.Filter{Error: "out of"}, "a"},
		{ledger.Filter{HeaderName: "tenant", HeaderValue: "acme"}, "a"},
		{ledger.Filter{HeaderName: "tenant", HeaderValue: "acm"}, ""},
		{ledger.Filter{Group: "g"}, "a"},
		{ledger.Filter{IDs: [][]byte{[]byte("b"), []byte("no")}}, "b b"},
		{ledger.Filter{IDs: [][]byte{[]byte("b")}, Kinds: []ledger.FailureKind{ledger.KindMismatch}}, "b"},
		{ledger.Filter{Offsets: &ledger.OffsetRange{Partition: 3, First: 9, Last: 9}}, "t-3-9"},
		{ledger.Filter{From: list[1].At}, "b t-3-9 b"},
		{ledger.Filter{From: list[1].At, To: list[2].At}, "b"},
		{ledger.Filter{Newest: true, From: list[1].At, To: list[3].At}, "t-3-9 b"},
		{ledger.Filter{Newest: true, IDs: [][]byte{[]byte("b"), []byte("a")}, Limit: 2}, "b b"},
		{ledger.Filter{Limit: 2}, "a b"},
		{ledger.Filter{State: ledger.Succeeded}, ""},
		{ledger.Filter{State: ledger.Failed, Limit: 1}, "a"},
	} {
		if got := ids(e.letters(c.f)); got != c.want {
			e.Errorf("%+v: %q, want %q", c.f, got, c.want)
		}
	}
	for _, d := range e.letters(ledger.Filter{HeaderName: "tenant", HeaderValue: "acme"}) {
		if d.Body != nil || d.Headers != nil {
			e.Error("a body that nobody asked for")
		}
	}
	redacted := e.letters(ledger.Filter{Body: true, Redact: func(a *ledger.Archive) { a.Body = []byte("***") }})
	if string(redacted[0].Body) != "***" || string(e.letters(ledger.Filter{Body: true})[0].Body) != "body of a#1" {
		e.Error("redaction changes what is handed out, not what is stored")
	}
	if everywhere := all(e, e.op().DeadLetters(e.ctx, ledger.Filter{Kinds: []ledger.FailureKind{ledger.KindMismatch}})); !slices.ContainsFunc(everywhere, func(d ledger.DeadLetter) bool { return d.Key.Scope == e.scope }) {
		e.Error("not found among all scopes")
	}
}

// deadLettersMany: every dead letter once and in order, over many pages; what fails while they are read is not listed.
func deadLettersMany(e *env) {
	const n = 1100 // more than two pages
	o := e.owner()
	entries := e.entries(n)
	for part := range slices.Chunk(entries, 300) {
		var failures []ledger.Settlement
		for i, c := range e.claimAll(o, part) {
			failures = append(failures, fail(c, part[i]))
		}
		for _, err := range e.settleAll(o, failures) {
			if err != nil {
				e.Fatal(err)
			}
		}
	}
	for _, f := range []ledger.Filter{
		{Body: true}, {}, {Kinds: []ledger.FailureKind{ledger.KindTerminal, ledger.KindPanic}},
		{Newest: true, Body: true}, {Newest: true, Kinds: []ledger.FailureKind{ledger.KindTerminal, ledger.KindPanic}},
	} {
		f.Scope = e.scope
		seen := map[string]int{}
		var last time.Time
		for d, err := range e.op().DeadLetters(e.ctx, f) {
			if err != nil {
				e.Fatal(err)
			}
			if seen[string(d.Key.ID)]++; !last.IsZero() && (f.Newest && d.At.After(last) || !f.Newest && d.At.Before(last)) {
				e.Fatalf("%q of %s after %s", d.Key.ID, d.At, last)
			}
			last = d.At
			if f.Body && string(d.Body) != "body of "+string(d.Delivery) {
				e.Fatalf("%q has the body %q", d.Delivery, d.Body)
			}
			if len(seen) == 1 {
				e.failed(o, e.entry("late "+fmt.Sprint(f.Newest, f.Body, f.Kinds)))
			}
		}
		for i := range entries {
			if seen[string(entries[i].Key.ID)] != 1 {
				e.Fatalf("%q came %d times", entries[i].Key.ID, seen[string(entries[i].Key.ID)])
			}
		}
		for id := range seen {
			if late := "late " + fmt.Sprint(f.Newest, f.Body, f.Kinds); id == late {
				e.Errorf("%q failed after the list began, and came", late)
			}
		}
	}
}

// A list ends at once when its context does, and when its reader breaks off.
func listsEnd(e *env) {
	o := e.owner()
	for i := range 3 {
		e.failed(o, e.entry(number(i)))
	}
	ctx, cancel := context.WithCancel(e.ctx)
	n := 0
	for _, err := range e.op().DeadLetters(ctx, ledger.Filter{Scope: e.scope}) {
		if err != nil {
			e.Error(err)
		}
		n++
		break
	}
	cancel()
	var errs []error
	for _, err := range e.op().DeadLetters(ctx, ledger.Filter{Scope: e.scope}) {
		errs = append(errs, err)
	}
	for _, err := range e.op().Messages(ctx, ledger.Filter{Scope: e.scope}) {
		errs = append(errs, err)
	}
	if n != 1 || len(errs) != 2 || !errors.Is(errs[0], context.Canceled) || !errors.Is(errs[1], context.Canceled) {
		e.Errorf("%d read; after the context's end: %v", n, errs)
	}
}

func listsRefused(e *env) {
	now := time.Now()
	for field, f := range map[string]ledger.Filter{
		"Filter.State":      {State: 9},
		"Filter.To":         {From: now, To: now},
		"Filter.IDs":        {IDs: [][]byte{nil}},
		"Filter.Limit":      {Limit: -1},
		"Filter.Offsets":    {Offsets: &ledger.OffsetRange{First: 2, Last: 1}},
		"Filter.HeaderName": {HeaderValue: "x"},
		"Filter.Scope":      {Scope: strings.Repeat("x", ledger.MaxScope+1)},
		"Filter.Kinds":      {Kinds: []ledger.FailureKind{""}},
	} {
		for _, err := range e.op().DeadLetters(e.ctx, f) {
			e.invalid(err, field)
		}
		if f.HeaderValue != "" {
			continue
		}
		for _, err := range e.op().Messages(e.ctx, f) {
			e.invalid(err, field)
		}
	}
	for _, err := range e.op().Audits(e.ctx, ledger.AuditFilter{Limit: -1}) {
		e.invalid(err, "AuditFilter.Limit")
	}
}
