package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
)

// Who asks Health what stands behind a record that hangs in a stretch is told its lane.
func TestHangingRecordOfAStretchNamesItsLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		s := newStretches(t, func(_ context.Context, offset int64) error {
			if offset == 15 {
				<-let
			}
			return nil
		})
		s.offer(100)
		pass(time.Hour)
		h := s.Health()
		if len(h.Stalled) != 1 || h.Stalled[0].What != "a-15" || h.Stalled[0].Lane != "5" {
			t.Errorf("stalled: %+v", h.Stalled)
		}
		close(let)
		pass(time.Hour)
		end(t, s.Engine)
	})
}

// told is what a context said of a message in each of its attempts.
type told struct {
	mu     sync.Mutex
	tokens map[int64]map[int]uint64
	keys   map[int64]string
}

func (o *told) note(t *testing.T, offset int64, attempt int, token uint64, key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.tokens[offset] == nil {
		o.tokens[offset], o.keys[offset] = map[int]uint64{}, key
	}
	before, known := o.tokens[offset][attempt]
	if known && before != token || token == 0 || o.keys[offset] != key || key == "" {
		t.Errorf("record %d: attempt %d has token %d and key %s, before %d and %s", offset, attempt, token, key, before, o.keys[offset])
	}
	o.tokens[offset][attempt] = token
}

// Whatever becomes of a record of a stretch, and whenever its context is asked: what it says is that attempt's.
func TestContextsOfStretchesSayTheirOwn(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { contextsSayTheirOwn(t, seed) })
		})
	}
}

func contextsSayTheirOwn(t *testing.T, seed uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	o := &told{tokens: map[int64]map[int]uint64{}, keys: map[int64]string{}}
	var mu sync.Mutex
	attempts := map[int64]int{}
	var late sync.WaitGroup
	s := newStretches(t, func(ctx context.Context, offset int64) error {
		mu.Lock()
		attempts[offset]++
		attempt := attempts[offset]
		what, when, asks := rng.IntN(1000), time.Duration(rng.IntN(3000))*time.Millisecond, rng.IntN(3)
		mu.Unlock()
		ask := func() { o.note(t, offset, attempt, consumer.Token(ctx), consumer.ChildKey(ctx, "step")) }
		if asks == 0 {
			ask()
		}
		for range 2 {
			late.Go(func() { time.Sleep(when); ask() })
		}
		if attempt > 3 {
			return nil
		}
		switch what {
		case 0:
			return errors.New("not yet")
		case 1:
			panic("broken")
		case 2:
			runtime.Goexit()
		case 3:
			return consumer.SetResult(ctx, []byte("result"))
		case 4:
			time.Sleep(when)
		}
		return nil
	})
	for range 8 {
		s.offer(150)
		pass(2 * time.Second)
		_, _ = s.Health(), s.Load()
	}
	pass(time.Hour)
	late.Wait()
	ran := map[int64]int{}
	for offset, n := range attempts {
		ran[offset] = n
	}
	if s.whole == 0 {
		t.Error("no stretch came back whole")
	}
	s.want(s.whole, ran)
	for offset, tokens := range o.tokens {
		for attempt, token := range tokens {
			if attempt > 1 && token <= tokens[attempt-1] {
				t.Errorf("record %d: attempt %d has token %d, the one before %d", offset, attempt, token, tokens[attempt-1])
			}
		}
	}
	end(t, s.Engine)
}
