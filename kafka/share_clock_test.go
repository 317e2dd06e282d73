package kafka

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// pipes are a network in memory, for a client and a broker that share a test's clock.
type pipes struct {
	mu        sync.Mutex
	listeners map[string]*pipeListener
}

type pipeListener struct {
	addr  *net.TCPAddr
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}
func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *pipeListener) Addr() net.Addr { return l.addr }

func (p *pipes) listen(_, _ string) (net.Listener, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := &pipeListener{
		addr:  &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1000 + len(p.listeners)},
		conns: make(chan net.Conn), done: make(chan struct{}),
	}
	p.listeners[l.addr.String()] = l
	return l, nil
}

func (p *pipes) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	p.mu.Lock()
	l := p.listeners[addr]
	p.mu.Unlock()
	if l == nil {
		return nil, net.ErrClosed
	}
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// clockedSite is a site of a broker that shares the test's clock, with a topic of one partition and locks of 30 s.
func clockedSite(t *testing.T) *site {
	t.Helper()
	network := &pipes{listeners: map[string]*pipeListener{}}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"), kfake.ListenFn(network.listen))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	s := newSite(t, cluster.ListenAddrs(), "orders", kgo.Dialer(network.dial))
	s.fake, s.opts = cluster, []kgo.Opt{kgo.Dialer(network.dial)}
	s.alterGroup(map[string]string{termReset: "earliest", termLimit: "20", termLock: "30000", termIsolation: "read_committed"})
	return s
}

// A record is held for an hour of the clock, 120 locks long, while others come and go: the client's polls do not accept it, its lock
// does not end, and it is delivered once.
func TestPitfall235_HeldForAnHour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := clockedSite(t)
		s.send(0, "held")
		b, free := newBook(), make(chan struct{})
		c := quickShare()
		c.HandlerTimeout = 2 * time.Hour
		w := s.shareWorker(func(_ context.Context, m *consumer.Message) error {
			b.add(m)
			if string(m.Body) == "held" {
				<-free
			}
			return nil
		}, c)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		values := numbers("n", 240)
		for _, v := range values { // 4 polls a minute
			s.send(0, v)
			time.Sleep(15 * time.Second)
		}
		b.once(t, append(values, "held"))
		if lag := s.shareLag(0); lag != 1 {
			t.Errorf("%d records are not decided after an hour, want the one that is held", lag)
		}
		close(free)
		time.Sleep(10 * time.Second)
		if lag := s.shareLag(0); lag != 0 {
			t.Errorf("%d records are not decided in the end", lag)
		}
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		b.once(t, append(values, "held"))
	})
}

// A record is decided while the renewal of an older one of its partition is under way. It is accepted when that has ended: one answer
// is of both.
func TestPitfall238_AcceptancesWaitForRenewals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := clockedSite(t)
		free := map[string]chan struct{}{"old": make(chan struct{}), "new": make(chan struct{})}
		w := s.shareWorker(func(_ context.Context, m *consumer.Message) error { <-free[string(m.Body)]; return nil }, nil)
		renewing := make(chan struct{})
		s.fake.ControlKey(int16(kmsg.ShareAcknowledge), func(kmsg.Request) (kmsg.Response, error, bool) {
			s.fake.DropControl()
			s.fake.SleepControl(func() { close(renewing); time.Sleep(2 * time.Second) })
			return nil, nil, false
		})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		s.send(0, "old")
		time.Sleep(6 * time.Second) // of 30: it is renewed at 10
		s.send(0, "new")
		<-renewing
		close(free["new"])
		time.Sleep(time.Second)
		w.accepts.mu.Lock()
		if len(w.accepts.records) != 1 {
			t.Errorf("%d acceptances wait for the renewal, want 1", len(w.accepts.records))
		}
		w.accepts.mu.Unlock()
		time.Sleep(3 * time.Second)
		if w.locks.deciding() != 0 || len(w.accepts.records) != 0 {
			t.Error("what waited for the renewal waits on")
		}
		close(free["old"])
		time.Sleep(2 * time.Second)
		if lag := s.shareLag(0); lag != 0 {
			t.Errorf("%d records are not accepted", lag)
		}
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// What hooks of others put into a record's context, such as a span, they find again while the record is hidden from the client.
func TestHiddenIsOnlyWhatTheClientKeeps(t *testing.T) {
	t.Parallel()
	type (
		span struct{}
		own  struct{}
		none struct{}
	)
	r := &kgo.Record{Context: context.WithValue(context.WithValue(t.Context(), span{}, "a span"), own{}, new(kgo.Record))}
	hide(r)
	if r.Context.Value(span{}) != "a span" || r.Context.Value(own{}) != nil || r.Context.Value(none{}) != nil {
		t.Errorf("hidden: %v, %v", r.Context.Value(span{}), r.Context.Value(own{}))
	}
	r.Context = context.WithValue(r.Context, span{}, "another") // by a hook that comes later
	if reveal(r); r.Context.Value(own{}) == nil {
		t.Error("it is not revealed")
	}
}
