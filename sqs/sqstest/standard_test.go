package sqstest_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/ackledger/ackledger/sqs/sqstest"
)

func TestSendReceiveDelete(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	url := b.queue("orders")
	sent := b.send(url, "héllo <&> \U0001F600", func(in *sqs.SendMessageInput) {
		in.MessageAttributes = map[string]types.MessageAttributeValue{
			"trace.id": {DataType: aws.String("String.uuid"), StringValue: aws.String("a b")},
			"amount":   {DataType: aws.String("Number"), StringValue: aws.String("12.5")},
			"raw":      {DataType: aws.String("Binary"), BinaryValue: []byte{0, 1, 255}},
		}
		in.MessageSystemAttributes = map[string]types.MessageSystemAttributeValue{
			"AWSTraceHeader": {DataType: aws.String("String"), StringValue: aws.String("Root=1-2-3")},
		}
	})
	b.clock.Advance(1500 * time.Millisecond)
	m := b.receiveOne(url)
	b.same("id", m.MessageId, aws.ToString(sent.MessageId))
	b.same("body", m.Body, "héllo <&> \U0001F600")
	b.same("binary attribute", m.MessageAttributes["raw"].BinaryValue, []byte{0, 1, 255})
	b.same("string attribute", m.MessageAttributes["trace.id"].StringValue, "a b")
	b.same("attribute digest", m.MD5OfMessageAttributes, aws.ToString(sent.MD5OfMessageAttributes))
	start := b.clock.Now().Add(-1500 * time.Millisecond).UnixMilli()
	b.same("system attributes", m.Attributes, map[string]string{
		"SenderId": "AIDASQSTEST0000000000", "SentTimestamp": strconv.FormatInt(start, 10), "ApproximateReceiveCount": "1",
		"ApproximateFirstReceiveTimestamp": strconv.FormatInt(start+1500, 10), "AWSTraceHeader": "Root=1-2-3",
	})
	b.same("in flight", b.srv.Queue("orders").InFlight, 1)
	b.must(b.delete(url, m))
	b.same("depth", b.srv.Queue("orders").Depth(), 0)
	b.must(b.delete(url, m)) // again: it is idempotent
}

// The digest of the developer guide's algorithm, computed with another
// implementation (Python's hashlib) for name "k", type "String", value "v".
func TestAttributeDigestKnownValue(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	out := b.send(b.queue("q"), "x", func(in *sqs.SendMessageInput) {
		in.MessageAttributes = map[string]types.MessageAttributeValue{
			"k": {DataType: aws.String("String"), StringValue: aws.String("v")},
		}
	})
	b.same("digest", out.MD5OfMessageAttributes, "0a77b0642718c3d9dd47090567d11e0d")
}

func TestChosenAttributesOnly(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	url := b.queue("q")
	text := types.MessageAttributeValue{DataType: aws.String("String"), StringValue: aws.String("v")}
	b.send(url, "x", func(in *sqs.SendMessageInput) {
		in.MessageAttributes = map[string]types.MessageAttributeValue{"a.one": text, "a.two": text, "b": text, "c": text}
	})
	m := b.receive(url, func(in *sqs.ReceiveMessageInput) {
		in.MessageAttributeNames = []string{"a.*", "b"}
		in.MessageSystemAttributeNames = nil
		in.AttributeNames = []types.QueueAttributeName{"SentTimestamp"} //nolint:staticcheck // the older parameter, which clients still send
	})[0]
	b.same("attributes", len(m.MessageAttributes), 3)
	b.same("system attributes", len(m.Attributes), 1)
}

func TestVisibilityTimeoutReturnsTheMessage(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	url := b.queue("q", "VisibilityTimeout", "40")
	b.send(url, "x")
	first := b.receiveOne(url)
	b.clock.Advance(39 * time.Second)
	b.same("hidden", len(b.receive(url)), 0)
	b.must(b.change(url, first, 40)) // counts from now
	b.clock.Advance(39 * time.Second)
	b.same("extended", len(b.receive(url)), 0)
	b.clock.Advance(time.Second)
	second := b.receiveOne(url)
	b.same("receive count", second.Attributes["ApproximateReceiveCount"], "2")
	b.same("first receive stays", second.Attributes["ApproximateFirstReceiveTimestamp"], first.Attributes["ApproximateFirstReceiveTimestamp"])
	b.must(b.change(url, second, 0))
	third := b.receive(url, func(in *sqs.ReceiveMessageInput) { in.VisibilityTimeout = 5 })[0]
	b.clock.Advance(5 * time.Second)
	b.code(b.change(url, third, 10), "AWS.SimpleQueueService.MessageNotInflight")
	b.must(b.delete(url, third)) // a standard queue takes the newest handle even now
	b.same("depth", b.srv.Queue("q").Depth(), 0)
}

