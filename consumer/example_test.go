package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

type payment struct {
	Order string `json:"order"`
	Cents int    `json:"cents"`
}

// A typed handler. Errors say what is to become of the message: Terminal fails it for good, RetryAfter says when to try
// again, any other error is tried again after a backoff.
func ExampleJSON() {
	handler := consumer.JSON(func(ctx context.Context, p payment) error {
		switch {
		case p.Cents <= 0:
			return consumer.Terminal(fmt.Errorf("order %s: %d cents", p.Order, p.Cents))
		case p.Order == "busy":
			return consumer.RetryAfter(errors.New("bank is closed"), time.Hour)
		}
		fmt.Println("charge", p.Order, p.Cents)
		return nil
	})
	for _, body := range []string{`{"order":"a","cents":500}`, `{"order":"b"}`, `{"order":"busy","cents":1}`, `{"order":`} {
		err := handler.Handle(context.Background(), &consumer.Message{ID: "m1", Body: []byte(body)})
		delay, _ := consumer.RetryDelay(err)
		fmt.Println(err, consumer.IsTerminal(err), delay)
	}
	// Output:
	// charge a 500
	// <nil> false 0s
	// order b: 0 cents true 0s
	// bank is closed false 1h0m0s
	// body of message m1: JSON ends too early at byte 9 true 0s
}

// A batch handler does the work of many messages in one call, and answers for each.
func ExampleBatch() {
	handler := consumer.Batch(100, func(_ context.Context, batch []*consumer.Message) []error {
		fmt.Println("one request for", len(batch))
		errs := make([]error, len(batch)) // nil instead, if all went well
		for i, m := range batch {
			if len(m.Body) == 0 {
				errs[i] = consumer.Terminal(fmt.Errorf("message %s is empty", m.ID))
			}
		}
		return errs
	})
	many := handler.(consumer.BatchHandler) // as a worker does
	fmt.Println(many.HandleBatch(context.Background(), []*consumer.Message{{ID: "m1", Body: []byte("x")}, {ID: "m2"}}))
	fmt.Println(handler.Handle(context.Background(), &consumer.Message{ID: "m3"})) // code that knows single messages only
	// Output:
	// one request for 2
	// [<nil> message m2 is empty]
	// one request for 1
	// message m3 is empty
}

// Middleware wraps a handler for what is the same around many.
func ExampleChain() {
	log := func(next consumer.Handler) consumer.Handler {
		return consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
			err := next.Handle(ctx, m)
			fmt.Println(m.ID, "ended with", err)
			return err
		})
	}
	handler := consumer.HandlerFunc(func(context.Context, *consumer.Message) error { return nil })
	_ = consumer.Chain(handler, log).Handle(context.Background(), &consumer.Message{ID: "m1"})
	// Output: m1 ended with <nil>
}

// A queue with messages of several types. What no handler is for fails for good, by the name of its type.
func ExampleNewRouter() {
	handler, err := consumer.NewRouter(consumer.TypeHeader("type"), map[string]consumer.Handler{
		"paid": consumer.JSON(func(_ context.Context, p payment) error {
			fmt.Println("paid", p.Order)
			return nil
		}),
	}, nil)
	if err != nil {
		panic(err)
	}
	for _, name := range []string{"paid", "shipped"} {
		m := consumer.Message{ID: "m1", Body: []byte(`{"order":"a"}`), Headers: []consumer.Header{{Name: "type", Value: []byte(name)}}}
		err := handler.Handle(context.Background(), &m)
		fmt.Println(err, consumer.IsTerminal(err))
	}
	// Output:
	// paid a
	// <nil> false
	// message m1 has type "shipped", which no handler is for true
}

// A producer that may send one event twice stamps it: both copies are one message, whatever ids the broker gives them.
func ExampleNewStamp() {
	body := []byte(`{"order":"a"}`)
	stamp := consumer.NewStamp("arn:aws:sqs:eu-west-1:123456789012:orders", "order-a", body)
	fmt.Println(consumer.StampName+":", stamp)
	// Output: ackledger-id: fp=4271d8889b3334aa0b1050d84cc6009c&id=order-a&source=arn%3Aaws%3Asqs%3Aeu-west-1%3A123456789012%3Aorders&v=1
}

// An outside call is a step: its result is recorded, and a later attempt of the message gets it without a call. A worker's part
// (the claims, the attempts' contexts, the release after a failure) is written out here.
func ExampleStep() {
	handle := func(ctx context.Context) (string, error) {
		return consumer.Step(ctx, "charge", func(_ context.Context, key string) (string, error) {
			fmt.Println("charging; the payment service knows a repetition by a key of", len(key), "digits")
			return "charge-1", nil
		})
	}
	ctx := context.Background()
	worker, err := memory.New().Join(ctx, time.Minute)
	if err != nil {
		panic(err)
	}
	key := ledger.Key{Scope: "payments", ID: []byte("order-1")}
	for range 2 {
		claims, err := worker.Claim(ctx, []ledger.Entry{{Key: key, Delivery: []byte("copy-1"), Window: time.Hour}})
		if err != nil {
			panic(err)
		}
		attempt := ledger.WithAttempt(ctx, ledger.NewAttempt(worker, claims[0].Ticket))
		fmt.Println(handle(consumer.WithDelivery(attempt, &consumer.Delivery{Key: key.Sum(), Token: claims[0].Token})))
		if _, err := worker.Settle(ctx, []ledger.Settlement{{Ticket: claims[0].Ticket, Kind: ledger.Release, Count: true}}); err != nil {
			panic(err)
		}
	}
	// Output:
	// charging; the payment service knows a repetition by a key of 64 digits
	// charge-1 <nil>
	// charge-1 <nil>
}
