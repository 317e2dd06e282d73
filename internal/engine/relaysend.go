package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"go.uber.org/zap"
)

// relayGrace is how long a batch that is under way may go on when the worker stops.
const relayGrace = time.Second

// sender is what all batches of a relay share.
type sender struct {
	cfg     consumer.Relay
	grave   *grave
	opener  *opener
	calls   chan struct{} // a place for each call of a publisher that has not returned
	tel     *relayMeters
	mu      sync.Mutex
	sources map[string]string // of targets that have said it
}

func newSender(l ledger.Ledger, cfg consumer.Relay) *sender {
	return &sender{cfg: cfg, grave: &grave{l, cfg.Keep, cfg.Cipher}, opener: &opener{cfg.Cipher, cfg.Lease / 3},
		calls: make(chan struct{}, 2*cfg.Parallel), sources: map[string]string{}}
}

// relayed is one batch on its way.
type relayed struct {
	sender *sender
	lane   ledger.Lane
	until  time.Time
	report ledger.LaneReport
	outage bool
	stuck  bool // a call has not returned
	cause  error
	held   map[string]bool // keys of which one was not sent
}

// send sends messages: those that never failed together, then each of the others alone. What lies behind one that failed waits for it, and
// one that failed waits for what lies ahead of it.
func (b *relayed) send(ctx context.Context, next []ledger.Queued) {
	next = b.open(ctx, next)
	failed := func(q *ledger.Queued) bool { return q.Tries > 0 }
	alone := map[string]bool{} // keys of which one is sent alone
	together := make([]ledger.Queued, 0, len(next))
	for i := range next {
		switch q := &next[i]; {
		case failed(q):
			alone[string(q.Key)] = len(q.Key) > 0
		case !alone[string(q.Key)]:
			together = append(together, *q)
		}
	}
	b.held = map[string]bool{}
	if len(together) > 0 {
		b.together(ctx, together)
	}
	clear(alone)
	for i := range next {
		if b.outage || b.stuck || ctx.Err() != nil || time.Now().After(b.until) {
			return
		}
		switch q := &next[i]; {
		case b.held[string(q.Key)]:
		case failed(q):
			alone[string(q.Key)] = len(q.Key) > 0
			b.alone(ctx, q)
		case alone[string(q.Key)]: // it was not among those that were sent together
			b.held[string(q.Key)] = true
		}
	}
}

// open opens what is sealed, and returns what can be sent. What is not opened waits, and is never given up, since nobody refused it.
func (b *relayed) open(ctx context.Context, next []ledger.Queued) []ledger.Queued {
	next, closed, err := b.sender.opener.open(ctx, next)
	if err != nil {
		b.away(err)
	}
	b.closed(closed)
	return next
}

// closed puts off what was not opened. One line tells of all of a batch that were not told of before.
func (b *relayed) closed(list []unopened) {
	var first *unopened
	fresh, now := 0, time.Now()
	for i := range list {
		q, err := list[i].q, list[i].err
		if q.Error == "" {
			if fresh++; first == nil {
				first = &list[i]
			}
		}
		b.report.Failed = append(b.report.Failed,
			ledger.SendFailure{Num: q.Num, After: closedFor(now.Sub(q.At), rand.Float64()), Error: err.Error(), Uncounted: true})
	}
	if first != nil {
		b.sender.cfg.Logger.Error("messages of the outbox cannot be opened: they wait", zap.String("target", first.q.Target),
			zap.Int("messages", fresh), zap.String("message_id", first.q.ID), zap.Error(first.err))
	}
}

// together sends messages at once. What fails is sent alone the next time, before anything comes of it.
func (b *relayed) together(ctx context.Context, batch []ledger.Queued) {
	errs := b.publish(ctx, batch)
	refused := 0
	b.report.Done = slices.Grow(b.report.Done, len(batch))
	for i := range batch {
		q, err := &batch[i], errs[i]
		switch {
		case err == nil:
			b.report.Done = append(b.report.Done, q.Num)
			continue
		case ledger.Unavailable(err):
			if !b.held[string(q.Key)] {
				b.away(err)
			}
			continue
		case consumer.IsTerminal(err):
			b.fail(q, err, 0)
		default:
			// Where none was taken it is the target that fails, and the first message stands for all.
			if refused++; refused == 1 || len(b.report.Done) > 0 {
				b.fail(q, err, b.delay(q))
			}
		}
		b.held[string(q.Key)] = len(q.Key) > 0
	}
	b.sender.tel.sent(b.lane.Target, len(b.report.Done))
	if refused > 0 && len(b.report.Done) == 0 {
		b.away(errs[0])
	}
}

