package web_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/web"
)

// The pages stand under a prefix, behind a login of the program's own.
func Example() {
	pages, err := web.Handler(memory.New(), web.Options{}) // to read; a real ledger is in a database
	if err != nil {
		log.Fatal(err)
	}
	defer pages.Close()
	requireLogin := func(h http.Handler) http.Handler { return h } // yours
	mux := http.NewServeMux()
	mux.Handle("/ackledger/", requireLogin(pages))

	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/ackledger/dead", nil))
	fmt.Println(answer.Code)
	// Output: 200
}
