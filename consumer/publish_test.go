package consumer_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/consumer/consumertest"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// TestPublishFromABatch: the context of one message of a batch publishes in the batch's transaction.
func TestPublishFromABatch(t *testing.T) {
	t.Parallel()
	l := memory.New()
	o, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	claims, err := o.Claim(t.Context(), []ledger.Entry{{Key: ledger.Key{Scope: "s", ID: []byte("m")}, Delivery: []byte("m"),
		Fingerprint: ledger.BodyFingerprint([]byte("m")), Window: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	m := &consumer.Message{ID: "m"}
	batch := &consumer.BatchDelivery{Deliveries: []consumer.Delivery{{Message: m}}}
	ctx := ledger.WithAttempt(&batchContext{t.Context(), batch}, ledger.NewBatchAttempt(o, []ledger.Ticket{claims[0].Ticket}))
	err = memory.InTx(ctx, func(ctx context.Context) error {
		return consumer.Publish(consumer.For(ctx, m), ledger.Outgoing{Target: "t", ID: "published"})
	})
	if err != nil {
		t.Fatal(err)
	}
	if list, err := l.ListOutbox(t.Context(), "", 0, 10, false); err != nil || len(list) != 1 || list[0].ID != "published" {
		t.Fatalf("%+v, %v", list, err)
	}
}

// TestPublishWithoutInTx: a handler without a transaction is told so.
func TestPublishWithoutInTx(t *testing.T) {
	t.Parallel()
	var got error
	bench := consumertest.New(t, consumer.HandlerFunc(func(ctx context.Context, _ *consumer.Message) error {
		got = consumer.Publish(ctx, ledger.Outgoing{Target: "t"})
		return nil
	}))
	bench.Deliver(consumer.Message{ID: "1"})
	if !errors.Is(got, ledger.ErrNotInTx) {
		t.Fatalf("%v, want ErrNotInTx", got)
	}
}
