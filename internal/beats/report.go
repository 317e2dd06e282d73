package beats

import (
	"encoding/json"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// Bounds of the texts of a report, in bytes. What is still too large then is halved until it fits.
const (
	maxReportName = 255 // of a host, a version, or a source
	maxReportText = 200 // of an error, or one entry of a list
)

// storedReport is a report as it is written. JSON would change a scope that is no UTF-8.
type storedReport struct {
	ledger.WorkerReport
	Scope  []byte   `json:"scope"`
	Scopes [][]byte `json:"scopes,omitempty"`
}

// EncodeReport gives the stored form of a report, of at most [ledger.MaxReport] bytes. What is no UTF-8 in a text, but for scopes, is replaced.
func EncodeReport(r *ledger.WorkerReport) []byte {
	s := storedReport{WorkerReport: *r, Scope: []byte(clip(r.Scope, ledger.MaxScope))}
	for _, scope := range r.Scopes {
		s.Scopes = append(s.Scopes, []byte(clip(scope, ledger.MaxScope)))
	}
	s.Host, s.Version = clip(valid(r.Host), maxReportName), clip(valid(r.Version), maxReportName)
	s.Paused, s.Error = clip(valid(r.Paused), maxReportText), clip(valid(r.Error), maxReportText)
	s.Stalled, s.Warnings = clipAll(r.Stalled), clipAll(r.Warnings)
	s.Lag = make([]ledger.Lag, min(len(r.Lag), ledger.MaxReport))
	for i := range s.Lag {
		s.Lag[i] = ledger.Lag{Source: clip(valid(r.Lag[i].Source), maxReportName), Waiting: r.Lag[i].Waiting}
	}
	for {
		b, err := json.Marshal(&s)
		switch {
		case err != nil: // of a year beyond 9999, which JSON does not have
			s.Started = time.Unix(0, 0)
		case len(b) <= ledger.MaxReport:
			return b
		default:
			s.shrink()
		}
	}
}

// shrink halves what takes most: of the lists first, then of the texts.
func (s *storedReport) shrink() {
	sizes := [...]int{len(s.Lag) * 40, length(s.Warnings), length(s.Stalled), 0}
	for _, scope := range s.Scopes {
		sizes[3] += len(scope)*4/3 + 3
	}
	most := 0
	for i, n := range sizes {
		if n > sizes[most] {
			most = i
		}
	}
	switch {
	case sizes[most] == 0:
		for _, text := range []*string{&s.Error, &s.Paused, &s.Version, &s.Host} {
			*text = clip(*text, len(*text)/2)
		}
	case most == 0:
		s.Lag = s.Lag[:len(s.Lag)/2]
	case most == 1:
		s.Warnings = s.Warnings[:len(s.Warnings)/2]
	case most == 2:
		s.Stalled = s.Stalled[:len(s.Stalled)/2]
	default:
		s.Scopes = s.Scopes[:len(s.Scopes)/2]
	}
}

func length(list []string) (n int) {
	for _, text := range list {
		n += len(text) + 3
	}
	return n
}

// DecodeReport reads what [EncodeReport] wrote. What is no report is a zero one: one worker does not hide the others.
func DecodeReport(b []byte) ledger.WorkerReport {
	var s storedReport
	if len(b) > 2*ledger.MaxReport || json.Unmarshal(b, &s) != nil {
		return ledger.WorkerReport{}
	}
	s.WorkerReport.Scope = string(s.Scope)
	for _, scope := range s.Scopes {
		s.WorkerReport.Scopes = append(s.WorkerReport.Scopes, string(scope))
	}
	return s.WorkerReport
}

func valid(text string) string { return strings.ToValidUTF8(text, "\ufffd") }

// clip cuts a text to n bytes, not inside of a character.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && text[n]&0xc0 == 0x80 {
		n--
	}
	return text[:n]
}

func clipAll(list []string) []string {
	out := make([]string, min(len(list), ledger.MaxReport))
	for i := range out {
		out[i] = clip(valid(list[i]), maxReportText)
	}
	return out
}

// Slate is what an owner keeps as a [ledger.Boarded]. The zero value is ready; it is safe for concurrent use.
type Slate struct {
	report atomic.Pointer[[]byte]
	pauses atomic.Pointer[[]ledger.Pause]
}

var _ ledger.Boarded = (*Slate)(nil)

// Report implements [ledger.Boarded].
func (s *Slate) Report(r ledger.WorkerReport) {
	b := EncodeReport(&r)
	s.report.Store(&b)
}

// Written is what the next beat writes; nil: nothing was reported yet.
func (s *Slate) Written() []byte {
	if b := s.report.Load(); b != nil {
		return *b
	}
	return nil
}

// Heard keeps the pauses that hold. The slice is the slate's from then on.
func (s *Slate) Heard(pauses []ledger.Pause) { s.pauses.Store(&pauses) }

// Pauses implements [ledger.Boarded].
func (s *Slate) Pauses() []ledger.Pause {
	if p := s.pauses.Load(); p != nil {
		return *p
	}
	return nil
}
