package driver

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/ackledger/ackledger/internal/checks"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// Settle implements [ledger.Owner]. A settlement for which there was no lock, or no room, in time gets that error: it was not written,
// and repeating it is all there is to do. The call itself has an answer: without one it would be an outage.
func (o *owner) Settle(ctx context.Context, settlements []ledger.Settlement) ([]error, error) {
	ctx, cancel := storage.WithDeadline(ctx)
	defer cancel()
	errs := make([]error, len(settlements))
	err := o.l.split(len(settlements), func(from, to int) error {
		part := settlements[from:to]
		call := Call{Op: Settle, Keys: keysOf(part, func(s *ledger.Settlement) Key { return s.Ticket.Sum() }), Messages: len(part)}
		busy, err := each(ctx, o.l.store, call, func(tx Tx, i int) error {
			s, told := &part[i], &errs[from+i]
			if *told = o.check(s); *told != nil {
				return nil
			}
			effect, err := o.settle(tx, s)
			if effect == ledger.EffectLost {
				*told = ledger.ErrLost
			}
			return err
		})
		for i, why := range busy {
			errs[from+i] = cmp.Or(o.check(&part[i]), why)
		}
		return err
	})
	if err != nil {
		return nil, o.named("settle by", err)
	}
	return errs, nil
}

// check refuses what this ledger cannot hold.
func (o *owner) check(s *ledger.Settlement) error {
	if s.Kind == ledger.Park && !o.l.cfg.Parks {
		return errParksNothing
	}
	return checks.Settlement(s, o.l.cfg.Limits)
}

// keysOf are the keys of a part of a call.
func keysOf[T any](part []T, key func(*T) Key) iter.Seq[Key] {
	return func(yield func(Key) bool) {
		for i := range part {
			if !yield(key(&part[i])) {
				return
			}
		}
	}
}

// settle carries one settlement out. A success is tried at once: the shortcut's guard is the table's.
func (o *owner) settle(tx Tx, s *ledger.Settlement) (ledger.Effect, error) {
	key := s.Ticket.Sum()
	if s.Kind == ledger.Succeed && !s.Ticket.IsMismatch() {
		done, err := tx.Succeed(key, s.Ticket.Token(), o.id, storage.CutResult(s.Result, o.l.cfg.Limits.Result), tx.Now().Add(foldAfter))
		if done {
			err = o.unpark(tx, s.Ticket, nil)
		}
		if err != nil || done {
			return ledger.EffectWrite, named(key, err)
		}
	}
	var delivery []byte
	if s.Kind == ledger.Fail {
		delivery = s.Dead.Delivery
	}
	m, err := tx.Message(key, delivery)
	if err != nil {
		return ledger.EffectLost, named(key, err)
	}
	var row *ledger.Row
	if m != nil {
		if row, err = sees(tx, o.id, m); err != nil {
			return ledger.EffectLost, err
		}
		if s.Kind == ledger.Park {
			if row.Parked, err = o.isParked(tx, m); err != nil {
				return ledger.EffectLost, named(key, err)
			}
		}
	}
	effect := ledger.DecideSettle(row, *s)
	switch effect {
	case ledger.EffectFile:
		err = tx.File(o.archive(tx, s, 0))
	case ledger.EffectWrite:
		err = o.finish(tx, m, s)
	}
	return effect, named(key, err)
}

func named(key Key, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("message %x: %w", key, err)
}

// finish writes a settlement that passed the guard. The row of a message that has failed stays for its window: copies of its
// dead letter may come when the range that covers it is gone.
func (o *owner) finish(tx Tx, m *Message, s *ledger.Settlement) error {
	if s.Kind == ledger.RecordStep {
		step := s.Step.Clone()
		step.At = tx.Now()
		return tx.Record(m.Key, &step)
	}
	limits := &o.l.cfg.Limits
	m.Owner, m.Due = Nobody, time.Time{}
	switch s.Kind {
	case ledger.Succeed:
		m.State, m.Result = ledger.Succeeded, storage.CutResult(s.Result, limits.Result)
		if err := fold(tx, m); err != nil {
			return err
		}
	case ledger.Fail:
		if err := tx.File(o.archive(tx, s, m.Generation)); err != nil {
			return err
		}
		m.State, m.Failed, m.Result = ledger.Failed, s.Dead.Delivery, storage.CutResult(s.Result, limits.Result)
	case ledger.Release, ledger.Park:
		if s.After > 0 {
			m.Due = tx.Now().Add(s.After)
		}
		if s.Count {
			m.Attempts++
			m.Errors = storage.AppendError(m.Errors, s.Failure, limits.Errors)
		}
	}
	if s.Kind == ledger.Park {
		if err := o.park(tx, m, s); err != nil {
			return err
		}
	} else if err := o.unpark(tx, s.Ticket, m); err != nil {
		return err
	}
	return tx.Put(m)
}

// fold makes a message that has succeeded go soon, if a range speaks for it then.
func fold(tx Tx, m *Message) error {
	at := tx.Now().Add(foldAfter)
	if !m.Covered || m.Result != nil || !at.Before(m.Expiry) {
		return nil
	}
	archived, err := tx.Archive(m.Key, false)
	if err == nil && len(archived) == 0 {
		m.Expiry = at
	}
	return err
}

// archive is the archived delivery of a failure: a copy.
func (o *owner) archive(tx Tx, s *ledger.Settlement, generation int) *ledger.ArchiveRecord {
	a := &ledger.ArchiveRecord{Archive: s.Dead.Clone(), Token: s.Ticket.Token(), Generation: generation,
		At: tx.Now(), Expiry: tx.Now().Add(s.Dead.Keep)}
	var list []ledger.AttemptError
	for _, e := range s.Dead.Errors {
		list = storage.AppendError(list, e, o.l.cfg.Limits.Errors)
	}
	a.Errors = list
	return a
}

// find is an archived delivery in a list; nil: it is not there.
func find(list []ledger.ArchiveRecord, delivery []byte) *ledger.ArchiveRecord {
	i := slices.IndexFunc(list, func(a ledger.ArchiveRecord) bool { return bytes.Equal(a.Delivery, delivery) })
	if i < 0 {
		return nil
	}
	return &list[i]
}
