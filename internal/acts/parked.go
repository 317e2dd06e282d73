package acts

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/ackledger/ackledger/ledger"
)

// ChangeParked is a store's ChangeParked: it calls write for the parked messages that list has and that no live owner has, batch by batch.
// write changes those of a batch that still are as they were listed, with their audit, in one transaction, and returns how many.
func ChangeParked(ctx context.Context, r ledger.ParkedRequest, list iter.Seq2[ledger.ParkedMessage, error],
	write func(context.Context, []ledger.ParkedMessage) (int64, error),
) (ledger.ParkedReport, error) {
	var report ledger.ParkedReport
	err := inBatches(ctx, list, func(batch []ledger.ParkedMessage) error {
		n := int64(len(batch))
		report.Matched += n
		batch = slices.DeleteFunc(batch, func(m ledger.ParkedMessage) bool {
			return m.Status.State != ledger.Pending || m.Status.Holder == ledger.Live
		})
		report.Left += n - int64(len(batch))
		if r.DryRun || len(batch) == 0 {
			return nil
		}
		done, err := write(ctx, batch)
		if err != nil {
			return fmt.Errorf("after %d parked messages: %w", report.Changed, err)
		}
		report.Changed, report.Left = report.Changed+done, report.Left+int64(len(batch))-done
		if r.Progress != nil {
			r.Progress(report)
		}
		return nil
	})
	return report, err
}

// ParkedRecord is the audit row of what happens to a parked message.
func ParkedRecord(m *ledger.ParkedMessage, r *ledger.ParkedRequest) ledger.AuditRecord {
	return ledger.AuditRecord{By: r.By, Action: r.Action, Key: m.Key, State: m.Status.State, Token: m.Status.Token, Delivery: m.Delivery}
}
