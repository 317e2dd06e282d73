package consumer_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
)

type order struct {
	ID    string    `json:"id"`
	Cents int       `json:"cents"`
	At    time.Time `json:"at"`
	Tags  []string  `json:"tags"`
	Quote int       `json:"quote,string"`
}

func handleJSON(body []byte) (got *order, err error) {
	h := consumer.JSON(func(_ context.Context, o order) error { got = &o; return nil })
	err = h.Handle(context.Background(), &consumer.Message{ID: "m1", Body: body})
	return got, err
}

func TestJSONDecodes(t *testing.T) {
	for _, body := range []string{
		`{"id":"a","cents":5}`, " \n{\"id\":\"a\",\"cents\":5,\"unknown\":{}}\t\n",
		`{"id":"a","cents":5,"tags":[` + strings.Repeat(`"[{\"",`, 2000) + `"]"]}`, // brackets in strings are no nesting
		`{"id":"a","cents":5,"unknown":[` + strings.Repeat(`[],{},`, 600) + `0]}`,  // nor is what stands side by side
	} {
		if o, err := handleJSON([]byte(body)); err != nil || o.ID != "a" || o.Cents != 5 {
			t.Errorf("%.40s: %+v, %v", body, o, err)
		}
	}
	failed := errors.New("mine")
	h := consumer.JSON(func(context.Context, int) error { return failed })
	if err := h.Handle(context.Background(), &consumer.Message{Body: []byte("1")}); !errors.Is(err, failed) || consumer.IsTerminal(err) {
		t.Errorf("the function's own error came back as %v", err)
	}
}

// What cannot be decoded fails for good, and says where; the body's text never gets into the error, which is logged and
// archived apart from the body.
func TestJSONErrorsNameThePositionAndNotTheText(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"empty", "", "body of message m1: JSON ends too early at byte 0"},
		{"cut", `{"id":"SECRET`, "body of message m1: JSON ends too early at byte 13"},
		{"not JSON", "SECRET", "body of message m1: not JSON at byte 1 of 6"},
		{"in the middle", `{"id":SECRET}`, "body of message m1: not JSON at byte 7 of 13"},
		{"type", `{"cents":"SECRET"}`, `JSON at byte 17 of 18: field "cents" does not fit type int`},
		{"time", `{"at":"SECRET"}`, "a value does not fit its type (*time.ParseError)"},
		{"quoted", `{"quote":"SECRET"}`, "a value does not fit its type"},
		{"trailing", `{"id":"a"} SECRET`, "more than one JSON value: the first ends at byte 10 of 17"},
		{"two", `{"id":"a"}{"id":"SECRET"}`, "more than one JSON value: the first ends at byte 10 of 25"},
		{"trailing bracket", `{"id":"a"}]`, "more than one JSON value"},
		{"deep", strings.Repeat("[", 1001), "JSON nested deeper than 1000 levels at byte 1000"},
		{"very deep", strings.Repeat(`{"a":`, 10_000_000), "JSON nested deeper than 1000 levels at byte 5000"},
		{"invalid UTF-8", "\xff\xfe", "not JSON at byte 1 of 2"},
	} {
		o, err := handleJSON([]byte(c.body))
		if err == nil || o != nil || !consumer.IsTerminal(err) {
			t.Errorf("%s: %+v, %v: must fail for good", c.name, o, err)
			continue
		}
		if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: %q, want %q", c.name, err, c.want)
		}
	}
	if _, err := handleJSON(nil); !consumer.IsTerminal(err) {
		t.Errorf("a tombstone: %v", err)
	}
	_, err := handleJSON([]byte(`{"at":"SECRET"}`))
	if _, ok := errors.AsType[*time.ParseError](err); !ok {
		t.Errorf("%v does not wrap the type's own error", err)
	}
	if o, err := handleJSON([]byte(`{"tags":` + strings.Repeat("[", 999) + strings.Repeat("]", 999) + `}`)); err == nil || strings.Contains(err.Error(), "deeper") {
		t.Errorf("1000 levels: %+v, %v", o, err)
	}
	if o, err := handleJSON([]byte(`{"others":[` + strings.Repeat("[],", 2000) + `{}]}`)); err != nil {
		t.Errorf("2000 lists side by side: %+v, %v", o, err)
	}
}

func FuzzJSON(f *testing.F) {
	f.Add([]byte(`{"id":"a","at":"x","quote":"y"}`))
	f.Add([]byte(`[[[{"a":"\"]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		o, err := handleJSON(body)
		if (o == nil) != (err != nil) || err != nil && !consumer.IsTerminal(err) {
			t.Fatalf("%+v, %v", o, err)
		}
		if err == nil && !json.Valid(body) {
			t.Fatalf("%q was taken", body)
		}
	})
}

func TestVerbs(t *testing.T) {
	boom := errors.New("boom")
	if consumer.Terminal(nil) != nil || consumer.RetryAfter(nil, time.Hour) != nil {
		t.Error("nil does not stay nil")
	}
	if consumer.IsTerminal(nil) || consumer.IsTerminal(boom) {
		t.Error("terminal by mistake")
	}
	if _, ok := consumer.RetryDelay(boom); ok {
		t.Error("a delay by mistake")
	}
	err := errors.Join(errors.New("x"), consumer.Terminal(boom))
	if !consumer.IsTerminal(err) || !errors.Is(err, boom) || consumer.Terminal(boom).Error() != "boom" {
		t.Errorf("%v", err)
	}
	for given, want := range map[time.Duration]time.Duration{-1: 0, 0: 0, time.Minute: time.Minute, 13 * time.Hour: 13 * time.Hour, 31 * 24 * time.Hour: 30 * 24 * time.Hour} {
		if d, ok := consumer.RetryDelay(consumer.RetryAfter(boom, given)); !ok || d != want {
			t.Errorf("RetryAfter %s: %s, want %s", given, d, want)
		}
	}
	both := consumer.RetryAfter(consumer.Terminal(boom), time.Minute)
	if !consumer.IsTerminal(both) || both.Error() != "boom" {
		t.Errorf("%v", both)
	}
}

func TestChain(t *testing.T) {
	var order []string
	mark := func(name string) consumer.Middleware {
		return func(h consumer.Handler) consumer.Handler {
			return consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
				order = append(order, name)
				return h.Handle(ctx, m)
			})
		}
	}
	h := consumer.HandlerFunc(func(context.Context, *consumer.Message) error { order = append(order, "handler"); return nil })
	if err := consumer.Chain(h, mark("outer"), nil, mark("inner")).Handle(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(order, []string{"outer", "inner", "handler"}) {
		t.Errorf("%v", order)
	}
}

func TestHeader(t *testing.T) {
	m := &consumer.Message{Headers: []consumer.Header{{Name: "a", Value: []byte("1")}, {Name: "A", Value: []byte("2")}, {Name: "a", Value: []byte("3")}, {Name: "nil"}}}
	if v, ok := m.Header("a"); !ok || string(v) != "3" {
		t.Errorf("the last one counts: %q, %v", v, ok)
	}
	if v, ok := m.Header("nil"); !ok || v != nil {
		t.Errorf("a nil value: %q, %v", v, ok)
	}
	if _, ok := m.Header("b"); ok {
		t.Error("a header that is not there")
	}
}
