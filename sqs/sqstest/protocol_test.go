package sqstest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/ackledger/ackledger/sqs/sqstest"
)

// raw posts a body as it is and returns status, x-amzn-query-error and __type.
func (b *bench) raw(target, body string) (status int, query, shape string) {
	b.Helper()
	request, err := http.NewRequestWithContext(b.Context(), http.MethodPost, b.srv.URL, strings.NewReader(body))
	b.must(err)
	request.Header.Set("X-Amz-Target", target)
	response, err := http.DefaultClient.Do(request)
	b.must(err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	b.must(err)
	var answer struct {
		Type string `json:"__type"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		b.Fatalf("the answer is not JSON: %q", text)
	}
	return response.StatusCode, response.Header.Get("x-amzn-query-error"), answer.Type
}

func TestHostileRequests(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	b.queue("q")
	deep := `{"QueueUrl":` + strings.Repeat("[", 100_000)
	for _, c := range []struct {
		target, body string
		status       int
		query, shape string
	}{
		{"", "{}", 404, "InvalidAction;Sender", "com.amazon.coral.service#UnknownOperationException"},
		{"AmazonSQS.Nonsense", "{}", 404, "InvalidAction;Sender", "com.amazon.coral.service#UnknownOperationException"},
		{"Other.SendMessage", "{}", 404, "InvalidAction;Sender", "com.amazon.coral.service#UnknownOperationException"},
		{"AmazonSQS.SendMessage", "", 400, "SerializationException;Sender", "com.amazon.coral.service#SerializationException"},
		{"AmazonSQS.SendMessage", "{", 400, "SerializationException;Sender", "com.amazon.coral.service#SerializationException"},
		{"AmazonSQS.SendMessage", "\xff", 400, "SerializationException;Sender", "com.amazon.coral.service#SerializationException"},
		{"AmazonSQS.SendMessage", deep, 400, "SerializationException;Sender", "com.amazon.coral.service#SerializationException"},
		{"AmazonSQS.SendMessage", `{"QueueUrl":7}`, 400, "SerializationException;Sender", "com.amazon.coral.service#SerializationException"},
		{"AmazonSQS.SendMessage", `{"MessageBody":"x"}`, 400, "MissingParameter;Sender", "com.amazon.coral.service#MissingRequiredParameterException"},
		{"AmazonSQS.SendMessage", `{"QueueUrl":"/q","MessageBody":null}`, 400, "MissingParameter;Sender", "com.amazon.coral.service#MissingRequiredParameterException"},
		{"AmazonSQS.ReceiveMessage", `{"QueueUrl":"nowhere"}`, 400, "AWS.SimpleQueueService.NonExistentQueue;Sender", "com.amazonaws.sqs#QueueDoesNotExist"},
		{"AmazonSQS.DeleteMessage", `{"QueueUrl":"/q"}`, 400, "MissingParameter;Sender", "com.amazon.coral.service#MissingRequiredParameterException"},
		{"AmazonSQS.ChangeMessageVisibility", `{"QueueUrl":"/q","ReceiptHandle":"x"}`, 400, "MissingParameter;Sender", "com.amazon.coral.service#MissingRequiredParameterException"},
		{"AmazonSQS.ChangeMessageVisibility", `{"QueueUrl":"/q","ReceiptHandle":"x","VisibilityTimeout":9223372036854775807}`, 400, "InvalidParameterValue;Sender", "com.amazon.coral.service#InvalidParameterValueException"},
		{"AmazonSQS.ReceiveMessage", `{"QueueUrl":"/q","VisibilityTimeout":-9223372036854775807}`, 400, "InvalidParameterValue;Sender", "com.amazon.coral.service#InvalidParameterValueException"},
		{"AmazonSQS.StartMessageMoveTask", `{}`, 400, "MissingParameter;Sender", "com.amazon.coral.service#MissingRequiredParameterException"},
		{"AmazonSQS.CreateQueue", `{}`, 400, "MissingParameter;Sender", "com.amazon.coral.service#MissingRequiredParameterException"},
		{"AmazonSQS.SendMessage", `"` + strings.Repeat("x", 9<<20), 400, "AWS.SimpleQueueService.BatchRequestTooLong;Sender", "com.amazonaws.sqs#BatchRequestTooLong"},
	} {
		status, query, shape := b.raw(c.target, c.body)
		if status != c.status || query != c.query || shape != c.shape {
			t.Errorf("%s %.40q: got %d %q %q, want %d %q %q", c.target, c.body, status, query, shape, c.status, c.query, c.shape)
		}
	}
	response, err := http.Get(b.srv.URL)
	b.must(err)
	response.Body.Close()
	b.same("GET", response.StatusCode, 404)
}

func TestBatchRules(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	url := b.queue("q")
	batch := func(body string, ids ...string) error {
		in := &sqs.SendMessageBatchInput{QueueUrl: &url, Entries: []types.SendMessageBatchRequestEntry{}}
		for _, id := range ids {
			in.Entries = append(in.Entries, types.SendMessageBatchRequestEntry{Id: aws.String(id), MessageBody: &body})
		}
		_, err := b.client.SendMessageBatch(t.Context(), in)
		return err
	}
	const legacy = "AWS.SimpleQueueService."
	eleven := strings.Split("0 1 2 3 4 5 6 7 8 9 10", " ")
	b.code(batch("x"), legacy+"EmptyBatchRequest")
	b.code(batch("x", eleven...), legacy+"TooManyEntriesInBatchRequest")
	b.code(batch("x", "a", "b", "a"), legacy+"BatchEntryIdsNotDistinct")
	for _, id := range []string{"", "a b", "a.b", "é", strings.Repeat("x", 81)} {
		b.code(batch("x", id), legacy+"InvalidBatchEntryId")
	}
	half := strings.Repeat("x", 1<<19)
	b.must(batch(half, "a", "b"))
	b.code(batch(half+"x", "a", "b"), legacy+"BatchRequestTooLong")
	b.same("refused as a whole", b.srv.Queue("q").Depth(), 2)

	_, err := b.client.DeleteMessageBatch(t.Context(), &sqs.DeleteMessageBatchInput{QueueUrl: &url, Entries: []types.DeleteMessageBatchRequestEntry{}})
	b.code(err, legacy+"EmptyBatchRequest")
	out, err := b.client.SendMessageBatch(t.Context(), &sqs.SendMessageBatchInput{QueueUrl: &url, Entries: []types.SendMessageBatchRequestEntry{
		{Id: aws.String("good"), MessageBody: aws.String("x")}, {Id: aws.String("bad"), MessageBody: aws.String("\x00")},
	}})
	b.must(err)
	b.same("good", *out.Successful[0].Id, "good")
	b.same("bad", *out.Failed[0].Id+" "+*out.Failed[0].Code, "bad InvalidMessageContents")
}

func TestQueueNamesAndAttributes(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	create := func(name string, attributes map[string]string) error {
		_, err := b.client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
		return err
	}
	for _, name := range []string{"a b", "a/b", "é", strings.Repeat("x", 81), "x.fifo", ".fifo"} {
		b.code(create(name, nil), "InvalidParameterValue")
	}
	b.code(create("q", map[string]string{"FifoQueue": "true"}), "InvalidParameterValue")
	for name, value := range map[string]string{
		"VisibilityTimeout": "43201", "DelaySeconds": "901", "MessageRetentionPeriod": "59", "MaximumMessageSize": "1048577",
		"ReceiveMessageWaitTimeSeconds": "21", "KmsDataKeyReusePeriodSeconds": "59",
	} {
		b.code(create("q", map[string]string{name: value}), "InvalidAttributeValue")
		b.code(create("q", map[string]string{name: ""}), "InvalidAttributeValue")
	}
	b.code(create("q", map[string]string{"Nonsense": "1"}), "InvalidAttributeName")
	b.code(create("q", map[string]string{"ContentBasedDeduplication": "true"}), "InvalidAttributeName")
	b.must(create("q", map[string]string{"DelaySeconds": "1"}))
	b.must(create("q", map[string]string{"DelaySeconds": "1"})) // the same again is the same queue
	b.code(create("q", map[string]string{"DelaySeconds": "2"}), "QueueAlreadyExists")
}

func TestQueueActions(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	url := b.queue("q", "VisibilityTimeout", "33")
	found, err := b.client.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("q")})
	b.must(err)
	b.same("url", found.QueueUrl, url)
	_, err = b.client.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("missing")})
	b.code(err, "AWS.SimpleQueueService.NonExistentQueue")

	b.send(url, "1")
	b.send(url, "2")
	b.receive(url, func(in *sqs.ReceiveMessageInput) { in.MaxNumberOfMessages = 1 })
	attributes := func(names ...types.QueueAttributeName) map[string]string {
		t.Helper()
		out, err := b.client.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: names})
		b.must(err)
		return out.Attributes
	}
	some := attributes("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "QueueArn", "VisibilityTimeout")
	b.same("some", some, map[string]string{
		"ApproximateNumberOfMessages": "1", "ApproximateNumberOfMessagesNotVisible": "1", "QueueArn": arn + "q", "VisibilityTimeout": "33",
	})
	_, err = b.client.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{QueueUrl: &url, Attributes: map[string]string{"VisibilityTimeout": "44"}})
	b.must(err)
	all := attributes("All")
	b.same("set", all["VisibilityTimeout"], "44")
	b.same("default", all["MessageRetentionPeriod"], "345600")
	_, err = b.client.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: []types.QueueAttributeName{"Nonsense"}})
	b.code(err, "InvalidAttributeName")

	_, err = b.client.TagQueue(t.Context(), &sqs.TagQueueInput{QueueUrl: &url, Tags: map[string]string{"a": "1", "b": "2"}})
	b.must(err)
	_, err = b.client.UntagQueue(t.Context(), &sqs.UntagQueueInput{QueueUrl: &url, TagKeys: []string{"a"}})
	b.must(err)
	tags, err := b.client.ListQueueTags(t.Context(), &sqs.ListQueueTagsInput{QueueUrl: &url})
	b.must(err)
	b.same("tags", tags.Tags, map[string]string{"b": "2"})

	_, err = b.client.PurgeQueue(t.Context(), &sqs.PurgeQueueInput{QueueUrl: &url})
	b.must(err)
	b.same("purged", b.srv.Queue("q").Depth(), 0)
	_, err = b.client.DeleteQueue(t.Context(), &sqs.DeleteQueueInput{QueueUrl: &url})
	b.must(err)
	b.code(b.trySend(url), "AWS.SimpleQueueService.NonExistentQueue")
}

