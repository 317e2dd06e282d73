package driver

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// OutboxReader is a [Reader] of a store that has an outbox.
type OutboxReader interface {
	Reader
	// Waiting returns messages of a lane with a number above after, in their order, at most n.
	Waiting(target string, shard int, after int64, n int) ([]ledger.Queued, error)
	// Undue returns those of a lane that are due later; their bodies may be left out.
	Undue(target string, shard int) ([]ledger.Queued, error)
	// ListOutbox is that of [ledger.Outbox].
	ListOutbox(target string, after int64, n int, bodies bool) ([]ledger.Queued, error)
	// OutboxStats counts what waits, by target; Oldest and Untaken are as of Now.
	OutboxStats() ([]ledger.OutboxStats, error)
	// Lane returns a lane as it was put; the zero value if it was not.
	Lane(target string, shard int) (LaneState, error)
}

// OutboxTx is a [Tx] of a store that has an outbox. A store whose transactions are none has none: Publish answers
// [ledger.ErrNoOutbox].
type OutboxTx interface {
	Tx
	OutboxReader
	// Enqueue adds a message, with a number above all that were given before.
	Enqueue(m *ledger.Outgoing, shard int, at time.Time) error
	// Dequeue removes messages of a lane, those that are there.
	Dequeue(target string, shard int, nums []int64) error
	// Refuse adds to the refusals of a message that is there, 1 or 0, and says when it is due again, and why.
	Refuse(target string, shard int, num int64, tries int, due time.Time, text string) error
	// PutLane writes a lane.
	PutLane(target string, shard int, s LaneState) error
}

// LaneState is a lane as it is stored.
type LaneState struct {
	Free  time.Time // nobody has it from then on
	Token uint64
}

var (
	_ ledger.Outbox   = (*Ledger)(nil)
	_ ledger.Outboxed = (*owner)(nil)
)

func (l *Ledger) noOutbox() error {
	name := l.cfg.Name
	if name == "" {
		name = "this store"
	}
	return fmt.Errorf("%w: %s", ledger.ErrNoOutbox, name)
}

// outboxed writes in the outbox.
func (l *Ledger) outboxed(ctx context.Context, fn func(OutboxTx) error) error {
	return l.operate(ctx, Call{}, func(tx Tx) error {
		box, ok := tx.(OutboxTx)
		if !ok {
			return l.noOutbox()
		}
		return fn(box)
	})
}

// readOutbox reads the outbox; of a store that has none, nothing.
func (l *Ledger) readOutbox(ctx context.Context, fn func(OutboxReader) error) error {
	ctx, cancel := storage.WithDeadline(ctx)
	defer cancel()
	return l.store.View(ctx, Call{Op: Read}, func(r Reader) error {
		box, ok := r.(OutboxReader)
		if !ok {
			return nil
		}
		return fn(box)
	})
}

// TakeLane implements [ledger.Outbox]. It looks before it asks for the right to write.
func (l *Ledger) TakeLane(ctx context.Context, targets []string, lease time.Duration) (lane ledger.Lane, ok bool, err error) {
	has, there := false, false
	err = l.readOutbox(ctx, func(r OutboxReader) (err error) {
		has = true
		_, there, err = freeLane(r, targets)
		return err
	})
	if err == nil && !has {
		err = l.noOutbox()
	}
	if err != nil || !there {
		return lane, false, l.named("take a lane of the outbox", err)
	}
	err = l.outboxed(ctx, func(tx OutboxTx) error {
		lane, ok = ledger.Lane{}, false
		next, there, err := freeLane(tx, targets)
		if err != nil || !there {
			return err
		}
		s, err := tx.Lane(next.Target, next.Shard)
		if err != nil {
			return err
		}
		s.Token++
		s.Free = tx.Now().Add(lease)
		lane, ok = ledger.Lane{Target: next.Target, Shard: next.Shard, Token: s.Token}, true
		return tx.PutLane(lane.Target, lane.Shard, s)
	})
	return lane, ok && err == nil, l.named("take a lane of the outbox", err)
}

// freeLane finds, of the lanes that nobody has and in which something lies, the one that rests the longest.
func freeLane(r OutboxReader, targets []string) (best ledger.Lane, ok bool, err error) {
	var since time.Time
	for _, target := range targets {
		for shard := range ledger.Lanes {
			s, err := r.Lane(target, shard)
			if err != nil {
				return best, false, err
			}
			if s.Free.After(r.Now()) || ok && !s.Free.Before(since) {
				continue
			}
			waiting, err := r.Waiting(target, shard, 0, 1)
			if err != nil {
				return best, false, err
			}
			if len(waiting) > 0 {
				best, since, ok = ledger.Lane{Target: target, Shard: shard}, s.Free, true
			}
		}
	}
	return best, ok, nil
}

// NextOutgoing implements [ledger.Outbox].
func (l *Ledger) NextOutgoing(ctx context.Context, lane ledger.Lane, lease time.Duration, report ledger.LaneReport, n, size int) (next []ledger.Queued, err error) {
	ours := false
	err = l.outboxed(ctx, func(tx OutboxTx) (err error) {
		next = nil
		if ours, err = putReport(tx, lane, &report, lease); err == nil && ours {
			next, err = nextOutgoing(tx, lane, n, size)
		}
		return err
	})
	if err == nil && !ours {
		err = storage.LaneLost(lane)
	}
	if err != nil {
		return nil, l.named("relay", err)
	}
	return next, nil
}

