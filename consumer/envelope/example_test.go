package envelope_test

import (
	"context"
	"fmt"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/consumer/envelope"
)

// A queue that a topic of SNS sends to. The handler gets what was published.
func ExampleSNS() {
	type order struct {
		ID string `json:"order"`
	}
	handler := consumer.Chain(consumer.JSON(func(ctx context.Context, o order) error {
		fmt.Println("order", o.ID, "of", envelope.SNSFrom(ctx).TopicARN)
		return nil
	}), envelope.SNS)
	body := `{"Type":"Notification","MessageId":"63a3f6b6","TopicArn":"arn:aws:sns:eu-west-1:123456789012:orders",
		"Message":"{\"order\":\"a\"}","Timestamp":"2026-05-02T00:54:06.655Z"}`
	fmt.Println(handler.Handle(context.Background(), &consumer.Message{ID: "m1", Body: []byte(body)}))
	err := handler.Handle(context.Background(), &consumer.Message{ID: "m2", Body: []byte(`{"order":"b"}`)})
	fmt.Println(err, consumer.IsTerminal(err))
	// Output:
	// order a of arn:aws:sns:eu-west-1:123456789012:orders
	// <nil>
	// message m2: SNS envelope: field Type is missing: a subscription with raw message delivery has no envelope (SNSOrRaw) true
}

// Events of several kinds in one queue. A second delivery of an event by EventBridge is a duplicate, by the event's own id.
func ExampleEventBridge() {
	routes, err := consumer.NewRouter(envelope.DetailType, map[string]consumer.Handler{
		"shop/order paid": consumer.JSON(func(_ context.Context, paid struct{ Order string }) error {
			fmt.Println("paid:", paid.Order)
			return nil
		}),
	}, nil)
	if err != nil {
		panic(err)
	}
	options := consumer.Options{Name: "billing", KeyFunc: envelope.EventBridgeKey, FingerprintFunc: envelope.EventBridgeFingerprint}
	m := consumer.Message{ID: "m1", Body: []byte(`{"version":"0","id":"7bf73129","detail-type":"order paid","source":"shop","detail":{"order":"a"}}`)}
	fmt.Println(options.KeyFunc(&m))
	fmt.Println(consumer.Chain(routes, envelope.EventBridge).Handle(context.Background(), &m))
	// Output:
	// 7bf73129 <nil>
	// paid: a
	// <nil>
}

// What S3 says of its objects.
func ExampleS3() {
	handler := envelope.S3(func(_ context.Context, records []envelope.S3Record) error {
		for _, r := range records {
			fmt.Println(r.EventName, r.S3.Bucket.Name, r.S3.Object.Key)
		}
		return nil
	})
	body := `{"Records":[{"eventName":"ObjectCreated:Put","s3":{"bucket":{"name":"uploads"},"object":{"key":"a+cat.png","size":9}}}]}`
	fmt.Println(handler.Handle(context.Background(), &consumer.Message{ID: "m1", Body: []byte(body)}))
	// Output:
	// ObjectCreated:Put uploads a cat.png
	// <nil>
}

// Packed bodies are unpacked up to a limit; others are left as they are.
func ExampleGzip() {
	handler := consumer.Chain(consumer.HandlerFunc(func(_ context.Context, m *consumer.Message) error {
		fmt.Printf("%s\n", m.Body)
		return nil
	}), envelope.Gzip(100))
	packed := "H4sIAAAAAAACA0tUKEhMzk5NUUjKT6kEADR3jp0NAAAA" // SQS takes text alone, so producers send base64 there
	for _, body := range []string{"not packed", packed} {
		if err := handler.Handle(context.Background(), &consumer.Message{ID: "m1", Body: []byte(body)}); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// not packed
	// a packed body
}
