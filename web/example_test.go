package web_test

import (
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/web"
)

// The pages stand under a prefix, behind a login of the program's own.
func Example() {
	l, mux := memory.New(), http.NewServeMux()                     // a real ledger is in a database
	requireLogin := func(h http.Handler) http.Handler { return h } // yours, as is who is logged in
	login := func(*http.Request) string { return "alex" }
	mayDo := func(r *http.Request, a web.Action, scope string) error {
		if a == web.Read || login(r) == "alex" {
			return nil
		}
		return errors.New("ask the operators")
	}
	pages, err := web.Handler(l, web.Options{Write: true, Authorize: mayDo, Actor: login})
	if err != nil {
		log.Fatal(err)
	}
	defer pages.Close()
	mux.Handle("/ackledger/", requireLogin(pages))

	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/ackledger/dead", nil))
	fmt.Println(answer.Code)
	// Output: 200
}
