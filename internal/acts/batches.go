package acts

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// batchSize is how many messages one transaction of Reopen or Purge writes.
const batchSize = 500

// Reopen is a store's Reopen: it calls write for the messages that list has, batch by batch. list is of messages that
// match the request's filter, succeeded, and were first claimed before began; write makes those of a batch pending that
// still are as they were listed, with their audit, in one transaction, and returns how many.
func Reopen(ctx context.Context, r ledger.ReopenRequest, began time.Time, list iter.Seq2[ledger.Listed, error],
	write func(context.Context, []ledger.Listed) (int64, error),
) (ledger.ReopenReport, error) {
	report := ledger.ReopenReport{Began: began}
	err := inBatches(ctx, list, func(batch []ledger.Listed) error {
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

// Purge is a store's Purge: it calls write for the dead letters that list has and whose message is not pending, batch by
// batch. write empties those of a batch whose message still is as it was listed, with their audit, in one transaction, and
// returns how many.
func Purge(ctx context.Context, r ledger.PurgeRequest, list iter.Seq2[ledger.DeadLetter, error],
	write func(context.Context, []ledger.DeadLetter) (int64, error),
) (ledger.PurgeReport, error) {
	var report ledger.PurgeReport
	err := inBatches(ctx, list, func(batch []ledger.DeadLetter) error {
		n := int64(len(batch))
		report.Matched, report.Last = report.Matched+n, batch[n-1].At // the oldest come first
		batch = slices.DeleteFunc(batch, func(d ledger.DeadLetter) bool { return d.Status.State == ledger.Pending })
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

// inBatches calls fn with what list has. fn may change the slice, and not keep it.
func inBatches[T any](ctx context.Context, list iter.Seq2[T, error], fn func([]T) error) error {
	batch := make([]T, 0, batchSize)
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		err := fn(batch)
		batch = make([]T, 0, batchSize)
		return err
	}
	for item, err := range list {
		if err != nil {
			return err
		}
		if batch = append(batch, item); len(batch) == batchSize {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}
