package sqs_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/sqs/sqstest"
)

// server is what answers.
type server string

const (
	inProcess server = "sqstest"
	elasticMQ server = "ElasticMQ"
	realAWS   server = "AWS"
	other     server = "another server" // named in ACKLEDGER_TEST_SQS; held to what AWS documents
)

// behaviour is one case.
type behaviour struct {
	name string
	aws  string // what AWS documents, and where
	// differs says, for each server that does something else, what it does.
	differs map[server]string
	run     func(e *env)
}

// env is a case on one server.
type env struct {
	*testing.T
	server  server
	client  *sqs.Client
	differs bool                 // this server is named in the case's differs
	polls   func(url string) int // how many are open; nil: this server does not tell
}

// connect returns a client of the server that the environment names, ElasticMQ
// by default, and finds out which it is: ElasticMQ's ARNs carry its name.
func connect(t *testing.T) (*sqs.Client, server) {
	t.Helper()
	endpoint := services.SQS(t)
	if endpoint == services.AWS {
		c, err := config.LoadDefaultConfig(t.Context())
		if err != nil {
			t.Fatalf("ACKLEDGER_TEST_SQS=aws: %v", err)
		}
		return sqs.NewFromConfig(c), realAWS
	}
	client := sqs.New(sqs.Options{
		BaseEndpoint: &endpoint, Region: "us-east-1", Retryer: aws.NopRetryer{},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
		}),
	})
	e := &env{T: t, client: client}
	if strings.Contains(e.arn(e.queue("")), ":elasticmq:") {
		return client, elasticMQ
	}
	return client, other
}

func runAll(t *testing.T, on server, client *sqs.Client, polls func(url string) int) {
	t.Helper()
	for _, c := range behaviours() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			does, differs := c.differs[on]
			t.Logf("AWS: %s", c.aws)
			if differs {
				t.Logf("%s differs: %s", on, does)
			}
			c.run(&env{T: t, server: on, client: client, differs: differs, polls: polls})
		})
	}
}

func TestBehaviourOfSQSTest(t *testing.T) {
	t.Parallel()
	srv, err := sqstest.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	polls := func(url string) int { return srv.Counts(path.Base(url)).Polls }
	runAll(t, inProcess, srv.Client(func(o *sqs.Options) { o.Retryer = aws.NopRetryer{} }), polls)
}

func TestBehaviourOfTheNamedServer(t *testing.T) {
	t.Parallel()
	client, which := connect(t)
	t.Logf("the server is %s", which)
	runAll(t, which, client, nil)
}

// polled waits until a poll is open; where the server does not tell, for so long that it should be.
func (e *env) polled(ctx context.Context, url string) {
	for end := time.Now().Add(500 * time.Millisecond); ctx.Err() == nil; time.Sleep(5 * time.Millisecond) { // a condition's poll interval
		if e.polls != nil && e.polls(url) > 0 || e.polls == nil && time.Now().After(end) {
			return
		}
	}
}

func (e *env) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// queue creates a queue that is deleted with the test; kind is "" or ".fifo",
// attributes are names and values in turn.
func (e *env) queue(kind string, attributes ...string) string {
	e.Helper()
	set := map[string]string{}
	if kind == ".fifo" {
		set["FifoQueue"] = "true"
	}
	for i := 0; i+1 < len(attributes); i += 2 {
		set[attributes[i]] = attributes[i+1]
	}
	out, err := e.client.CreateQueue(e.Context(), &sqs.CreateQueueInput{QueueName: aws.String(services.Name(e) + kind), Attributes: set})
	e.must(err)
	e.Cleanup(func() {
		if _, err := e.client.DeleteQueue(context.Background(), &sqs.DeleteQueueInput{QueueUrl: out.QueueUrl}); err != nil {
			e.Errorf("delete the test's queue: %v", err)
		}
	})
	return *out.QueueUrl
}

func (e *env) arn(url string) string {
	e.Helper()
	out, err := e.client.GetQueueAttributes(e.Context(), &sqs.GetQueueAttributesInput{
		QueueUrl: &url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameQueueArn},
	})
	e.must(err)
	return out.Attributes["QueueArn"]
}

// pair is a queue and its dead-letter queue.
func (e *env) pair(kind string, maxReceives int) (url, dead string) {
	e.Helper()
	dead = e.queue(kind)
	policy := fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":"%d"}`, e.arn(dead), maxReceives)
	return e.queue(kind, "RedrivePolicy", policy), dead
}

