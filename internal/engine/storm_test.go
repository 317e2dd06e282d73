package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// A storm is several workers on one ledger while everything goes wrong that can: calls fail before and after they are
// carried out, workers are killed, drained, paused, their messages taken back and delivered twice, owners declared dead.
// Then it calms down, and everything must come to its end. What must hold at any time is checked when it happens.
type storm struct {
	t   *testing.T
	l   *memory.Ledger
	rng *rand.Rand // of the storm's own goroutine

	mu       sync.Mutex
	dice     *rand.Rand // of the handlers
	calm     bool
	ids      []string
	sent     int // of ids
	acked    map[string]bool
	failures map[string]int // the handler's own errors
	finished map[string]int // handlers that returned nil
	out      map[*offering]bool
	workers  []*stormWorker

	// Of a storm of stretches; rates are of handlers that take time, and that fail: one of so many.
	stretches       bool
	together        bool // handlers take batches, and nothing has an order
	slow, failing   int
	whole, stretchy int // records that came back in stretches, and that were offered so
}

// offering is one copy of a message that a worker was given.
type offering struct {
	id, lane string
	to       *stormWorker
	told     bool
	ok       bool // its handler succeeded
	dropped  bool
	passed   time.Time // when one that came later began
}

// terminal says whether a message always fails.
func (s *storm) terminal(id string) bool {
	if s.stretches {
		return strings.HasSuffix(id, "77")
	}
	return id[0] == 't'
}

type stormWorker struct {
	*engine.Engine
	storm   *storm
	net     *link
	dead    chan struct{}
	killed  bool
	order   map[string][]*offering // by lane, those not told
	running map[string]bool        // the keys in handlers
	fast    bool                   // most handlers take no time, so that goroutines take many messages at once
}

func (s *storm) roll(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dice.IntN(n) == 0
}

func (w *stormWorker) handle(ctx context.Context, m *consumer.Message) error {
	calm, err := w.spend(ctx, m)
	if err != nil {
		return err
	}
	return w.outcome(ctx, m, calm)
}

// spend is the time that a handler takes; it returns an error if the handler is cancelled.
func (w *stormWorker) spend(ctx context.Context, batch ...*consumer.Message) (calm bool, err error) {
	s := w.storm
	s.mu.Lock()
	for _, m := range batch {
		if w.running[m.ID] {
			s.t.Errorf("two handlers of message %s run in one process", m.ID)
		}
		w.running[m.ID] = true
		w.begins(m.ID)
	}
	wait := time.Duration(s.dice.IntN(2000)) * time.Millisecond
	if w.fast && s.dice.IntN(s.slow) > 0 {
		wait = 0
	}
	deaf, calm := s.dice.IntN(10) == 0, s.calm
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		for _, m := range batch {
			delete(w.running, m.ID)
		}
		s.mu.Unlock()
	}()
	if wait == 0 {
		return calm, nil
	}
	timer := time.After(wait)
	for {
		select {
		case <-timer:
			return calm, nil
		case <-w.dead:
			<-s.t.Context().Done()
			return calm, errBoom
		case <-done(ctx, deaf):
			return calm, ctx.Err()
		}
	}
}

