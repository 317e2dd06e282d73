package replay_test

import (
	"context"
	"errors"
	"sync"

	"github.com/ackledger/ackledger/replay"
)

// cutSource is a source of a replay that is killed before it removes anything.
type cutSource struct{ replay.Source }

func (s *cutSource) Done(_ context.Context, letters []*replay.Letter) error {
	s.Keep(letters)
	return nil
}

// cutTarget is the target of a replay that is killed in the middle: after some letters nothing is sent any more.
type cutTarget struct {
	replay.Target
	left int

	mu sync.Mutex // lanes send at once
}

func (t *cutTarget) Most() int { return 1 }

func (t *cutTarget) Send(ctx context.Context, letters []*replay.Letter) []replay.Result {
	if !t.lives() {
		out := make([]replay.Result, len(letters))
		for i := range out {
			out[i].Err = errors.New("killed")
		}
		return out
	}
	return t.Target.Send(ctx, letters)
}

func (t *cutTarget) lives() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left--
	return t.left >= 0
}
