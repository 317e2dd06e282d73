package cases

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/ackledger/ackledger/bench/internal/suite"
	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/idempotency/httpkey"
)

const httpGroup = "HTTP requests, 64 clients"

func httpCases() []suite.Case {
	n := suite.Size{Full: 30_000, Quick: 5000}
	const server = "net/http and its clients in one process, HTTP/1.1 over loopback; POST of 200 B, a handler that reads it and answers 65 B"
	return []suite.Case{
		{Group: httpGroup, Name: "handler alone", Main: requestRate, N: n, Note: server + "; no key is looked at", Run: alone},
		{Group: httpGroup, Name: "by hand", Main: requestRate, N: n, Note: "the same handler with this in it: " + byHandNote, Run: serving(byHandHandler)},
		{Group: httpGroup, Name: "ours, httpkey", Main: requestRate, N: n, Note: "the handler alone, behind the middleware of httpkey, default settings; PostgreSQL ledger", Run: serving(httpkeyHandler(idempotency.Options{}))},
		{Group: httpGroup, Name: "ours, httpkey, ReadFirst", Main: requestRate, N: n, Note: readFirstNote, Run: serving(httpkeyHandler(idempotency.Options{Filter: idempotency.ReadFirst}))},
	}
}

// payment reads the request, and answers.
var payment = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
	if read(w, q) {
		pay(w)
	}
})

func read(w http.ResponseWriter, q *http.Request) bool {
	_, err := io.Copy(io.Discard, http.MaxBytesReader(w, q.Body, httpkey.DefaultMaxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
	return err == nil
}

func pay(w http.ResponseWriter) {
	w.Header().Set("Content-Type", answerType)
	w.WriteHeader(answerStatus)
	_, _ = w.Write(answerBody) // a client that got less says so
}

func byHandHandler(ctx context.Context, r *suite.Run) (http.Handler, error) {
	s, err := openByHand(ctx, r)
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if !read(w, q) {
			return
		}
		replayed, err := s.once(q.Context(), q.Header.Get(httpkey.DefaultHeader), nothing)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		if replayed {
			w.Header().Set(httpkey.DefaultReplayHeader, "true")
		}
		pay(w)
	}), nil
}

func httpkeyHandler(o idempotency.Options) func(context.Context, *suite.Run) (http.Handler, error) {
	return func(ctx context.Context, r *suite.Run) (http.Handler, error) {
		runner, _, _, err := freshRunner(ctx, r, o)
		if err != nil {
			return nil, err
		}
		once, err := httpkey.New(runner, httpkey.Options{})
		if err != nil {
			return nil, err
		}
		return once(payment), nil
	}
}

// alone measures the handler with nothing before it.
func alone(ctx context.Context, r *suite.Run) (suite.Result, error) {
	ask, err := serve(ctx, r, payment)
	if err != nil {
		return nil, err
	}
	took, err := byClients(ctx, r.N, func(ctx context.Context, i int) error {
		_, err := ask(ctx, requestKey(i))
		return err
	})
	return suite.Result{requestRate: float64(r.N) / took.Seconds()}, err
}

// serving measures new requests of a handler, and then each of them once more.
func serving(open func(context.Context, *suite.Run) (http.Handler, error)) func(context.Context, *suite.Run) (suite.Result, error) {
	return func(ctx context.Context, r *suite.Run) (suite.Result, error) {
		h, err := open(ctx, r)
		if err != nil {
			return nil, err
		}
		ask, err := serve(ctx, r, h)
		if err != nil {
			return nil, err
		}
		return askTwice(ctx, r.N, ask)
	}
}

// serve starts a server of a handler, and returns what asks it: with a key, and whether the answer was a stored one.
func serve(ctx context.Context, r *suite.Run, h http.Handler) (func(ctx context.Context, key string) (bool, error), error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("POST /payments", h)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	r.Cleanup(func() error {
		transport.CloseIdleConnections()
		err := server.Close()
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	})
	client, url := http.Client{Transport: transport}, "http://"+listener.Addr().String()+"/payments"
	return func(ctx context.Context, key string) (bool, error) { return post(ctx, &client, url, key) }, nil
}

func post(ctx context.Context, client *http.Client, url, key string) (replayed bool, err error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(requestBody))
	if err != nil {
		return false, err
	}
	q.Header.Set(httpkey.DefaultHeader, key)
	answer, err := client.Do(q)
	if err != nil {
		return false, err
	}
	body, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return false, err
	}
	return answer.Header.Get(httpkey.DefaultReplayHeader) != "", wantAnswer(answer.StatusCode, body)
}
