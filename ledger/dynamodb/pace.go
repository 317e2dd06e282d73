package dynamodb

import (
	"context"
	"sync"
)

// requestsMost bounds how many requests of one process are under way: more wait for their turn.
const requestsMost = 64

// pace bounds the requests that are under way: additive increase, multiplicative decrease, as TCP does (RFC 5681). A table
// that throttles gets fewer of them, and not the same ones at once again.
type pace struct {
	mu      sync.Mutex
	room    float64 // how many may be under way
	running int
	waiting []chan struct{}
}

func newPace() *pace { return &pace{room: requestsMost} }

// begin waits for a turn.
func (p *pace) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p.mu.Lock()
	if float64(p.running) < p.room && len(p.waiting) == 0 {
		p.running++
		p.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	p.waiting = append(p.waiting, turn)
	p.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-turn: // given at the same moment: to the next
		p.running--
		p.next()
	default:
		for i, w := range p.waiting {
			if w == turn {
				p.waiting = append(p.waiting[:i], p.waiting[i+1:]...)
				break
			}
		}
	}
	return ctx.Err()
}

// end gives the turn back.
func (p *pace) end(throttled bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running--
	if throttled {
		p.room = max(p.room/2, 1)
	} else {
		p.room = min(p.room+1/p.room, requestsMost)
	}
	p.next()
}

// slow makes room for fewer requests: parts of one that was answered were throttled.
func (p *pace) slow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.room = max(p.room/2, 1)
}

func (p *pace) next() {
	for len(p.waiting) > 0 && float64(p.running) < p.room {
		close(p.waiting[0])
		p.waiting = p.waiting[1:]
		p.running++
	}
}