func TestTwelveHourCap(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	url := b.queue("q", "VisibilityTimeout", "43200", "MessageRetentionPeriod", "1209600")
	b.send(url, "x")
	m := b.receiveOne(url)
	b.code(b.change(url, m, 43201), "InvalidParameterValue")
	b.clock.Advance(2 * time.Hour)
	b.must(b.change(url, m, 36000)) // exactly twelve hours from the receive
	b.code(b.change(url, m, 36001), "InvalidParameterValue")
	_, err := b.client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &url, VisibilityTimeout: 43201})
	b.code(err, "InvalidParameterValue")
}

func TestStaleHandleOnStandardQueue(t *testing.T) {
	for _, lenient := range []bool{false, true} {
		t.Run(strconv.FormatBool(lenient), func(t *testing.T) {
			b := setUp(t, sqstest.Options{StaleDelete: lenient})
			url := b.queue("q")
			b.send(url, "x")
			old := b.receiveOne(url)
			b.same("expired", b.srv.ExpireVisibility("q"), 1)
			newest := b.receiveOne(url)
			b.must(b.delete(url, old)) // the request succeeds, whatever becomes of the message
			b.same("gone", b.srv.Queue("q").Depth() == 0, lenient)
			b.must(b.delete(url, newest))
			b.same("depth", b.srv.Queue("q").Depth(), 0)
		})
	}
}

// What makes "visibility 0 with a stale handle" dangerous: it frees a message
// that another consumer holds.
func TestStaleHandleChangesVisibilityOnStandardQueue(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	url := b.queue("q")
	b.send(url, "x")
	old := b.receiveOne(url)
	b.srv.ExpireVisibility("q")
	b.receiveOne(url)
	b.must(b.change(url, old, 0))
	b.same("visible again", b.srv.Queue("q").Visible, 1)
}

func TestHandlesThatAreNone(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	url, other := b.queue("q"), b.queue("other")
	b.send(other, "x")
	foreign := b.receiveOne(other)
	for _, handle := range []string{"nonsense", strings.Repeat("A", 32), *foreign.ReceiptHandle} {
		m := types.Message{ReceiptHandle: &handle}
		b.code(b.delete(url, m), "ReceiptHandleIsInvalid")
		b.code(b.change(url, m, 1), "ReceiptHandleIsInvalid")
	}
	b.must(b.delete(other, foreign))
	b.code(b.change(other, foreign, 1), "InvalidParameterValue") // "Message does not exist"
}

func TestDelay(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	url := b.queue("q", "DelaySeconds", "10")
	b.send(url, "queue's delay")
	b.send(url, "own delay", func(in *sqs.SendMessageInput) { in.DelaySeconds = 900 })
	b.same("delayed", b.srv.Queue("q").Delayed, 2)
	b.clock.Advance(10 * time.Second)
	b.same("first", bodies(b.receive(url)), []string{"queue's delay"})
	b.clock.Advance(890 * time.Second)
	b.same("then both", len(b.receive(url)), 2)
	_, err := b.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x"), DelaySeconds: 901})
	b.code(err, "InvalidParameterValue")
}

func TestRetention(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	url := b.queue("q", "MessageRetentionPeriod", "60")
	b.send(url, "visible")
	b.clock.Advance(30 * time.Second)
	b.send(url, "later")
	b.clock.Advance(30 * time.Second)
	b.same("left", bodies(b.receive(url)), []string{"later"})
	b.clock.Advance(30 * time.Second)
	b.same("in flight goes too", b.srv.Queue("q").Depth(), 0)
}

