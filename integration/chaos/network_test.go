package chaos_test

import (
	"context"
	"fmt"
	"strings"
	"sync"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// link is a proxy between one process and one server.
type link struct {
	to    string // "PostgreSQL", "Kafka", "SQS"
	proxy *toxiproxy.Proxy

	mu     sync.Mutex
	closed bool
}

var proxies = sync.OnceValue(func() *toxiproxy.ApiServer {
	return toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
})

func newLink(to, upstream string) (*link, error) {
	p := toxiproxy.NewProxy(proxies(), to, "127.0.0.1:0", upstream)
	if err := p.Start(); err != nil {
		return nil, err
	}
	return &link{to: to, proxy: p}, nil
}

func (l *link) addr() string { return l.proxy.Listen }

func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.proxy.Stop()
}

// cut ends all connections at once; new ones are served.
func (l *link) cut() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.proxy.Stop()
	return l.proxy.Start()
}

// The faults of a link that last, as toxics: what does not pass is gone, and its connection ends with the fault.
var toxics = map[string][]string{
	"delays":       {`{"name":"d","type":"latency","stream":"downstream","attributes":{"latency":400,"jitter":300}}`},
	"answers lost": {`{"name":"d","type":"timeout","stream":"downstream","attributes":{"timeout":0}}`},
	"half-open": {`{"name":"d","type":"timeout","stream":"downstream","attributes":{"timeout":0}}`,
		`{"name":"u","type":"timeout","stream":"upstream","attributes":{"timeout":0}}`},
}

// poison begins a fault that lasts; heal ends it.
func (l *link) poison(fault string) error {
	for _, t := range toxics[fault] {
		if _, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(t)); err != nil {
			return fmt.Errorf("%s of %s: %w", fault, l.to, err)
		}
	}
	return nil
}

func (l *link) heal(fault string) error {
	if fault == "delays" {
		l.proxy.Toxics.ResetToxics(context.Background())
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.proxy.Stop() // connections of which something is lost
	l.proxy.Toxics.ResetToxics(context.Background())
	if l.closed {
		return nil
	}
	return l.proxy.Start()
}