// alone sends a message that failed before.
func (b *relayed) alone(ctx context.Context, q *ledger.Queued) {
	err := b.publish(ctx, []ledger.Queued{*q})[0]
	switch {
	case err == nil:
		b.done(q.Num)
		return
	case ledger.Unavailable(err):
		b.away(err)
		return
	}
	if len(q.Key) > 0 {
		b.held[string(q.Key)] = true
	}
	over := consumer.IsTerminal(err) || q.Tries+1 >= b.sender.cfg.Tries
	if !over || b.sender.cfg.HoldKeys {
		b.fail(q, err, b.delay(q))
		return
	}
	if buried := b.sender.grave.bury(ctx, q, b.sender.sourceOf(q.Target), err); buried != nil {
		b.sender.cfg.Logger.Warn("a message of the outbox that was refused is not archived yet", zap.String("target", q.Target), zap.String("message_id", q.ID),
			zap.Error(buried))
		b.fail(q, err, b.delay(q))
		return
	}
	delete(b.held, string(q.Key))
	b.report.Done = append(b.report.Done, q.Num)
	b.sender.tel.dead(q.Target)
	b.sender.cfg.Logger.Error("a message of the outbox was refused for good: it is in the archive", zap.String("target", q.Target),
		zap.String("message_id", q.ID), zap.Int("tries", q.Tries+1), zap.Error(err))
}

// delay is how long a message that was refused waits.
func (b *relayed) delay(q *ledger.Queued) time.Duration {
	n := min(q.Tries+1, 20)
	return refusals.Ceiling(n)/2 + refusals.Delay(n, rand.Float64())/2
}

func (b *relayed) done(num int64) {
	b.report.Done = append(b.report.Done, num)
	b.sender.tel.sent(b.lane.Target, 1)
}

func (b *relayed) fail(q *ledger.Queued, err error, after time.Duration) {
	b.report.Failed = append(b.report.Failed, ledger.SendFailure{Num: q.Num, After: after, Error: err.Error()})
	b.sender.tel.failed(b.lane.Target)
}

func (b *relayed) away(err error) {
	if b.outage = true; b.cause == nil {
		b.cause = err
	}
}

// publish calls the target once, and returns an error for each message. A call that does not end with its context is left behind, and keeps
// its place among the calls.
func (b *relayed) publish(ctx context.Context, batch []ledger.Queued) []error {
	s, stops := b.sender, ctx
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Lease/3)
	defer cancel()
	defer context.AfterFunc(stops, func() { Sleep(ctx, relayGrace); cancel() })()
	errs, returned, err := s.call(ctx, batch)
	b.stuck = !returned
	if err == nil && errs != nil && len(errs) != len(batch) {
		err = fmt.Errorf("consumer: Publisher.Publish: must return nil or one error for each of %d messages, returned %d", len(batch), len(errs))
	}
	if err == nil && errs != nil {
		return errs
	}
	errs = make([]error, len(batch))
	if err != nil {
		for i := range errs {
			errs[i] = ledger.MarkUnavailable(err)
		}
	}
	return errs
}

func (s *sender) call(ctx context.Context, batch []ledger.Queued) (errs []error, returned bool, err error) {
	target := s.cfg.Targets[batch[0].Target]
	source, err := s.source(ctx, batch[0].Target, target)
	if err != nil { // it counts as the target says
		return slices.Repeat([]error{err}, len(batch)), true, nil
	}
	messages := make([]consumer.Publication, len(batch))
	for i := range batch {
		messages[i] = consumer.Publication{Outgoing: batch[i].Outgoing, Source: source}
		if source != "" {
			stamp := consumer.NewStamp(source, batch[i].ID, batch[i].Body).Sign(s.cfg.StampKeys...)
			messages[i].Stamp = &stamp
		}
	}
	select {
	case s.calls <- struct{}{}:
	case <-ctx.Done():
		return nil, true, errTarget
	}
	done := make(chan struct{})
	answered := apart("Relay.Targets", func() ([]error, error) {
		defer func() { <-s.calls; close(done) }()
		return target.Publish(ctx, messages), nil
	})
	errs, err = outcomeOf(ctx, "Relay.Targets", answered, endsIn)
	select {
	case <-done:
		returned = true
	default:
	}
	return errs, returned, err
}

// source is the name under which what is sent is consumed.
func (s *sender) source(ctx context.Context, name string, target consumer.Publisher) (string, error) {
	if known := s.sourceOf(name); known != "" {
		return known, nil
	}
	answered := apart("Relay.Targets", func() (string, error) { return target.Source(ctx) })
	source, err := outcomeOf(ctx, "Relay.Targets", answered, endsIn)
	if err != nil {
		if err = fmt.Errorf("asking target %q for its source: %w", name, err); ctx.Err() != nil {
			err = ledger.MarkUnavailable(err)
		}
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sources[name] = source
	return source, nil
}

// sourceOf is what a target has said; empty: it has not, or has no name.
func (s *sender) sourceOf(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sources[name]
}
