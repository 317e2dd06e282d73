package envelope_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/consumer/consumertest"
	"github.com/ackledger/ackledger/consumer/envelope"
	"github.com/ackledger/ackledger/ledger"
)

// As AWS's documentation shows them.
const (
	notification = `{"Type":"Notification","MessageId":"63a3f6b6","TopicArn":"arn:aws:sns:us-west-2:123456789012:MyTopic","Subject":"Order",` +
		`"Message":"{\"order\":\"a\"}","Timestamp":"2026-05-02T00:54:06.655Z","SignatureVersion":"1","Signature":"EXAMPLEw6JRN==",` +
		`"SigningCertURL":"https://sns.us-west-2.amazonaws.com/c.pem","UnsubscribeURL":"https://sns.us-west-2.amazonaws.com/?Action=Unsubscribe",` +
		`"MessageAttributes":{"type":{"Type":"String","Value":"paid"},"raw":{"Type":"Binary","Value":"AQI="}}}`
	event = `{"version":"0","id":"6a7e8feb","detail-type":"EC2 Instance State-change Notification","source":"aws.ec2","account":"111122223333",` +
		`"time":"2026-12-22T18:43:48Z","region":"us-west-1","resources":["arn:aws:ec2:us-west-1:123456789012:instance/i-1"],"detail":{"state":"terminated"}}`
	s3Event = `{"Records":[{"eventVersion":"2.1","eventSource":"aws:s3","awsRegion":"us-west-2","eventTime":"1970-01-01T00:00:00.000Z",` +
		`"eventName":"ObjectCreated:Put","s3":{"s3SchemaVersion":"1.0","configurationId":"testConfigRule","bucket":{"name":"amzn-s3-demo-bucket",` +
		`"arn":"arn:aws:s3:::amzn-s3-demo-bucket"},"object":{"key":"Happy+Face%2B.jpg","size":1024,"eTag":"d41d","versionId":"096f","sequencer":"0055"}}}]}`
	s3Test = `{"Service":"Amazon S3","Event":"s3:TestEvent","Time":"2014-10-13T15:57:02.089Z","Bucket":"amzn-s3-demo-bucket","RequestId":"5","HostId":"8"}`
)

// seen is what a handler was called with.
type seen struct {
	ctx context.Context
	m   *consumer.Message
}

func (s *seen) Handle(ctx context.Context, m *consumer.Message) error {
	s.ctx, s.m = ctx, m
	return nil
}

// refused checks that a handler fails for good, names all that is wanted, and quotes no SECRET.
func refused(t *testing.T, h consumer.Handler, m consumer.Message, want string) {
	t.Helper()
	m.ID = "m1"
	err := h.Handle(t.Context(), &m)
	if err == nil || !consumer.IsTerminal(err) || !strings.HasPrefix(err.Error(), "message m1: ") || !strings.Contains(err.Error(), want) ||
		strings.Contains(err.Error(), "SECRET") {
		t.Errorf("%.60q: %v, want %s", m.Body, err, want)
	}
}

func TestSNS(t *testing.T) {
	var got seen
	m := consumer.Message{ID: "m1", Body: []byte(notification), Headers: []consumer.Header{{Name: "own", Value: []byte("1")}}}
	if err := envelope.SNS(&got).Handle(t.Context(), &m); err != nil {
		t.Fatal(err)
	}
	n := envelope.SNSFrom(got.ctx)
	if n == nil || n.MessageID != "63a3f6b6" || n.TopicARN != "arn:aws:sns:us-west-2:123456789012:MyTopic" || n.Subject != "Order" ||
		!n.Timestamp.Equal(time.Date(2026, 5, 2, 0, 54, 6, 655e6, time.UTC)) || n.Message != `{"order":"a"}` {
		t.Errorf("%+v", n)
	}
	want := []consumer.Header{
		{Name: "own", Value: []byte("1")}, {Name: "raw", Type: "Binary", Value: []byte{1, 2}}, {Name: "type", Type: "String", Value: []byte("paid")},
	}
	if got.m.ID != "m1" || string(got.m.Body) != n.Message || !reflect.DeepEqual(got.m.Headers, want) {
		t.Errorf("%+v", got.m)
	}
	if string(m.Body) != notification || len(m.Headers) != 1 {
		t.Errorf("the broker's own message was changed: %+v", m)
	}
	if envelope.SNS(nil) != nil || envelope.SNSOrRaw(nil) != nil || envelope.SNSFrom(t.Context()) != nil {
		t.Error("nil does not stay nil")
	}
}

