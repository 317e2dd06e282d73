package s3payload

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ackledger/ackledger/consumer"
)

// MaxObject is how many bytes an object may have: 2 GiB, which is what the extended clients allow.
const MaxObject = 2 << 30

// sizes are the attributes by which a message is known to be a pointer, the newer one first.
var sizes = []string{"ExtendedPayloadSize", "SQSLargePayloadSize"}

// Pointer is where a message's body is.
type Pointer struct {
	// Bucket and Key name the object.
	Bucket, Key string
	// Size is the body's length in bytes, as the sender says it.
	Size int64
}

// Parse returns the pointer that a message is; ok is false for a message that has its body in itself. Its errors are terminal. It may be
// called concurrently, and asks nobody.
func Parse(m *consumer.Message) (p Pointer, ok bool, err error) {
	for _, name := range sizes {
		v, there := m.Header(name)
		if !there {
			continue
		}
		if p, err = parse(m.Body, name, string(v)); err != nil {
			return Pointer{}, false, consumer.Terminal(fmt.Errorf("message %s: S3 pointer: %w", m.ID, err))
		}
		return p, true, nil
	}
	return Pointer{}, false, nil
}

func parse(body []byte, attribute, size string) (Pointer, error) {
	n, err := strconv.ParseInt(size, 10, 64)
	if err != nil || n < 0 || n > MaxObject {
		return Pointer{}, fmt.Errorf("attribute %s must be a number of 0 to %d, is %.30q", attribute, MaxObject, size)
	}
	var pair []json.RawMessage
	if err := consumer.DecodeJSON(body, &pair); err != nil {
		return Pointer{}, err
	}
	if len(pair) != 2 {
		return Pointer{}, fmt.Errorf("must be a list of 2, is one of %d", len(pair))
	}
	var class string
	if err := consumer.DecodeJSON(pair[0], &class); err != nil {
		return Pointer{}, fmt.Errorf("its class: %w", err)
	}
	if !strings.HasSuffix(class, ".PayloadS3Pointer") && !strings.HasSuffix(class, ".MessageS3Pointer") {
		return Pointer{}, errors.New("its class must be software.amazon.payloadoffloading.PayloadS3Pointer, or com.amazon.sqs.javamessaging.MessageS3Pointer")
	}
	var at struct {
		Bucket string `json:"s3BucketName"`
		Key    string `json:"s3Key"`
	}
	if err := consumer.DecodeJSON(pair[1], &at); err != nil {
		return Pointer{}, fmt.Errorf("its second part: %w", err)
	}
	switch {
	case at.Bucket == "":
		return Pointer{}, errors.New("field s3BucketName is missing or empty")
	case at.Key == "":
		return Pointer{}, errors.New("field s3Key is missing or empty")
	}
	return Pointer{Bucket: at.Bucket, Key: at.Key, Size: n}, nil
}
