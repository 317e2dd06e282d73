package consumertest_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/consumer/consumertest"
	"github.com/ackledger/ackledger/ledger"
)

// A producer sends a message of its own, with a stamp that says it is order 7 of another one. It ran as order 7, and the
// other's order was archived as a mismatch when it came. With keys, who has none is not believed.
func TestPitfall127_StampOfAnotherProducersMessage(t *testing.T) {
	key := consumer.StampKey{ID: "orders", Secret: bytes.Repeat([]byte{7}, 32)}
	ran := map[string]int{}
	handler := consumer.HandlerFunc(func(_ context.Context, m *consumer.Message) error { ran[m.ID]++; return nil })
	bench := consumertest.New(t, handler, consumertest.Settings{Options: consumer.Options{
		KeyFunc: func(m *consumer.Message) (string, error) { return string(m.Body), nil },
		Stamps:  consumer.Stamps{Keys: []consumer.StampKey{key}},
	}})
	stamped := func(id, body string, s consumer.Stamp) consumer.Message {
		return consumer.Message{ID: id, Source: "orders", Body: []byte(body), Headers: []consumer.Header{{Name: consumer.StampName, Value: []byte(s.String())}}}
	}
	stamp := func(body string) consumer.Stamp { return consumer.NewStamp("orders", "order 7", []byte(body)) }
	for _, forged := range []consumer.Stamp{
		stamp("forged"),
		stamp("forged").Sign(consumer.StampKey{ID: key.ID, Secret: bytes.Repeat([]byte{8}, 32)}),
	} {
		if got := bench.Deliver(stamped("message 1", "forged", forged)); !got.Acked {
			t.Errorf("%+v", got)
		}
	}
	if got := bench.Deliver(consumer.Message{ID: "message 2", Source: "orders", Body: []byte("order 7")}); !got.Acked || got.Runs != 1 || got.Answer != ledger.Run {
		t.Errorf("the genuine message: %+v", got)
	}
	if ran["forged"] != 1 || ran["order 7"] != 1 || len(ran) != 2 {
		t.Errorf("ran: %v", ran)
	}
	again := bench.Deliver(stamped("message 3", "order 7", stamp("order 7").Sign(key)))
	if !again.Acked || again.Runs != 0 || again.Answer != ledger.Done {
		t.Errorf("the copy that is signed is one of its own: %+v", again)
	}
}
