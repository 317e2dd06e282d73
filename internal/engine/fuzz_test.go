package engine_test

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/checks"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
)

// Whatever a broker delivers: the identity is found without a panic, is the same at the next delivery, is one that a
// ledger takes, and is another message's only if a stamp names this source and this body.
func FuzzIdentify(f *testing.F) {
	own := consumer.NewStamp("queue", "order-1", []byte("body"))
	elsewhere := consumer.NewStamp("other", "order-1", []byte("body"))
	placed := own
	placed.Pos, placed.Group, placed.Token = &ledger.Position{Log: "log/0", Epoch: 2, Offset: 7, Prev: -1}, "billing", 9
	for _, stamp := range []string{own.String(), elsewhere.String(), placed.String(), "v=1&source=queue", "%zz", ""} {
		f.Add("message-1", []byte("body"), consumer.StampName, []byte(stamp), "", "")
		f.Add("message-1", []byte("another body"), consumer.StampName, []byte(stamp), "shipping", "business key")
	}
	f.Add("m", []byte(nil), "\xff\x00", []byte(nil), "g", string(make([]byte, ledger.MaxID+1)))
	f.Fuzz(func(t *testing.T, id string, body []byte, name string, value []byte, group, key string) {
		if id == "" || len(id) > ledger.MaxID {
			return // no broker's
		}
		o := &consumer.Options{}
		if key != "" {
			o.KeyFunc = func(*consumer.Message) (string, error) { return key, nil }
		}
		from := engine.Origin{Scope: "consumer/queue", Source: "queue", Group: group}
		identify := func() (engine.Identity, consumer.Message) {
			m := consumer.Message{ID: id, Body: bytes.Clone(body), Headers: []consumer.Header{{Name: name, Value: bytes.Clone(value)}}}
			return engine.Identify(o, from, &m), m
		}
		got, m := identify()
		again, _ := identify()
		if (got.Invalid == nil) != (again.Invalid == nil) {
			t.Fatalf("once %v, once %v", got.Invalid, again.Invalid)
		}
		if got.Invalid, again.Invalid = nil, nil; !reflect.DeepEqual(got, again) {
			t.Fatalf("once %+v, once %+v", got, again)
		}
		if err := checks.Entry(&ledger.Entry{Key: got.Key, Delivery: []byte("copy"), Window: 1}); err != nil {
			t.Fatalf("no ledger takes it: %v", err)
		}
		if !bytes.Equal(m.Body, body) || !bytes.Equal(m.Headers[0].Value, value) || got.Key.Scope != from.Scope {
			t.Fatalf("changed: %+v, %v", m, got.Key)
		}
		checkOwner(t, &got, id, body, name, value, key)
	})
}

// checkOwner says whether the identity may be what it is.
func checkOwner(t *testing.T, got *engine.Identity, id string, body []byte, name string, value []byte, key string) {
	t.Helper()
	stamp, err := consumer.ParseStamp(value)
	stamped := name == consumer.StampName && err == nil && len(stamp.ID) <= ledger.MaxID &&
		stamp.Counts("queue", ledger.BodyFingerprint(body))
	want := id
	switch {
	case stamped:
		want = stamp.ID
	case key != "" && len(key) <= ledger.MaxID:
		want = key
	}
	if string(got.Key.ID) != want || !stamped && (got.StampToken != 0 || got.Skip || got.Key.Pos != nil) {
		t.Fatalf("stamped %v: the identity is %+v, want %q", stamped, got, want)
	}
}
