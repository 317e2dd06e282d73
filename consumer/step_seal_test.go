package consumer_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/consumer/consumertest"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// turned is a cipher that turns bytes round. It is away for as many calls as it is told.
type turned struct{ away atomic.Int32 }

func (c *turned) Seal(_ context.Context, plain []byte) ([]byte, error) { return c.turn(plain) }

func (c *turned) Open(_ context.Context, sealed []byte) ([]byte, error) { return c.turn(sealed) }

func (c *turned) turn(b []byte) ([]byte, error) {
	if c.away.Add(-1) >= 0 {
		return nil, errors.New("no key")
	}
	out := bytes.Clone(b)
	for i := range out {
		out[i] ^= 0xff
	}
	return out, nil
}

// TestStepSealed: a worker's cipher seals what is recorded of steps, and opens it on the next attempt. What was recorded before there was a
// cipher is read as it is.
func TestStepSealed(t *testing.T) {
	t.Parallel()
	l := memory.New()
	var made atomic.Int32
	handler := func(fail *error, steps ...string) consumer.Handler {
		return consumer.HandlerFunc(func(ctx context.Context, _ *consumer.Message) error {
			for _, name := range steps {
				got, err := consumer.Step(ctx, name, func(context.Context, string) (string, error) {
					made.Add(1)
					return "card 4111", nil
				})
				if err != nil || got != "card 4111" {
					return errors.Join(err, *fail)
				}
			}
			a, _ := ledger.AttemptFrom(ctx)
			all, err := ledger.ReadSteps(ctx, a.Owner(), a.Ticket())
			for i, s := range all {
				if plain := bytes.Contains(s.Result, []byte("4111")); plain != (s.Name == "plain") {
					t.Errorf("step %d, %s: %q", i, s.Name, s.Result)
				}
			}
			return errors.Join(err, *fail)
		})
	}
	fail := errLater
	m := consumer.Message{ID: "m"}
	sealed := consumer.Options{Cipher: &turned{}}
	for n, c := range []struct {
		opt   consumer.Options
		steps []string
		calls int32
		says  string
	}{
		{consumer.Options{}, []string{"plain"}, 1, "later"},
		{sealed, []string{"plain", "sealed"}, 2, "later"},
		{sealed, []string{"sealed", "plain"}, 2, "later"},
		{consumer.Options{}, []string{"sealed"}, 2, "set Options.Cipher"},
	} {
		b := consumertest.New(t, handler(&fail, c.steps...), consumertest.Settings{Ledger: l, Options: c.opt})
		if r := b.Deliver(m); r.Err == nil || !strings.Contains(r.Err.Error(), c.says) || made.Load() != c.calls {
			t.Errorf("%d: %+v after %d calls", n, r, made.Load())
		}
	}
}

// TestStepCipherAway: a cipher that does not answer is asked again, as the ledger is, and a result that it never sealed is not recorded in
// plain.
func TestStepCipherAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := joined(t, memory.New())
		ctx := claimed(t, o, "m")
		a, _ := ledger.AttemptFrom(ctx)
		c := &turned{}
		ctx = consumer.WithStepCipher(ctx, c)
		for away, recorded := range map[int32]bool{3: true, 1 << 20: false} {
			c.away.Store(away)
			name := map[bool]string{true: "back", false: "away"}[recorded]
			began := time.Now()
			_, err := consumer.Step(ctx, name, func(context.Context, string) (int, error) { return 7, nil })
			took := time.Since(began)
			if recorded && err != nil || !recorded && (!ledger.Unavailable(err) || !strings.Contains(err.Error(), "the call was made") || took < 29*time.Second || took > 31*time.Second) {
				t.Errorf("%s: %v after %s", name, err, took)
			}
		}
		if all, err := ledger.ReadSteps(t.Context(), o, a.Ticket()); err != nil || len(all) != 1 || all[0].Name != "back" {
			t.Errorf("%+v, %v", all, err)
		}
	})
}
