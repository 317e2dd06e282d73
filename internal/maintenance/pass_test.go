package maintenance_test

import (
	"testing"
	"time"

	"github.com/ackledger/ackledger/internal/maintenance"
	"github.com/ackledger/ackledger/ledger"
)

// Names that are no UTF-8 come back as they were, and the pass that is stored is not changed by it.
func TestPassIsStoredWhole(t *testing.T) {
	name := "s\xff"
	p := maintenance.Pass{At: time.Unix(1700000000, 0).UTC(), Scopes: []ledger.ScopeStats{{Scope: name, Pending: 3}}}
	p.Report.Oldest = []ledger.Abandoned{{Scope: name}}
	b, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if p.Report.Oldest[0].Scope != name || p.Scopes[0].Scope != name {
		t.Errorf("Encode changed the pass: %+v", p)
	}
	got, err := maintenance.DecodePass(b)
	if err != nil || !got.At.Equal(p.At) || got.Scopes[0] != p.Scopes[0] || got.Report.Oldest[0].Scope != name {
		t.Errorf("%+v, %v", got, err)
	}
}
