package chaos_test

import (
	"fmt"
	"time"

	"github.com/ackledger/ackledger/integration/wire"
)

// link is a proxy between one process and one server.
type link struct {
	to    string // "PostgreSQL", "Kafka", "SQS"
	proxy *wire.Proxy
}

func newLink(to, upstream string) (*link, error) {
	p, err := wire.New(upstream)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", to, err)
	}
	return &link{to: to, proxy: p}, nil
}

func (l *link) addr() string { return l.proxy.Addr() }

func (l *link) close() { l.proxy.Close() }

// linkFaults are those of a link that last, with requests and with answers. What does not pass is gone, and its connection
// ends with the fault. (The proxy is not stopped: somebody else could take its port.)
var linkFaults = map[string][2]wire.Fault{
	"delays":       {{}, {Delay: 100 * time.Millisecond, Jitter: 600 * time.Millisecond}},
	"answers lost": {{}, {Lose: true}},
	"half-open":    {{Lose: true}, {Lose: true}},
}

// poison begins a fault; heal ends it.
func (l *link) poison(fault string) { l.proxy.Set(linkFaults[fault][0], linkFaults[fault][1]) }

func (l *link) heal() { l.proxy.Heal() }

// cut ends all connections at once; new ones are served.
func (l *link) cut() { l.proxy.Cut() }
