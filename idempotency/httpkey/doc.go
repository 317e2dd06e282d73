// Package httpkey makes HTTP handlers answer a repeated request with what came of the first one, by the Idempotency-Key header: as
// draft-ietf-httpapi-idempotency-key-header-07 has it, and as Stripe's published behaviour is (docs.stripe.com/api/idempotent_requests).
//
//	once, err := httpkey.New(runner, httpkey.Options{Caller: func(r *http.Request) string { return r.Header.Get("X-Tenant") }})
//	if err != nil {
//		panic(err)
//	}
//	mux := http.NewServeMux()
//	mux.Handle("POST /payments", once(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
//		fmt.Println("paid")
//		w.WriteHeader(http.StatusCreated)
//	})))
//
// [New] makes the middleware over an [idempotency.Runner]. A handler that runs in postgres.InTx or sqlite.InTx and writes its answer in
// there has effect and stored answer in one commit. A handler with outside effects passes on consumer.ChildKey.
//
// An answer that the handler writes after its transaction has committed reaches the first client alone: a repetition is told that it was
// not kept. Where the transaction failed and the handler answers with 400 or more, that is sent, and the next request runs again.
// An answer that is flushed, or larger than what is kept, goes to the client before its transaction has ended: where that fails, the
// connection is cut off, so that nobody takes the answer for whole.
//
// # Routers
//
// The route's pattern is [http.Request.Pattern]. Behind http.StripPrefix two routers may have the same one: their requests differ by the
// whole path, so that one key in both is a mismatch. chi sets it for middlewares of With, not for those of Use. For gin and echo an adapter
// sets it, hands the middleware's writer to the handlers, and has their errors answered behind the middleware: module
// integration/routers of this repository has both, tested.
//
// # Files
//
// Each file uses what stands below it:
//
//	httpkey.go   the middleware: what a request is, and what is answered
//	recorder.go  what a handler answers, as it is kept
//	options.go   the settings
//	header.go    the header's syntax
//	problem.go   what is told of a request that is not run
package httpkey