func TestSNSRefusesByName(t *testing.T) {
	for want, body := range map[string]string{
		"SNS envelope: JSON ends too early at byte 0":                       "",
		"SNS envelope: not JSON at byte 1 of 6":                             "SECRET",
		"field Type is missing: a subscription with raw message":            `{"order":"SECRET"}`,
		"is a SubscriptionConfirmation, not a Notification":                 `{"Type":"SubscriptionConfirmation","Message":"SECRET"}`,
		"Type must be Notification, is another text of 6 bytes":             `{"Type":"SECRET"}`,
		"field MessageId is missing or empty":                               `{"Type":"Notification","Message":"SECRET"}`,
		"field TopicArn is missing or empty":                                `{"Type":"Notification","MessageId":"1","Message":"SECRET"}`,
		"field Message is missing":                                          `{"Type":"Notification","MessageId":"1","TopicArn":"a"}`,
		"a value does not fit its type":                                     strings.Replace(notification, "2026-05-02T", "SECRET", 1),
		`attribute "raw" of type Binary: illegal base64`:                    strings.Replace(notification, "AQI=", "#SECRET", 1),
		`field "MessageAttributes" does not fit type envelope.SNSAttribute`: strings.Replace(notification, `{"Type":"Binary","Value":"AQI="}`, `"SECRET"`, 1),
		"more than one JSON value":                                          notification + notification,
		"nested deeper than 1000 levels at byte 1000":                       strings.Repeat("[", 2000),
		`field "Message" does not fit type string`:                          strings.Replace(notification, `"{\"order\":\"a\"}"`, `{"SECRET":1}`, 1),
		"is a UnsubscribeConfirmation, not a Notification: whoever":         `{"Type":"UnsubscribeConfirmation"}`,
	} {
		refused(t, envelope.SNS(&seen{}), consumer.Message{Body: []byte(body)}, want)
	}
	refused(t, envelope.SNS(&seen{}), consumer.Message{}, "ends too early")
}

// A queue with both kinds of subscription: what is an envelope is opened, the rest is left alone.
func TestSNSOrRaw(t *testing.T) {
	for _, body := range []string{
		"", "text", `{"order":"a"}`, `{"Type":"Notification","Message":"x"}`, `{"Type":1,"MessageId":"1","TopicArn":"a","Message":"b"}`, "[1]",
	} {
		var got seen
		m := consumer.Message{Body: []byte(body)}
		if err := envelope.SNSOrRaw(&got).Handle(t.Context(), &m); err != nil || got.m != &m || envelope.SNSFrom(got.ctx) != nil {
			t.Errorf("%q: %v, %+v", body, err, got.m)
		}
	}
	var got seen
	if err := envelope.SNSOrRaw(&got).Handle(t.Context(), &consumer.Message{Body: []byte(notification)}); err != nil || string(got.m.Body) != `{"order":"a"}` {
		t.Errorf("%v, %+v", err, got.m)
	}
	refused(t, envelope.SNSOrRaw(&seen{}), consumer.Message{Body: []byte(strings.Replace(notification, "63a3f6b6", "", 1))}, "field MessageId is missing or empty")
}

