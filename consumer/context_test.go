package consumer_test

import (
	"context"
	"errors"
	"regexp"
	"testing"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
)

func TestOutsideOfAHandler(t *testing.T) {
	ctx := context.Background()
	if consumer.MessageFrom(ctx) != nil || consumer.Token(ctx) != 0 || consumer.ChildKey(ctx, "step") != "" {
		t.Error("a context that comes from no handler says something")
	}
	if err := consumer.SetResult(ctx, nil); !errors.Is(err, ledger.ErrNoAttempt) {
		t.Errorf("SetResult: %v", err)
	}
}

// The key is passed on to other services, and must be the same after a deploy years later: its value is fixed here.
func TestChildKeyIsStable(t *testing.T) {
	d := &consumer.Delivery{Scope: "orders/queue", ID: "m1", Token: 7}
	first := consumer.ChildKey(consumer.WithDelivery(context.Background(), d), "payment:charge")
	if first != "9e1727d9fef72f4ee856455bb874994972eb053703bdd90bf414a638273b941c" {
		t.Errorf("the key is %s", first)
	}
	d.Token = 8 // another attempt, another worker
	if again := consumer.ChildKey(consumer.WithDelivery(context.Background(), d), "payment:charge"); again != first {
		t.Errorf("another key on the next attempt: %s", again)
	}
	if !regexp.MustCompile("^[0-9a-f]{64}$").MatchString(first) {
		t.Errorf("not 64 hexadecimal digits: %s", first)
	}
}

func TestChildKeysAreSeparate(t *testing.T) {
	seen := map[string]string{}
	for _, c := range []struct {
		scope, id, step string
		generation      int
	}{
		{"s", "i", "p", 0}, {"s", "i", "p", 1}, {"s", "i", "q", 0}, {"s", "j", "p", 0}, {"r", "i", "p", 0},
		{"si", "", "p", 0}, {"", "si", "p", 0}, {"", "", "sip", 0}, {"s", "ip", "", 0}, {"sip", "", "", 0}, {"", "", "", 0},
		{"s", "i", "p\x00", 0}, {"s", "i\x00", "p", 0},
	} {
		key := consumer.DeriveChildKey(c.scope, c.id, c.step, c.generation)
		if other, ok := seen[key]; ok {
			t.Errorf("%+v has the key of %s", c, other)
		}
		seen[key] = c.scope + "|" + c.id + "|" + c.step
	}
}
