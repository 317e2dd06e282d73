package cloudevents_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/consumer/consumertest"
	"github.com/ackledger/ackledger/formats/cloudevents"
	"github.com/ackledger/ackledger/ledger"
)

var at = time.Date(2026, 5, 2, 0, 54, 6, 0, time.UTC)

// paid is an event as the SDK makes it.
func paid(t testing.TB) event.Event {
	t.Helper()
	e := event.New()
	e.SetID("1")
	e.SetSource("/shop")
	e.SetType("com.example.paid")
	e.SetSubject("order-a")
	e.SetTime(at)
	e.SetExtension("traceparent", "00-1")
	if err := e.SetData("application/json", json.RawMessage(`{"order":"a"}`)); err != nil {
		t.Fatal(err)
	}
	return e
}

func structured(t testing.TB, e event.Event) []byte {
	t.Helper()
	body, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func headers(pairs ...string) (out []consumer.Header) {
	for p := range slices.Chunk(pairs, 2) {
		out = append(out, consumer.Header{Name: p[0], Value: []byte(p[1])})
	}
	return out
}

// binary has paid's attributes as headers with a prefix.
func binary(prefix string, more ...string) []consumer.Header {
	return headers(slices.Concat([]string{
		"content-type", "application/json", prefix + "specversion", "1.0", prefix + "id", "1", prefix + "source", "/shop",
		prefix + "type", "com.example.paid", prefix + "subject", "order-a", prefix + "time", "2026-05-02T00:54:06Z", prefix + "traceparent", "00-1", "other", "x",
	}, more)...)
}

func messages(t testing.TB) map[string]consumer.Message {
	body, data := structured(t, paid(t)), []byte(`{"order":"a"}`)
	gateway := headers("Content-Type", "application/json", "Ce-Specversion", "1.0", "Ce-Id", "1", "Ce-Source", "/shop", "Ce-Type", "com.example.paid",
		"Ce-Subject", "order-a", "Ce-Time", "2026-05-02T00:54:06Z", "Ce-Traceparent", "00-1")
	return map[string]consumer.Message{
		"Kafka, binary":          {Topic: "orders", Body: data, Headers: binary("ce_")},
		"SQS, binary":            {Body: data, Headers: binary("ce-")},
		"a gateway's case":       {Body: data, Headers: gateway},
		"Kafka, structured":      {Topic: "orders", Body: body, Headers: headers("content-type", "application/cloudevents+json; charset=UTF-8")},
		"SQS, structured":        {Body: body},
		"structured goes before": {Body: body, Headers: headers("content-type", "Application/CloudEvents+JSON", "ce_specversion", "9")},
	}
}

func TestBothModes(t *testing.T) {
	keys, fingerprints := map[string]bool{}, map[string]bool{}
	for name, m := range messages(t) {
		e, err := cloudevents.Decode(&m)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := paid(t)
		if e.String() != want.String() || !bytes.Equal(e.Data(), want.Data()) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, e, want)
		}
		key, err := cloudevents.Key(&m)
		if err != nil {
			t.Error(err)
		}
		fingerprint, err := cloudevents.Fingerprint(&m)
		if err != nil {
			t.Error(err)
		}
		keys[key], fingerprints[string(fingerprint)] = true, true
	}
	if len(keys) != 1 || !keys["5:/shop:1"] || len(fingerprints) != 1 {
		t.Errorf("keys %v, fingerprints %v", keys, fingerprints)
	}
}

