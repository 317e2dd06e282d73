package ledgertest

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

const (
	longLease = time.Minute // never ends within a case
	window    = time.Hour
	keep      = 24 * time.Hour
	patience  = 60 * time.Second // for what must come in the end
)

// env is one case: a store, and a scope that nobody else uses.
type env struct {
	*testing.T
	Store
	ctx    context.Context
	scope  string
	places *places
}

// inLongRun is full with ACKLEDGER_LONG=1, else short: how many times something is repeated, or of how many messages.
func inLongRun(full, short int) int {
	if os.Getenv("ACKLEDGER_LONG") != "" {
		return full
	}
	return short
}

// rounds is how often a race is repeated. With one lock for the whole store there are few ways in which it can go.
func (e *env) rounds(n int) int {
	if e.Lock == nil {
		return inLongRun(n, (n+3)/4)
	}
	return n
}

func begin(t *testing.T, open Open) *env {
	t.Helper()
	s := open(t)
	if s.Ledger == nil || s.Get == nil || s.Declare == nil || s.Drop == nil || s.DropOwner == nil {
		t.Fatal("ledgertest.Store: Ledger, Get, Declare, Drop and DropOwner are needed")
	}
	return &env{T: t, Store: s, ctx: t.Context(), scope: "ledgertest " + t.Name() + " " + rand.Text(),
		places: &places{of: map[string]ledger.Position{}}}
}

// join makes an owner that leaves when the case ends.
func (e *env) join(lease time.Duration) ledger.Owner {
	e.Helper()
	o, err := e.Ledger.Join(e.ctx, lease)
	if err != nil {
		e.Fatalf("join: %v", err)
	}
	e.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := o.Leave(ctx); err != nil {
			e.Errorf("leave: %v", err)
		}
	})
	return o
}

func (e *env) owner() ledger.Owner { e.Helper(); return e.join(longLease) }

func (e *env) key(id string) ledger.Key {
	if e.Ranged {
		return e.places.key(e.scope, id)
	}
	return ledger.Key{Scope: e.scope, ID: []byte(id)}
}

// entry asks for the message id, whose body is its id, by its first delivery.
func (e *env) entry(id string) ledger.Entry {
	return ledger.Entry{
		Key: e.key(id), Fingerprint: ledger.BodyFingerprint([]byte(id)), Delivery: []byte(id + "#1"), Window: window,
		Ranged: e.Ranged,
	}
}

// entries are n messages; in ranges they are neighbours in one log.
func (e *env) entries(n int) []ledger.Entry {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = number(i)
	}
	e.places.join(ids)
	out := make([]ledger.Entry, n)
	for i, id := range ids {
		out[i] = e.entry(id)
	}
	return out
}

// claim asks for one message.
func (e *env) claim(o ledger.Owner, entry ledger.Entry) ledger.Claim {
	e.Helper()
	return e.claimAll(o, []ledger.Entry{entry})[0]
}

func (e *env) claimAll(o ledger.Owner, entries []ledger.Entry) []ledger.Claim {
	e.Helper()
	claims, err := o.Claim(e.ctx, entries)
	if err != nil {
		e.Fatalf("claim of %d: %v", len(entries), err)
	}
	if len(claims) != len(entries) {
		e.Fatalf("claim of %d answered %d", len(entries), len(claims))
	}
	for i, c := range claims {
		if c.Err != nil {
			e.Fatalf("claim %d of %d: %v", i, len(entries), c.Err)
		}
	}
	return claims
}

// want claims one message and checks the answer.
func (e *env) want(o ledger.Owner, entry ledger.Entry, answer ledger.Answer) ledger.Claim {
	e.Helper()
	c := e.claim(o, entry)
	if c.Answer != answer {
		e.Fatalf("claim of %v: answer %v, want %v (%+v)", entry.Key.String(), c.Answer, answer, c)
	}
	if owned := answer == ledger.Run || answer == ledger.Spent; owned != (c.Token > 0) || owned && c.Ticket.Token() != c.Token {
		e.Fatalf("answer %v with token %d and ticket %+v", answer, c.Token, c.Ticket)
	}
	return c
}

// settle ends claims, and returns the answer for the first one.
func (e *env) settle(o ledger.Owner, settlements ...ledger.Settlement) error {
	e.Helper()
	return e.settleAll(o, settlements)[0]
}

func (e *env) settleAll(o ledger.Owner, settlements []ledger.Settlement) []error {
	e.Helper()
	began := time.Now()
	errs, err := o.Settle(e.ctx, settlements)
	if ledger.Unknown(err) && time.Since(began) > time.Second { // a machine that stalled: what is unknown is asked again
		errs, err = o.Settle(e.ctx, settlements)
	}
	if e.Ranged && ledger.IsLost(err) { // only a live owner writes in its ranges: the others lose the whole call
		return slices.Repeat([]error{err}, len(settlements))
	}
	if err != nil {
		e.Fatalf("settle of %d: %v", len(settlements), err)
	}
	if len(errs) != len(settlements) {
		e.Fatalf("settle of %d answered %d", len(settlements), len(errs))
	}
	return errs
}