// LeaveLane implements [ledger.Outbox].
func (l *Ledger) LeaveLane(ctx context.Context, lane ledger.Lane, report ledger.LaneReport, rest time.Duration) error {
	ours := false
	err := l.outboxed(ctx, func(tx OutboxTx) (err error) {
		ours, err = putReport(tx, lane, &report, rest)
		return err
	})
	if err == nil && !ours {
		err = storage.LaneLost(lane)
	}
	return l.named("leave a lane of the outbox", err)
}

// putReport writes what became of messages, whoever has the lane: what was sent is sent. It holds the lane for so long if it is ours.
func putReport(tx OutboxTx, lane ledger.Lane, report *ledger.LaneReport, hold time.Duration) (ours bool, err error) {
	if err := tx.Dequeue(lane.Target, lane.Shard, report.Done); err != nil {
		return false, err
	}
	for _, f := range report.Failed {
		tries := 1
		if f.Uncounted {
			tries = 0
		}
		if err := tx.Refuse(lane.Target, lane.Shard, f.Num, tries, tx.Now().Add(f.After), storage.CutError(f.Error)); err != nil {
			return false, err
		}
	}
	s, err := tx.Lane(lane.Target, lane.Shard)
	if err != nil || s.Token != lane.Token {
		return false, err
	}
	s.Free = tx.Now().Add(hold)
	return true, tx.PutLane(lane.Target, lane.Shard, s)
}

// nextOutgoing reads the lowest messages of a lane that are due. One that is not holds up those of its key, which may have lower numbers.
func nextOutgoing(r OutboxReader, lane ledger.Lane, n, size int) (next []ledger.Queued, err error) {
	held, err := heldKeys(r, lane)
	if err != nil {
		return nil, err
	}
	for after := int64(0); ; {
		page, err := r.Waiting(lane.Target, lane.Shard, after, n)
		if err != nil || len(page) == 0 {
			return next, err
		}
		for i := range page {
			q := &page[i]
			after = q.Num
			if _, order := storage.LaneOf(&q.Outgoing); q.Due.After(r.Now()) || order != 0 && held[order] {
				continue
			}
			if len(next) == n || size <= 0 {
				return next, nil
			}
			size -= len(q.Body)
			next = append(next, *q)
		}
	}
}

// heldKeys are the keys of a lane of which a message is not due.
func heldKeys(r OutboxReader, lane ledger.Lane) (map[int64]bool, error) {
	held := map[int64]bool{}
	list, err := r.Undue(lane.Target, lane.Shard)
	for i := range list {
		if _, order := storage.LaneOf(&list[i].Outgoing); order != 0 {
			held[order] = true
		}
	}
	return held, err
}

// ListOutbox implements [ledger.Outbox].
func (l *Ledger) ListOutbox(ctx context.Context, target string, after int64, n int, bodies bool) (list []ledger.Queued, err error) {
	err = l.readOutbox(ctx, func(r OutboxReader) (err error) {
		list, err = r.ListOutbox(target, after, n, bodies)
		return err
	})
	return list, l.named("list the outbox", err)
}

// OutboxStats implements [ledger.Outbox].
func (l *Ledger) OutboxStats(ctx context.Context) (all []ledger.OutboxStats, err error) {
	err = l.readOutbox(ctx, func(r OutboxReader) (err error) {
		all, err = r.OutboxStats()
		return err
	})
	slices.SortFunc(all, func(a, b ledger.OutboxStats) int { return cmp.Compare(a.Target, b.Target) })
	return all, l.named("count the outbox", err)
}

// roomRest is how long an answer of Room holds.
const roomRest = time.Second

// Room implements [ledger.Outboxed].
func (o *owner) Room(ctx context.Context) error {
	r := &o.l.room
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); now.Before(r.next) {
		return r.err
	}
	there := false
	var n, size int64
	err := o.l.readOutbox(ctx, func(b OutboxReader) error {
		there, n, size = true, 0, 0
		all, err := b.OutboxStats()
		for i := range all {
			n, size = n+all[i].Waiting, size+all[i].Bytes
		}
		return err
	})
	most, bytes := o.l.cfg.outboxBounds()
	switch {
	case err != nil:
		return o.l.named("room in the outbox", err)
	case !there:
		r.err = o.l.noOutbox()
	default:
		r.err = o.l.named("outbox", storage.OutboxFull(n, most, size, bytes))
	}
	r.next = time.Now().Add(roomRest)
	return r.err
}

// publish writes what the attempt has published.
func (f *Fence) publish(tx Tx) error {
	messages := f.a.Outgoing()
	if len(messages) == 0 {
		return nil
	}
	box, ok := tx.(OutboxTx)
	if !ok {
		return f.o.l.noOutbox()
	}
	for i := range messages {
		shard, _ := storage.LaneOf(&messages[i])
		if err := box.Enqueue(&messages[i], shard, tx.Now()); err != nil {
			return err
		}
	}
	return nil
}