func TestListQueuesInPages(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	for i := range 5 {
		b.queue("a" + strconv.Itoa(i))
	}
	b.queue("b")
	var got []string
	pages := sqs.NewListQueuesPaginator(b.client, &sqs.ListQueuesInput{QueueNamePrefix: aws.String("a"), MaxResults: aws.Int32(2)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		b.must(err)
		got = append(got, page.QueueUrls...)
	}
	b.same("names", len(got), 5)
	b.same("last", got[4], b.srv.URL+"/000000000000/a4")
	b.same("all", b.srv.Queues(), []string{"a0", "a1", "a2", "a3", "a4", "b"})
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	for _, o := range []sqstest.Options{{MaxInFlight: -1}, {MaxBytes: -1}} {
		if s, err := sqstest.New(&o); err == nil {
			s.Close()
			t.Errorf("%+v was accepted", o)
		} else if !strings.Contains(err.Error(), "got -1") {
			t.Errorf("%v does not name the value", err)
		}
	}
}

// Whatever a request holds, the server answers in the protocol, keeps its counts
// and goes on.
func FuzzRequest(f *testing.F) {
	for _, seed := range []struct{ action, body string }{
		{"SendMessage", `{"QueueUrl":"/q","MessageBody":"x","MessageAttributes":{"a":{"DataType":"Binary","BinaryValue":"AA=="}}}`},
		{"SendMessage", `{"QueueUrl":"/q.fifo","MessageBody":"x","MessageGroupId":"g","MessageDeduplicationId":"d"}`},
		{"SendMessageBatch", `{"QueueUrl":"/q","Entries":[{"Id":"a","MessageBody":"x","DelaySeconds":-1},null]}`},
		{"ReceiveMessage", `{"QueueUrl":"/q","MaxNumberOfMessages":10,"WaitTimeSeconds":0,"MessageAttributeNames":[".*"]}`},
		{"DeleteMessageBatch", `{"QueueUrl":"/q","Entries":[{"Id":"a","ReceiptHandle":"AAAA"}]}`},
		{"ChangeMessageVisibility", `{"QueueUrl":"/q","ReceiptHandle":"","VisibilityTimeout":1}`},
		{"CreateQueue", `{"QueueName":"r","Attributes":{"RedrivePolicy":"{}","VisibilityTimeout":"x"}}`},
		{"SetQueueAttributes", `{"QueueUrl":"/q","Attributes":{"RedriveAllowPolicy":"[]","DelaySeconds":""}}`},
		{"StartMessageMoveTask", `{"SourceArn":"arn:aws:sqs:us-east-1:000000000000:q","MaxNumberOfMessagesPerSecond":0}`},
		{"ListQueues", `{"MaxResults":1,"NextToken":"zzz"}`},
		{"ListDeadLetterSourceQueues", `{"QueueUrl":"/q","MaxResults":-1}`},
	} {
		f.Add(seed.action, seed.body)
	}
	srv := sqstest.Start(f, &sqstest.Options{MaxBytes: 1 << 20})
	for _, name := range []string{"q", "q.fifo"} {
		if _, err := srv.CreateQueue(name, nil); err != nil {
			f.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, action, body string) {
		if strings.Contains(body, "WaitTimeSeconds") && !strings.Contains(body, `"WaitTimeSeconds":0`) {
			return // it may wait, as asked
		}
		answer := httptest.NewRecorder()
		request := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		request.Header.Set("X-Amz-Target", "AmazonSQS."+action)
		srv.ServeHTTP(answer, request)
		if code := answer.Code; code != 200 && code != 400 && code != 403 && code != 404 && code != 503 {
			t.Fatalf("status %d: %s", code, answer.Body)
		}
		if !json.Valid(answer.Body.Bytes()) {
			t.Fatalf("the answer is not JSON: %q", answer.Body)
		}
		for _, name := range srv.Queues() {
			if q := srv.Queue(name); q.Depth() != len(q.Messages) {
				t.Fatalf("queue %s: %d + %d + %d messages counted, %d held", name, q.Visible, q.InFlight, q.Delayed, len(q.Messages))
			}
		}
	})
}
