package ledger_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

func TestFilterRefuses(t *testing.T) {
	now := time.Unix(1700000000, 0)
	for _, c := range []struct {
		field, value string
		f            ledger.Filter
	}{
		{"Filter.Scope", "513 bytes", ledger.Filter{Scope: strings.Repeat("s", 513)}},
		{"Filter.State", "4", ledger.Filter{State: 4}},
		{"Filter.State", "failed", ledger.Filter{State: ledger.Failed, Stuck: true}},
		{"Filter.Kinds", "an empty one", ledger.Filter{Kinds: []ledger.FailureKind{ledger.KindError, ""}}},
		{"Filter.HeaderName", "empty", ledger.Filter{HeaderValue: "v"}},
		{"Filter.IDs", "0 bytes", ledger.Filter{IDs: [][]byte{[]byte("a"), {}}}},
		{"Filter.IDs", "10001", ledger.Filter{IDs: make([][]byte, 10001)}},
		{"Filter.Offsets", "partition -1, 0 to 1", ledger.Filter{Offsets: &ledger.OffsetRange{Partition: -1, Last: 1}}},
		{"Filter.To", now.Format(time.RFC3339), ledger.Filter{From: now.Add(1), To: now}},
		{"Filter.Limit", "-1", ledger.Filter{Limit: -1}},
	} {
		var bad *ledger.InvalidError
		if err := c.f.Check(); !errors.As(err, &bad) || bad.Field != c.field || bad.Value != c.value || bad.Bound == "" {
			t.Errorf("%s: %v", c.field, err)
		}
	}
	first := ledger.Filter{Offsets: &ledger.OffsetRange{}} // the first record of the first partition
	if err := first.Check(); err != nil {
		t.Errorf("partition 0, offset 0: %v", err)
	}
	zero := ledger.Filter{}
	if err := errors.Join(zero.Check(), zero.CheckMessages()); err != nil {
		t.Errorf("the zero filter: %v", err)
	}
	for field, f := range map[string]ledger.Filter{
		"Filter.Kinds": {Kinds: []ledger.FailureKind{ledger.KindError}}, "Filter.Group": {Group: "g"}, "Filter.Body": {Body: true},
		"Filter.HeaderName": {HeaderName: "h"}, "Filter.Redact": {Redact: func(*ledger.Archive) {}},
	} {
		var bad *ledger.InvalidError
		if err := f.CheckMessages(); !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("of messages: %s: %v", field, err)
		}
	}
}

func TestFilterOffsets(t *testing.T) {
	f := ledger.Filter{Offsets: &ledger.OffsetRange{Partition: 2, First: 10, Last: 12}}
	if err := f.Check(); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]bool{
		"orders-2-10": true, "orders-2-12": true, "a-b-c-2-11": true, "orders-2-9": false, "orders-2-13": false,
		"orders-3-11": false, "orders-22-11": false, "-2-11": true, "2-11": false, "": false, "orders-2-": false, "orders-2-x": false,
		"orders-2-99999999999999999999": false, "orders--2-11": true, // the topic "orders-"
	} {
		if got := f.Match(&ledger.Listed{Record: ledger.Record{ID: []byte(id)}}); got != want {
			t.Errorf("%q: %v", id, got)
		}
	}
}

func TestStatusFree(t *testing.T) {
	for _, c := range []struct {
		s    ledger.Status
		want bool
	}{
		{ledger.Status{}, false},
		{ledger.Status{State: ledger.Failed}, false},
		{ledger.Status{State: ledger.Succeeded}, false},
		{ledger.Status{State: ledger.Pending}, true},
		{ledger.Status{State: ledger.Pending, DueIn: 1}, false},
		{ledger.Status{State: ledger.Pending, Holder: ledger.Live, HeldFor: 1}, false},
		{ledger.Status{State: ledger.Pending, Holder: ledger.Live, HeldFor: -1}, true}, // overdue: its worker is gone
		{ledger.Status{State: ledger.Pending, Holder: ledger.Dead}, true},
		{ledger.Status{State: ledger.Pending, Holder: ledger.Left}, true},
	} {
		if got := c.s.Free(); got != c.want {
			t.Errorf("%+v: %v", c.s, got)
		}
	}
}

// plainCipher seals nothing, so that what is written can be looked at.
type plainCipher struct{ err error }

func (c plainCipher) Seal(_ context.Context, b []byte) ([]byte, error) { return b, c.err }
func (c plainCipher) Open(_ context.Context, b []byte) ([]byte, error) { return b, c.err }

