package httpkey_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/idempotency/httpkey"
	"github.com/ackledger/ackledger/ledger/memory"
)

// A client that got no answer sends its payment again, and it is made once.
func ExampleNew() {
	runner, err := idempotency.New(memory.New(), idempotency.Options{})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx) }() // until the process ends
	for !runner.Health().Ready {
		time.Sleep(time.Millisecond)
	}

	once, err := httpkey.New(runner, httpkey.Options{Caller: func(r *http.Request) string { return r.Header.Get("X-Tenant") }})
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /payments", once(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Println("paid")
		w.WriteHeader(http.StatusCreated)
	})))
	for range 2 {
		r := httptest.NewRequest(http.MethodPost, "/payments", strings.NewReader(`{"amount":10}`))
		r.Header.Set("Idempotency-Key", `"8e03978e-40d5-43e8-bc93-6894a57f9324"`)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("Idempotent-Replayed") == "true")
	}

	stop()
	fmt.Println(<-ended)
	// Output:
	// paid
	// 201 false
	// 201 true
	// <nil>
}
