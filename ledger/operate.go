package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"
)

// What the stores' Operators have in common. Stores call it.

// operateBatch is how many messages one transaction of Reopen or Purge writes.
const operateBatch = 500

// Check refuses a request that cannot be meant, with an [*InvalidError].
func (r *ReopenRequest) Check() error {
	if err := r.Filter.CheckMessages(); err != nil {
		return err
	}
	switch {
	case r.Filter.Scope == "":
		return &InvalidError{Field: "ReopenRequest.Filter.Scope", Bound: "a scope", Value: "empty"}
	case r.Filter.State != 0 && r.Filter.State != Succeeded || r.Filter.Stuck:
		return &InvalidError{Field: "ReopenRequest.Filter.State", Bound: "zero or succeeded", Value: r.Filter.State.String()}
	case r.DryRun:
		return nil
	}
	return r.By.Check()
}

// RunReopen is a store's Reopen: it calls write for the messages that list has, batch by batch. list is of messages that
// match the request's filter, succeeded, and were first claimed before began; write makes those of a batch pending that
// still are as they were listed, with their audit, in one transaction, and returns how many.
func RunReopen(ctx context.Context, r ReopenRequest, began time.Time, list iter.Seq2[Listed, error],
	write func(context.Context, []Listed) (int64, error),
) (ReopenReport, error) {
	report := ReopenReport{Began: began}
	err := inBatches(ctx, list, func(batch []Listed) error {
		n := int64(len(batch))
		if r.DryRun {
			report.Matched += n
			return nil
		}
		done, err := write(ctx, batch)
		if err != nil {
			return fmt.Errorf("after %d reopened messages: %w", report.Reopened, err)
		}
		report.Matched, report.Reopened, report.Skipped = report.Matched+n, report.Reopened+done, report.Skipped+n-done
		if r.Progress != nil {
			r.Progress(report)
		}
		return nil
	})
	return report, err
}

// Check refuses a request that cannot be meant, with an [*InvalidError].
func (r *PurgeRequest) Check() error {
	if r.Filter.Body || r.Filter.Redact != nil {
		return &InvalidError{Field: "PurgeRequest.Filter.Body", Bound: "unset, like Redact: nothing is handed out", Value: "set"}
	}
	if err := r.Filter.Check(); err != nil || r.DryRun {
		return err
	}
	return r.By.Check()
}

// RunPurge is a store's Purge: it calls write for the dead letters that list has and whose message is not pending, batch by
// batch. write empties those of a batch whose message still is as it was listed, with their audit, in one transaction, and
// returns how many.
func RunPurge(ctx context.Context, r PurgeRequest, list iter.Seq2[DeadLetter, error],
	write func(context.Context, []DeadLetter) (int64, error),
) (PurgeReport, error) {
	var report PurgeReport
	err := inBatches(ctx, list, func(batch []DeadLetter) error {
		n := int64(len(batch))
		report.Matched, report.Last = report.Matched+n, batch[n-1].At // the oldest come first
		batch = slices.DeleteFunc(batch, func(d DeadLetter) bool { return d.Status.State == Pending })
		report.Left += n - int64(len(batch))
		if r.DryRun || len(batch) == 0 {
			return nil
		}
		done, err := write(ctx, batch)
		if err != nil {
			return fmt.Errorf("after %d purged dead letters: %w", report.Purged, err)
		}
		report.Purged, report.Left = report.Purged+done, report.Left+int64(len(batch))-done
		if r.Progress != nil {
			r.Progress(report)
		}
		return nil
	})
	return report, err
}

// NextPage returns the next page of a list, and whether there may be another one.
type NextPage[T any] func() (page []T, more bool, err error)

// RunList is a list of a store: it hands out what keep selects of page after page, at most limit of it (0: all). The first
// error, named, is the last of the list.
func RunList[T any](ctx context.Context, limit int, named func(error) error, begin func() (NextPage[T], error),
	keep func(*T) (bool, error),
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		found := 0
		next, err := begin()
		for more := true; more && err == nil; {
			var page []T
			page, more, err = next()
			for i := 0; i < len(page) && err == nil; i++ {
				var kept bool
				if err = ctx.Err(); err == nil {
					kept, err = keep(&page[i])
				}
				if !kept || err != nil {
					continue
				}
				if found++; !yield(page[i], nil) || found == limit {
					return
				}
			}
		}
		if err != nil {
			var none T
			yield(none, named(err))
		}
	}
}

