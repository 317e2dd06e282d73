package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/ackledger/ackledger/internal/operate"
	"github.com/ackledger/ackledger/ledger"
)

// auditData is a page of the audit.
type auditData struct {
	Action  string
	Actions []ledger.Action
	Since   string
	Rows    []ledger.AuditRecord
	First   string
	Next    string
	Cut     bool
}

var audited = []ledger.Action{ledger.ActionReplay, ledger.ActionSend, ledger.ActionRenew, ledger.ActionReopen, ledger.ActionPurge, ActionBody, ledger.ActionPause,
	ledger.ActionResume}

// audit shows who did what, the latest first.
func (v *visit) audit() error {
	d := &auditData{Action: v.query.Get("action"), Actions: audited, Since: v.query.Get("since")}
	f := ledger.AuditFilter{Action: ledger.Action(d.Action)}
	var err error
	if d.Since != "" {
		if f.From, err = operate.Moment(d.Since, time.Now()); err != nil {
			return refuse(http.StatusBadRequest, "since: %w", err)
		}
	}
	upTo := int64(0)
	if text := v.query.Get("upto"); text != "" {
		if upTo, err = strconv.ParseInt(text, 10, 64); err != nil || upTo < 1 {
			return refuse(http.StatusBadRequest, "the link does not say which page comes next")
		}
		d.First = "audit?" + url.Values{"action": {d.Action}, "since": {d.Since}}.Encode()
	} else if upTo, err = v.lastAudit(); err != nil {
		return err
	}
	rows, next, err := v.audits(f, upTo)
	if d.Cut = errors.Is(err, context.DeadlineExceeded); err != nil && !d.Cut {
		return err
	}
	if d.Rows = rows; next > 0 {
		d.Next = "audit?" + url.Values{"action": {d.Action}, "since": {d.Since}, "upto": {strconv.FormatInt(next, 10)}}.Encode()
	}
	return v.show(&page{Name: "audit", Title: "Audit", Data: d})
}

// lastAudit is the id of the last record, or somewhat less: the audit is listed from its beginning, so its end is searched for, from
// where it was last time on.
func (v *visit) lastAudit() (int64, error) {
	after := func(id int64) (int64, error) {
		for a, err := range v.op.Audits(v.ctx(), ledger.AuditFilter{After: id, Limit: 1}) {
			return a.ID, err
		}
		return 0, nil
	}
	low, high := v.audited.Load(), int64(0)
	for step := int64(pageRows); high == 0; step *= 4 {
		switch id, err := after(low + step); {
		case err != nil:
			return 0, err
		case id == 0:
			high = low + step
		default:
			low = id
		}
	}
	for high-low > pageRows {
		middle := low + (high-low)/2
		switch id, err := after(middle); {
		case err != nil:
			return 0, err
		case id == 0:
			high = middle
		default:
			low = id
		}
	}
	v.audited.Store(low)
	return high, nil
}

const maxSpan = 5000 // ids that are read at once

// audits reads a page of records up to an id, the latest first; next is where the page after it begins, 0: there is none.
func (v *visit) audits(f ledger.AuditFilter, upTo int64) (rows []ledger.AuditRecord, next int64, err error) {
	for span := int64(pageRows); upTo > 0 && len(rows) <= pageRows; span = min(span*4, maxSpan) {
		f.After = max(upTo-span, 0)
		var part []ledger.AuditRecord
		for a, err := range v.op.Audits(v.ctx(), f) {
			if err != nil {
				return rows, upTo, err
			}
			if a.ID > upTo {
				break
			}
			if v.can(Read, a.Key.Scope) {
				part = append(part, a)
			}
		}
		slices.Reverse(part)
		rows = append(rows, part...)
		if upTo = f.After; !f.From.IsZero() && len(part) == 0 {
			for a, err := range v.op.Audits(v.ctx(), ledger.AuditFilter{After: upTo, Limit: 1}) {
				if err != nil || a.At.Before(f.From) {
					return rows, 0, err
				}
			}
		}
	}
	if len(rows) > pageRows {
		rows = rows[:pageRows]
		return rows, rows[pageRows-1].ID - 1, nil
	}
	return rows, 0, nil
}
