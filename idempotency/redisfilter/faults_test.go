package redisfilter_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/idempotency/redisfilter"
	"github.com/ackledger/ackledger/integration/wire"
	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// fault is what happens to a Redis, and how it is healed.
type fault struct{ begin, heal func() error }

func nothing() error { return nil }

// Whatever happens to Redis: of many requests at once each has one effect, all get the right answer, none waits for Redis, and when
// Redis is well again repetitions are read.
func TestFaults(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(*testing.T, *services.RedisServer, *wire.Proxy) fault{
		"killed": func(t *testing.T, s *services.RedisServer, _ *wire.Proxy) fault {
			return fault{s.Kill, func() error { return s.Start(t.Context()) }}
		},
		"frozen": func(_ *testing.T, s *services.RedisServer, _ *wire.Proxy) fault { return fault{s.Freeze, s.Thaw} },
		"flushed": func(t *testing.T, s *services.RedisServer, _ *wire.Proxy) fault {
			direct := dial(t, s.Addr())
			return fault{func() error { return direct.FlushAll(t.Context()).Err() }, nothing}
		},
		"full": func(t *testing.T, s *services.RedisServer, _ *wire.Proxy) fault {
			direct := dial(t, s.Addr())
			limit := func(bytes string) func() error {
				return func() error { return direct.ConfigSet(t.Context(), "maxmemory", bytes).Err() }
			}
			return fault{limit("1"), limit("0")}
		},
		"slow": func(_ *testing.T, _ *services.RedisServer, p *wire.Proxy) fault {
			return onWire(p, wire.Fault{Delay: 40 * time.Millisecond, Jitter: 10 * time.Millisecond})
		},
		"silent": func(_ *testing.T, _ *services.RedisServer, p *wire.Proxy) fault {
			return onWire(p, wire.Fault{Lose: true})
		},
		"cut off": func(_ *testing.T, _ *services.RedisServer, p *wire.Proxy) fault {
			return onWire(p, wire.Fault{Limit: 100})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startRedis(t, "--maxmemory-policy", "noeviction")
			p := before(t, s)
			f := make(t, s, p)
			w := newWorld(t, dial(t, p.Addr()))
			w.load("before", nothing)
			w.heals()
			w.load("while it begins", f.begin)
			w.load("under it", nothing)
			w.load("while it ends", f.heal)
			w.heals()
		})
	}
}

