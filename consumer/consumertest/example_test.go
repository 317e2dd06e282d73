package consumertest_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/consumer/consumertest"
)

// payments stands for a service that knows idempotency keys.
type payments map[string]int

func (p payments) charge(key string, amount int) { p[key] = amount }

func Example() {
	// In a test of yours, t is the test's own.
	t := &example{}
	defer t.end()

	service := payments{}
	handler := consumer.HandlerFunc(func(ctx context.Context, _ *consumer.Message) error {
		service.charge(consumer.ChildKey(ctx, "payment:charge"), 100)
		return nil
	})
	bench := consumertest.New(t, handler)
	m := consumer.Message{ID: "order-1", Body: []byte(`{"amount":100}`)}
	bench.Crash(m)          // charged, then the process died
	got := bench.Deliver(m) // the redelivery charges again, under the same key
	fmt.Println(got.Answer, got.Acked, len(service))
	got = bench.Deliver(m) // and once more, by the broker's mistake
	fmt.Println(got.Answer, got.Acked, len(service))
	// Output:
	// run true 1
	// done true 1
}

// A batch handler is tested with messages that are delivered at once.
func ExampleBench_DeliverAll() {
	t := &example{}
	defer t.end()

	handler := consumer.Batch(100, func(_ context.Context, batch []*consumer.Message) []error {
		fmt.Println("handling", len(batch))
		errs := make([]error, len(batch))
		for i, m := range batch {
			if len(m.Body) == 0 {
				errs[i] = consumer.Terminal(fmt.Errorf("order %s is empty", m.ID))
			}
		}
		return errs
	})
	bench := consumertest.New(t, handler)
	for _, got := range bench.DeliverAll(consumer.Message{ID: "a", Body: []byte("1")}, consumer.Message{ID: "b"}) {
		fmt.Println(got.Acked, got.Err)
	}
	// Output:
	// handling 2
	// true <nil>
	// true order b is empty
}

// example is a testing.TB for an example, which has none.
type example struct {
	testing.TB
	cleanups []func()
}

func (e *example) Helper()                      {}
func (e *example) Cleanup(f func())             { e.cleanups = append(e.cleanups, f) }
func (e *example) Errorf(f string, args ...any) { fmt.Printf(f+"\n", args...) }
func (e *example) Fatalf(f string, args ...any) { panic(fmt.Sprintf(f, args...)) }
func (e *example) end() {
	for _, f := range e.cleanups {
		f()
	}
}
