package ranges

import (
	"bytes"
	"context"
	"slices"
	"sync"
)

// turns are those of logs: what one call plans and writes of a log must not change under it, while calls for other logs go on
// beside it. Whoever takes turns of several logs takes them in the logs' order, so nobody waits in a circle.
type turns struct {
	mu    sync.Mutex
	of    map[Log]*turn
	spare []*turn // nobody's, to be used again
}

// maxSpare is how many turns are kept to be used again.
const maxSpare = 64

// turn is one log's, while somebody has it or waits for it.
type turn struct {
	free chan struct{} // holds one value while somebody has the turn: whoever waits longest is next
	by   int           // those who have it or wait for it
}

// sortLogs brings logs into the order in which their turns are taken, each once.
func sortLogs(logs []Log) []Log {
	slices.SortFunc(logs, func(a, b Log) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(logs)
}

// take waits for the turns of logs, which are in their order: all of them, or an error and none.
func (t *turns) take(ctx context.Context, logs []Log) error {
	for i, log := range logs {
		one := t.join(log)
		select {
		case one.free <- struct{}{}:
			continue
		default:
		}
		select {
		case one.free <- struct{}{}:
		case <-ctx.Done():
			t.leave(log)
			t.give(logs[:i])
			return context.Cause(ctx)
		}
	}
	return nil
}

// try takes a log's turn if nobody has it.
func (t *turns) try(log Log) bool {
	select {
	case t.join(log).free <- struct{}{}:
		return true
	default:
		t.leave(log)
		return false
	}
}

// give gives turns back.
func (t *turns) give(logs []Log) {
	for _, log := range logs {
		t.mu.Lock()
		<-t.of[log].free
		t.mu.Unlock()
		t.leave(log)
	}
}

func (t *turns) join(log Log) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.of[log]
	if one == nil {
		if last := len(t.spare) - 1; last >= 0 {
			one, t.spare = t.spare[last], t.spare[:last]
		} else {
			one = &turn{free: make(chan struct{}, 1)}
		}
		t.of[log] = one
	}
	one.by++
	return one
}

func (t *turns) leave(log Log) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.of[log]
	if one.by--; one.by > 0 {
		return
	}
	delete(t.of, log)
	if len(t.spare) < maxSpare {
		t.spare = append(t.spare, one)
	}
}
