package dynamodb

import (
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
	"github.com/ackledger/ackledger/ledger/driver/items"
)

// ErrTooLarge is in the error of a write that DynamoDB cannot hold: an item is larger than 400 KB, or a transaction has more
// than 100 items. Nothing was written.
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ServiceQuotas.html
var ErrTooLarge = items.ErrTooLarge

// ErrThrottled is in the error of a call that was throttled for all of its time, and of one settlement of several that was throttled for
// a second. Nothing was written: it is backpressure, no outage, and the workers ask again.
var ErrThrottled = errors.New("ledger/dynamodb: throttled")

// The codes of errors that say what to do.
const (
	codeCondition = "ConditionalCheckFailed"
	codeDuplicate = "DuplicateItem"
	codeNone      = "None"
)

// throttled are the codes of what was not carried out and is to be sent again after a rest.
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.Errors.html
var throttled = map[string]bool{
	"ProvisionedThroughputExceeded": true, "ProvisionedThroughputExceededException": true, "ThrottlingError": true,
	"ThrottlingException": true, "RequestLimitExceeded": true, "TransactionConflict": true, "TransactionConflictException": true,
	"TransactionInProgressException": true,
}

// unusable are the codes of what no waiting mends.
var unusable = map[string]bool{
	"ResourceNotFoundException": true, "AccessDeniedException": true, "UnrecognizedClientException": true,
	"InvalidSignatureException": true, "MissingAuthenticationTokenException": true, "IncompleteSignatureException": true,
	"ResourceNotFound": true, "AccessDenied": true, "InvalidClientTokenId": true,
}

// refusing are the codes of requests that the service does not take, however often they are sent: of another table, or of a
// dialect that it does not speak.
var refusing = map[string]bool{"ValidationException": true, "ValidationError": true}

// code is the service's code of an error; empty: it is not the service's.
func code(err error) string {
	if e, ok := errors.AsType[smithy.APIError](err); ok {
		return e.ErrorCode()
	}
	return ""
}

// readError is how an error of a read reads.
func readError(err error) error {
	switch c := code(err); {
	case unusable[c]:
		return ledger.MarkUnusable(err)
	case refusing[c]:
		return ledger.MarkRefused(err)
	}
	return err
}

// writeError is how an error of a write reads: what the service refused by name was not carried out; of anything else
// nobody knows.
func writeError(err error) error {
	switch c := code(err); {
	case err == nil || errors.Is(err, ErrThrottled):
		return err
	case errors.As(err, new(unsent)):
		return err
	case unusable[c]:
		return ledger.MarkUnusable(err)
	case refusing[c]:
		return ledger.MarkRefused(err)
	case c == "ItemCollectionSizeLimitExceededException":
		return err
	}
	return ledger.MarkUnknown(err)
}

// statementError is the error of one statement of a batch; nil: it was carried out.
func statementError(e *types.BatchStatementError) error {
	if e == nil {
		return nil
	}
	message := ""
	if e.Message != nil {
		message = *e.Message
	}
	return writeError(&smithy.GenericAPIError{Code: string(e.Code), Message: message})
}

// busy is the error of what was tried until its time was over, which is why it is not tried again.
func busy(why, what error) error {
	return driver.MarkBusy(fmt.Errorf("%w until its time was over (%w)", what, why))
}

// unsent is the error of a request that was not sent.
type unsent struct{ error }

// notSent says that a request's time was over before it was its turn.
func notSent(err error) error { return unsent{fmt.Errorf("ledger/dynamodb: not sent: %w", err)} }

// Unwrap returns the context's error.
func (e unsent) Unwrap() error { return e.error }

// errConflict says that others were ahead each time.
var errConflict = errors.New("ledger/dynamodb: others changed the same messages first")
