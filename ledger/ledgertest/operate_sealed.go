package ledgertest

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"github.com/ackledger/ackledger/ledger"
)

// rot is a cipher that anybody can read.
type rot byte

func (r rot) Seal(_ context.Context, plain []byte) ([]byte, error) {
	out := make([]byte, len(plain)+1)
	out[0] = byte(r)
	for i, b := range plain {
		out[i+1] = b + byte(r)
	}
	return out, nil
}

func (r rot) Open(_ context.Context, sealed []byte) ([]byte, error) {
	if len(sealed) == 0 || sealed[0] != byte(r) {
		return nil, errors.New("another key")
	}
	out := make([]byte, len(sealed)-1)
	for i, b := range sealed[1:] {
		out[i] = b - byte(r)
	}
	return out, nil
}

// A sealed archive is stored as bytes that nobody can read, and comes back whole with the cipher; those from before it was
// introduced come as they are.
func deadLettersSealed(e *env) {
	o := e.owner()
	headers := []ledger.Header{{Name: "tenant", Value: []byte("acme")}, {Name: "x"}, {Name: "x", Value: []byte{}}}
	seal := func(body []byte) func(*ledger.Archive) {
		return func(a *ledger.Archive) {
			a.Body, a.Headers = body, headers
			if err := a.Seal(e.ctx, rot(7)); err != nil {
				e.Fatal(err)
			}
		}
	}
	e.archived(o, "plain", func(a *ledger.Archive) { a.Headers = headers })
	e.archived(o, "nil", seal(nil))
	e.archived(o, "empty", seal([]byte{}))
	e.archived(o, "full", seal([]byte("secret")))
	for _, d := range e.letters(ledger.Filter{Body: true})[1:] {
		if !d.Sealed() || bytes.Contains(d.Body, []byte("secret")) {
			e.Errorf("%q is stored as %q", d.Key.ID, d.Body)
		}
	}
	got := e.letters(ledger.Filter{Body: true, Cipher: rot(7), HeaderName: "tenant", HeaderValue: "acme"})
	if ids(got) != "plain nil empty full" {
		e.Fatalf("opened: %q", ids(got))
	}
	for i, want := range [][]byte{[]byte("body of plain#1"), nil, {}, []byte("secret")} {
		d := got[i]
		if !bytes.Equal(d.Body, want) || (d.Body == nil) != (want == nil) || len(d.Headers) != 3 || d.Headers[1].Value != nil || d.Headers[2].Value == nil {
			e.Errorf("%q opens to %q with %+v", d.Key.ID, d.Body, d.Headers)
		}
	}
	var failed error
	for _, err := range e.op().DeadLetters(e.ctx, ledger.Filter{Scope: e.scope, Body: true, Cipher: rot(8)}) {
		failed = err
	}
	if failed == nil || !strings.Contains(failed.Error(), "another key") {
		e.Errorf("with another key: %v", failed)
	}
}

// Who asks for no bodies is told how long they are, and all the rest; sealed or not, no cipher is asked.
func getWithoutBodies(e *env) {
	o := e.owner()
	large := bytes.Repeat([]byte("\x00large"), 20_000) // kept out of line
	for id, change := range map[string]func(*ledger.Archive){
		"plain": func(a *ledger.Archive) { a.Headers = []ledger.Header{{Name: "x", Value: []byte("value")}} },
		"large": func(a *ledger.Archive) { a.Body = large },
		"empty": func(a *ledger.Archive) { a.Body = []byte{} },
		"nil":   func(a *ledger.Archive) { a.Body = nil },
		"sealed": func(a *ledger.Archive) {
			if a.Body = large; a.Seal(e.ctx, rot(7)) != nil {
				e.Fatal("not sealed")
			}
		},
		"purged": func(a *ledger.Archive) { a.Body = large },
	} {
		e.archived(o, id, change)
		if id == "purged" {
			e.purge(ledger.PurgeRequest{Filter: ledger.Filter{IDs: [][]byte{[]byte(id)}}})
		}
		whole := e.record(e.entry(id))
		if a := &whole.Archived[0]; a.BodyBytes != 0 || (a.Body == nil) != (id == "nil" || id == "purged") {
			e.Errorf("%s, read whole: body %s, and %d bytes left out", id, showBytes(a.Body), a.BodyBytes)
		}
		bare, err := e.op().Get(ledger.WithoutBodies(e.ctx), e.key(id))
		found, err2 := e.op().Find(ledger.WithoutBodies(e.ctx), e.scope, []byte(id))
		if err := errors.Join(err, err2); err != nil || len(found) != 1 {
			e.Fatalf("%s: %v, %d found", id, err, len(found))
		}
		for _, r := range []ledger.Record{bare, found[0]} {
			a, w := &r.Archived[0], &whole.Archived[0]
			if a.Body != nil || a.BodyBytes != len(w.Body) || a.Size() != w.Size() || a.Sealed() != w.Sealed() || a.Sealed() != (id == "sealed") {
				e.Errorf("%s: body %s, %d bytes left out of %d, sealed %t", id, showBytes(a.Body), a.BodyBytes, len(w.Body), a.Sealed())
			}
			if a.Body, a.BodyBytes = w.Body, 0; summary(r) != summary(whole) {
				e.Errorf("%s without its body:\n%s\nwant\n%s", id, summary(r), summary(whole))
			}
		}
	}
	if got := len(e.letters(ledger.Filter{Cipher: rot(8)})); got != 5 {
		e.Errorf("%d listed without bodies, want 5", got)
	}
}

// Ids, groups, errors and headers that are no text, in every filter.
func deadLettersOddBytes(e *env) {
	o := e.owner()
	const odd = "\x00\xff'\"\\%_"
	e.archived(o, odd, func(a *ledger.Archive) {
		a.Group, a.Source, a.Kind = odd, odd, ledger.FailureKind("kind of its own")
		a.Headers = []ledger.Header{{Name: odd, Value: []byte(odd)}}
	})
	for i, f := range []ledger.Filter{
		{IDs: [][]byte{[]byte(odd)}}, {Group: odd}, {HeaderName: odd, HeaderValue: odd}, {Kinds: []ledger.FailureKind{"kind of its own"}},
	} {
		if got := e.letters(f); len(got) != 1 || got[0].Source != odd || got[0].Group != odd {
			e.Errorf("filter %d: %+v", i, got)
		}
	}
	if got := e.letters(ledger.Filter{Kinds: []ledger.FailureKind{odd}}); len(got) != 0 {
		e.Errorf("an odd kind: %+v", got)
	}
	if found, err := e.op().Find(e.ctx, e.scope, []byte(odd)); err != nil || len(found) != 1 {
		e.Errorf("find: %+v, %v", found, err)
	}
	if got := e.messages(ledger.Filter{IDs: [][]byte{[]byte(odd)}}); got != odd {
		e.Errorf("messages: %q", got)
	}
}
