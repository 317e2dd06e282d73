package consumer_test

import (
	"context"
	"errors"
	"fmt"
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
	for want, key := range map[string]ledger.Key{
		"62707e8dd9e170eda23c377a91970769e870a68fc0f480b667e0ab772975f0da": {Scope: "orders/queue", ID: []byte("m1")},
		"cf472fb1f8d92c550b256939c840eb1eaf62bdc18eea4bd9457d2e7350790692": placed("cluster/uuid/0", 3, 17),
	} {
		d := &consumer.Delivery{ID: string(key.ID), Key: key.Sum(), Token: 7}
		first := consumer.ChildKey(consumer.WithDelivery(t.Context(), d), "payment:charge")
		if first != want {
			t.Errorf("the key of %v is %s", key, first)
		}
		d.Token = 8 // another attempt, another worker
		if again := consumer.ChildKey(consumer.WithDelivery(t.Context(), d), "payment:charge"); again != first {
			t.Errorf("another key on the next attempt: %s", again)
		}
		if !regexp.MustCompile("^[0-9a-f]{64}$").MatchString(first) {
			t.Errorf("not 64 hexadecimal digits: %s", first)
		}
	}
}

// placed is the key of a record of a topic, whose id says neither which topic of that name it is nor under which leader it
// was written.
func placed(log string, epoch int32, offset int64) ledger.Key {
	return ledger.Key{Scope: "s", ID: fmt.Appendf(nil, "orders-0-%d", offset),
		Pos: &ledger.Position{Log: log, Epoch: epoch, Offset: offset, Prev: offset - 1}}
}

func TestChildKeysAreSeparate(t *testing.T) {
	seen := map[string]string{}
	named := func(scope, id string) ledger.Key { return ledger.Key{Scope: scope, ID: []byte(id)} }
	for _, c := range []struct {
		key        ledger.Key
		step       string
		generation int
	}{
		{named("s", "i"), "p", 0}, {named("s", "i"), "p", 1}, {named("s", "i"), "q", 0}, {named("s", "j"), "p", 0},
		{named("r", "i"), "p", 0}, {named("si", ""), "p", 0}, {named("", "si"), "p", 0}, {named("", ""), "sip", 0},
		{named("s", "ip"), "", 0}, {named("sip", ""), "", 0}, {named("", ""), "", 0}, {named("s", "i"), "p\x00", 0},
		{named("s", "i\x00"), "p", 0}, {named("s", "i"), "p\x00\x00\x00\x00\x00\x00\x00\x00", 0},
		{placed("c/old/0", 0, 7), "p", 0}, {placed("c/new/0", 0, 7), "p", 0}, {placed("c/old/0", 1, 7), "p", 0},
		{placed("c/old/0", 0, 8), "p", 0}, {named("s", "orders-0-7"), "p", 0},
	} {
		what := fmt.Sprintf("%v %+v, step %q, generation %d", c.key, c.key.Pos, c.step, c.generation)
		key := consumer.DeriveChildKey(c.key.Sum(), c.step, c.generation)
		if other, ok := seen[key]; ok {
			t.Errorf("%s has the key of %s", what, other)
		}
		seen[key] = what
	}
}