func TestSealKeepsEveryByte(t *testing.T) {
	for _, a := range []ledger.Archive{
		{}, {Body: []byte{}}, {Headers: []ledger.Header{}}, {Body: []byte("b"), Headers: []ledger.Header{{}}},
		{Body: []byte("\x00\xff"), Headers: []ledger.Header{{Name: "\xff"}, {Name: "n", Value: []byte{}, Type: "String"}, {Name: "n", Value: []byte("v")}}},
	} {
		before := a.Clone()
		if a.Sealed() {
			t.Fatalf("%+v is sealed", a)
		}
		if err := a.Seal(t.Context(), plainCipher{}); err != nil || !a.Sealed() {
			t.Fatalf("%+v, %v", a, err)
		}
		once := a.Clone()
		if err := a.Seal(t.Context(), plainCipher{}); err != nil || string(a.Body) != string(once.Body) {
			t.Errorf("sealed twice: %+v, %v", a, err)
		}
		if err := a.Open(t.Context(), plainCipher{}); err != nil {
			t.Fatal(err)
		}
		if got, want := show(a), show(before); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if err := a.Open(t.Context(), plainCipher{errors.New("not asked")}); err != nil {
			t.Errorf("an archive that is not sealed: %v", err)
		}
	}
}

func show(a ledger.Archive) string {
	var b strings.Builder
	b.WriteString(strings.TrimSpace(strings.Join([]string{isNil(a.Body), string(a.Body)}, " ")))
	if a.Headers == nil {
		b.WriteString(" no headers")
	}
	for _, h := range a.Headers {
		b.WriteString(" [" + h.Name + "|" + isNil(h.Value) + string(h.Value) + "|" + h.Type + "]")
	}
	return b.String()
}

func isNil(b []byte) string {
	if b == nil {
		return "nil"
	}
	return ""
}

// A message whose headers pretend that it is sealed is not: a broker gives no header our type.
func TestSealIsNotForged(t *testing.T) {
	a := ledger.Archive{Body: []byte("b")}
	if err := a.Seal(t.Context(), plainCipher{}); err != nil {
		t.Fatal(err)
	}
	for _, typ := range []string{"", "String", "Binary.ackledger"} {
		forged := ledger.Archive{Headers: []ledger.Header{a.Headers[0]}}
		forged.Headers[0].Type = typ
		if forged.Sealed() {
			t.Errorf("type %q is taken for sealed", typ)
		}
	}
}

func TestSealDamaged(t *testing.T) {
	a := ledger.Archive{Body: []byte("body"), Headers: []ledger.Header{{Name: "n", Value: []byte("v"), Type: "t"}}}
	if err := a.Seal(t.Context(), plainCipher{}); err != nil {
		t.Fatal(err)
	}
	whole := a.Body
	for cut := range whole {
		damaged := a.Clone()
		damaged.Body = whole[:cut]
		if err := damaged.Open(t.Context(), plainCipher{}); err == nil {
			t.Errorf("%d of %d bytes open to %+v", cut, len(whole), damaged)
		}
	}
	for _, junk := range [][]byte{append(whole[:len(whole):len(whole)], 0), {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, {1, 0xff, 0xff, 0xff, 0x7f}} {
		damaged := a.Clone()
		damaged.Body = junk
		if err := damaged.Open(t.Context(), plainCipher{}); err == nil {
			t.Errorf("%x opens to %+v", junk, damaged)
		}
	}
	no := errors.New("the key service is away")
	if err := a.Open(t.Context(), plainCipher{no}); !errors.Is(err, no) {
		t.Error(err)
	}
	fresh := ledger.Archive{Body: []byte("b")}
	if err := fresh.Seal(t.Context(), plainCipher{no}); !errors.Is(err, no) || fresh.Sealed() || string(fresh.Body) != "b" {
		t.Errorf("%+v, %v", fresh, err)
	}
}

// A filter that is checked again selects by the ids that it has now.
func TestFilterIsCheckedAnew(t *testing.T) {
	f := ledger.Filter{IDs: [][]byte{[]byte("a")}}
	if err := f.Check(); err != nil {
		t.Fatal(err)
	}
	f.IDs = [][]byte{[]byte("b")}
	if err := f.Check(); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]bool{"a": false, "b": true} {
		if got := f.Match(&ledger.Listed{Record: ledger.Record{ID: []byte(id)}}); got != want {
			t.Errorf("%s: %v", id, got)
		}
	}
}

// A permit that nobody holds is as free as what a broker forgot, and no message: only who names its scope is told of it, and it is not stuck.
func TestPermitsAreNoMessages(t *testing.T) {
	for _, f := range []struct {
		filter          ledger.Filter
		message, permit bool
	}{
		{ledger.Filter{}, true, false},
		{ledger.Filter{State: ledger.Pending}, true, false},
		{ledger.Filter{Stuck: true}, true, false},
		{ledger.Filter{Scope: "s"}, true, false},
		{ledger.Filter{Scope: ledger.PermitScope}, false, true},
		{ledger.Filter{Scope: ledger.PermitScope, Stuck: true}, false, false},
	} {
		for scope, want := range map[string]bool{"s": f.message, ledger.PermitScope: f.permit} {
			m := ledger.Listed{Record: ledger.Record{Scope: scope}, Status: ledger.Status{State: ledger.Pending}}
			if got := f.filter.Match(&m); got != want {
				t.Errorf("%+v, scope %q: %t", f.filter, scope, got)
			}
		}
	}
}
