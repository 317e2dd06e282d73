package replay

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
)

// TestLetterOfTheArchive: it has the place and the name that its message had, and its last error.
func TestLetterOfTheArchive(t *testing.T) {
	d := &ledger.DeadLetter{}
	d.Key = ledger.Key{Scope: Scope("cluster/orders", aConsumer), ID: []byte("orders-3-7")}
	d.Source, d.Group = "cluster/orders", "customer"
	d.Errors = []ledger.AttemptError{{Kind: "first", Error: "one"}, {Kind: "last", Error: "two"}}
	l, err := (&archive{op: &answers{}}).letter(t.Context(), d)
	if err != nil || l.Unreadable != nil {
		t.Fatalf("%v, %v", err, l.Unreadable)
	}
	if m := l.Message; m.Partition != 3 || m.Offset != 7 || m.Topic != "orders" || string(m.Key) != "customer" || m.Group != "" {
		t.Errorf("the message is %+v", m)
	}
	if l.Consumer != aConsumer || l.Class != "last" || l.Error != "two" || !l.Archived || !l.Identified {
		t.Errorf("the letter is %+v", l)
	}
	d.Source = aQueue
	d.Key = ledger.Key{Scope: Scope(aQueue, aConsumer), ID: []byte("m")}
	if l, err := (&archive{op: &answers{}}).letter(t.Context(), d); err != nil || l.Message.Group != "customer" || l.Message.Key != nil || l.Message.Topic != "" {
		t.Errorf("of a queue: %+v, %v", l, err)
	}
}

// stored is a ledger with dead letters.
type stored struct {
	answers
	letters []ledger.DeadLetter
}

func (s *stored) DeadLetters(context.Context, ledger.Filter) iter.Seq2[ledger.DeadLetter, error] {
	return func(yield func(ledger.DeadLetter, error) bool) {
		for i := range s.letters {
			if !yield(s.letters[i], nil) {
				return
			}
		}
	}
}

// TestRenewedAreNotCounted: how many of the archive were renewed takes a look at each, so that run has no estimate.
func TestRenewedAreNotCounted(t *testing.T) {
	op := &stored{letters: make([]ledger.DeadLetter, 3)}
	for renewed, want := range map[bool]int64{false: 3, true: -1} {
		if n, err := (&archive{op: op, renewed: renewed}).Count(t.Context(), &ledger.Filter{Limit: 1}); err != nil || n != want {
			t.Errorf("renewed %v: %d, %v, want %d", renewed, n, err, want)
		}
	}
	for renewed, want := range map[bool]string{false: "the ledger's archive", true: "the renewed messages in the ledger's archive"} {
		if got := (&archive{renewed: renewed}).String(); got != want {
			t.Errorf("renewed %v: %q, want %q", renewed, got, want)
		}
	}
}

// TestFilterByGroup: a letter of a queue is selected by its group, a record by its key.
func TestFilterByGroup(t *testing.T) {
	r := &runner{c: Config{Filter: ledger.Filter{Group: "customer"}}}
	for name, c := range map[string]struct {
		group, key string
		want       bool
	}{
		"the group": {"customer", "", true}, "the key": {"", "customer", true}, "another key": {"", "other", false}, "another group": {"other", "customer", false},
	} {
		l := aLetter("body")
		l.Message.Group, l.Message.Key = c.group, []byte(c.key)
		if got, err := r.selects(t.Context(), l); err != nil || got != c.want {
			t.Errorf("%s: %v, %v, want %v", name, got, err, c.want)
		}
	}
}

// TestAuditNamesAMessageOfItsOwn: the audit of a copy that became a message of its own says under which id.
func TestAuditNamesAMessageOfItsOwn(t *testing.T) {
	r := &runner{to: "to a target", dst: &taking{}}
	l := aLetter("body")
	for own, want := range map[bool]string{false: "to a target", true: "to a target as m"} {
		l.own = own
		if got := r.detail(l); got != want {
			t.Errorf("own %v: %q, want %q", own, got, want)
		}
	}
}

