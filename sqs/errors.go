package sqs

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// kind is what an error of the service means to a worker.
type kind uint8

const (
	kindTransient kind = iota // try again after a while
	kindThrottled             // the same; we ask too often
	kindOverLimit             // too many messages in flight: backpressure
	kindHandle                // the receipt handle is of no use any more
	kindHopeless              // somebody has to mend a setting or a right
)

// final says that the same call fails again, whenever it is made.
func (k kind) final() bool { return k == kindHopeless || k == kindHandle }

// codes are the error codes that mean something else than "somebody has to mend it", without the prefix and the suffix
// that some of the service's answers add: a single call's OverLimit is a batch entry's AWS.SimpleQueueService.OverLimit,
// and its RequestThrottled may be a ThrottlingException (API reference, "Common errors" and each action's errors).
var codes = map[string]kind{
	"RequestThrottled": kindThrottled, "Throttling": kindThrottled, "Throttled": kindThrottled, "TooManyRequests": kindThrottled,
	"RequestLimitExceeded": kindThrottled, "SlowDown": kindThrottled, "KmsThrottled": kindThrottled, "KMS.Throttling": kindThrottled,
	"OverLimit": kindOverLimit,

	"ReceiptHandleIsInvalid": kindHandle, "MessageNotInflight": kindHandle, "InvalidParameterValue": kindHandle,

	"InternalError": kindTransient, "InternalFailure": kindTransient, "ServiceUnavailable": kindTransient,
	"RequestTimeout": kindTransient, "RequestExpired": kindTransient, "ExpiredToken": kindTransient, // credentials are renewed
	"RequestTimeTooSkewed": kindTransient, "RequestCanceled": kindTransient,
	"IDPCommunicationError": kindTransient, // of STS, which says itself that it may pass
}

// kindOfCode reads an error code, of a whole call or of an entry of a batch.
func kindOfCode(code string) (k kind, known bool) {
	code = strings.TrimPrefix(code, "AWS.SimpleQueueService.")
	k, known = codes[strings.TrimSuffix(code, "Exception")]
	return k, known
}

// isAnswer says whether an error is an answer of SQS's, or one of the client's own, or of what it gets credentials from.
func isAnswer(err error) bool {
	_, answered := errors.AsType[smithy.APIError](err)
	_, http := errors.AsType[*smithyhttp.ResponseError](err)
	call, isCall := errors.AsType[*smithy.OperationError](err)
	if isCall {
		_, isCall = errors.AsType[*smithy.OperationError](call.Err) // another service was asked for credentials
	}
	return answered && http && !isCall
}

// kindOf reads the error of a whole call.
func kindOf(err error) kind {
	api, isAPI := errors.AsType[smithy.APIError](err)
	if isAPI {
		if k, known := kindOfCode(api.ErrorCode()); known {
			return k
		}
	}
	if resp, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		switch code := resp.HTTPStatusCode(); {
		case code == http.StatusTooManyRequests:
			return kindThrottled
		case code >= http.StatusInternalServerError:
			return kindTransient
		}
	}
	_, isNet := errors.AsType[net.Error](err)
	_, isSend := errors.AsType[*smithyhttp.RequestSendError](err)
	if isNet || isSend || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		retry.IsErrorRetryables(retry.DefaultRetryables).IsErrorRetryable(err) == aws.TrueTernary {
		return kindTransient
	}
	if !isAPI {
		if _, ok := errors.AsType[*smithy.DeserializationError](err); ok {
			return kindTransient // an answer that is not SQS's: a proxy's, or a broken connection's
		}
	}
	return kindHopeless
}

// kindOfEntry reads the error of one entry of a batch: what nobody knows is tried again.
func kindOfEntry(code string) kind {
	k, _ := kindOfCode(code)
	return k
}