func TestEventBridge(t *testing.T) {
	var got seen
	m := consumer.Message{ID: "m1", Body: []byte(event)}
	if err := envelope.EventBridge(&got).Handle(t.Context(), &m); err != nil {
		t.Fatal(err)
	}
	e := envelope.EventBridgeFrom(got.ctx)
	want := &envelope.EventBridgeEvent{
		Version: "0", ID: "6a7e8feb", DetailType: "EC2 Instance State-change Notification", Source: "aws.ec2", Account: "111122223333",
		Time: time.Date(2026, 12, 22, 18, 43, 48, 0, time.UTC), Region: "us-west-1",
		Resources: []string{"arn:aws:ec2:us-west-1:123456789012:instance/i-1"}, Detail: []byte(`{"state":"terminated"}`),
	}
	if !reflect.DeepEqual(e, want) || string(got.m.Body) != `{"state":"terminated"}` || got.m.ID != "m1" {
		t.Errorf("%+v, %+v", e, got.m)
	}
	if name := envelope.DetailType(got.ctx, got.m); name != "aws.ec2/EC2 Instance State-change Notification" || envelope.DetailType(t.Context(), &m) != "" {
		t.Errorf("type %q", name)
	}
	if envelope.EventBridge(nil) != nil || envelope.EventBridgeFrom(t.Context()) != nil {
		t.Error("nil does not stay nil")
	}
	for want, body := range map[string]string{
		"EventBridge envelope: not JSON at byte 1 of 6":     "SECRET",
		"field id is missing or empty":                      `{"detail":{"SECRET":1}}`,
		"field detail-type is missing or empty":             strings.Replace(event, "detail-type", "SECRET", 1),
		"field source is missing or empty":                  strings.Replace(event, "source", "SECRET", 1),
		"field detail is missing":                           strings.Replace(event, `"detail":`, `"SECRET":`, 1),
		"field detail must be an object, is another":        strings.Replace(event, `{"state":"terminated"}`, `"SECRET"`, 1),
		`field "resources" does not fit type []string`:      strings.Replace(event, `["arn:aws:ec2:us-west-1:123456789012:instance/i-1"]`, `"SECRET"`, 1),
		"a value does not fit its type (*time.ParseError)":  strings.Replace(event, "2026-12-22T", "SECRET", 1),
		"EventBridge envelope: JSON ends too early at byte": event[:50],
	} {
		refused(t, envelope.EventBridge(&seen{}), consumer.Message{Body: []byte(body)}, want)
	}
}

func TestS3(t *testing.T) {
	var got []envelope.S3Record
	failed := errors.New("mine")
	h := envelope.S3(func(_ context.Context, records []envelope.S3Record) error { got = records; return failed })
	if err := h.Handle(t.Context(), &consumer.Message{Body: []byte(s3Event)}); !errors.Is(err, failed) || consumer.IsTerminal(err) {
		t.Errorf("%v", err)
	}
	want := envelope.S3Object{Key: "Happy Face+.jpg", Size: 1024, ETag: "d41d", VersionID: "096f", Sequencer: "0055"}
	if len(got) != 1 || got[0].EventName != "ObjectCreated:Put" || got[0].S3.Bucket.Name != "amzn-s3-demo-bucket" || got[0].S3.Object != want {
		t.Errorf("%+v", got)
	}
	got = nil
	if err := h.Handle(t.Context(), &consumer.Message{Body: []byte(s3Test)}); err != nil || got != nil {
		t.Errorf("S3's test message: %v, %v", err, got)
	}
	if envelope.S3(nil) != nil {
		t.Error("nil does not stay nil")
	}
	for want, body := range map[string]string{
		"S3 event: not JSON at byte 1 of 6":                          "SECRET",
		"field Records is missing or empty":                          `{"SECRET":[]}`,
		"record 0: field s3.object.key is not encoded as in a query": strings.Replace(s3Event, "Happy", "%SECRET", 1),
		"record 0: field s3.object.key is missing":                   strings.Replace(s3Event, "Happy+Face%2B.jpg", "", 1),
		"record 0: field s3.bucket.name is missing":                  strings.Replace(s3Event, "\"amzn-s3-demo-bucket\"", `""`, 1),
		"record 0: field eventName is missing":                       strings.Replace(s3Event, "ObjectCreated:Put", "", 1),
		`S3 event: JSON at byte`:                                     `{"Records":"SECRET"}`,
	} {
		refused(t, h, consumer.Message{Body: []byte(body)}, want)
	}
}