// TestOwnIDs: the id of a message of its own is the same each time, and another for each part of the letter, wherever one ends.
func TestOwnIDs(t *testing.T) {
	of := func(source, id, delivery, body string) string {
		l := aLetter(body)
		l.Message.Source, l.Message.ID, l.Delivery = source, id, []byte(delivery)
		return ownID(l)
	}
	if a, b := of("queue", "id", "delivery", "body"), of("queue", "id", "delivery", "body"); a != b {
		t.Errorf("%s, and %s", a, b)
	}
	seen := map[string][]string{}
	for _, parts := range [][]string{
		{"queue", "id", "delivery", "body"}, {"other", "id", "delivery", "body"}, {"queue", "other", "delivery", "body"},
		{"queue", "id", "other", "body"}, {"queue", "id", "delivery", "other"}, {"queuei", "d", "delivery", "body"}, {"queue", "iddeliver", "y", "body"},
	} {
		id := of(parts[0], parts[1], parts[2], parts[3])
		if seen[id] != nil {
			t.Errorf("%q and %q have the id %s", parts, seen[id], id)
		}
		seen[id] = parts
	}
}

// turning is a ledger that answers so many calls of Status, and then no more.
type turning struct {
	answers
	good int
}

func (s *turning) Status(ctx context.Context, keys []ledger.Key) ([]ledger.Status, error) {
	if s.good--; s.good < 0 {
		return nil, s.err
	}
	return make([]ledger.Status, len(keys)), nil
}

// TestKeysAreAskedInPlace: nothing is decided if the ledger does not answer for the keys that KeyFunc gave.
func TestKeysAreAskedInPlace(t *testing.T) {
	dst := &inPlace{opt: consumer.Options{Name: aConsumer, KeyFunc: func(m *consumer.Message) (string, error) { return "key of " + m.ID, nil }}}
	op := &turning{answers: answers{err: errors.New("the ledger is away")}, good: 1}
	r := &runner{op: op, src: &list{}, dst: dst}
	l := aLetter("body")
	if got, err := r.decide(t.Context(), []*Letter{l}); !errors.Is(err, op.err) || string(l.Key.ID) != "key of m" {
		t.Errorf("%d are decided upon, %v; the key is %q", len(got), err, l.Key.ID)
	}
}

// TestWhatBecameInPlace: what the ledger says of a message counts, not that its handler has returned.
func TestWhatBecameInPlace(t *testing.T) {
	away := errors.New("the ledger is away")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	record := func(state ledger.State, errs ...string) ledger.Record {
		r := ledger.Record{State: state}
		for _, text := range errs {
			r.Errors = append(r.Errors, ledger.AttemptError{Error: text})
		}
		return r
	}
	for name, c := range map[string]struct {
		ctx     context.Context
		ack     bool
		begun   bool
		op      *answers
		outcome Outcome
		reason  Reason
		err     string
	}{
		"succeeded":               {t.Context(), true, true, &answers{record: record(ledger.Succeeded)}, Handled, "", ""},
		"failed":                  {t.Context(), true, true, &answers{record: record(ledger.Failed, "one", "two")}, Broken, broke, "two"},
		"failed, it says not why": {t.Context(), true, true, &answers{record: record(ledger.Failed)}, Broken, broke, string(broke)},
		"it moved on":             {t.Context(), true, true, &answers{record: record(ledger.Pending)}, Kept, changed, ""},
		"to be repeated":          {t.Context(), false, true, &answers{record: record(ledger.Pending, "three")}, Kept, broke, "three"},
		"it did not begin":        {t.Context(), false, false, &answers{record: record(ledger.Pending)}, Kept, Live, ""},
		"the run is over":         {over, false, true, &answers{record: record(ledger.Pending)}, Kept, Live, ""},
		"it is not known":         {t.Context(), true, true, &answers{err: away}, Kept, "", away.Error()},
	} {
		got := (&inPlace{op: c.op}).result(c.ctx, aLetter("body"), engine.Verdict{Ack: c.ack}, c.begun)
		text := ""
		if got.Err != nil {
			text = got.Err.Error()
		}
		if got.Outcome != c.outcome || got.Reason != c.reason || !strings.Contains(text, c.err) || (text == "") != (c.err == "") {
			t.Errorf("%s: %+v, want outcome %d, %q, %q", name, got, c.outcome, c.reason, c.err)
		}
	}
}
