package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/web"
)

// page shows the demo's ledger in a browser, to read, while the demo runs and for as long as its reader likes.
type page struct {
	url    string
	pages  *web.UI
	server *http.Server
	done   chan error
}

// startPage serves the page on a free port of this machine.
func startPage(ctx context.Context, l ledger.Operator) (*page, error) {
	pages, err := web.Handler(l, web.Options{})
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, pages.Close())
	}
	p := &page{url: "http://" + listener.Addr().String() + "/", pages: pages, done: make(chan error, 1),
		server: &http.Server{Handler: pages, ReadHeaderTimeout: 10 * time.Second}}
	go func() { p.done <- p.server.Serve(listener) }()
	return p, nil
}

// close ends the page, live connections included.
func (p *page) close() error {
	err := errors.Join(p.server.Close(), p.pages.Close())
	if served := <-p.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