// An event through a topic: one envelope in the other.
func TestEnvelopesNest(t *testing.T) {
	quoted := strings.ReplaceAll(event, `"`, `\"`)
	var got seen
	h := consumer.Chain(&got, envelope.SNS, envelope.EventBridge)
	m := consumer.Message{Body: []byte(strings.Replace(notification, `{\"order\":\"a\"}`, quoted, 1))}
	if err := h.Handle(t.Context(), &m); err != nil || string(got.m.Body) != `{"state":"terminated"}` {
		t.Fatalf("%v, %+v", err, got.m)
	}
	if envelope.SNSFrom(got.ctx) == nil || envelope.EventBridgeFrom(got.ctx) == nil {
		t.Error("the context has not both")
	}
}

// SNS publishes one message twice, with another signature and another id of SQS: the handler runs once. Without the fingerprint the
// second would be taken for another message under a known key.
func TestOneMessageOfTwoDeliveries(t *testing.T) {
	again := strings.Replace(strings.Replace(notification, "EXAMPLEw6JRN==", "ANOTHER", 1), "06.655Z", "07.000Z", 1)
	replayed := strings.Replace(event, `"version"`, `"replay-name":"r1","version"`, 1)
	for _, c := range []struct {
		name, first, second, other string
		mw                         consumer.Middleware
		o                          consumer.Options
	}{
		{"SNS", notification, again, strings.Replace(again, `\"a\"`, `\"b\"`, 1), envelope.SNS,
			consumer.Options{KeyFunc: envelope.SNSKey, FingerprintFunc: envelope.SNSFingerprint}},
		{"EventBridge", event, replayed, strings.Replace(replayed, "terminated", "running", 1), envelope.EventBridge,
			consumer.Options{KeyFunc: envelope.EventBridgeKey, FingerprintFunc: envelope.EventBridgeFingerprint}},
	} {
		t.Run(c.name, func(t *testing.T) {
			calls := 0
			h := consumer.Chain(consumer.HandlerFunc(func(context.Context, *consumer.Message) error { calls++; return nil }), c.mw)
			bench := consumertest.New(t, h, consumertest.Settings{Options: c.o})
			for i, body := range []string{c.first, c.second, c.other} {
				want := []ledger.Answer{ledger.Run, ledger.Done, ledger.Mismatch}[i]
				got := bench.Deliver(consumer.Message{ID: string(rune('1' + i)), Source: "arn:aws:sqs:eu-west-1:123456789012:orders", Body: []byte(body)})
				if got.Answer != want || !got.Acked {
					t.Errorf("delivery %d: %+v, want %v", i, got, want)
				}
			}
			if calls != 1 {
				t.Errorf("%d calls", calls)
			}
			if _, err := c.o.KeyFunc(&consumer.Message{Body: []byte("x")}); err == nil {
				t.Error("a key of nothing")
			}
			if _, err := c.o.FingerprintFunc(&consumer.Message{Body: []byte("x")}); err == nil {
				t.Error("a fingerprint of nothing")
			}
		})
	}
}

func FuzzEnvelopes(f *testing.F) {
	for _, body := range []string{notification, event, s3Event, s3Test, "", "{}", `{"Records":[{}]}`, `{"Type":"Notification"}`} {
		f.Add([]byte(body))
	}
	handlers := []consumer.Handler{
		envelope.SNS(&seen{}), envelope.SNSOrRaw(&seen{}), envelope.EventBridge(&seen{}),
		envelope.S3(func(context.Context, []envelope.S3Record) error { return nil }),
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		m := consumer.Message{ID: "m1", Body: slices.Clone(body)}
		for i, h := range handlers {
			if err := h.Handle(t.Context(), &m); err != nil && !consumer.IsTerminal(err) || !slices.Equal(m.Body, body) {
				t.Fatalf("handler %d: %v", i, err)
			}
		}
		if n, err := envelope.DecodeSNS(body); err == nil {
			key, kerr := envelope.SNSKey(&m)
			fp, ferr := envelope.SNSFingerprint(&m)
			if kerr != nil || ferr != nil || key == "" || key != n.MessageID || len(fp) == 0 {
				t.Fatalf("%q, %v, %v", key, kerr, ferr)
			}
		}
		if e, err := envelope.DecodeEventBridge(body); err == nil {
			if fp, err := envelope.EventBridgeFingerprint(&m); err != nil || len(fp) == 0 || e.ID == "" {
				t.Fatalf("%q, %v", fp, err)
			}
		}
	})
}
