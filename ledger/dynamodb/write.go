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

// writeAll writes single changes in batches, and others in transactions. It returns those that others were ahead of.
func (s *store) writeAll(ctx context.Context, single, whole []*unit) (lost []*unit, err error) {
	parts := slices.Collect(slices.Chunk(single, batchMost))
	for _, u := range whole {
		parts = append(parts, []*unit{u})
	}
	var mu sync.Mutex
	err = atOnce(parts, func(part []*unit) error {
		behind, err := s.commit(ctx, part)
		mu.Lock()
		defer mu.Unlock()
		lost = append(lost, behind...)
		return err
	})
	return lost, err
}

// commit writes transactions of one change each in a batch, or one of several changes.
func (s *store) commit(ctx context.Context, units []*unit) (lost []*unit, err error) {
	if len(units[0].changes) == 1 {
		return s.writeBatch(ctx, units)
	}
	if conflict, err := s.transact(ctx, units[0], nil); !conflict || err != nil {
		return nil, err
	}
	return units, nil
}

// writeBatch writes changes that have nothing to do with each other.
func (s *store) writeBatch(ctx context.Context, units []*unit) (lost []*unit, err error) {
	for n := 0; len(units) > 0; n++ {
		in := &sdk.BatchExecuteStatementInput{Statements: make([]types.BatchStatementRequest, len(units))}
		for i, u := range units {
			in.Statements[i] = u.changes[0].statement(s.table)
		}
		var out *sdk.BatchExecuteStatementOutput
		if err := s.send(ctx, func(ctx context.Context) (err error) {
			out, err = s.db.BatchExecuteStatement(ctx, in, once)
			return err
		}); err != nil {
			return lost, writeError(err)
		}
		if len(out.Responses) != len(units) {
			return lost, ledger.MarkUnknown(fmt.Errorf("ledger/dynamodb: %d answers to %d statements", len(out.Responses), len(units)))
		}
		s.clock.heard(out.ResultMetadata)
		var again []*unit
		for i, u := range units {
			switch e := out.Responses[i].Error; {
			case e == nil:
				s.written(u)
			case e.Code == codeCondition || e.Code == codeDuplicate:
				u.old = e.Item
				lost = append(lost, u)
			case throttled[string(e.Code)]:
				again = append(again, u)
			default:
				err = errors.Join(err, fmt.Errorf("writing %x: %w", u.changes[0].name.sort, statementError(e)))
			}
		}
		if units = again; len(units) > 0 {
			s.pace.slow()
			if rest(ctx, n) != nil {
				return lost, errors.Join(err, busy(ctx, ErrThrottled))
			}
		}
	}
	return lost, err
}

// transact writes changes together: all or none. Repeated with its token within ten minutes, a request is carried out once.
// https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html
func (s *store) transact(ctx context.Context, u *unit, more []types.TransactWriteItem) (conflict bool, err error) {
	if n := len(u.changes) + len(more); n > transactMost {
		return false, fmt.Errorf("%w: a transaction of %d items, at most %d", ErrTooLarge, n, transactMost)
	}
	in := &sdk.TransactWriteItemsInput{ClientRequestToken: aws.String(uuid.NewString())}
	for _, c := range u.changes {
		in.TransactItems = append(in.TransactItems, c.part(s.table))
	}
	in.TransactItems = append(in.TransactItems, more...)
	var doubt error // of a request without an answer, which may have been carried out
	for n := 0; ; n++ {
		err := s.send(ctx, func(ctx context.Context) error {
			_, err := s.db.TransactWriteItems(ctx, in, once)
			return err
		})
		canceled, is := errors.AsType[*types.TransactionCanceledException](err)
		switch {
		case err == nil:
			s.written(u)
			return false, nil
		case is && refused(canceled, len(u.changes)):
			return true, nil // nor can a request before it be carried out: an item has another version for good
		case is && transient(canceled):
			s.pace.slow()
			err = fmt.Errorf("%w: %w", ErrThrottled, err)
		case is:
			return false, &canceledError{canceled}
		default:
			if err = writeError(err); ledger.Unknown(err) {
				doubt = err
			} else {
				return false, cmp.Or(doubt, err)
			}
		}
		if rest(ctx, n) != nil {
			if errors.Is(err, ErrThrottled) {
				err = busy(ctx, err)
			}
			return false, cmp.Or(doubt, err)
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