func TestOtherData(t *testing.T) {
	bytesIn := `{"specversion":"1.0","id":"1","source":"/s","type":"t","data_base64":"AP8="}`
	for _, c := range []struct {
		m    consumer.Message
		want string
	}{
		{consumer.Message{Body: []byte(bytesIn)}, "\x00\xff"},
		{consumer.Message{Body: []byte("\x00\xff"), Headers: headers("ce_specversion", "1.0", "ce_id", "1", "ce_source", "/s", "ce_type", "t")}, "\x00\xff"},
		{consumer.Message{Topic: "o", Headers: headers("ce_specversion", "0.3", "ce_id", "1", "ce_source", "/s", "ce_type", "t")}, ""},
		{consumer.Message{Body: []byte(`{"specversion":"0.3","id":"1","source":"/s","type":"t","data":{"a":1}}`)}, `{"a":1}`},
		{consumer.Message{Body: []byte(`{"specversion":"1.0","id":"1","source":"/s","type":"t","datacontenttype":"text/plain","data":"x"}`)}, "x"},
	} {
		if e, err := cloudevents.Decode(&c.m); err != nil || string(e.Data()) != c.want {
			t.Errorf("%s: %v, %v, want %q", c.m.Body, e, err, c.want)
		}
	}
}

func TestWhatIsNoEventFailsForGoodByName(t *testing.T) {
	body := string(structured(t, paid(t)))
	for _, c := range []struct {
		m    consumer.Message
		want string
	}{
		{consumer.Message{}, "CloudEvent: JSON ends too early at byte 0"},
		{consumer.Message{Body: []byte("SECRET")}, "CloudEvent: not JSON at byte 1 of 6"},
		{consumer.Message{Body: []byte(`{"order":"SECRET"}`)}, "neither a header ce_specversion nor a field specversion in the body"},
		{consumer.Message{Body: []byte(body), Headers: headers("content-type", "application/cloudevents-batch+json")}, "is a batch"},
		{consumer.Message{Body: []byte(body), Headers: headers("content-type", "application/cloudevents+avro")},
			`content-type must be application/cloudevents+json, is "application/cloudevents+avro"`},
		{consumer.Message{Body: []byte(body), Headers: headers("content-type", "application/cloudevents+json; =")}, "header content-type: mime"},
		{consumer.Message{Body: []byte(body[:len(body)-1])}, "JSON ends too early"},
		{consumer.Message{Body: []byte(strings.Replace(body, `"id":"1"`, `"id":{"SECRET":1}`, 1))}, "an attribute does not fit its type"},
		{consumer.Message{Body: []byte(strings.Replace(body, `"1.0"`, `"SECRET"`, 1))}, "an attribute does not fit its type"},
		{consumer.Message{Body: []byte(strings.Replace(body, `2026-05-02T`, `SECRET`, 1))}, "an attribute does not fit its type"},
		{consumer.Message{Body: []byte(`{"specversion":"1.0","data":"SECRET"}`)}, "attributes are missing or wrong: id, source, type"},
		{consumer.Message{Headers: headers("ce_specversion", "2.0")}, `specversion must be 1.0 or 0.3, is "2.0"`},
		{consumer.Message{Headers: binary("ce_", "ce_time", "SECRET")}, `header "ce_time" has no value of its type`},
		{consumer.Message{Headers: binary("ce_", "ce_not-a-name", "SECRET")}, `header "ce_not-a-name"`},
		{consumer.Message{Headers: headers("ce_specversion", "1.0", "ce_id", "SECRET")}, "attributes are missing or wrong: source, type"},
	} {
		c.m.ID = "m1"
		h := cloudevents.Handler(func(context.Context, event.Event) error { t.Errorf("%s: the handler ran", c.want); return nil })
		err := h.Handle(t.Context(), &c.m)
		if err == nil || !consumer.IsTerminal(err) || !strings.HasPrefix(err.Error(), "message m1: ") || !strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%v, want %s", err, c.want)
		}
		if _, err := cloudevents.Key(&c.m); err == nil {
			t.Errorf("a key of what is no event: %s", c.want)
		}
		if _, err := cloudevents.Fingerprint(&c.m); err == nil {
			t.Errorf("a fingerprint of what is no event: %s", c.want)
		}
	}
}

