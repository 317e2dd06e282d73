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

func (l *link) close() { l.proxy.Stop() }

// The faults of a link, as toxics. What does not pass is gone, and its connection ends with the fault: taking a toxic of
// this type off closes them. (The proxy is not stopped: somebody else could take its port.)
var toxics = map[string][]string{
	"delays":       {`{"name":"d","type":"latency","stream":"downstream","attributes":{"latency":400,"jitter":300}}`},
	"answers lost": {`{"name":"d","type":"timeout","stream":"downstream","attributes":{"timeout":0}}`},
	"half-open": {`{"name":"d","type":"timeout","stream":"downstream","attributes":{"timeout":0}}`,
		`{"name":"u","type":"timeout","stream":"upstream","attributes":{"timeout":0}}`},
}

// poison begins a fault; heal ends it.
func (l *link) poison(fault string) error {
	for _, t := range toxics[fault] {
		if _, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(t)); err != nil {
			return fmt.Errorf("%s of %s: %w", fault, l.to, err)
		}
	}
	return nil
}

func (l *link) heal() { l.proxy.Toxics.ResetToxics(context.Background()) }

// cut ends all connections at once; new ones are served.
func (l *link) cut() error {
	defer l.heal()
	return l.poison("half-open")
}
