package envelope

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/ackledger/ackledger/consumer"
)

// S3Record is one record of an event notification of Amazon S3: what happened to an object
// (docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html).
type S3Record struct {
	EventVersion string    `json:"eventVersion"`
	AWSRegion    string    `json:"awsRegion"`
	EventTime    time.Time `json:"eventTime"`
	// EventName is such as "ObjectCreated:Put", without "s3:".
	EventName string `json:"eventName"`
	S3        struct {
		ConfigurationID string `json:"configurationId"`
		Bucket          struct {
			Name string `json:"name"`
			ARN  string `json:"arn"`
		} `json:"bucket"`
		Object S3Object `json:"object"`
	} `json:"s3"`
}

// S3Object is the object of an event. Size (bytes) and ETag are zero where S3 does not say them, as for a removed object.
type S3Object struct {
	// Key is the object's name, decoded: S3 sends it as in a query ("a+b%2Bc" is "a b+c").
	Key       string `json:"key"`
	Size      int64  `json:"size"`
	ETag      string `json:"eTag"`
	VersionID string `json:"versionId"`
	// Sequencer orders the events of one key: of two, the one whose text is greater, the shorter filled up with zeros at its right, is
	// the later one.
	Sequencer string `json:"sequencer"`
}

// DecodeS3 reads the body of a message that S3 has sent to a queue: the records in their order. The message by which S3 tests a
// new configuration (s3:TestEvent) has none. Its errors are terminal.
func DecodeS3(body []byte) ([]S3Record, error) {
	records, err := decodeS3(body)
	if err != nil {
		return nil, consumer.Terminal(fmt.Errorf("S3 event: %w", err))
	}
	return records, nil
}

func decodeS3(body []byte) ([]S3Record, error) {
	var v struct {
		Event   string
		Records []S3Record
	}
	switch err := consumer.DecodeJSON(body, &v); {
	case err != nil:
		return nil, err
	case v.Event == "s3:TestEvent":
		return nil, nil
	case len(v.Records) == 0:
		return nil, errors.New("field Records is missing or empty")
	}
	for i := range v.Records {
		r := &v.Records[i]
		key, err := url.QueryUnescape(r.S3.Object.Key)
		switch {
		case err != nil:
			return nil, fmt.Errorf("record %d: field s3.object.key is not encoded as in a query", i)
		case r.EventName == "":
			return nil, fmt.Errorf("record %d: field eventName is missing or empty", i)
		case r.S3.Bucket.Name == "":
			return nil, fmt.Errorf("record %d: field s3.bucket.name is missing or empty", i)
		case key == "":
			return nil, fmt.Errorf("record %d: field s3.object.key is missing or empty", i)
		}
		r.S3.Object.Key = key
	}
	return v.Records, nil
}

// S3 returns a handler for a queue to which S3 sends its event notifications. f gets all records of a message; one error is for
// all of them. S3's test message succeeds without a call. Behind [SNS] it reads those that come through a topic; notifications
// through EventBridge have another form (consumer.JSON behind [EventBridge]). A nil f gives nil.
func S3(f func(context.Context, []S3Record) error) consumer.Handler {
	if f == nil {
		return nil
	}
	return consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
		records, err := DecodeS3(m.Body)
		switch {
		case err != nil:
			return of(m, err)
		case len(records) == 0:
			return nil
		}
		return f(ctx, records)
	})
}
