package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// outboxWorld is drawn from a seed: processes relay what transactions publish; they die and freeze, requests and answers are lost or late,
// and the target takes a part of a batch, says no for a while, or for ever.
type outboxWorld struct {
	*testing.T
	*memory.Ledger
	over  chan struct{}  // closed when all is over: the dead lie until then
	calls sync.WaitGroup // of the target: a relay leaves those behind that do not end

	mu     sync.Mutex
	rng    *rand.Rand
	shop   []string          // what has arrived, one after the other
	refuse map[string]int    // how often a message is refused; a negative number: always
	keys   map[string]string // of the messages, by their bodies
	wrote  []string          // what was committed, in its order
}

// worldLease is that of the lanes.
const worldLease = 3 * time.Second

func (w *outboxWorld) draw(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n)
}

// lull is a time in which a lease may end, or not.
func (w *outboxWorld) lull() { time.Sleep(time.Duration(w.draw(int(2 * worldLease)))) }

// member is a process: its ledger and its target are what it sees of them.
type member struct {
	*outboxWorld
	dead chan struct{}
	once sync.Once
}

var (
	errWire    = ledger.MarkUnavailable(errors.New("the network is away"))
	errRefused = errors.New("not this one")
)

// call is a request to the ledger, which may be lost, or its answer, or be late. What is dead asks nothing and hears nothing.
func (m *member) call(do func() error) error {
	luck := m.draw(100)
	switch {
	case luck < 4:
		return errWire
	case luck < 8:
		m.lull()
	case luck < 9:
		m.die()
	}
	m.lie()
	err := do()
	switch {
	case luck >= 96:
		err = errWire
	case luck >= 92:
		m.lull()
	case luck >= 91:
		m.die()
	}
	m.lie()
	return err
}

func (m *member) die() { m.once.Do(func() { close(m.dead) }) }

// lie stays for ever if the process is dead.
func (m *member) lie() {
	select {
	case <-m.dead:
		<-m.over
	default:
	}
}

func (m *member) TakeLane(ctx context.Context, targets []string, lease time.Duration) (lane ledger.Lane, ok bool, err error) {
	err = m.call(func() (err error) { lane, ok, err = m.Ledger.TakeLane(ctx, targets, lease); return err })
	return lane, ok && err == nil, err
}

func (m *member) NextOutgoing(ctx context.Context, lane ledger.Lane, lease time.Duration, report ledger.LaneReport, n, size int) (next []ledger.Queued, err error) {
	err = m.call(func() (err error) { next, err = m.Ledger.NextOutgoing(ctx, lane, lease, report, n, size); return err })
	return next, err
}

func (m *member) LeaveLane(ctx context.Context, lane ledger.Lane, report ledger.LaneReport, rest time.Duration) error {
	return m.call(func() error { return m.Ledger.LeaveLane(ctx, lane, report, rest) })
}

func (m *member) Source(context.Context) (string, error) { return "cluster/topic", nil }

// Publish takes a batch from its beginning on: behind the end that luck gives it nothing arrives.
func (m *member) Publish(_ context.Context, messages []consumer.Publication) []error {
	m.calls.Add(1)
	defer m.calls.Done()
	end := len(messages)
	switch luck := m.draw(100); {
	case luck < 5:
		end = 0
	case luck < 10:
		end = m.draw(len(messages) + 1)
	case luck < 14:
		m.lull()
	case luck < 16:
		m.die()
		end = m.draw(len(messages) + 1) // on the wire
	}
	errs, failed := make([]error, len(messages)), map[string]bool{}
	m.mu.Lock()
	for i := range messages {
		body, key := string(messages[i].Body), string(messages[i].Key)
		switch n := m.refuse[body]; {
		case i >= end:
			errs[i] = errWire
		case key != "" && failed[key]:
			errs[i] = []error{errWire, errRefused}[m.rng.IntN(2)]
		case n != 0:
			m.refuse[body], failed[key], errs[i] = n-min(1, max(n, 0)), true, errRefused
		default:
			m.shop = append(m.shop, body)
		}
	}
	m.mu.Unlock()
	m.lie()
	if m.draw(100) < 4 { // the answer is lost
		for i := range errs {
			errs[i] = errWire
		}
	}
	return errs
}

// relays keeps a process alive beside the world, the one after the other.
func (w *outboxWorld) relays(ctx context.Context, all *sync.WaitGroup) {
	for ctx.Err() == nil {
		m := &member{outboxWorld: w, dead: make(chan struct{})}
		r, err := engine.NewRelay(m, consumer.Relay{Targets: map[string]consumer.Publisher{"a": m}, Parallel: 2, Batch: 5, Lease: worldLease})
		if err != nil {
			w.Error(err)
			return
		}
		gone := make(chan struct{})
		all.Go(func() {
			defer close(gone)
			defer r.Close()
			if err := r.Run(ctx); err != nil {
				w.Error(err)
			}
		})
		select {
		case <-gone:
		case <-m.dead:
		}
	}
}