// inBatches calls fn with what list has. fn may change the slice, and not keep it.
func inBatches[T any](ctx context.Context, list iter.Seq2[T, error], fn func([]T) error) error {
	batch := make([]T, 0, operateBatch)
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		err := fn(batch)
		batch = make([]T, 0, operateBatch)
		return err
	}
	for item, err := range list {
		if err != nil {
			return err
		}
		if batch = append(batch, item); len(batch) == operateBatch {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// FindRecords is a store's Find; archived are the keys under which deliveries of that id are archived or results kept, in any scope.
func FindRecords(ctx context.Context, f Operator, archived []Key, scope string, id []byte) ([]Record, error) {
	scopes := []string{scope}
	if scope == "" {
		var err error
		if scopes, err = f.Scopes(ctx); err != nil {
			return nil, err
		}
	}
	var keys []Key
	for part := range slices.Chunk(scopes, MaxStatus) {
		asked := make([]Key, len(part))
		for i, name := range part {
			asked[i] = Key{Scope: name, ID: id}.Known()
		}
		status, err := f.Status(ctx, asked)
		if err != nil {
			return nil, err
		}
		for i, s := range status {
			if s.State != 0 {
				keys = append(keys, asked[i])
			}
		}
	}
	for _, key := range archived {
		same := func(k Key) bool { return k.Sum() == key.Sum() }
		if (scope == "" || key.Scope == scope) && !slices.ContainsFunc(keys, same) {
			keys = append(keys, key)
		}
	}
	var found []Record
	for _, key := range keys[:min(len(keys), MaxFound)] {
		rec, err := f.Get(ctx, key)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return nil, err
		}
		if rec.State == 0 && len(rec.Archived) == 0 && len(rec.Past) == 0 {
			continue // it went meanwhile
		}
		rec.Scope, rec.ID = key.Scope, id
		found = append(found, rec)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w: %q", ErrNotFound, id)
	}
	return found, nil
}

// RenewedDelivery names the archive row of a mended body.
func RenewedDelivery(token uint64) []byte { return fmt.Appendf(nil, "renewed:%d", token) }

// ReopenedDelivery is what becomes of the name of an archived delivery whose message is reopened: the delivery itself is
// archived no more, so that it runs when it comes again. token is the row's new one.
func ReopenedDelivery(token uint64, delivery []byte) []byte {
	return append(fmt.Appendf(nil, "reopened:%d:", token), delivery...)
}

// Detail says in the audit what was asked for.
func (r *Renewal) Detail() string {
	if r.Mended {
		return "mended body"
	}
	return "fresh keys"
}

// Detail says in the audit what was asked for.
func (r *ReopenRequest) Detail() string {
	if r.FreshKeys {
		return "fresh keys"
	}
	return ""
}

// CheckID refuses an id that no message has.
func CheckID(id []byte) error {
	if len(id) == 0 || len(id) > MaxID {
		return invalidLen("id", 1, MaxID, len(id))
	}
	return nil
}

// CheckKeys refuses more keys or records than one call takes.
func CheckKeys(field string, n int) error {
	if n > MaxStatus {
		return &InvalidError{Field: field, Bound: fmt.Sprintf("at most %d", MaxStatus), Value: fmt.Sprint(n)}
	}
	return nil
}

// CheckAudit refuses records that cannot be written.
func CheckAudit(records []AuditRecord) error {
	if err := CheckKeys("records", len(records)); err != nil {
		return err
	}
	for i := range records {
		if err := records[i].Check(); err != nil {
			return err
		}
	}
	return nil
}

// storedAudit is an audit row as JSON, beside its columns. Names are bytes: JSON would change what is no UTF-8.
type storedAudit struct {
	Reason   string `json:"reason,omitempty"`
	Scope    []byte `json:"scope"`
	ID       []byte `json:"id"`
	Span     int64  `json:"span,omitempty"`
	State    State  `json:"state,omitempty"`
	Token    uint64 `json:"token,omitempty"`
	Delivery []byte `json:"delivery,omitempty"`
	Detail   string `json:"detail,omitempty"`
}

// EncodeRest gives the stored form of what stores have no column for: all but ID, At, Role, the actor, the action and the
// key's sum.
func (r *AuditRecord) EncodeRest() []byte {
	b, _ := json.Marshal(storedAudit{ // text, bytes and numbers: it has no way to fail
		Reason: r.By.Reason, Scope: []byte(r.Key.Scope), ID: r.Key.ID, Span: r.Span, State: r.State, Token: r.Token, Delivery: r.Delivery,
		Detail: r.Detail,
	})
	return b
}

// DecodeRest reads what EncodeRest wrote; sum is the key's.
func (r *AuditRecord) DecodeRest(b []byte, sum [KeySize]byte) error {
	var s storedAudit
	if len(b) > 0 {
		if err := json.Unmarshal(b, &s); err != nil {
			return fmt.Errorf("ledger: the stored audit row %d cannot be read: %w", r.ID, err)
		}
	}
	r.By.Reason, r.Span, r.State, r.Token, r.Delivery, r.Detail = s.Reason, s.Span, s.State, s.Token, s.Delivery, s.Detail
	r.Key = KeyOfSum(string(s.Scope), s.ID, sum)
	return nil
}

// Note is the audit row of what happens to a listed message.
func (m *Listed) Note(by By, action Action, detail string) AuditRecord {
	return AuditRecord{By: by, Action: action, Key: m.MessageKey(), State: m.State, Token: m.Token, Detail: detail}
}

// Note is the audit row of what happens to a dead letter.
func (d *DeadLetter) Note(by By, action Action, detail string) AuditRecord {
	return AuditRecord{By: by, Action: action, Key: d.Key, State: d.Status.State, Token: d.Status.Token, Delivery: d.Delivery,
		Detail: detail}
}
