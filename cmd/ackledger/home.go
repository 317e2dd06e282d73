package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/ackledger/ackledger/replay"
)

// home is both brokers as one target: each dead letter goes back to its own.
type home struct{ queues, topics replay.Target }

func (h *home) String() string { return "where each came from" }

// Begin begins both.
func (h *home) Begin(ctx context.Context, b replay.Begin) error {
	if err := h.queues.Begin(ctx, b); err != nil {
		return err
	}
	if err := h.topics.Begin(ctx, b); err != nil {
		return errors.Join(err, h.queues.End(ctx))
	}
	return nil
}

// End ends both.
func (h *home) End(ctx context.Context) error {
	return errors.Join(h.queues.End(ctx), h.topics.End(ctx))
}

func (h *home) of(l *replay.Letter) replay.Target {
	if strings.HasPrefix(l.Message.Source, "arn:") {
		return h.queues
	}
	return h.topics
}

// Accept asks the one it came from.
func (h *home) Accept(l *replay.Letter) error { return h.of(l).Accept(l) }

// Send sends to each what came from it. A lane is of one source, so its order stays.
func (h *home) Send(ctx context.Context, letters []*replay.Letter) []replay.Result {
	out := make([]replay.Result, len(letters))
	for _, t := range []replay.Target{h.queues, h.topics} {
		var at []int
		for i, l := range letters {
			if h.of(l) == t {
				at = append(at, i)
			}
		}
		for part := range slices.Chunk(at, t.Most()) {
			some := make([]*replay.Letter, len(part))
			for i, k := range part {
				some[i] = letters[k]
			}
			for i, res := range t.Send(ctx, some) {
				out[part[i]] = res
			}
		}
	}
	return out
}

// Most is the smaller of both.
func (h *home) Most() int { return min(h.queues.Most(), h.topics.Most()) }

// Warnings are those of the topics.
func (h *home) Warnings() []string {
	if w, ok := h.topics.(replay.Warner); ok {
		return w.Warnings()
	}
	return nil
}
