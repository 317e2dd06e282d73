package wire_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/ackledger/ackledger/integration/wire"
)

// What the server did is done, but nobody hears of it.
func ExampleProxy() {
	done := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { done <- "charged" }))
	defer server.Close()
	p, err := wire.New(server.Listener.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	p.Set(wire.Fault{}, wire.Fault{Lose: true})
	client := http.Client{Timeout: 500 * time.Millisecond}
	resp, err := client.Get("http://" + p.Addr())
	if err == nil {
		_ = resp.Body.Close()
	}
	fmt.Println(<-done, "and told:", err == nil)
	// Output: charged and told: false
}
