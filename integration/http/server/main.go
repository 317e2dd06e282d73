package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/idempotency/httpkey"
	"github.com/ackledger/ackledger/integration/http/plan"
)

func main() {
	o, err := plan.Read()
	if err == nil {
		err = serve(o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// drain bounds each part of an orderly end.
const drain = 20 * time.Second

// serve serves until the standard input ends. All that it opens it closes.
func serve(o *plan.Orders) (err error) {
	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	go func() {
		_, err := io.Copy(io.Discard, os.Stdin) // the end of the process ends this
		stop(err)
	}()
	log, err := zap.NewProduction()
	if err != nil {
		return err
	}
	s, err := openStore(ctx, o, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	runner, err := idempotency.New(s.ledger, idempotency.Options{Name: o.Name, Lease: o.Lease, Wait: 5 * time.Second, Drain: drain, Logger: log})
	if err != nil {
		return err
	}
	once, err := httpkey.New(runner, httpkey.Options{Logger: log})
	if err != nil {
		return err
	}
	h := &handler{orders: o, store: s}
	mux := http.NewServeMux()
	for route, handle := range map[string]http.HandlerFunc{plan.Pay: h.pay, plan.Outside: h.outside, plan.Calls: h.calls} {
		mux.Handle("POST "+route+"{id}", h.around(once(handle)))
	}
	return run(ctx, runner, mux)
}

// run has the runner run until the server is shut down, so that requests in hand are answered.
func run(ctx context.Context, runner *idempotency.Runner, mux http.Handler) error {
	lasts, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(lasts) }()
	for !runner.Health().Ready {
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
			end()
			return <-ended
		case <-time.After(5 * time.Millisecond):
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	fmt.Println(listener.Addr())
	select {
	case err = <-served:
	case <-ctx.Done():
		last, cancel := context.WithTimeout(lasts, drain)
		defer cancel()
		err = server.Shutdown(last)
	}
	end()
	return errors.Join(err, <-ended)
}
