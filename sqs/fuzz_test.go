package sqs

import (
	"reflect"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
)

// Whatever lies in a dead-letter queue: it is read or refused without a panic; a stamp is believed only of this source
// and body; what was read is the same after it is dead-lettered once more; and what is sent back is what SQS takes.
func FuzzParseDeadLetter(f *testing.F) {
	for _, d := range []*consumer.DeadLetter{
		letter("body", ledger.Header{Name: "a.b", Type: "Number.int", Value: []byte("-12")}),
		letter("", ledger.Header{Name: "raw", Type: "Binary", Value: []byte{0, 1}}, ledger.Header{Name: "\xff", Value: nil}),
	} {
		in, _, err := seal(d, whole, false)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(*in.MessageBody, *in.MessageAttributes[EnvelopeName].StringValue, *in.MessageAttributes[consumer.StampName].StringValue,
			"a.b", "Number.int", "-12", testARN, "")
	}
	f.Add("-", `{"v":1,"original-source":"s","original-body":"base64","original-attributes":[{"name":"eA=="},{"name":null}]}`, "v=1", "x", "", "", "", "g")
	f.Add("x", `{"v":1e400}`, "%", string(traceHeader), "String", "v", "arn:::::", "\x00")
	f.Fuzz(func(t *testing.T, body, sealed, stamp, name, kind, value, source, group string) {
		m := &types.Message{MessageId: aws.String("id"), Body: &body, Attributes: map[string]string{}, MessageAttributes: map[string]types.MessageAttributeValue{
			name: {DataType: &kind, StringValue: &value},
		}}
		for to, text := range map[string]string{EnvelopeName: sealed, consumer.StampName: stamp} {
			if text != "" {
				m.MessageAttributes[to] = types.MessageAttributeValue{DataType: aws.String("String"), StringValue: aws.String(text)}
			}
		}
		for to, text := range map[string]string{deadSource: source, "MessageGroupId": group} {
			if text != "" {
				m.Attributes[to] = text
			}
		}
		if own := ownHeaders(m, source); len(own) == 0 {
			t.Fatal("its attribute is gone")
		}
		d, err := ParseDeadLetter(m)
		if err != nil {
			return
		}
		if s := d.Stamp; s != nil && (!s.Counts(d.Message.Source, ledger.BodyFingerprint(d.Message.Body)) || len(s.ID) > ledger.MaxID || s.ID != d.Message.ID) {
			t.Fatalf("a stamp of something else: %+v of %+v", s, d.Message)
		}
		for _, fifo := range []string{"", ".fifo"} {
			if in, err := SourceInput(d, "https://sqs/q"+fifo); err == nil && isFair(in.MessageGroupId) {
				checkSendable(t, in)
			}
		}
		sealAgain(t, d)
	})
}

// isFair says whether a group is one that a broker can have given: the rest of a group's rules is SQS's to hold.
func isFair(group *string) bool { return group == nil || isGroup(*group) }

func sealAgain(t *testing.T, d *consumer.DeadLetter) {
	t.Helper()
	if d.Message.Source == "" || !sendable(d.Message.Source) || !sendable(d.Message.Group) {
		return // it has no source to go back to, or no queue's
	}
	in, _, err := seal(d, whole, false)
	if err != nil {
		t.Fatal(err)
	}
	if group := d.Message.Group; group != "" {
		in.MessageGroupId = &group
	}
	once, err := ParseDeadLetter(received(in))
	if err != nil {
		t.Fatalf("what was read is not read again: %v", err)
	}
	if !reflect.DeepEqual(once.Message.Body, d.Message.Body) || once.Message.Source != d.Message.Source || once.Message.Group != d.Message.Group ||
		!reflect.DeepEqual(once.Stamp, d.Stamp) {
		t.Fatalf("read\n%+v\nthen\n%+v", d, once)
	}
}

// Whatever attributes a service says that a queue has: they are read or refused.
func FuzzQueueAttributes(f *testing.F) {
	f.Add(testARN, "345600", "1048576", `{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:dead","maxReceiveCount":"20"}`)
	f.Add(testARN+".fifo", "-1", "x", `{"maxReceiveCount":1e99}`)
	f.Add("::::::", "99999999999999999999", "0", `[]`)
	f.Fuzz(func(t *testing.T, arn, retention, size, policy string) {
		q, err := parseQueue(map[string]string{
			"QueueArn": arn, "MessageRetentionPeriod": retention, "MaximumMessageSize": size, "RedrivePolicy": policy,
		})
		if err != nil {
			return
		}
		if _, _, ok := splitARN(q.arn); !ok || q.retention <= 0 || q.retention > maxRetention || q.maxBytes <= 0 || (q.redrive == nil) != (policy == "") {
			t.Fatalf("%+v", q)
		}
	})
}