func TestInFlightLimit(t *testing.T) {
	b := setUp(t, sqstest.Options{MaxInFlight: 3})
	standard, fifo := b.queue("q"), b.queue("q.fifo")
	for i := range 5 {
		b.send(standard, "x")
		b.send(fifo, "x", inGroup(strconv.Itoa(i), strconv.Itoa(i)))
	}
	held := b.receive(standard)
	b.same("up to the limit", len(held), 3)
	_, err := b.client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &standard})
	b.code(err, "OverLimit")
	b.must(b.delete(standard, held[0]))
	b.same("room again", len(b.receive(standard)), 1)
	b.same("FIFO up to the limit", len(b.receive(fifo)), 3)
	b.same("FIFO: no error", len(b.receive(fifo)), 0)
}

func TestMessageLimits(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	url := b.queue("q")
	small := b.queue("small", "MaximumMessageSize", "1024")
	attribute := func(name, kind, value string) func(*sqs.SendMessageInput) {
		return func(in *sqs.SendMessageInput) {
			if in.MessageAttributes == nil {
				in.MessageAttributes = map[string]types.MessageAttributeValue{}
			}
			in.MessageAttributes[name] = types.MessageAttributeValue{DataType: &kind, StringValue: &value}
		}
	}
	eleven := func(in *sqs.SendMessageInput) {
		for i := range 11 {
			attribute("a"+strconv.Itoa(i), "String", "v")(in)
		}
	}
	dedup := func(in *sqs.SendMessageInput) { in.MessageDeduplicationId = aws.String("d") }
	none := func(*sqs.SendMessageInput) {}
	for name, c := range map[string]struct {
		url, body, code string
		option          func(*sqs.SendMessageInput)
	}{
		"1 MiB":                 {url, strings.Repeat("x", 1<<20), "", none},
		"over 1 MiB":            {url, strings.Repeat("x", 1<<20+1), "InvalidParameterValue", none},
		"the queue's own limit": {small, strings.Repeat("x", 1025), "InvalidParameterValue", none},
		"attributes count":      {small, strings.Repeat("x", 1020), "InvalidParameterValue", attribute("name", "String", "v")},
		"empty":                 {url, "", "MissingParameter", none},
		"NUL":                   {url, "a\x00b", "InvalidMessageContents", none},
		"vertical tab":          {url, "a\vb", "InvalidMessageContents", none},
		"U+FFFE":                {url, "a\uFFFEb", "InvalidMessageContents", none},
		"tab, LF, CR":           {url, "\t\n\r", "", none},
		"eleven attributes":     {url, "x", "InvalidParameterValue", eleven},
		"reserved name":         {url, "x", "InvalidParameterValue", attribute("Aws.x", "String", "v")},
		"name with two dots":    {url, "x", "InvalidParameterValue", attribute("a..b", "String", "v")},
		"name of 257":           {url, "x", "InvalidParameterValue", attribute(strings.Repeat("n", 257), "String", "v")},
		"unknown type":          {url, "x", "InvalidParameterValue", attribute("a", "Strung", "v")},
		"no number":             {url, "x", "InvalidParameterValue", attribute("a", "Number", "v")},
		"empty value":           {url, "x", "InvalidParameterValue", attribute("a", "String", "")},
		"deduplication id":      {url, "x", "InvalidParameterValue", dedup},
		"group id is allowed":   {url, "x", "", func(in *sqs.SendMessageInput) { in.MessageGroupId = aws.String("tenant") }},
		"group id with a space": {url, "x", "InvalidParameterValue", func(in *sqs.SendMessageInput) { in.MessageGroupId = aws.String("a b") }},
	} {
		in := &sqs.SendMessageInput{QueueUrl: &c.url, MessageBody: &c.body}
		c.option(in)
		_, err := b.client.SendMessage(t.Context(), in)
		if c.code == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		} else if c.code != "" && (err == nil || !strings.Contains(err.Error(), c.code)) {
			t.Errorf("%s: got %v, want %s", name, err, c.code)
		}
	}
}

func TestMemoryBound(t *testing.T) {
	b := setUp(t, sqstest.Options{MaxBytes: 4096})
	url := b.queue("q")
	b.send(url, strings.Repeat("x", 2000))
	_, err := b.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String(strings.Repeat("x", 2000))})
	b.code(err, "ServiceUnavailable")
	b.must(b.delete(url, b.receiveOne(url)))
	b.send(url, strings.Repeat("x", 2000)) // what was deleted is free again
}
