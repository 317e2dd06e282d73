package acts

import (
	"encoding/binary"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// MessageRecord is the audit row of what happens to a listed message.
func MessageRecord(m *ledger.Listed, by ledger.By, action ledger.Action, detail string) ledger.AuditRecord {
	return ledger.AuditRecord{By: by, Action: action, Key: m.MessageKey(), State: m.State, Token: m.Token, Detail: detail}
}

// DeadLetterRecord is the audit row of what happens to a dead letter.
func DeadLetterRecord(d *ledger.DeadLetter, by ledger.By, action ledger.Action, detail string) ledger.AuditRecord {
	return ledger.AuditRecord{By: by, Action: action, Key: d.Key, State: d.Status.State, Token: d.Status.Token, Delivery: d.Delivery,
		Detail: detail}
}

// PauseRecord is the audit row of a pause, or of its end: it is about a scope, and no message.
func PauseRecord(scope string, by ledger.By, action ledger.Action) ledger.AuditRecord {
	return ledger.AuditRecord{By: by, Action: action, Key: ledger.Key{Scope: scope}}
}

// RenewalDetail says in the audit what a renewal was to do.
func RenewalDetail(r *ledger.Renewal) string {
	if r.Mended {
		return "mended body"
	}
	return "fresh keys"
}

// ReopenDetail says in the audit what was asked for beside the state.
func ReopenDetail(r *ledger.ReopenRequest) string {
	if r.FreshKeys {
		return "fresh keys"
	}
	return ""
}

// AuditMatches says whether a filter selects a record, Limit aside.
func AuditMatches(f *ledger.AuditFilter, r *ledger.AuditRecord) bool {
	return (f.Key == nil || about(r, f.Key.Sum())) && (f.Action == "" || f.Action == r.Action) && within(r.At, f.From, f.To) && (f.After == 0 || r.ID > f.After)
}

// about says whether the record is about a message.
func about(r *ledger.AuditRecord, sum [ledger.KeySize]byte) bool {
	own := r.Key.Sum()
	from, at := binary.BigEndian.Uint64(own[8:]), binary.BigEndian.Uint64(sum[8:])
	return own == sum || [8]byte(own[:8]) == [8]byte(sum[:8]) && at > from && at-from < uint64(r.Span)
}

func within(t, from, to time.Time) bool {
	return (from.IsZero() || !t.Before(from)) && (to.IsZero() || t.Before(to))
}