func TestHandlers(t *testing.T) {
	failed := errors.New("mine")
	m := consumer.Message{ID: "m1", Body: structured(t, paid(t))}
	h := cloudevents.Handler(func(_ context.Context, e event.Event) error { return fmt.Errorf("%s: %w", e.ID(), failed) })
	if err := h.Handle(t.Context(), &m); !errors.Is(err, failed) || consumer.IsTerminal(err) {
		t.Error(err)
	}
	router, err := consumer.NewRouter(cloudevents.Type, map[string]consumer.Handler{
		"com.example.paid": consumer.JSON(func(ctx context.Context, v struct{ Order string }) error {
			if v.Order != "a" || cloudevents.From(ctx).Subject() != "order-a" {
				t.Errorf("%+v, %v", v, cloudevents.From(ctx))
			}
			return failed
		}),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := consumer.Chain(router, cloudevents.Events).Handle(t.Context(), &m); !errors.Is(err, failed) {
		t.Error(err)
	}
	if err := consumer.Chain(router, cloudevents.Events).Handle(t.Context(), &consumer.Message{}); !consumer.IsTerminal(err) {
		t.Error(err)
	}
	if cloudevents.Handler(nil) != nil || cloudevents.Events(nil) != nil || cloudevents.From(t.Context()) != nil || cloudevents.Type(t.Context(), &m) != "" {
		t.Error("nil does not stay nil")
	}
}

// A producer sends an event again: in another mode, with another time and another trace. The handler runs once.
func TestOneEventOfTwoMessages(t *testing.T) {
	calls := 0
	h := cloudevents.Handler(func(context.Context, event.Event) error { calls++; return nil })
	bench := consumertest.New(t, h, consumertest.Settings{Options: consumer.Options{KeyFunc: cloudevents.Key, FingerprintFunc: cloudevents.Fingerprint}})
	again := binary("ce_", "ce_time", "2026-06-01T00:00:00Z", "ce_traceparent", "00-2")
	source := "arn:aws:sqs:eu-west-1:123456789012:orders"
	for i, m := range []consumer.Message{
		{Body: structured(t, paid(t))}, {Body: []byte(`{"order":"a"}`), Headers: again}, {Body: []byte(`{"order":"b"}`), Headers: again},
	} {
		m.ID, m.Source = fmt.Sprint(i), source
		want := []ledger.Answer{ledger.Run, ledger.Done, ledger.Mismatch}[i]
		if got := bench.Deliver(m); got.Answer != want {
			t.Errorf("message %d: %+v, want %v", i, got, want)
		}
	}
	if calls != 1 {
		t.Errorf("%d calls", calls)
	}
}

func FuzzDecode(f *testing.F) {
	for _, m := range messages(f) {
		kind, _ := m.Header("content-type")
		f.Add(m.Body, string(kind), "", "")
		f.Add(m.Body, string(kind), "ce_specversion", "1.0")
	}
	f.Add([]byte("x"), "application/json", "ce_time", "2026-05-02T00:54:06Z")
	f.Fuzz(func(t *testing.T, body []byte, kind, name, value string) {
		for _, m := range []consumer.Message{
			{Body: body, Headers: headers("content-type", kind, name, value)},
			{Body: body, Headers: binary("ce_", "content-type", kind, name, value)},
		} {
			before := slices.Clone(body)
			e, err := cloudevents.Decode(&m)
			if !bytes.Equal(body, before) {
				t.Fatal("the body was changed")
			}
			if (e == nil) != (err != nil) || err != nil && !consumer.IsTerminal(err) {
				t.Fatalf("%v, %v", e, err)
			}
			key, kerr := cloudevents.Key(&m)
			_, ferr := cloudevents.Fingerprint(&m)
			if (kerr != nil) != (err != nil) || (ferr != nil) != (err != nil) || err == nil && key == "" {
				t.Fatalf("%v, %q, %v, %v", err, key, kerr, ferr)
			}
		}
	})
}
