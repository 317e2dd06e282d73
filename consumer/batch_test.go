package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
)

func TestBatch(t *testing.T) {
	f := func(context.Context, []*consumer.Message) []error { return nil }
	if consumer.Batch(1, nil) != nil {
		t.Error("a nil function is accepted")
	}
	for _, size := range []int{1, consumer.MaxBatch} {
		if b, ok := consumer.Batch(size, f).(consumer.BatchHandler); !ok || b.BatchSize() != size {
			t.Errorf("a batch of %d is refused", size)
		}
	}
}

func TestBatchHandlesSingleMessages(t *testing.T) {
	failure := errors.New("no")
	for _, c := range []struct {
		errs []error
		want error
	}{
		{nil, nil}, {[]error{nil}, nil}, {[]error{failure}, failure},
		{[]error{}, consumer.BatchLengthError{Messages: 1}}, {[]error{nil, nil}, consumer.BatchLengthError{Messages: 1, Errors: 2}},
	} {
		h := consumer.Batch(5, func(_ context.Context, batch []*consumer.Message) []error {
			if len(batch) != 1 || batch[0].ID != "one" {
				t.Errorf("batch %v", batch)
			}
			return c.errs
		})
		if got := h.Handle(t.Context(), &consumer.Message{ID: "one"}); !errors.Is(got, c.want) {
			t.Errorf("errors %v: %v, want %v", c.errs, got, c.want)
		}
	}
	if s := (consumer.BatchLengthError{Messages: 3, Errors: 2}).Error(); !strings.Contains(s, "3") || !strings.Contains(s, "2") {
		t.Error(s)
	}
}

// batchContext is a context as the engine makes it for a batch handler.
type batchContext struct {
	context.Context
	batch *consumer.BatchDelivery
}

func (b *batchContext) Value(key any) any {
	if v, ok := b.batch.Value(key); ok {
		return v
	}
	return b.Context.Value(key)
}

func TestForIsTheContextOfOneMessage(t *testing.T) {
	type userKey struct{}
	type wrapKey struct{}
	messages := []*consumer.Message{{ID: "a"}, {ID: "b"}, {ID: "b"}}
	attempt := ledger.NewBatchAttempt(nil, make([]ledger.Ticket, 3))
	b := &consumer.BatchDelivery{}
	for i, m := range messages {
		b.Deliveries = append(b.Deliveries, consumer.Delivery{Message: m, ID: fmt.Sprint(i), Key: [ledger.KeySize]byte{byte(i)}, Token: uint64(10 + i)})
	}
	base, cancel := context.WithCancel(context.WithValue(t.Context(), userKey{}, "value"))
	ctx := context.WithValue(&batchContext{ledger.WithAttempt(base, attempt), b}, wrapKey{}, true)
	for i, m := range messages { // the second and the third are told apart by what they are, not by their id
		one := consumer.For(ctx, m)
		child, stop := context.WithCancel(one)
		for _, c := range []context.Context{one, child, consumer.For(one, m)} {
			if consumer.MessageFrom(c) != m || consumer.Token(c) != uint64(10+i) || c.Value(userKey{}) != "value" {
				t.Errorf("message %d: %v, token %d", i, consumer.MessageFrom(c), consumer.Token(c))
			}
			if consumer.ChildKey(c, "x") != consumer.DeriveChildKey([ledger.KeySize]byte{byte(i)}, "x", 0) {
				t.Errorf("message %d: another's child key", i)
			}
			if _, ok := ledger.AttemptFrom(c); ok {
				t.Errorf("message %d: a transaction for one message would settle all", i)
			}
			if err := consumer.SetResult(c, []byte(m.ID)); err != nil || string(attempt.ResultAt(i)) != m.ID {
				t.Errorf("message %d: result %q, %v", i, attempt.ResultAt(i), err)
			}
		}
		other := messages[(i+1)%3]
		if got := consumer.MessageFrom(consumer.For(one, other)); got != other {
			t.Errorf("from message %d to its neighbour: %v", i, got)
		}
		stop()
	}
	if consumer.For(ctx, &consumer.Message{ID: "a"}) != ctx || consumer.For(base, messages[0]) != base {
		t.Error("a message of no batch, or no batch, has a context of its own")
	}
	one := consumer.For(ctx, messages[0])
	if s := fmt.Sprintf("%v %+v", one, one); s != "ackledger handler of 0 ackledger handler of 0" {
		t.Errorf("printed as %s", s)
	}
	if one.Err() != nil {
		t.Error("cancelled too early")
	}
	cancel()
	if <-one.Done(); one.Err() == nil {
		t.Error("the batch's end is not its messages'")
	}
	if err := consumer.SetResult(ctx, nil); err == nil {
		t.Error("the batch has a result")
	}
}