// commit is one InTx that publishes, or would have.
func (w *outboxWorld) commit(n int) {
	o, err := w.Join(w.Context(), time.Minute)
	if err != nil {
		w.Fatal(err)
	}
	key := ledger.Key{Scope: "orders", ID: fmt.Appendf(nil, "%d", n)}
	c, err := o.Claim(w.Context(), []ledger.Entry{{Key: key, Fingerprint: ledger.BodyFingerprint(key.ID), Delivery: key.ID, Window: time.Hour}})
	if err != nil {
		w.Fatal(err)
	}
	abort := errors.New("abort")
	if w.draw(5) > 0 {
		abort = nil
	}
	var wrote []string
	err = memory.InTx(ledger.WithAttempt(w.Context(), ledger.NewAttempt(o, c[0].Ticket)), func(ctx context.Context) error {
		for i := range 1 + w.draw(4) {
			m := ledger.Outgoing{Target: "a", Body: fmt.Appendf(nil, "%d.%d", n, i)}
			if k := w.draw(6); k > 0 {
				m.Key = fmt.Appendf(nil, "k%d", k)
			}
			w.mu.Lock()
			w.keys[string(m.Body)] = string(m.Key)
			w.refuse[string(m.Body)] = max(0, w.rng.IntN(20)-16) // of ten tries
			if w.rng.IntN(40) == 0 {
				w.refuse[string(m.Body)] = -1
			}
			w.mu.Unlock()
			if err := consumer.Publish(ctx, m); err != nil {
				return err
			}
			wrote = append(wrote, string(m.Body))
		}
		return abort
	})
	if !errors.Is(err, abort) {
		w.Fatal(err)
	}
	if abort == nil {
		w.wrote = append(w.wrote, wrote...)
	}
}

// play plays a world to its end, and says what was promised and not held.
func (w *outboxWorld) play(processes, transactions int) {
	ctx, stop := context.WithCancel(w.Context())
	var all, keepers sync.WaitGroup
	for range processes {
		keepers.Go(func() { w.relays(ctx, &all) })
	}
	for n := range transactions {
		w.commit(n)
		time.Sleep(time.Duration(max(0, w.draw(int(4*time.Second))-int(3*time.Second)))) // most come together
	}
	for end := time.Now().Add(2 * time.Hour); ; time.Sleep(time.Second) {
		left, err := w.ListOutbox(ctx, "", 0, 10, false)
		if err != nil {
			w.Fatal(err)
		}
		if len(left) == 0 {
			break
		}
		if time.Now().After(end) {
			w.Errorf("after two hours there still wait: %+v", left)
			break
		}
	}
	stop()
	keepers.Wait()
	close(w.over)
	all.Wait()
	w.calls.Wait()
	w.mustHold()
}

// mustHold: what was committed has arrived or is archived, nothing else has arrived, and what has arrived of a key came in its order.
func (w *outboxWorld) mustHold() {
	archived := map[string]bool{}
	for d, err := range w.DeadLetters(w.Context(), ledger.Filter{Body: true}) {
		if err != nil {
			w.Fatal(err)
		}
		archived[string(d.Body)] = true
	}
	came := map[string]int{} // where a message is, when it came first
	for i, body := range w.shop {
		if !slices.Contains(w.wrote, body) {
			w.Errorf("%s has arrived without a commit", body)
		}
		if _, again := came[body]; !again {
			came[body] = i
		}
	}
	last := map[string]string{}
	for _, body := range w.wrote {
		at, here := came[body]
		if here == archived[body] {
			w.Errorf("%s: arrived: %t, archived: %t", body, here, archived[body])
		}
		key := w.keys[body]
		if before, ok := last[key]; here && ok && key != "" && came[before] > at {
			w.Errorf("key %s: %s came before %s", key, body, before)
		}
		if here {
			last[key] = body
		}
	}
}

// TestRelayWorlds: nothing that was published is lost, nothing is sent without its commit, and a key keeps its order, in worlds in which
// everything goes wrong that can.
func TestRelayWorlds(t *testing.T) {
	t.Parallel()
	worlds := 150
	if os.Getenv("ACKLEDGER_LONG") != "" {
		worlds = 10_000
	}
	for seed := range worlds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &outboxWorld{T: t, Ledger: memory.New(), over: make(chan struct{}), rng: rand.New(rand.NewPCG(uint64(seed), 0)),
					refuse: map[string]int{}, keys: map[string]string{}}
				w.play(1+seed%3, 5+seed%40)
			})
		})
	}
}
