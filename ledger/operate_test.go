package ledger_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// A request to reopen is refused for its filter's sake first, also as a dry run.
func TestReopenRequestChecksItsFilter(t *testing.T) {
	r := ledger.ReopenRequest{Filter: ledger.Filter{Scope: "s", Limit: -1}, DryRun: true}
	wantInvalid(t, r.Check(), "Filter.Limit")
}

// finderOf answers with errors for its one message.
type finderOf struct {
	ledger.Operator
	scope  string
	err    error // of Get
	status error
}

func (f finderOf) Get(context.Context, ledger.Key) (ledger.Record, error) {
	return ledger.Record{}, f.err
}
func (f finderOf) Scopes(context.Context) ([]string, error) { return []string{f.scope}, nil }
func (f finderOf) Status(_ context.Context, keys []ledger.Key) ([]ledger.Status, error) {
	out := make([]ledger.Status, len(keys))
	for i := range out {
		out[i].State = ledger.Failed
	}
	return out, f.status
}

// A record that cannot be read is an error, not a record that is not there: an operator would take it for gone.
func TestFindRecordsSaysWhatItCannotRead(t *testing.T) {
	broken := errors.New("connection reset")
	if found, err := ledger.FindRecords(t.Context(), finderOf{scope: "s", err: broken}, nil, "", []byte("a")); !errors.Is(err, broken) {
		t.Errorf("%+v, %v", found, err)
	}
	if found, err := ledger.FindRecords(t.Context(), finderOf{scope: "s", status: broken}, nil, "", []byte("a")); !errors.Is(err, broken) {
		t.Errorf("no states: %+v, %v", found, err)
	}
	if _, err := ledger.FindRecords(t.Context(), finderOf{scope: "s", err: ledger.ErrNotFound}, nil, "", []byte("a")); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("one that went meanwhile: %v", err)
	}
}

// The name of a reopened delivery is no delivery's own, and differs for each time that it is reopened.
func TestReopenedDeliveryIsNamedAnew(t *testing.T) {
	if got := string(ledger.ReopenedDelivery(7, []byte("d"))); got != "reopened:7:d" {
		t.Error(got)
	}
}

// A span of n is about n offsets of its own log, from its key's on, and of no other log.
func TestAuditFilterMatchesASpan(t *testing.T) {
	r := ledger.AuditRecord{Key: at("s", "log", 0, 100), Span: 10}
	for _, c := range []struct {
		key  ledger.Key
		want bool
	}{
		{at("s", "log", 0, 99), false}, {at("s", "log", 0, 100), true}, {at("s", "log", 0, 109), true}, {at("s", "log", 0, 110), false},
		{at("s", "other", 0, 105), false}, {at("s", "log", 1, 105), false},
	} {
		if got := (&ledger.AuditFilter{Key: &c.key}).Match(&r); got != c.want {
			t.Errorf("offset %d of %s, epoch %d: %v", c.key.Pos.Offset, c.key.Pos.Log, c.key.Pos.Epoch, got)
		}
	}
}

// The longest span that is about a message begins MaxAuditSpan-1 offsets before it, and never before the log does.
func TestAuditFilterFirst(t *testing.T) {
	for offset, first := range map[int64]int64{0: 0, 5: 0, ledger.MaxAuditSpan - 1: 0, ledger.MaxAuditSpan: 1, 1 << 40: 1<<40 - ledger.MaxAuditSpan + 1} {
		k := at("s", "log", 0, offset)
		if got := (&ledger.AuditFilter{Key: &k}).First(); got != at("s", "log", 0, first).Sum() {
			t.Errorf("of offset %d: %x, want that of %d", offset, got, first)
		}
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

// Names that are no UTF-8 come back as they were, and the pass that is stored is not changed by it.
func TestPassIsStoredWhole(t *testing.T) {
	name := "s\xff"
	p := ledger.Pass{At: time.Unix(1700000000, 0).UTC(), Scopes: []ledger.ScopeStats{{Scope: name, Pending: 3}}}
	p.Report.Oldest = []ledger.Abandoned{{Scope: name}}
	b, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if p.Report.Oldest[0].Scope != name || p.Scopes[0].Scope != name {
		t.Errorf("Encode changed the pass: %+v", p)
	}
	got, err := ledger.DecodePass(b)
	if err != nil || !got.At.Equal(p.At) || got.Scopes[0] != p.Scopes[0] || got.Report.Oldest[0].Scope != name {
		t.Errorf("%+v, %v", got, err)
	}
}
