package consumer_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/ackledger/ackledger/consumer"
)

func typed(name string) *consumer.Message {
	return &consumer.Message{ID: "m1", Headers: []consumer.Header{{Name: "type", Value: []byte(name)}}}
}

func TestRouterGivesEachTypeToItsHandler(t *testing.T) {
	paid, shipped := errors.New("paid"), errors.New("shipped")
	handlers := map[string]consumer.Handler{"paid": answer(paid), "shipped": answer(shipped)}
	r, err := consumer.NewRouter(consumer.TypeHeader("type"), handlers, nil)
	if err != nil {
		t.Fatal(err)
	}
	handlers["later"] = answer(nil) // the router has a copy
	for name, want := range map[string]error{"paid": paid, "shipped": shipped} {
		if err := r.Handle(t.Context(), typed(name)); !errors.Is(err, want) || consumer.IsTerminal(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, want := range map[string]string{
		"later": `message m1 has type "later", which no handler is for`, "": `message m1 has type "", which no handler is for`,
		"a\nb": `has type "a\nb"`, strings.Repeat("x", 101): `has type "` + strings.Repeat("x", 100) + `",`,
	} {
		if err := r.Handle(t.Context(), typed(name)); err == nil || !consumer.IsTerminal(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", name, err, want)
		}
	}
	if err := r.Handle(t.Context(), &consumer.Message{ID: "m2"}); !consumer.IsTerminal(err) {
		t.Errorf("without the header: %v", err)
	}
}

func TestRouterHasAFallback(t *testing.T) {
	other := errors.New("other")
	r, err := consumer.NewRouter(consumer.TypeHeader("type"), nil, answer(other))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Handle(t.Context(), typed("new")); !errors.Is(err, other) {
		t.Error(err)
	}
}

func TestRouterIsRefusedByName(t *testing.T) {
	ok := map[string]consumer.Handler{"a": answer(nil)}
	var missing consumer.HandlerFunc
	for want, build := range map[string]func() (consumer.Handler, error){
		"typeOf must be a function": func() (consumer.Handler, error) { return consumer.NewRouter(nil, ok, nil) },
		"must have a handler":       func() (consumer.Handler, error) { return consumer.NewRouter(consumer.TypeHeader("type"), nil, nil) },
		`the handler for "b"`: func() (consumer.Handler, error) {
			return consumer.NewRouter(consumer.TypeHeader("type"), map[string]consumer.Handler{"b": nil}, nil)
		},
		`the handler for "c"`: func() (consumer.Handler, error) {
			return consumer.NewRouter(consumer.TypeHeader("type"), map[string]consumer.Handler{"c": missing}, nil)
		},
		"fallback must be a handler": func() (consumer.Handler, error) {
			return consumer.NewRouter(consumer.TypeHeader("type"), ok, missing)
		},
	} {
		if h, err := build(); h != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v, want %s", h, err, want)
		}
	}
}

func FuzzRouter(f *testing.F) {
	r, err := consumer.NewRouter(consumer.TypeHeader("type"), map[string]consumer.Handler{"a": answer(nil)}, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add("a")
	f.Add("\xff\x00")
	f.Fuzz(func(t *testing.T, name string) {
		if err := r.Handle(t.Context(), typed(name)); (err == nil) != (name == "a") || err != nil && (!consumer.IsTerminal(err) || len(err.Error()) > 1000) {
			t.Fatalf("%q: %v", name, err)
		}
	})
}

// answer is a handler that answers so.
func answer(err error) consumer.Handler {
	return consumer.HandlerFunc(func(context.Context, *consumer.Message) error { return err })
}
