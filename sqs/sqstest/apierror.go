package sqstest

import (
	"fmt"
	"net/http"
	"strings"
)

// Error codes for [Fault.Code], as SQS names them. Any other code may be used.
const (
	CodeThrottled   = "ThrottlingException"   // 400, what SQS answers when an account is over its rate
	CodeOverLimit   = "OverLimit"             // 403, too many messages in flight
	CodeInternal    = "InternalError"         // 500
	CodeUnavailable = "ServiceUnavailable"    // 503
	CodeExpired     = "InvalidParameterValue" // 400, what a FIFO queue answers to an expired receipt handle
)

// apiError is an error as the service answers it. Codes are the query names
// ("AWS.SimpleQueueService.NonExistentQueue"): they go into the
// x-amzn-query-error header and into the entries of batch answers; shape is the
// JSON protocol's name for the same.
type apiError struct {
	status  int
	shape   string
	code    string
	message string
}

func (e *apiError) Error() string { return e.code + ": " + e.message }

func (e *apiError) fault() string {
	if e.status >= http.StatusInternalServerError {
		return "Receiver"
	}
	return "Sender"
}

const (
	legacy = "AWS.SimpleQueueService."
	model  = "com.amazonaws.sqs#"
	coral  = "com.amazon.coral.service#"
)

// known holds shape and HTTP status of the codes that the service's own model
// lists; everything else is a generic client error.
var known = map[string]struct {
	shape  string
	status int
}{
	legacy + "NonExistentQueue":             {model + "QueueDoesNotExist", 400},
	legacy + "BatchEntryIdsNotDistinct":     {model + "BatchEntryIdsNotDistinct", 400},
	legacy + "BatchRequestTooLong":          {model + "BatchRequestTooLong", 400},
	legacy + "EmptyBatchRequest":            {model + "EmptyBatchRequest", 400},
	legacy + "InvalidBatchEntryId":          {model + "InvalidBatchEntryId", 400},
	legacy + "TooManyEntriesInBatchRequest": {model + "TooManyEntriesInBatchRequest", 400},
	legacy + "MessageNotInflight":           {model + "MessageNotInflight", 400},
	legacy + "UnsupportedOperation":         {model + "UnsupportedOperation", 400},
	"QueueAlreadyExists":                    {model + "QueueNameExists", 400},
	"InvalidAttributeName":                  {model + "InvalidAttributeName", 400},
	"InvalidAttributeValue":                 {model + "InvalidAttributeValue", 400},
	"InvalidMessageContents":                {model + "InvalidMessageContents", 400},
	"ReceiptHandleIsInvalid":                {model + "ReceiptHandleIsInvalid", 404},
	"ResourceNotFoundException":             {model + "ResourceNotFoundException", 404},
	"RequestThrottled":                      {model + "RequestThrottled", 403},
	CodeOverLimit:                           {model + "OverLimit", 403},
	CodeThrottled:                           {coral + "ThrottlingException", 400},
	CodeInternal:                            {coral + "InternalFailure", 500},
	CodeUnavailable:                         {coral + "ServiceUnavailableException", 503},
	"InvalidParameterValue":                 {coral + "InvalidParameterValueException", 400},
	"MissingParameter":                      {coral + "MissingRequiredParameterException", 400},
	"InvalidAction":                         {coral + "UnknownOperationException", 404},
	"SerializationException":                {coral + "SerializationException", 400},
}

// fail builds an apiError of a code with a message in Printf form.
func fail(code, format string, args ...any) *apiError {
	k, ok := known[code]
	if !ok {
		k.shape, k.status = coral+strings.TrimPrefix(code, legacy), http.StatusBadRequest
	}
	return &apiError{status: k.status, shape: k.shape, code: code, message: fmt.Sprintf(format, args...)}
}

func errNoQueue(name string) *apiError {
	return fail(legacy+"NonExistentQueue", "The specified queue does not exist: %q.", name)
}

func errMissing(parameter string) *apiError {
	return fail("MissingParameter", "The request must contain the parameter %s.", parameter)
}

func errValue(parameter string, value any, reason string) *apiError {
	return fail("InvalidParameterValue", "Value %v for parameter %s is invalid. Reason: %s", value, parameter, reason)
}

func errAttribute(name, value, reason string) *apiError {
	return fail("InvalidAttributeValue", "Invalid value %q for the attribute %s: %s.", value, name, reason)
}

func errExpired(handle string) *apiError {
	return errValue("ReceiptHandle", handle, "The receipt handle has expired.")
}

func errHandle(handle string) *apiError {
	return fail("ReceiptHandleIsInvalid", "The input receipt handle %q is not a valid receipt handle.", handle)
}