// startRedis starts a Redis of the test's own.
func startRedis(t *testing.T, args ...string) *services.RedisServer {
	t.Helper()
	services.NeedServers(t)
	s, err := services.StartRedis(t.Context(), args...)
	if errors.Is(err, services.ErrNoRedis) {
		services.Missing(t, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // its data is of no use
	return s
}

// before is a proxy before a Redis.
func before(t *testing.T, s *services.RedisServer) *wire.Proxy {
	t.Helper()
	p, err := wire.New(s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func onWire(p *wire.Proxy, f wire.Fault) fault {
	return fault{func() error { p.Set(f, f); return nil }, func() error { p.Heal(); p.Cut(); return nil }}
}

// A server that answers at random, or not in Redis' words, changes nothing.
func TestALyingServer(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go lie(conn)
		}
	}()
	w := newWorld(t, dial(t, listener.Addr().String()))
	for range 3 {
		w.load("lies", nothing)
	}
}

// lie answers each request at random.
func lie(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		name, err := command(in)
		if err != nil {
			return
		}
		answers := []string{"-ERR no such command\r\n"}
		if name == "SET" {
			answers = []string{"+OK\r\n", "$-1\r\n", "$-1\r\n", "_\r\n", "-ERR not now\r\n", ":1\r\n", "*1\r\n$-1\r\n", "?nonsense\r\n", ""}
		}
		answer := answers[rand.IntN(len(answers))]
		if _, err := conn.Write([]byte(answer)); err != nil || answer == "" {
			return
		}
	}
}

// command reads one request, and returns its first word.
func command(in *bufio.Reader) (name string, err error) {
	count, err := number(in, '*')
	for n := 0; n < count && err == nil; n++ {
		var size int
		if size, err = number(in, '$'); err != nil {
			break
		}
		word := make([]byte, size+2)
		if _, err = io.ReadFull(in, word); n == 0 {
			name = strings.ToUpper(string(word[:size]))
		}
	}
	return name, err
}

func number(in *bufio.Reader, kind byte) (int, error) {
	line, err := in.ReadString('\n')
	if err != nil || len(line) < 3 || line[0] != kind {
		return 0, errors.Join(err, fmt.Errorf("%q", line))
	}
	return strconv.Atoi(line[1 : len(line)-2])
}

// world is two runners, as of two processes, on one ledger and one Redis.
type world struct {
	t       *testing.T
	runners []*idempotency.Runner
	hits    atomic.Int64 // how often Redis said "seen"
	loads   int
}

func newWorld(t *testing.T, client redis.Cmdable) *world {
	t.Helper()
	w := &world{t: t}
	f, err := redisfilter.New(client, redisfilter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l := memory.New()
	for range 2 {
		w.runners = append(w.runners, begin(t, l, idempotency.Options{Filter: &watched{f, &w.hits}, Attempts: 1}))
	}
	return w
}

// watched counts what a filter knows.
type watched struct {
	*redisfilter.Filter
	hits *atomic.Int64
}

func (w *watched) Seen(ctx context.Context, key [ledger.KeySize]byte, window time.Duration) (bool, error) {
	seen, err := w.Filter.Seen(ctx, key, window)
	if seen && err == nil {
		w.hits.Add(1)
	}
	return seen, err
}

// patience is how long a request may take on a slow machine: far less than a client waits for a Redis that does not answer.
const patience = time.Minute

// load makes requests, new ones and those of all loads before; meanwhile is called in their midst.
func (w *world) load(when string, meanwhile func() error) {
	w.t.Helper()
	w.loads++
	const keys, each = 20, 6
	var effects [keys]atomic.Int32
	var all sync.WaitGroup
	for n := range keys * each {
		if n == keys*each/2 {
			if err := meanwhile(); err != nil {
				w.t.Fatalf("%s: %v", when, err)
			}
		}
		all.Go(func() {
			key := n % keys
			name := fmt.Sprint(w.loads, "-", key)
			out, err := w.do(n, name, "body", func(context.Context) (idempotency.Result, error) {
				effects[key].Add(1)
				return idempotency.Result{Body: []byte(name)}, nil
			})
			if err != nil || string(out.Result.Body) != name {
				w.t.Errorf("%s: %s: %q, %v", when, name, out.Result.Body, err)
			}
		})
		if w.loads == 1 {
			continue
		}
		all.Go(func() {
			name := fmt.Sprint(1+rand.IntN(w.loads-1), "-", n%keys)
			if out, err := w.do(n+1, name, "another body", nil); !errors.Is(err, idempotency.ErrMismatch) {
				w.t.Errorf("%s: %s with another body: %+v, %v", when, name, out, err)
			}
		})
	}
	all.Wait()
	for key := range effects {
		if n := effects[key].Load(); n != 1 {
			w.t.Errorf("%s: %d: %d effects", when, key, n)
		}
	}
}

func (w *world) do(n int, key, body string, f idempotency.Func) (idempotency.Outcome, error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	return w.runners[n%len(w.runners)].Do(ctx, idempotency.Request{Scope: "payments", Key: key, Body: []byte(body)}, f)
}

// heals waits until Redis knows repetitions.
func (w *world) heals() {
	w.t.Helper()
	before := w.hits.Load()
	until(w.t, func() bool {
		if out, err := w.do(0, "1-1", "body", nil); err != nil || !out.Replayed {
			w.t.Fatalf("%+v, %v", out, err)
		}
		return w.hits.Load() > before
	})
}

// begin runs a runner until the test ends.
func begin(t testing.TB, l ledger.Ledger, o idempotency.Options) *idempotency.Runner {
	t.Helper()
	r, err := idempotency.New(l, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	until(t, func() bool { return r.Health().Ready })
	return r
}

// until waits for a condition.
func until(t testing.TB, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited for %s", patience)
		}
	}
}
