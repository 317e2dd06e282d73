package storage

import (
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/ackledger/ackledger/ledger"
)

// storedAudit is an audit row as JSON, beside its columns. Names are bytes: JSON would change what is no UTF-8.
type storedAudit struct {
	Reason   string       `json:"reason,omitempty"`
	Scope    []byte       `json:"scope"`
	ID       []byte       `json:"id"`
	Span     int64        `json:"span,omitempty"`
	State    ledger.State `json:"state,omitempty"`
	Token    uint64       `json:"token,omitempty"`
	Delivery []byte       `json:"delivery,omitempty"`
	Detail   string       `json:"detail,omitempty"`
}

// EncodeAudit gives the stored form of what stores have no column for: all but ID, At, Role, the actor, the action and the
// key's sum.
func EncodeAudit(r *ledger.AuditRecord) []byte {
	b, _ := json.Marshal(storedAudit{ // text, bytes and numbers: it has no way to fail
		Reason: r.By.Reason, Scope: []byte(r.Key.Scope), ID: r.Key.ID, Span: r.Span, State: r.State, Token: r.Token, Delivery: r.Delivery,
		Detail: r.Detail,
	})
	return b
}

// DecodeAudit reads into r what [EncodeAudit] wrote; sum is the key's.
func DecodeAudit(r *ledger.AuditRecord, b []byte, sum [ledger.KeySize]byte) error {
	var s storedAudit
	if len(b) > 0 {
		if err := json.Unmarshal(b, &s); err != nil {
			return fmt.Errorf("ledger: the stored audit row %d cannot be read: %w", r.ID, err)
		}
	}
	r.By.Reason, r.Span, r.State, r.Token, r.Delivery, r.Detail = s.Reason, s.Span, s.State, s.Token, s.Delivery, s.Detail
	r.Key = ledger.KeyOfSum(string(s.Scope), s.ID, sum)
	return nil
}

// FirstAudit is the lowest key whose audit row may be about the message of f.Key, if that is a record in a log: where a look by index begins.
// f.Key is not nil.
func FirstAudit(f *ledger.AuditFilter) (sum [ledger.KeySize]byte) {
	sum = f.Key.Sum()
	at := binary.BigEndian.Uint64(sum[8:])
	binary.BigEndian.PutUint64(sum[8:], at-min(at, ledger.MaxAuditSpan-1))
	return sum
}