func (e *env) trySend(url, body string, options ...func(*sqs.SendMessageInput)) (*sqs.SendMessageOutput, error) {
	in := &sqs.SendMessageInput{QueueUrl: &url, MessageBody: &body}
	for _, o := range options {
		o(in)
	}
	return e.client.SendMessage(e.Context(), in)
}

func (e *env) send(url, body string, options ...func(*sqs.SendMessageInput)) *sqs.SendMessageOutput {
	e.Helper()
	out, err := e.trySend(url, body, options...)
	e.must(err)
	return out
}

func inGroup(group, dedup string) func(*sqs.SendMessageInput) {
	return func(in *sqs.SendMessageInput) {
		in.MessageGroupId = &group
		if dedup != "" {
			in.MessageDeduplicationId = &dedup
		}
	}
}

// receive is one poll of up to wait seconds for up to ten messages.
func (e *env) receive(url string, wait int32, options ...func(*sqs.ReceiveMessageInput)) []types.Message {
	e.Helper()
	in := &sqs.ReceiveMessageInput{
		QueueUrl: &url, MaxNumberOfMessages: 10, WaitTimeSeconds: wait, MessageAttributeNames: []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
	}
	for _, o := range options {
		o(in)
	}
	out, err := e.client.ReceiveMessage(e.Context(), in)
	e.must(err)
	return out.Messages
}

// take polls until it has n messages, at most 30 s.
func (e *env) take(url string, n int, options ...func(*sqs.ReceiveMessageInput)) []types.Message {
	e.Helper()
	var got []types.Message
	for deadline := time.Now().Add(30 * time.Second); len(got) < n && time.Now().Before(deadline); {
		got = append(got, e.receive(url, 5, options...)...)
	}
	if len(got) != n {
		e.Fatalf("received %d messages %q, want %d", len(got), bodies(got), n)
	}
	return got
}

// nothing wants a poll of a second to end empty.
func (e *env) nothing(url, why string) {
	e.Helper()
	if got := e.receive(url, 1); len(got) != 0 {
		e.Fatalf("%s: received %q, want nothing", why, bodies(got))
	}
}

// hidden sets the visibility timeout of a receive, in seconds (0 is not sent).
func hidden(seconds int32) func(*sqs.ReceiveMessageInput) {
	return func(in *sqs.ReceiveMessageInput) { in.VisibilityTimeout = seconds }
}

func (e *env) delete(url string, m types.Message) error {
	_, err := e.client.DeleteMessage(e.Context(), &sqs.DeleteMessageInput{QueueUrl: &url, ReceiptHandle: m.ReceiptHandle})
	return err
}

func (e *env) change(url string, m types.Message, seconds int32) error {
	_, err := e.client.ChangeMessageVisibility(e.Context(), &sqs.ChangeMessageVisibilityInput{
		QueueUrl: &url, ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: seconds,
	})
	return err
}

// code wants an error of the service under this code. ElasticMQ names some errors
// as the JSON protocol does where AWS answers the query protocol's name
// (developer guide, "Interpreting Amazon SQS JSON API responses").
func (e *env) code(err error, want string) {
	e.Helper()
	var api smithy.APIError
	if !errors.As(err, &api) {
		e.Fatalf("got %v, want the service's error %s", err, want)
	}
	got := strings.TrimPrefix(api.ErrorCode(), "AWS.SimpleQueueService.")
	if e.server == elasticMQ {
		if got = strings.TrimPrefix(got, "com.amazonaws.sqs#"); got == "QueueDoesNotExist" {
			got = "NonExistentQueue"
		}
	}
	if got != want {
		e.Fatalf("got code %q (%s), want %q", got, api.ErrorMessage(), want)
	}
}

// refused wants the error that AWS documents, or, of a server that differs, the
// code it has instead; an empty one means that it accepts the request.
func (e *env) refused(err error, documented, instead string) {
	e.Helper()
	switch {
	case !e.differs:
		e.code(err, documented)
	case instead == "":
		e.must(err)
	default:
		e.code(err, instead)
	}
}

func (e *env) equal(what, got, want string) {
	e.Helper()
	if got != want {
		e.Fatalf("%s: got %q, want %q", what, got, want)
	}
}

func bodies(messages []types.Message) (out []string) {
	for _, m := range messages {
		out = append(out, aws.ToString(m.Body))
	}
	return out
}

// moment is a timestamp attribute in milliseconds.
func (e *env) moment(m types.Message, name string) time.Time {
	e.Helper()
	n, err := strconv.ParseInt(m.Attributes[name], 10, 64)
	if err != nil {
		e.Fatalf("attribute %s: %v", name, err)
	}
	return time.UnixMilli(n)
}
