package dynamodb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
	"github.com/ackledger/ackledger/ledger/driver/items"
)

// Tx collects what a handler wants written together with its message's success. It is used by one goroutine, until the
// function that it was handed to returns.
type Tx struct{ items []types.TransactWriteItem }

// Add adds writes and checks of any tables of the account and region. They are carried out when the function has returned.
// With the messages' own they are at most 100: 98 beside one message, its row, and the log of one that is held in a range. So the handler of
// a batch that adds one for each message takes 49 messages (the size of consumer.Batch).
func (t *Tx) Add(items ...types.TransactWriteItem) { t.items = append(t.items, items...) }

// ConditionError says that DynamoDB did not carry out a transaction because of an item of the handler's: its condition was not
// met, or it cannot be written. Nothing of the transaction was written.
type ConditionError struct {
	Index  int    // of the item, in the order of [Tx.Add]
	Code   string // such as ConditionalCheckFailed or ValidationError
	Reason string
	Item   map[string]types.AttributeValue // what stands there, if the item asks for it by ReturnValuesOnConditionCheckFailure
	err    error
}

// Error names the item and the reason.
func (e *ConditionError) Error() string {
	return fmt.Sprintf("ledger/dynamodb: InTx: item %d of the handler's: %s: %s", e.Index, e.Code, e.Reason)
}

// Unwrap returns the service's error.
func (e *ConditionError) Unwrap() error { return e.err }

// settleLimit bounds how long a commit goes on after its context has ended, and then how long its outcome is looked for.
const settleLimit = 10 * time.Second

// InTx runs fn, and writes what it has added together with the message's success in one TransactWriteItems: both or
// neither. It is called once, by a handler, with the handler's context; the handler returns its error. In a batch handler it is
// the success of all messages of the batch.
//
// The request carries a token, so that a repetition within ten minutes is carried out once. If its answer does not come, the
// messages are written anew as they are: a request that is still on its way finds another version then, and changes nothing.
// https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html
//
// Messages of one log that are held in a range share an item, so their commits go one after the other. A Kafka worker whose
// handlers use InTx is faster with AuditRows.
//
// Errors: [ledger.ErrNoAttempt] outside of a handler; [ledger.ErrSettled] on a second call in one attempt, or once its
// handler has returned; [ledger.ErrLost] if the message is not this owner's any more (nothing is written); a [*ConditionError]
// if a condition of the handler's was not met; [ErrTooLarge] if there are more than 100 items, which says how many are whose;
// one for which [ledger.Unavailable] is true if the table throttled or did not answer; one for which [ledger.Unknown] is true
// if it could not be found out what became of the request; and whatever fn returns, with nothing written.
func InTx(ctx context.Context, fn func(ctx context.Context, tx *Tx) error) error {
	f, s, err := driver.Begin[*store](ctx)
	if err != nil {
		return err
	}
	return f.Run(ctx, settleLimit, func() (ledger.AttemptState, error) {
		var in Tx
		if err := fn(ctx, &in); err != nil {
			return ledger.AttemptOpen, err
		}
		if err := f.Commits(); err != nil {
			return ledger.AttemptOpen, err
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleLimit)
		defer cancel()
		return s.commitTx(ctx, f, in.items)
	})
}

// commitTx writes the handler's items with the successes of its messages, as often as others change these first.
func (s *store) commitTx(ctx context.Context, f *driver.Fence, more []types.TransactWriteItem) (ledger.AttemptState, error) {
	for n := 0; ; n++ {
		set, err := s.Fenced(ctx, f, n > 0)
		switch {
		case ledger.IsLost(err) && n == 0:
			continue // by what this process remembers: it is read
		case ledger.IsLost(err):
			return ledger.AttemptLost, fmt.Errorf("ledger/dynamodb: InTx: %w", err)
		case err != nil:
			return ledger.AttemptOpen, ledger.MarkUnavailable(fmt.Errorf("ledger/dynamodb: InTx: the fence: %w", err))
		}
		if own := len(set.Changes); own+len(more) > transactMost {
			return ledger.AttemptOpen, fmt.Errorf("ledger/dynamodb: InTx: %w: a transaction of %d items, at most %d: %d of the ledger's, for the handler's messages, "+
				"and %d of Tx.Add: add fewer, or set a smaller size of consumer.Batch", ErrTooLarge, own+len(more), transactMost, own, len(more))
		}
		switch err := s.table.transact(ctx, set, more); {
		case ledger.Unknown(err):
			return ledger.AttemptUnknown, txError(errors.Unwrap(err), len(set.Changes)) // what became of it is found out next
		case err != nil:
			return ledger.AttemptOpen, txError(err, len(set.Changes))
		case set.Written:
			s.Remember(set)
			f.Committed()
			return ledger.AttemptSucceeded, nil
		}
		if why := items.Rest(ctx, min(n, 6)); why != nil {
			return ledger.AttemptOpen, ledger.MarkUnavailable(busy(why, errConflict))
		}
	}
}

// txError is how the error of a transaction reads in which nothing was written. own are the ledger's items, which come first.
func txError(err error, own int) error {
	canceled, is := errors.AsType[*canceledError](err)
	if !is {
		if driver.Busy(err) {
			return ledger.MarkUnavailable(fmt.Errorf("ledger/dynamodb: InTx: %w", err))
		}
		return fmt.Errorf("ledger/dynamodb: InTx: %w", err)
	}
	for i, r := range canceled.CancellationReasons {
		if c := aws.ToString(r.Code); i >= own && c != codeNone && c != "" && !throttled[c] {
			return &ConditionError{Index: i - own, Code: c, Reason: aws.ToString(r.Message), Item: r.Item, err: err}
		}
	}
	return fmt.Errorf("ledger/dynamodb: InTx: %w", err)
}
