package sqs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

func status(code int, err error) error {
	return &smithyhttp.ResponseError{Response: &smithyhttp.Response{Response: &http.Response{StatusCode: code}}, Err: err}
}

func api(code string) error { return &smithy.GenericAPIError{Code: code} }

func TestKindOfErrors(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want kind
	}{
		{api("ThrottlingException"), kindThrottled},
		{&types.RequestThrottled{}, kindThrottled},
		{status(429, errors.New("slow down")), kindThrottled},
		{&types.OverLimit{}, kindOverLimit},
		{api("AWS.SimpleQueueService.OverLimit"), kindOverLimit},
		{&types.ReceiptHandleIsInvalid{}, kindHandle},
		{&types.QueueDoesNotExist{}, kindHopeless},
		{api("AWS.SimpleQueueService.NonExistentQueue"), kindHopeless},
		{status(403, api("AccessDeniedException")), kindHopeless},
		{status(403, api("ExpiredTokenException")), kindTransient},
		{status(403, api("ExpiredToken")), kindTransient},
		{status(400, api("IDPCommunicationError")), kindTransient},
		{status(403, api("SignatureDoesNotMatch")), kindHopeless},
		{status(500, api("InternalError")), kindTransient},
		{status(503, api("SomethingNew")), kindTransient},
		{status(502, &smithy.DeserializationError{Err: errors.New("<html>")}), kindTransient},
		{&smithy.DeserializationError{Err: errors.New("cut")}, kindTransient},
		{&net.OpError{Op: "dial", Err: errors.New("refused")}, kindTransient},
		{&smithyhttp.RequestSendError{Err: errors.New("EOF")}, kindTransient},
		{context.DeadlineExceeded, kindTransient},
		{&smithy.CanceledError{Err: context.Canceled}, kindTransient},
		{errors.New("no region"), kindHopeless},
	} {
		if got := kindOf(fmt.Errorf("receive: %w", tt.err)); got != tt.want {
			t.Errorf("%v: kind %d, want %d", tt.err, got, tt.want)
		}
	}
}

func TestKindOfBatchEntries(t *testing.T) {
	for code, want := range map[string]kind{
		"AWS.SimpleQueueService.OverLimit": kindOverLimit, "OverLimit": kindOverLimit,
		"ThrottlingException": kindThrottled, "RequestThrottled": kindThrottled,
		"AWS.SimpleQueueService.MessageNotInflight": kindHandle, "MessageNotInflight": kindHandle,
		"InvalidParameterValue": kindHandle, "InvalidParameterValueException": kindHandle, "ReceiptHandleIsInvalid": kindHandle,
		"InternalError": kindTransient, "SomethingNew": kindTransient, "": kindTransient,
	} {
		if got := kindOfEntry(code); got != want {
			t.Errorf("%q: kind %d, want %d", code, got, want)
		}
	}
}

func TestAnswersAreOfSQS(t *testing.T) {
	refused := status(403, api("AccessDenied"))
	call := func(service string, err error) error {
		return &smithy.OperationError{ServiceID: service, OperationName: "Do", Err: err}
	}
	for _, tt := range []struct {
		story string
		err   error
		want  bool
	}{
		{"refused", call("SQS", refused), true},
		{"refused by whom credentials are asked of", call("SQS", fmt.Errorf("get identity: %w", call("STS", refused))), false},
		{"an agent's answer", call("SQS", fmt.Errorf("get identity: %w", api(""))), false},
		{"a checksum", call("SQS", errors.New("checksum")), false},
	} {
		if got := isAnswer(fmt.Errorf("receive: %w", tt.err)); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.story, got, tt.want)
		}
	}
}
