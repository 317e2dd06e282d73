package consumer

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/ackledger/ackledger/internal/slots"
)

// Slots are handler slots that the workers of a process share by weights and levels: for people with several queues or topics of which
// some matter more. [NewSlots] makes them, and each worker gets a [Slots.Limiter] of its own as Options.Limiter. They are safe for
// concurrent use.
type Slots struct {
	n     int
	wrong string

	mu    sync.Mutex
	rule  *slots.Rule
	waits map[*slots.Share][]chan struct{} // in the order in which they came; each is closed once it has its slot
}

// Share is what one worker gets of [Slots].
type Share struct {
	// Level is 0, the first, to 9. A slot that comes free goes to a worker of the first level that waits for one; but a level that waits has
	// at least one of any 16 + L slots in a row, where L is the number of levels: of two levels the lower one has every 17th.
	Level int
	// Weight is how many slots the worker gets while one of weight 1 gets one, 1 to 1,000; 0 counts as 1. It holds within a level. A worker
	// that waits waits for as many slots of another as that has weight over its own, and one.
	Weight int
}

// NewSlots returns n slots, at least 1. With less, workers refuse its limiters by name.
func NewSlots(n int) *Slots {
	s := &Slots{n: n, rule: slots.New(n), waits: map[*slots.Share][]chan struct{}{}}
	if n < 1 {
		s.wrong = fmt.Sprintf("consumer: NewSlots: must be for at least 1 handler, is for %d: none would start", n)
	}
	return s
}

// Limiter returns the limiter of a worker. Workers that share one count as one. What is out of bounds, the worker refuses by name.
//
// A slot that is free goes to whoever asks, so a worker that is alone has all of them. Nobody gives one back before its handler ends: a
// low level with slow handlers, which are to leave slots free for others, has a Concurrency below the number of slots. The others have one
// of twice that number: as many wait for a slot as have one, and weights and levels hold. What waits for a slot is claimed already.
func (s *Slots) Limiter(of Share) *Limiter {
	switch {
	case s.wrong != "":
		return &Limiter{wrong: s.wrong}
	case of.Level < 0 || of.Level > 9:
		return &Limiter{wrong: fmt.Sprintf("consumer: Share.Level: must be 0 to 9, is %d", of.Level)}
	case of.Weight < 0 || of.Weight > 1000:
		return &Limiter{wrong: fmt.Sprintf("consumer: Share.Weight: must be 1 to 1,000, or 0 for 1, is %d", of.Weight)}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return &Limiter{n: s.n, shared: s, share: s.rule.Join(of.Level, of.Weight)}
}

// acquire waits for a slot until ctx is done.
func (s *Slots) acquire(ctx context.Context, of *slots.Share) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	if s.rule.Ask(of) {
		s.mu.Unlock()
		return nil
	}
	has := make(chan struct{})
	s.waits[of] = append(s.waits[of], has)
	s.mu.Unlock()
	select {
	case <-has:
		return nil
	case <-ctx.Done():
		if !s.quit(of, has) { // it came at the same moment
			s.release()
		}
		return ctx.Err()
	}
}

// quit ends the waiting for a slot; false: there is one.
func (s *Slots) quit(of *slots.Share, has chan struct{}) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.Index(s.waits[of], has)
	if at < 0 {
		return false
	}
	s.waits[of] = slices.Delete(s.waits[of], at, at+1)
	s.rule.Quit(of)
	return true
}

// release gives a slot back, to the one whose turn it is.
func (s *Slots) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if to := s.rule.Free(); to != nil {
		close(s.waits[to][0])
		s.waits[to] = slices.Delete(s.waits[to], 0, 1)
	}
}
