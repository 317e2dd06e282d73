package checks

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ackledger/ackledger/ledger"
)

// By refuses what the audit could not hold of who changes something.
func By(b ledger.By) error {
	if b.Actor == "" || len(b.Actor) > ledger.MaxActor || !storableText(b.Actor) {
		return &ledger.InvalidError{Field: "By.Actor", Bound: fmt.Sprintf("1 to %d bytes of UTF-8 without NUL", ledger.MaxActor),
			Value: fmt.Sprintf("%q", b.Actor)}
	}
	if len(b.Reason) > ledger.MaxReason || !storableText(b.Reason) {
		return &ledger.InvalidError{Field: "By.Reason", Bound: fmt.Sprintf("at most %d bytes of UTF-8 without NUL", ledger.MaxReason),
			Value: fmt.Sprintf("%d bytes", len(b.Reason))}
	}
	return nil
}

func storableText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// Reopen refuses a request that cannot be meant.
func Reopen(r *ledger.ReopenRequest) error {
	if err := r.Filter.CheckMessages(); err != nil {
		return err
	}
	switch {
	case r.Filter.Scope == "":
		return &ledger.InvalidError{Field: "ReopenRequest.Filter.Scope", Bound: "a scope", Value: "empty"}
	case r.Filter.State != 0 && r.Filter.State != ledger.Succeeded || r.Filter.Stuck:
		return &ledger.InvalidError{Field: "ReopenRequest.Filter.State", Bound: "zero or succeeded", Value: r.Filter.State.String()}
	case r.DryRun:
		return nil
	}
	return By(r.By)
}

// Purge refuses a request that cannot be meant.
func Purge(r *ledger.PurgeRequest) error {
	if r.Filter.Body || r.Filter.Redact != nil {
		return &ledger.InvalidError{Field: "PurgeRequest.Filter.Body", Bound: "unset, like Redact: nothing is handed out", Value: "set"}
	}
	if err := r.Filter.Check(); err != nil || r.DryRun {
		return err
	}
	return By(r.By)
}

// ChangeParked refuses a request that cannot be meant.
func ChangeParked(r *ledger.ParkedRequest) error {
	if r.Filter.Body || r.Filter.Redact != nil {
		return &ledger.InvalidError{Field: "ParkedRequest.Filter.Body", Bound: "unset, like Redact: nothing is handed out", Value: "set"}
	}
	if r.Action != ledger.ActionRunNow && r.Action != ledger.ActionDrop {
		return &ledger.InvalidError{Field: "ParkedRequest.Action", Bound: "run-now or drop", Value: string(r.Action)}
	}
	if err := r.Filter.CheckParked(); err != nil || r.DryRun {
		return err
	}
	return By(r.By)
}

// AuditRecord refuses what the audit could not hold.
func AuditRecord(r *ledger.AuditRecord) error {
	if err := By(r.By); err != nil {
		return err
	}
	if n := len(r.Action); n < 1 || n > 64 || !storableText(string(r.Action)) {
		return &ledger.InvalidError{Field: "AuditRecord.Action", Bound: "1 to 64 bytes of UTF-8 without NUL", Value: fmt.Sprintf("%d bytes", n)}
	}
	if len(r.Detail) > ledger.MaxReason || !storableText(r.Detail) {
		return &ledger.InvalidError{Field: "AuditRecord.Detail", Bound: fmt.Sprintf("at most %d bytes of UTF-8 without NUL", ledger.MaxReason),
			Value: fmt.Sprintf("%d bytes", len(r.Detail))}
	}
	if r.Span < 0 || r.Span > ledger.MaxAuditSpan {
		return &ledger.InvalidError{Field: "AuditRecord.Span", Bound: fmt.Sprintf("0 to %d", ledger.MaxAuditSpan), Value: fmt.Sprint(r.Span)}
	}
	least := 1
	if r.Action == ledger.ActionPause || r.Action == ledger.ActionResume || r.Action == ledger.ActionRecover {
		least = 0
	}
	if n := len(r.Key.Scope); n < least || n > ledger.MaxScope {
		return length("AuditRecord.Key.Scope", least, ledger.MaxScope, n)
	}
	if len(r.Key.ID) > ledger.MaxID {
		return length("AuditRecord.Key.ID", 0, ledger.MaxID, len(r.Key.ID))
	}
	return nil
}

// AuditRecords refuses records that cannot be written.
func AuditRecords(records []ledger.AuditRecord) error {
	if err := Keys("records", len(records)); err != nil {
		return err
	}
	for i := range records {
		if err := AuditRecord(&records[i]); err != nil {
			return err
		}
	}
	return nil
}

// AuditFilter refuses a filter that cannot be meant.
func AuditFilter(f *ledger.AuditFilter) error {
	if !f.From.IsZero() && !f.To.IsZero() && !f.From.Before(f.To) {
		return &ledger.InvalidError{Field: "AuditFilter.To", Bound: "after AuditFilter.From, " + f.From.Format(time.RFC3339), Value: f.To.Format(time.RFC3339)}
	}
	if f.After < 0 {
		return &ledger.InvalidError{Field: "AuditFilter.After", Bound: "0 or more", Value: fmt.Sprint(f.After)}
	}
	if f.Limit < 0 {
		return &ledger.InvalidError{Field: "AuditFilter.Limit", Bound: "0 (none) or more", Value: fmt.Sprint(f.Limit)}
	}
	return nil
}

// Pause refuses what no store can hold.
func Pause(scope string, by ledger.By) error {
	if n := len(scope); n > ledger.MaxScope {
		return length("Pause.Scope", 0, ledger.MaxScope, n)
	}
	if n := len(by.Reason); n > ledger.MaxPauseReason {
		return length("By.Reason", 0, ledger.MaxPauseReason, n)
	}
	return By(by)
}

// Pauses refuses one more pause than may hold at once.
func Pauses(hold int) error {
	if hold < ledger.MaxPauses {
		return nil
	}
	return &ledger.InvalidError{Field: "Pause", Bound: fmt.Sprintf("at most %d that hold at once", ledger.MaxPauses), Value: fmt.Sprintf("one beside %d", hold)}
}