// handleBatch spoils batches in many ways. Unless a message is alone in it, none of them may count; its own error may.
func (w *stormWorker) handleBatch(ctx context.Context, batch []*consumer.Message) []error {
	s := w.storm
	errs := make([]error, len(batch))
	calm, err := w.spend(ctx, batch...)
	if err != nil {
		return slices.Repeat([]error{err}, len(batch))
	}
	if len(batch) == 1 {
		errs[0] = w.outcome(ctx, batch[0], calm)
		return errs
	}
	s.mu.Lock()
	roll, inTx := s.dice.IntN(max(30, 3*s.failing)), s.dice.IntN(3) == 0
	s.mu.Unlock()
	switch {
	case calm:
	case roll == 0:
		panic("ouch")
	case roll == 1:
		runtime.Goexit()
	case roll == 2:
		return errs[1:]
	}
	for i, m := range batch {
		if s.terminal(m.ID) {
			inTx, errs[i] = false, consumer.Terminal(errBoom)
		} else if !calm && !inTx && s.roll(max(8, s.failing)) {
			errs[i] = errBoom
		}
	}
	if inTx {
		if err := memory.InTx(ctx, func(context.Context) error { return nil }); err != nil {
			return slices.Repeat([]error{err}, len(batch))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, m := range batch {
		if errs[i] != nil {
			s.failures[m.ID]++
		} else {
			w.ended(m.ID)
		}
	}
	return errs
}

func done(ctx context.Context, deaf bool) <-chan struct{} {
	if deaf {
		return nil
	}
	return ctx.Done()
}

func (w *stormWorker) outcome(ctx context.Context, m *consumer.Message, calm bool) error {
	s := w.storm
	own := func(err error) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.failures[m.ID]++
		return err
	}
	switch {
	case s.terminal(m.ID):
		return own(consumer.Terminal(errBoom))
	case !calm && s.roll(s.failing):
		return own(errBoom)
	case !calm && s.roll(5*s.failing):
		_ = own(nil)
		panic("ouch")
	case s.roll(s.failing - 1):
		if err := memory.InTx(ctx, func(context.Context) error { return nil }); err != nil {
			if ledger.IsLost(err) {
				return err
			}
			return own(err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.ended(m.ID)
	return nil
}

func (s *storm) spawn() {
	w := &stormWorker{
		storm: s, net: &link{Ledger: s.l, stretches: s.stretches}, dead: make(chan struct{}), order: map[string][]*offering{}, running: map[string]bool{},
	}
	if s.stretches {
		w.net.dice = rand.New(rand.NewPCG(s.rng.Uint64(), 5))
	}
	o := options()
	o.Attempts, o.Drain = 1000, time.Duration(1+s.rng.IntN(3000))*time.Millisecond
	o.BackoffBase, o.BackoffMax = 10*time.Millisecond, time.Second
	o.HandlerTimeout = time.Minute
	if !s.stretches && s.rng.IntN(4) == 0 {
		o.Limiter = consumer.NewLimiter(2)
	}
	o, err := o.WithDefaults()
	if err != nil {
		s.t.Fatal(err)
	}
	w.fast = s.stretches || s.rng.IntN(2) == 0
	var h consumer.Handler = consumer.HandlerFunc(w.handle)
	switch {
	case s.together:
		h = consumer.Batch(1+s.rng.IntN(8), w.handleBatch)
	case !s.stretches && s.rng.IntN(2) == 0:
		h = consumer.Batch(1+s.rng.IntN(20), w.handleBatch)
	}
	w.Engine, err = engine.New(engine.Config{Options: o, Ledger: w.net, Sink: w, Handler: h, Suspects: consumer.NewLimiter(1)})
	if err == nil {
		err = w.Start(s.t.Context())
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.workers = append(s.workers, w)
}

// take removes a random worker from those that get messages.
func (s *storm) take() *stormWorker {
	i := s.rng.IntN(len(s.workers))
	w := s.workers[i]
	s.workers = append(s.workers[:i:i], s.workers[i+1:]...)
	return w
}

func (s *storm) kill() {
	w := s.take()
	w.net.set(func(memory.Op) error { return ledger.MarkUnknown(errDown) }, nil)
	s.mu.Lock()
	w.killed = true
	for o := range s.out {
		if o.to == w {
			delete(s.out, o)
		}
	}
	s.mu.Unlock()
	close(w.dead)
	go func() { _ = w.Close(context.Background()) }() // only its goroutines end: it cannot leave
	s.spawn()
}

func (s *storm) deploy() {
	w := s.take()
	go func() {
		_ = w.Drain(context.Background())
		_ = w.Close(context.Background())
	}()
	s.spawn()
}

// deliver gives messages that nobody has to workers, and now and then one that somebody has.
func (s *storm) deliver() {
	s.mu.Lock()
	taken := map[string]bool{}
	for o := range s.out {
		taken[o.id] = true
	}
	if s.stretches {
		s.deliverStretches(taken)
		return
	}
	batches := map[*stormWorker][]*engine.Item{}
	for _, id := range s.ids[:s.sent] {
		if (s.acked[id] || taken[id]) && (s.calm || s.rng.IntN(30) > 0) || s.rng.IntN(2) == 0 {
			continue
		}
		w := s.workers[s.rng.IntN(len(s.workers))]
		it := item(id, s.lane(id))
		it.Ref = s.offered(w, id)
		batches[w] = append(batches[w], it)
	}
	s.mu.Unlock()
	for w, batch := range batches {
		w.Offer(batch)
	}
}

// offered notes that a worker gets a copy of a message.
func (s *storm) offered(w *stormWorker, id string) *offering {
	o := &offering{id: id, lane: s.lane(id), to: w}
	s.out[o] = true
	w.order[o.lane] = append(w.order[o.lane], o)
	return o
}

// disturb makes the calls of one worker fail by chance, at a rate of its own; zero ends it.
func (s *storm) disturb(w *stormWorker, rate int) {
	if rate == 0 {
		w.net.set(nil, nil)
		return
	}
	chance := func(err error) func(memory.Op) error {
		return func(memory.Op) error {
			if s.roll(rate) {
				return err
			}
			return nil
		}
	}
	before := []error{errDown, ledger.MarkUnknown(errDown)}[s.rng.IntN(2)]
	w.net.set(chance(before), chance(errDown))
}

func (s *storm) step() {
	w := s.workers[s.rng.IntN(len(s.workers))]
	switch s.rng.IntN(16) {
	case 0:
		s.kill()
	case 1:
		s.deploy()
	case 2, 3, 4:
		s.disturb(w, 1+s.rng.IntN(6))
	case 5, 6, 7:
		s.disturb(w, 0)
	case 8, 9, 10:
		digit, grace := byte('0'+s.rng.IntN(10)), time.Duration(s.rng.IntN(3))*time.Second
		s.mu.Lock()
		for o := range s.out {
			o.dropped = o.dropped || o.to == w && o.id[len(o.id)-1] >= digit
		}
		s.mu.Unlock()
		w.Drop(func(it *engine.Item) bool { id := it.Key.ID; return id[len(id)-1] >= digit }, grace)
	case 11:
		s.l.Declare(w.net.owner())
	case 12:
		w.Pause()
	case 13:
		w.Resume()
	}
}

func (s *storm) pending() (left []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range s.ids {
		if !s.acked[id] {
			left = append(left, id)
		}
	}
	return left
}

func (s *storm) rage(steps int) {
	for range 3 {
		s.spawn()
	}
	for i := range steps {
		s.sent = len(s.ids) * (i + 1) / steps
		s.deliver()
		s.step()
		time.Sleep(time.Duration(s.rng.IntN(800)) * time.Millisecond)
	}
	s.mu.Lock()
	s.calm = true
	s.mu.Unlock()
	for _, w := range s.workers {
		s.disturb(w, 0)
		w.Resume()
	}
	for range 1200 {
		if len(s.pending()) == 0 {
			break
		}
		s.deliver()
		time.Sleep(time.Second)
	}
}

func TestStorm(t *testing.T) {
	seeds := 60
	if os.Getenv("ACKLEDGER_LONG") != "" {
		seeds = 2000
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &storm{
					t: t, l: memory.New(), rng: rand.New(rand.NewPCG(uint64(seed), 1)), dice: rand.New(rand.NewPCG(uint64(seed), 2)),
					acked: map[string]bool{}, failures: map[string]int{}, finished: map[string]int{}, out: map[*offering]bool{},
					slow: 20, failing: 4,
				}
				for i := range 300 {
					s.ids = append(s.ids, fmt.Sprintf("%c%03d", "mmmmmt"[i%6], i))
				}
				s.rage(150)
				s.check()
			})
		})
	}
}