// holds settles and expects that it holds.
func (e *env) holds(o ledger.Owner, s ledger.Settlement) {
	e.Helper()
	if err := e.settle(o, s); err != nil {
		e.Fatalf("%v: %v, want nil", s.Kind, err)
	}
}

// lost settles and expects ErrLost.
func (e *env) lost(o ledger.Owner, s ledger.Settlement) {
	e.Helper()
	if err := e.settle(o, s); !ledger.IsLost(err) {
		e.Fatalf("%v: %v, want ErrLost", s.Kind, err)
	}
}

func succeed(c ledger.Claim) ledger.Settlement {
	return ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed}
}

func release(c ledger.Claim) ledger.Settlement {
	return ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Release}
}

// failedAttempt is a release that counts.
func failedAttempt(c ledger.Claim, text string) ledger.Settlement {
	return ledger.Settlement{
		Ticket: c.Ticket, Kind: ledger.Release, Count: true,
		Failure: ledger.AttemptError{Attempt: c.Attempt, Kind: ledger.KindError, Error: text, At: time.Unix(1700000000, 0)},
	}
}

// fail is a settlement that archives the entry's delivery.
func fail(c ledger.Claim, entry ledger.Entry) ledger.Settlement {
	return ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Fail, Dead: &ledger.Archive{
		Key: entry.Key, Fingerprint: entry.Fingerprint, Delivery: entry.Delivery, Kind: ledger.KindTerminal,
		Body: []byte("body of " + string(entry.Delivery)), Source: "source", Attempts: 1,
		SentAt: time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC), Sent: true, Keep: keep,
	}}
}

func (e *env) record(entry ledger.Entry) ledger.Record {
	e.Helper()
	r, err := e.Get(e.ctx, entry.Key)
	if err != nil {
		e.Fatalf("get %v: %v", entry.Key.String(), err)
	}
	return r
}

func (e *env) declare(o ledger.Owner) {
	e.Helper()
	if err := e.Declare(e.ctx, o.ID()); err != nil {
		e.Fatalf("declare: %v", err)
	}
}

func (e *env) leave(o ledger.Owner) {
	e.Helper()
	if err := o.Leave(e.ctx); err != nil {
		e.Fatalf("leave: %v", err)
	}
}

// crash makes an owner that claims the entry alone and is declared dead while it holds it.
func (e *env) crash(entry ledger.Entry) {
	e.Helper()
	o := e.owner()
	entry.Solo = true
	c := e.claim(o, entry)
	if c.Token == 0 {
		e.Fatalf("claim of an owner about to crash: %+v", c)
	}
	e.declare(o)
}

// wantUnknown checks that nothing is known of a message: in a range, one that was given back is as if never claimed.
func (e *env) wantUnknown(entry ledger.Entry) {
	e.Helper()
	if r, err := e.Get(e.ctx, entry.Key); !errors.Is(err, ledger.ErrNotFound) {
		e.Fatalf("%s, %v; want ErrNotFound", summary(r), err)
	}
}

// inRow claims a message, and makes sure that it has a row of its own: in a range it leaves it by a failed attempt.
func (e *env) inRow(o ledger.Owner, entry ledger.Entry) ledger.Claim {
	e.Helper()
	c := e.want(o, entry, ledger.Run)
	if !e.Ranged {
		return c
	}
	e.holds(o, failedAttempt(c, "leave the range"))
	return e.want(o, entry, ledger.Run)
}

// same checks that nothing of a row changed.
func (e *env) same(before ledger.Record) {
	e.Helper()
	after, err := e.Get(e.ctx, before.MessageKey())
	if err != nil {
		e.Fatalf("get: %v", err)
	}
	b, a := summary(before), summary(after)
	if a != b {
		e.Fatalf("the row changed\nfrom %s\nto   %s", b, a)
	}
}

// eventually polls until cond holds.
func (e *env) eventually(what string, cond func() bool) {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.ctx, patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			e.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// invalid checks that err refuses the field, and is nothing like an outage.
func (e *env) invalid(err error, field string) {
	e.Helper()
	var bad *ledger.InvalidError
	if !errors.As(err, &bad) || bad.Field != field {
		e.Fatalf("%v, want an InvalidError of %s", err, field)
	}
	if ledger.Unknown(err) || ledger.IsLost(err) || ledger.Unusable(err) {
		e.Fatalf("%v reads as an outage", err)
	}
}
