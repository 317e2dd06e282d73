package acts

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// ParkedChange is a store's ChangeParked.
type ParkedChange struct {
	Request ledger.ParkedRequest
	// Began is the ledger's time when it begins.
	Began time.Time
	// List lists what is parked, as ParkedMessages does.
	List func(context.Context, ledger.Filter) iter.Seq2[ledger.ParkedMessage, error]
	// Write changes those of a batch that still are as they were listed, with their audit, in one transaction, and returns how many.
	Write func(context.Context, []ledger.ParkedMessage) (int64, error)

	report ledger.ParkedReport
}

// Run calls Write for the parked messages that no live owner has, batch by batch. Whoever drops the head of a lane has the next one be due,
// which moves it to a place of the list that lies behind: so after a pass that dropped something of a lane comes another one. It drops only
// what was parked when the first began, so passes come to an end. What the last one leaves is left.
func (c *ParkedChange) Run(ctx context.Context) (ledger.ParkedReport, error) {
	f := c.Request.Filter
	again, err := c.pass(ctx, f, time.Time{})
	for again && err == nil && (f.Limit == 0 || c.report.Matched < int64(c.Request.Filter.Limit)) {
		if f.Limit > 0 {
			f.Limit = c.Request.Filter.Limit - int(c.report.Changed)
		}
		c.report.Matched, c.report.Left = c.report.Changed, 0
		again, err = c.pass(ctx, f, c.Began)
	}
	return c.report, err
}

// pass goes through the list once, and says whether another pass may find more. It leaves what was parked after until; zero: nothing.
func (c *ParkedChange) pass(ctx context.Context, f ledger.Filter, until time.Time) (again bool, err error) {
	r := &c.Request
	err = inBatches(ctx, c.List(ctx, f), func(batch []ledger.ParkedMessage) error {
		n := int64(len(batch))
		c.report.Matched += n
		batch = slices.DeleteFunc(batch, func(m ledger.ParkedMessage) bool {
			return m.Status.State != ledger.Pending || m.Status.Holder == ledger.Live || !until.IsZero() && m.At.After(until)
		})
		c.report.Left += n - int64(len(batch))
		if r.DryRun || len(batch) == 0 {
			return nil
		}
		done, err := c.Write(ctx, batch)
		if err != nil {
			return fmt.Errorf("after %d parked messages: %w", c.report.Changed, err)
		}
		c.report.Changed, c.report.Left = c.report.Changed+done, c.report.Left+int64(len(batch))-done
		again = again || done > 0 && r.Action == ledger.ActionDrop && slices.ContainsFunc(batch, func(m ledger.ParkedMessage) bool { return m.Lane != nil })
		if r.Progress != nil {
			r.Progress(c.report)
		}
		return nil
	})
	return again, err
}

// ParkedRecord is the audit row of what happens to a parked message.
func ParkedRecord(m *ledger.ParkedMessage, r *ledger.ParkedRequest) ledger.AuditRecord {
	return ledger.AuditRecord{By: r.By, Action: r.Action, Key: m.Key, State: m.Status.State, Token: m.Status.Token, Delivery: m.Delivery}
}
