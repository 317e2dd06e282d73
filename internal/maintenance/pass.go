package maintenance

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// Pass is what the last whole pass found out, as stores keep it for [ledger.Inspector]. Stores call its methods.
type Pass struct {
	At     time.Time // when it ended, on the database's clock
	Report ledger.SweepReport
	Scopes []ledger.ScopeStats
}

// storedPass is a pass as JSON. Names are bytes: JSON would change what is no UTF-8.
type storedPass struct {
	At        time.Time          `json:"at"`
	Report    ledger.SweepReport `json:"report"`
	Abandoned [][]byte           `json:"abandoned,omitempty"` // the scopes of Report.Oldest
	Scopes    []storedScope      `json:"scopes,omitempty"`
}

type storedScope struct {
	Name []byte `json:"name"`
	ledger.ScopeStats
}

// Encode gives the stored form.
func (p *Pass) Encode() ([]byte, error) {
	s := storedPass{At: p.At, Report: p.Report, Scopes: make([]storedScope, len(p.Scopes))}
	for i, scope := range p.Scopes {
		s.Scopes[i] = storedScope{Name: []byte(scope.Scope), ScopeStats: scope}
		s.Scopes[i].Scope = ""
	}
	s.Report.Oldest = append([]ledger.Abandoned(nil), p.Report.Oldest...)
	for i := range s.Report.Oldest {
		s.Abandoned = append(s.Abandoned, []byte(s.Report.Oldest[i].Scope))
		s.Report.Oldest[i].Scope = ""
	}
	b, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("ledger: the pass cannot be stored: %w", err)
	}
	return b, nil
}

// DecodePass reads what Encode wrote.
func DecodePass(b []byte) (Pass, error) {
	var s storedPass
	if err := json.Unmarshal(b, &s); err != nil {
		return Pass{}, fmt.Errorf("ledger: the stored pass cannot be read: %w", err)
	}
	p := Pass{At: s.At, Report: s.Report, Scopes: make([]ledger.ScopeStats, len(s.Scopes))}
	for i := range s.Scopes {
		p.Scopes[i] = s.Scopes[i].ScopeStats
		p.Scopes[i].Scope = string(s.Scopes[i].Name)
	}
	for i := range min(len(p.Report.Oldest), len(s.Abandoned)) {
		p.Report.Oldest[i].Scope = string(s.Abandoned[i])
	}
	return p, nil
}

// Stats is what an inspector says of a pass, as of now on the database's clock.
func (p *Pass) Stats(now time.Time) ledger.Stats {
	return ledger.Stats{At: p.At, Age: max(now.Sub(p.At), 0), Pass: p.Report, Scopes: p.Scopes}
}
