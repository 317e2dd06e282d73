package wire

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/rs/zerolog"
)

// Fault is what goes wrong in one direction. The zero value: nothing.
type Fault struct {
	Delay, Jitter time.Duration // data arrives later, by Delay and less than Jitter more
	Lose          bool          // nothing arrives, as long as the fault lasts; the connections end with it
	Limit         int           // bytes after which a connection ends, counted from the fault's begin; 0: no limit
	Piece         int           // at most so many bytes arrive at once; 0: as they were sent
	Refuse        bool          // connections end at once, new ones too
}

// Proxy lies between clients and one server. Its methods may be called at once.
type Proxy struct {
	proxy    *toxiproxy.Proxy
	up, down *direction
}

// toxicName is that of the one toxic, among toxiproxy's.
const toxicName = "ackledger"

var (
	server = sync.OnceValue(func() *toxiproxy.ApiServer {
		toxics.Register(toxicName, new(toxic))
		return toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	})
	directions sync.Map // *direction by number: toxiproxy makes toxics of JSON
	last       struct {
		sync.Mutex
		number int
	}
)

// New starts a proxy on a free port of the loopback address for the server at an address ("host:port"). [Proxy.Close] ends it.
func New(upstream string) (*Proxy, error) {
	p := &Proxy{proxy: toxiproxy.NewProxy(server(), upstream, "127.0.0.1:0", upstream)}
	var err error
	if p.up, err = p.direction("upstream"); err != nil {
		return nil, err
	}
	if p.down, err = p.direction("downstream"); err != nil {
		return nil, err
	}
	if err := p.proxy.Start(); err != nil {
		return nil, fmt.Errorf("wire: to %s: %w", upstream, err)
	}
	return p, nil
}

// direction puts the toxic on one direction, before there is a connection.
func (p *Proxy) direction(stream string) (*direction, error) {
	d := &direction{changed: make(chan struct{})}
	last.Lock()
	last.number++
	d.number = strconv.Itoa(last.number)
	last.Unlock()
	directions.Store(d.number, d)
	spec := fmt.Sprintf(`{"name":%q,"type":%q,"stream":%q,"attributes":{"number":%q}}`, stream, toxicName, stream, d.number)
	if _, err := p.proxy.Toxics.AddToxicJson(strings.NewReader(spec)); err != nil {
		return nil, fmt.Errorf("wire: %s: %w", stream, err)
	}
	return d, nil
}

// Addr is where clients connect ("host:port").
func (p *Proxy) Addr() string { return p.proxy.Listen }

// Close ends the proxy and its connections.
func (p *Proxy) Close() {
	p.proxy.Stop()
	directions.Delete(p.up.number)
	directions.Delete(p.down.number)
}

// Set says what goes wrong from now on with requests and with answers, in place of what did.
func (p *Proxy) Set(requests, answers Fault) {
	p.up.set(requests)
	p.down.set(answers)
}

// Heal is Set with nothing.
func (p *Proxy) Heal() { p.Set(Fault{}, Fault{}) }

// Cut ends all connections; new ones are served.
func (p *Proxy) Cut() {
	p.up.cut()
	p.down.cut()
}
