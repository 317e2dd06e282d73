package canonical_test

import (
	"fmt"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/idempotency/canonical"
)

func ExampleJSON() {
	a, _ := canonical.JSON([]byte(`{"amount": 10.0, "to": "K\u00f6ln"}`))
	b, _ := canonical.JSON([]byte(`{"to":"Köln","amount":1e1}`))
	fmt.Println(string(a) == string(b), string(a))
	// Output: true {"amount":10,"to":"Köln"}
}

// Two copies of a message that differ in when they were sent are one.
func ExampleFields() {
	opt := consumer.Options{
		FingerprintFunc: func(m *consumer.Message) ([]byte, error) { return canonical.Fields(m.Body, "/order", "/amount") },
	}
	for _, body := range []string{`{"order":7,"amount":10,"sent":"12:00"}`, `{"sent":"12:05","amount":10,"order":7}`} {
		bytes, err := opt.FingerprintFunc(&consumer.Message{Body: []byte(body)})
		fmt.Println(string(bytes), err)
	}
	// Output:
	// {"/amount":10,"/order":7} <nil>
	// {"/amount":10,"/order":7} <nil>
}
