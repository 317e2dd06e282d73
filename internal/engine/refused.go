package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"go.uber.org/zap"
)

// A final verdict is never followed by another run. Two things stand against it. A message may be larger than the ledger
// archives (a log's limits are of what is compressed): where the broker keeps what is acknowledged, it is archived without its
// body. And the ledger, or the user's cipher, may refuse a settlement as it is: then the settlement is kept and repeated, by
// itself, its message stays ours, and whoever looks after the worker is told.

// refusals are the settlements that are kept, and what is said of messages that are too large. The engine's lock guards them.
type refusals struct {
	kept  map[*Item]*kept
	large int    // messages that came and are larger than the archive's limit
	last  string // which was the last of them
}

// kept is a settlement that was refused and waits to be repeated.
type kept struct {
	settlement
	unsealed bool // the cipher refused it, not the ledger
	times    int
	since    time.Time
	why      error
	timer    *time.Timer // until it is repeated; nil: it is on its way
}

// sizeOf is what a message counts against the archive's limit.
func sizeOf(m *consumer.Message) int {
	n := len(m.Body) + len(m.Key) + len(m.Group)
	for i := range m.Headers {
		h := &m.Headers[i]
		n += len(h.Name) + len(h.Value) + len(h.Type)
	}
	return n
}

// measure notes a message that is larger than the ledger archives, when it is received.
func (e *Engine) measure(it *Item) {
	size, limit := sizeOf(it.Msg), e.cfg.Ledger.Limits().Archive
	if size <= limit {
		return
	}
	e.refusals.large++
	e.refusals.last = fmt.Sprintf("%s of %d bytes", it.Msg.ID, size)
	e.log.Warn("message is larger than the ledger archives: if it fails for good, its body is not archived", zap.String("message_id", it.Msg.ID),
		zap.Int("bytes", size), zap.Int("limit", limit))
}

// fit makes an archive fit the ledger, where that loses nothing. It hashes what it leaves out, so no lock is held.
func (e *Engine) fit(s *settlement) {
	if s.kind != ledger.Fail || !e.cfg.Retained {
		return
	}
	limit, whole := e.cfg.Ledger.Limits().Archive, s.more.Dead
	if s.more.Dead = whole.Excerpt(limit); s.more.Dead != whole {
		e.tel.refused(1, refusedLarge)
		e.log.Error("message is larger than the ledger archives: it is archived without its body, which is in the log",
			zap.String("message_id", s.item.Msg.ID), zap.Int("bytes", whole.Size()), zap.Int("limit", limit))
	}
}

// sealed seals an archive. What is too large only when it is sealed is sealed without its body, where that is to be had.
func (e *Engine) sealed(ctx context.Context, plain ledger.Archive) (*ledger.Archive, error) {
	limit, sealed := e.cfg.Ledger.Limits().Archive, plain
	if err := sealed.Seal(ctx, e.opt.Cipher); err != nil || sealed.Size() <= limit || !e.cfg.Retained {
		return &sealed, err
	}
	e.tel.refused(1, refusedLarge)
	e.log.Error("message is larger than the ledger archives when it is sealed: it is archived without its body, which is in the log",
		zap.String("message_id", string(plain.Key.ID)), zap.Int("bytes", sealed.Size()), zap.Int("limit", limit))
	for before := &plain; ; {
		// Sealing adds a share: so much less is sealed next, down to the mark alone.
		excerpt := plain.Excerpt(int(int64(before.Size())*int64(limit)/int64(sealed.Size())) - 1)
		sealed = *excerpt
		err := sealed.Seal(ctx, e.opt.Cipher)
		if err != nil || sealed.Size() <= limit || excerpt.Size() >= before.Size() {
			return &sealed, err
		}
		before = excerpt
	}
}

// refused is a settlement that the ledger refuses for its own sake, or that the cipher does not seal. The message must not be
// acknowledged, and its handler has spoken: so it is settled again and again, and everything else goes on. A release, and a
// mismatch, which is never run, are asked for again instead. What the broker is to have back is released, to be run later.
func (e *Engine) refused(s *settlement, err error, unsealed bool) {
	it := s.item
	e.tel.refused(1, refusedAsIs)
	e.log.Error("the settlement is refused: the message is kept", zap.String("message_id", it.Msg.ID),
		zap.Stringer("settlement", s.kind), zap.Error(err))
	switch {
	case s.kind == ledger.Release || it.ticket.IsMismatch():
		it.maybe = s.kind == ledger.Release
		e.wait(it, time.Now().Add(e.opt.BackoffMax))
	case it.dropped || e.draining || e.cfg.HoldMax > 0 && e.opt.BackoffBase > e.cfg.HoldMax:
		e.forget(it)
		e.settle(it, &ledger.Settlement{Kind: ledger.Release, After: e.opt.BackoffMax})
	default:
		e.hold(s, err, unsealed)
	}
}

// hold keeps a settlement, and repeats it after a backoff, which is no longer than an item is held.
func (e *Engine) hold(s *settlement, err error, unsealed bool) {
	it := s.item
	k := e.refusals.kept[it]
	if k == nil {
		k = &kept{since: time.Now()}
		e.refusals.kept[it] = k
	}
	k.settlement, k.why, k.unsealed = *s, err, unsealed
	k.times++
	if r := it.rare; r != nil && r.answered != nil { // its handler runs no more: others that are suspect may
		close(r.answered)
		r.answered = nil
	}
	wait := e.policy.backoff.Ceiling(k.times)
	if e.cfg.HoldMax > 0 {
		wait = min(wait, e.cfg.HoldMax)
	}
	k.timer = time.AfterFunc(wait, func() {
		e.mu.Lock()
		defer e.unlock()
		if e.refusals.kept[it] == k {
			k.timer = nil
			e.repeat(k)
		}
	})
}

// repeat sends what was kept again.
func (e *Engine) repeat(k *kept) {
	if k.unsealed {
		e.letters.held++
		e.letters.waiting.push(k.settlement)
		return
	}
	e.settleQ.push(k.settlement)
}

// giveUpKept releases an item whose settlement waits to be repeated: the broker is to have it back.
func (e *Engine) giveUpKept(it *Item) {
	if k := e.refusals.kept[it]; k != nil && k.timer != nil {
		e.forget(it)
		e.release(it)
	}
}

// forget ends the keeping of an item's settlement.
func (e *Engine) forget(it *Item) {
	if len(e.refusals.kept) == 0 {
		return
	}
	if k := e.refusals.kept[it]; k != nil {
		if k.timer != nil {
			k.timer.Stop()
		}
		delete(e.refusals.kept, it)
	}
}

// stalls says what is kept, and warnings which message was too large.
func (r *refusals) stalls() []consumer.Stall {
	out := make([]consumer.Stall, 0, len(r.kept))
	for it, k := range r.kept {
		out = append(out, consumer.Stall{
			What: string(it.Key.ID), Reason: consumer.StallRefused, Why: fmt.Sprintf("its settlement is refused: %v", k.why),
			Since: k.since, Lane: it.Lane,
		})
	}
	return out
}

func (r *refusals) warnings(limit int, retained bool) []string {
	if r.large == 0 {
		return nil
	}
	what := "it is kept, and holds its place, if it fails for good"
	if retained {
		what = "if it fails for good, its body stays in the log alone"
	}
	return []string{fmt.Sprintf("%d messages are larger than the ledger archives (Limits.Archive, %d bytes), the last is %s: %s",
		r.large, limit, r.last, what)}
}
