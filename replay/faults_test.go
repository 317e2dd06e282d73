package replay_test

import (
	"context"
	"errors"

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
}

func (t *cutTarget) Most() int { return 1 }

func (t *cutTarget) Send(ctx context.Context, letters []*replay.Letter) []replay.Result {
	if t.left == 0 {
		out := make([]replay.Result, len(letters))
		for i := range out {
			out[i].Err = errors.New("killed")
		}
		return out
	}
	t.left--
	return t.Target.Send(ctx, letters)
}
