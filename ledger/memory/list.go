package memory

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
)

var _ ledger.Operator = (*Ledger)(nil)

// Scopes implements [ledger.Operator].
func (l *Ledger) Scopes(ctx context.Context) ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	names := map[string]bool{}
	for _, name := range l.rows.names {
		names[name] = true
	}
	for _, list := range l.archives {
		for i := range list {
			names[list[i].Key.Scope] = true
		}
	}
	return slices.Sorted(maps.Keys(names)), ctx.Err()
}

// Find implements [ledger.Operator].
func (l *Ledger) Find(ctx context.Context, scope string, id []byte) ([]ledger.Record, error) {
	if err := ledger.CheckID(id); err != nil {
		return nil, err
	}
	return ledger.FindRecords(ctx, l, l.keysOf(id), scope, id)
}

// keysOf are the keys of that id that archived deliveries have, or that logs may hold in a range.
func (l *Ledger) keysOf(id []byte) (keys []ledger.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for sum, list := range l.archives {
		if bytes.Equal(list[0].Key.ID, id) {
			keys = append(keys, ledger.KeyOfSum(list[0].Key.Scope, id, sum))
		}
	}
	for _, g := range l.logs {
		if key, ok := g.info.KeyOf(id); ok {
			keys = append(keys, key)
		}
	}
	return keys
}

// Status implements [ledger.Operator].
func (l *Ledger) Status(ctx context.Context, keys []ledger.Key) ([]ledger.Status, error) {
	if err := ledger.CheckKeys("keys", len(keys)); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	out := make([]ledger.Status, len(keys))
	for i := range keys {
		out[i] = l.statusOf(keys[i].Sum(), now)
	}
	return out, ctx.Err()
}

// statusOf is how a message is, in a row or in a range. The ledger is locked.
func (l *Ledger) statusOf(sum [ledger.KeySize]byte, now time.Time) ledger.Status {
	if r := l.rows.get(sum); r != nil {
		return l.status(r, now)
	}
	log, offset := ranges.SplitSum(sum)
	var rec ledger.Record
	if !l.find(log, offset, &rec) {
		return ledger.Status{}
	}
	s := ledger.Status{State: rec.State, Token: rec.Token}
	if rec.State == ledger.Pending { // whoever asks for it next finds out whose it is
		s.Holder, s.HeldFor = ledger.Live, time.Second
	}
	return s
}

// status is how a row is. The ledger is locked.
func (l *Ledger) status(r *row, now time.Time) ledger.Status {
	if r == nil {
		return ledger.Status{}
	}
	rest := l.rows.rest(r)
	s := ledger.Status{State: r.state, Token: r.token, Fingerprint: r.fingerprint, Generation: rest.generation}
	switch r.state {
	case ledger.Pending:
		seen := (&owner{ledger: l}).sees(r, now)
		s.Holder, s.HeldFor, s.DueIn = seen.Holder, seen.HeldFor, max(seen.DueIn, 0)
	case ledger.Failed:
		s.Delivery = clone(rest.failed)
	}
	return s
}

// Messages implements [ledger.Operator].
func (l *Ledger) Messages(ctx context.Context, f ledger.Filter) iter.Seq2[ledger.Listed, error] {
	return func(yield func(ledger.Listed, error) bool) {
		if err := f.CheckMessages(); err != nil {
			yield(ledger.Listed{}, err)
			return
		}
		l.mu.Lock()
		sums := slices.Collect(maps.Keys(l.rows.at))
		l.mu.Unlock()
		found := 0
		for _, sum := range sums {
			if err := ctx.Err(); err != nil {
				yield(ledger.Listed{}, err)
				return
			}
			m, ok := l.listed(sum)
			if !ok || !f.Match(&m) {
				continue
			}
			if !yield(m, nil) {
				return
			}
			if found++; found == f.Limit {
				return
			}
		}
	}
}

func (l *Ledger) listed(sum [ledger.KeySize]byte) (m ledger.Listed, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.rows.get(sum)
	if r == nil {
		return m, false
	}
	m.Key = sum
	l.record(r, &m.Record)
	m.Status = l.status(r, l.now())
	return m, true
}

// deadRef is the place of an archived delivery.
type deadRef struct {
	at       time.Time
	sum      [ledger.KeySize]byte
	delivery []byte
}

// DeadLetters implements [ledger.Operator].
func (l *Ledger) DeadLetters(ctx context.Context, f ledger.Filter) iter.Seq2[ledger.DeadLetter, error] {
	return func(yield func(ledger.DeadLetter, error) bool) {
		if err := f.Check(); err != nil {
			yield(ledger.DeadLetter{}, err)
			return
		}
		found := 0
		for _, ref := range l.deadRefs() {
			if err := ctx.Err(); err != nil {
				yield(ledger.DeadLetter{}, err)
				return
			}
			d, ok := l.deadLetter(ref)
			if !ok {
				continue
			}
			kept, err := f.Keep(ctx, &d)
			if err != nil {
				yield(ledger.DeadLetter{}, err)
				return
			}
			if !kept {
				continue
			}
			if !yield(d, nil) {
				return
			}
			if found++; found == f.Limit {
				return
			}
		}
	}
}

// deadRefs are all archived deliveries, the oldest first.
func (l *Ledger) deadRefs() []deadRef {
	l.mu.Lock()
	defer l.mu.Unlock()
	var refs []deadRef
	for sum, list := range l.archives {
		for i := range list {
			refs = append(refs, deadRef{list[i].At, sum, list[i].Delivery})
		}
	}
	slices.SortFunc(refs, func(a, b deadRef) int {
		return cmp.Or(a.at.Compare(b.at), bytes.Compare(a.sum[:], b.sum[:]), bytes.Compare(a.delivery, b.delivery))
	})
	return refs
}

func (l *Ledger) deadLetter(ref deadRef) (d ledger.DeadLetter, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.archive(ref.sum, ref.delivery)
	if a == nil || !a.Purged.IsZero() {
		return d, false
	}
	d.ArchiveRecord = *a
	d.Archive = a.Clone()
	d.Status = l.statusOf(ref.sum, l.now())
	d.Superseded = slices.ContainsFunc(l.archives[ref.sum], func(b ledger.ArchiveRecord) bool {
		return a.Token != 0 && b.Token > a.Token
	})
	return d, true
}

// archive returns an archived delivery, to change it; nil: there is none. The ledger is locked.
func (l *Ledger) archive(sum [ledger.KeySize]byte, delivery []byte) *ledger.ArchiveRecord {
	for i, a := range l.archives[sum] {
		if bytes.Equal(a.Delivery, delivery) {
			return &l.archives[sum][i]
		}
	}
	return nil
}
