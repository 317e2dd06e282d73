package dynamodb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver/items"
)

// atOnce calls do for all of a list, for several at once, and returns all errors.
func atOnce[T any](list []T, do func(T) error) (err error) {
	var mu sync.Mutex
	var running sync.WaitGroup
	room := make(chan struct{}, batchesAtOnce)
	for _, one := range list {
		room <- struct{}{}
		running.Go(func() {
			defer func() { <-room }()
			failed := do(one)
			mu.Lock()
			defer mu.Unlock()
			err = errors.Join(err, failed)
		})
	}
	running.Wait()
	return err
}

// Write implements [items.Table]: single changes in batches, others in transactions, several at once.
func (t *table) Write(ctx context.Context, sets []*items.Set) error {
	var single []*items.Set
	var parts [][]*items.Set
	for _, set := range sets {
		if alone(set) {
			single = append(single, set)
		} else {
			parts = append(parts, []*items.Set{set})
		}
	}
	parts = slices.AppendSeq(parts, slices.Chunk(single, batchMost))
	return atOnce(parts, func(part []*items.Set) error {
		if alone(part[0]) {
			return t.writeBatch(ctx, part)
		}
		return t.transact(ctx, part[0], nil)
	})
}

// alone says whether a set is one write: a check is none, and goes in a transaction.
func alone(set *items.Set) bool { return len(set.Changes) == 1 && !set.Changes[0].Check }

// writeBatch writes changes that have nothing to do with each other.
func (t *table) writeBatch(ctx context.Context, sets []*items.Set) (err error) {
	for n := 0; len(sets) > 0; n++ {
		in := &sdk.BatchExecuteStatementInput{Statements: make([]types.BatchStatementRequest, len(sets))}
		for i, set := range sets {
			in.Statements[i] = t.statement(&set.Changes[0])
		}
		var out *sdk.BatchExecuteStatementOutput
		if err := t.send(ctx, func(ctx context.Context) (err error) {
			out, err = t.db.BatchExecuteStatement(ctx, in, once)
			return err
		}); err != nil {
			return writeError(err)
		}
		if len(out.Responses) != len(sets) {
			return ledger.MarkUnknown(fmt.Errorf("ledger/dynamodb: %d answers to %d statements", len(out.Responses), len(sets)))
		}
		t.clock.heard(out.ResultMetadata)
		var again []*items.Set
		for i, set := range sets {
			switch e := out.Responses[i].Error; {
			case e == nil:
				set.Written = true
			case e.Code == codeCondition || e.Code == codeDuplicate:
				set.Behind, set.Stands = true, fromService(e.Item)
			case throttled[string(e.Code)]:
				again = append(again, set)
			default:
				err = errors.Join(err, fmt.Errorf("writing %x: %w", set.Changes[0].Name.Sort, statementError(e)))
			}
		}
		if sets = again; len(sets) > 0 {
			t.pace.slow()
			if why := items.Rest(ctx, n); why != nil {
				return errors.Join(err, busy(why, ErrThrottled))
			}
		}
	}
	return err
}

// transact writes changes together, at most [transactMost]: all or none. Repeated with its token within ten minutes, a request is carried out once.
// https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html
func (t *table) transact(ctx context.Context, set *items.Set, more []types.TransactWriteItem) error {
	in := &sdk.TransactWriteItemsInput{ClientRequestToken: aws.String(uuid.NewString())}
	for i := range set.Changes {
		in.TransactItems = append(in.TransactItems, t.part(&set.Changes[i]))
	}
	in.TransactItems = append(in.TransactItems, more...)
	var doubt error // of a request without an answer, which may have been carried out
	for n := 0; ; n++ {
		err := t.send(ctx, func(ctx context.Context) error {
			_, err := t.db.TransactWriteItems(ctx, in, once)
			return err
		})
		canceled, is := errors.AsType[*types.TransactionCanceledException](err)
		switch {
		case err == nil:
			set.Written = true
			return nil
		case is && refused(canceled, len(set.Changes)):
			set.Behind = true // nor can a request before it be carried out: an item has another version for good
			return nil
		case is && transient(canceled):
			t.pace.slow()
			err = fmt.Errorf("%w: %w", ErrThrottled, err)
		case is && doubt != nil:
			return ledger.MarkUnknown(&canceledError{canceled}) // one of before may still come, and find what this one did not
		case is:
			return &canceledError{canceled}
		default:
			if err = writeError(err); ledger.Unknown(err) {
				doubt = err
			} else {
				return cmp.Or(doubt, err)
			}
		}
		if why := items.Rest(ctx, n); why != nil {
			if errors.Is(err, ErrThrottled) {
				err = busy(why, err)
			}
			return cmp.Or(doubt, err)
		}
	}
}

// refused says whether the condition of one of the first items was not met.
func refused(e *types.TransactionCanceledException, own int) bool {
	return slices.ContainsFunc(e.CancellationReasons[:min(own, len(e.CancellationReasons))], func(r types.CancellationReason) bool {
		return aws.ToString(r.Code) == codeCondition
	})
}

// transient says whether a transaction that was cancelled may be sent again as it is.
func transient(e *types.TransactionCanceledException) bool {
	again := false
	for _, r := range e.CancellationReasons {
		switch c := aws.ToString(r.Code); {
		case c == codeNone || c == "":
		case throttled[c]:
			again = true
		default:
			return false
		}
	}
	return again
}

// canceledError is a transaction that DynamoDB refused for another reason than the ledger's conditions.
type canceledError struct {
	*types.TransactionCanceledException
}

// Error names the reasons.
func (e *canceledError) Error() string {
	text := "ledger/dynamodb: the transaction was cancelled"
	for i, r := range e.CancellationReasons {
		if c := aws.ToString(r.Code); c != codeNone && c != "" {
			text += fmt.Sprintf("; item %d: %s: %s", i, c, aws.ToString(r.Message))
		}
	}
	return text
}

// Unwrap returns the service's error.
func (e *canceledError) Unwrap() error { return e.TransactionCanceledException }
