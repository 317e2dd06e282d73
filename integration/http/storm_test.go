package http_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackledger/ackledger/integration/http/plan"
	"github.com/ackledger/ackledger/integration/services"
)

// long says that this is `make test-long`.
func long() bool { return os.Getenv("ACKLEDGER_LONG") != "" }

// What a storm is made of.
const (
	servers  = 3
	lanes    = 6 // keys that are asked for at once
	clients  = 3 // of each key
	repeats  = 2 // how often each client asks again
	leastHit = 2 // requests that were taken over from a killed server, at least
)

// storm is servers that are killed at random, and what their clients were answered.
type storm struct {
	t        *testing.T
	d        *database
	begun    atomic.Int64 // keys so far
	answered atomic.Int64 // answers so far

	mu    sync.Mutex
	crew  []*server
	draw  *rand.Rand
	given map[string]answer // the first one of each key
}

// Servers are killed and started again at random while clients repeat their requests, directly and through a proxy that hands them on. Each key
// has one effect, all its clients have one answer, and it is the effect's. The seed is in the log; ACKLEDGER_SEED repeats its draws.
func TestStorm(t *testing.T) {
	t.Parallel()
	services.NeedServers(t)
	for _, store := range plan.Stores {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			weather(t, store)
		})
	}
}

func weather(t *testing.T, store string) {
	lasts := 5 * time.Second
	if long() {
		lasts = 5 * time.Minute
	}
	seed := seed(t)
	s := &storm{t: t, d: open(t, store), draw: rand.New(rand.NewPCG(seed, 0)), given: map[string]answer{}}
	for range servers {
		s.crew = append(s.crew, start(t, s.d, "", false))
	}
	p, front := newProxy(t, s.addresses)
	direct, proxied := newClient(t, s.any), newClient(t, func() string { return front })
	ctx, cancel := context.WithTimeout(t.Context(), lasts+3*patience)
	defer cancel()
	over := make(chan struct{})
	var all sync.WaitGroup
	for lane := range lanes {
		all.Go(func() {
			for n := 0; !closed(over) && ctx.Err() == nil; n++ {
				s.key(ctx, fmt.Sprintf("%d-%d", lane, n), direct, proxied)
			}
		})
	}
	kills := s.rage(ctx, time.Now().Add(lasts))
	close(over)
	all.Wait()
	for name := range s.given { // once more, when all is calm
		s.ask(ctx, direct, name)
	}
	hits := s.judge()
	t.Logf("seed %d: %d keys, %d answers, %d kills, %d requests taken over, %d handed on by the proxy", seed, len(s.given), s.answered.Load(), kills, hits, p.resent.Load())
	if p.resent.Load() == 0 {
		t.Error("the proxy has handed nothing on")
	}
}

// seed is the storm's, of chance unless somebody sets it.
func seed(t *testing.T) uint64 {
	named := os.Getenv("ACKLEDGER_SEED")
	if named == "" {
		return rand.Uint64()
	}
	n, err := strconv.ParseUint(named, 10, 64)
	if err != nil {
		t.Fatalf("ACKLEDGER_SEED: %v", err)
	}
	return n
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// rage kills and starts servers until the storm's time is over and enough requests were hit. A kill comes soon after a key's first request, so
// that it hits something. How many answers lie between two kills is drawn, and not how much time, so that a slow machine's requests are not
// hit more often than the five times that the ledger lets pass.
func (s *storm) rage(ctx context.Context, end time.Time) (kills int) {
	for ; time.Now().Before(end) || s.hits() < leastHit; kills++ {
		if !reaches(ctx, &s.answered, s.drawn(30, 100)) || !reaches(ctx, &s.begun, 1) {
			s.t.Errorf("the storm does not end: %d kills, %d requests hit", kills, s.hits())
			return kills
		}
		time.Sleep(time.Duration(s.drawn(0, 60)) * time.Millisecond) // into some line of the handler
		n := s.drawn(0, servers)
		s.crew[n].kill() // the crew is changed here alone
		born := start(s.t, s.d, "", false)
		s.mu.Lock()
		s.crew[n] = born
		s.mu.Unlock()
	}
	return kills
}

// reaches waits until a number has grown by some; false: the context has ended.
func reaches(ctx context.Context, number *atomic.Int64, by int64) bool {
	for end := number.Load() + by; number.Load() < end; {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(time.Millisecond):
		}
	}
	return true
}

// hits counts the requests that were taken over from a server that was killed.
func (s *storm) hits() (n int) {
	if err := s.d.db.QueryRowContext(s.t.Context(), `SELECT count(*) FROM effect WHERE token > 1`).Scan(&n); err != nil {
		s.t.Error(err)
	}
	return n
}

// drawn draws a number from one up to another.
func (s *storm) drawn(from, to int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return from + s.draw.Int64N(to-from)
}

// addresses are those of all servers in some order. Some may be dead.
func (s *storm) addresses() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]string, servers)
	for to, from := range s.draw.Perm(servers) {
		all[to] = s.crew[from].address
	}
	return all
}

func (s *storm) any() string { return s.addresses()[0] }

// key has several clients ask for one key at once, again and again.
func (s *storm) key(ctx context.Context, name string, direct, proxied *client) {
	s.begun.Add(1)
	var all sync.WaitGroup
	for n := range clients {
		c := direct
		if n%2 == 1 {
			c = proxied
		}
		all.Go(func() {
			for range 1 + repeats {
				s.ask(ctx, c, name)
			}
		})
	}
	all.Wait()
}

// ask asks once for a key, until it is answered, and compares the answer with the first one.
func (s *storm) ask(ctx context.Context, c *client, name string) {
	got, err := c.ask(ctx, "/pay/"+name, name)
	if err != nil {
		s.t.Error(err)
		return
	}
	s.answered.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	first, known := s.given[name]
	if !known {
		s.given[name] = got
	} else if !got.same(first) {
		s.t.Errorf("key %s: answers %+v and %+v", name, first, got)
	}
}

// judge compares what was done with what was answered, and returns how many requests were taken over.
func (s *storm) judge() (hits int) {
	effects := s.d.effects(s.t)
	var wrong []error
	for name, given := range s.given {
		if of := effects[name]; len(of) != 1 || of[0].answer != given.body {
			wrong = append(wrong, fmt.Errorf("key %s: answered %+v, effects %+v", name, given, of))
		} else if of[0].token > 1 {
			hits++
		}
	}
	if len(effects) != len(s.given) {
		wrong = append(wrong, fmt.Errorf("%d names have effects, %d were asked for", len(effects), len(s.given)))
	}
	if len(wrong) > 0 {
		s.t.Error(errors.Join(wrong[:min(len(wrong), 10)]...))
	}
	return hits
}
