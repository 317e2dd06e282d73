package http_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackledger/ackledger/integration/http/plan"
	"github.com/ackledger/ackledger/internal/services"
)

// long says that this is `make test-long`.
func long() bool { return os.Getenv("ACKLEDGER_LONG") != "" }

// What a storm is made of.
const (
	servers  = 3
	lanes    = 6 // requests that are asked for at once
	clients  = 3 // of each
	repeats  = 2 // how often each client asks again
	leastHit = 2 // payments that were taken over from a killed server, at least
	stopEach = 5 // one of so many faults stops a server for longer than its lease; the others kill one
	stopped  = 3 * lease / 2
)

// storm is servers that are killed at random, and what their clients were answered.
type storm struct {
	t        *testing.T
	d        *database
	begun    atomic.Int64 // paths so far
	answered atomic.Int64 // answers so far

	mu    sync.Mutex
	crew  []*server
	draw  *rand.Rand
	given map[string][]answer // by path
}

// Servers are killed and started again at random, or stopped for too long, while clients repeat their requests, directly and through a proxy
// that hands them on. Each request has one effect, all its clients have one answer, and it is the effect's; an outside call that is recorded
// is not made again. The seed is in the log; ACKLEDGER_SEED repeats its draws.
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
	s := &storm{t: t, d: open(t, store), draw: rand.New(rand.NewPCG(seed, 0)), given: map[string][]answer{}}
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
				s.path(ctx, plan.Path(seed, lane, n), direct, proxied)
			}
		})
	}
	kills, stops := s.rage(ctx, time.Now().Add(lasts))
	close(over)
	all.Wait()
	for path := range s.given { // once more, when all is calm
		s.ask(ctx, direct, path)
	}
	h := s.d.history(t)
	h.given = s.given
	found, wrong := h.judge()
	t.Logf("seed %d: %d requests, %d answers, %d kills, %d stops, %d payments taken over, %d outside calls given back, %d replays, %d handed on by the proxy",
		seed, len(s.given), s.answered.Load(), kills, stops, found.takenOver, found.givenBack, found.replays, p.resent.Load())
	if len(wrong) > 0 {
		t.Error(errors.Join(wrong[:min(len(wrong), 10)]...))
	}
	found.enough(t.Errorf)
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

// rage kills and starts servers, and stops some for too long, until the storm's time is over and enough requests were hit. A fault comes soon
// after a request's first try, so that it hits something. How many answers lie between two faults is drawn, and not how much time, so that a
// slow machine's requests are not hit more often than the five times that the ledger lets pass.
func (s *storm) rage(ctx context.Context, end time.Time) (kills, stops int) {
	for time.Now().Before(end) || !s.hasHit() {
		if !reaches(ctx, &s.answered, s.drawn(30, 100)) || !reaches(ctx, &s.begun, 1) {
			s.t.Errorf("the storm does not end: %d kills, %d stops", kills, stops)
			return kills, stops
		}
		time.Sleep(time.Duration(s.drawn(0, 60)) * time.Millisecond) // into some line of the handler
		n := s.drawn(0, servers)
		if s.drawn(0, stopEach) == 0 {
			s.crew[n].stop(stopped)
			stops++
			continue
		}
		s.crew[n].kill() // the crew is changed here alone
		kills++
		born := start(s.t, s.d, "", false)
		s.mu.Lock()
		s.crew[n] = born
		s.mu.Unlock()
	}
	return kills, stops
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

// hasHit says whether enough requests were taken over from a server that was killed, and an outside call was given back.
func (s *storm) hasHit() bool {
	var hits, back int
	if err := s.d.db.QueryRowContext(s.t.Context(), `SELECT (SELECT count(*) FROM effect WHERE token > 1),
		(SELECT count(*) FROM outside_call r WHERE event = '`+plan.CallReturned+`' AND NOT EXISTS (SELECT 1 FROM outside_call m
			WHERE m.event = '`+plan.CallMade+`' AND m.path = r.path AND m.step = r.step AND m.token = r.token))`).Scan(&hits, &back); err != nil {
		s.t.Error(err)
	}
	return hits >= leastHit && back > 0
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

// path has several clients ask for one path at once, again and again.
func (s *storm) path(ctx context.Context, path string, direct, proxied *client) {
	s.begun.Add(1)
	var all sync.WaitGroup
	for n := range clients {
		c := direct
		if n%2 == 1 {
			c = proxied
		}
		all.Go(func() {
			for range 1 + repeats {
				s.ask(ctx, c, path)
			}
		})
	}
	all.Wait()
}

// ask asks once for a path, until it is answered.
func (s *storm) ask(ctx context.Context, c *client, path string) {
	got, err := c.ask(ctx, path)
	if err != nil {
		s.t.Error(err)
		return
	}
	s.answered.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.given[path] = append(s.given[path], got)
}
