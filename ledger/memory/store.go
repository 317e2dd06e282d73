package memory

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
)

// store implements [driver.Store] under one lock, so that a transaction sees and changes all or nothing. It cannot roll back:
// what the driver refuses it refuses before it has written.
type store struct {
	now   func() time.Time
	begin time.Time // what times of rows count from
	keep  time.Duration

	mu     sync.Mutex
	joined driver.OwnerID
	owners map[driver.OwnerID]*owner
	rows   rows
	first  time.Duration // no row ends before
	looked ref           // where sweepSome goes on
	archive
	parked parked
	logs   logs
	floor  uint64 // the highest token of any log that was dropped: no log begins below
	before Fault
	after  Fault

	turn       driver.Turn
	deliveries map[string]*ledger.Deliveries // by scope
	audits     []ledger.AuditRecord          // the oldest first
	audited    int64                         // how many there ever were
	pauses     []ledger.Pause
	outbox     outbox
}

// owner is one that no sweep has removed.
type owner struct {
	end    time.Time // of its lease, or its life
	fate   driver.Fate
	report []byte
}

var _ driver.Store = (*store)(nil)

func newStore(now func() time.Time, keep time.Duration) *store {
	return &store{
		now: now, begin: now(), keep: keep,
		owners: map[driver.OwnerID]*owner{}, rows: newRows(),
		archive: archive{archived: map[driver.Key][]*delivery{}, numbered: map[uint64]*delivery{}},
		parked:  parked{},
		logs:    logs{},
		first:   math.MaxInt64, deliveries: map[string]*ledger.Deliveries{},
	}
}

func (s *store) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now()
}

// ops are the calls of the contract that transactions belong to.
var ops = map[driver.Op]Op{driver.Claim: Claim, driver.Settle: Settle, driver.Sweep: Sweep}

// Update implements [driver.Store]. A claim also looks at a few rows, and drops what is past its expiry: before it looks at
// logs, since what it finds in rows is claimed next, and after it has claimed rows.
func (s *store) Update(ctx context.Context, call driver.Call, fn func(driver.Tx) error) error {
	return s.do(ctx, ops[call.Op], func() error {
		t := &tx{store: s, now: s.now()}
		if call.Op == driver.Claim {
			s.sweepSome(t.since(t.now), 2*len(call.Logs))
			defer s.sweepSome(t.since(t.now), 2*call.Messages)
		}
		return fn(t)
	})
}

func (s *store) View(ctx context.Context, _ driver.Call, fn func(driver.Reader) error) error {
	return s.do(ctx, "", func() error { return fn(&tx{store: s, now: s.now()}) })
}

// sweepSome looks at the next n places for rows, from the last one on to the first, and drops rows that have expired. With two looks for each
// claimed row about half of the rows are alive at least, whatever the windows are. What has not succeeded although a range may say so is
// left to the sweep.
func (s *store) sweepSome(since time.Duration, n int) {
	if since < s.first {
		return // nothing has ended yet
	}
	for ; n > 0; n-- {
		var r *row
		if r, s.looked = s.rows.next(s.looked); r == nil {
			continue
		}
		o := s.owners[r.owner]
		live, needed := o != nil && o.fate == driver.Live, r.covered && r.state != ledger.Succeeded
		if r.expiry+driver.Grace(r.state, r.expiry-r.at, s.keep) < since && !live && !needed {
			s.rows.remove(r.key)
			s.rows.past.drop(since, 2)
		}
	}
}

func (s *store) Tables(context.Context) ([]ledger.TableStats, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return []ledger.TableStats{
		{Name: "message", Rows: int64(len(s.rows.at))}, {Name: "archive", Rows: int64(len(s.archived))},
		{Name: "owner", Rows: int64(len(s.owners))},
	}, nil
}

func (s *store) Join(ctx context.Context, lease time.Duration) (id driver.OwnerID, err error) {
	err = s.do(ctx, Join, func() error {
		s.joined++
		id = s.joined
		s.owners[id] = &owner{end: s.now().Add(lease), fate: driver.Live}
		return nil
	})
	return id, err
}

func (s *store) Beat(ctx context.Context, id driver.OwnerID, lease time.Duration, report []byte) error {
	return s.do(ctx, Beat, func() error {
		o := s.owners[id]
		if o == nil || o.fate != driver.Live {
			return ledger.ErrLost
		}
		o.end, o.report = s.now().Add(lease), bytes.Clone(report)
		return nil
	})
}

func (s *store) Workers(_ context.Context, rest time.Duration) (all []driver.Worker, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for id, o := range s.owners {
		if o.fate == driver.Live || now.Sub(o.end) < rest {
			all = append(all, driver.Worker{ID: id, Fate: o.fate, Lease: o.end.Sub(now), Report: bytes.Clone(o.report)})
		}
	}
	return all, nil
}

func (s *store) Seal(_ context.Context, caller driver.OwnerID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for id, o := range s.owners {
		if id != caller && o.fate == driver.Live && o.end.Before(now) {
			s.seal(o, driver.Dead)
		}
	}
	return nil
}

func (s *store) Leave(ctx context.Context, id driver.OwnerID) error {
	return s.do(ctx, Leave, func() error {
		if o := s.owners[id]; o != nil && o.fate == driver.Live {
			s.seal(o, driver.Left)
		}
		return nil
	})
}

// seal ends an owner's life. The store is locked.
func (s *store) seal(o *owner, fate driver.Fate) {
	o.fate, o.end = fate, s.now()
}

func (s *store) CountOwners(context.Context) (n ledger.OwnerStats, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for _, o := range s.owners {
		switch {
		case o.fate == driver.Left:
			n.Left++
		case o.fate == driver.Dead:
			n.Dead++
		case o.end.Before(now):
			n.Overdue++
			fallthrough
		default:
			n.Live++
		}
	}
	return n, nil
}

func (s *store) RemoveOwners(_ context.Context, before time.Time, named func(driver.OwnerID) bool) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	were := len(s.owners)
	maps.DeleteFunc(s.owners, func(id driver.OwnerID, o *owner) bool {
		return o.fate != driver.Live && o.end.Before(before) && !named(id)
	})
	return int64(were - len(s.owners)), nil
}

func (s *store) AddDeliveries(ctx context.Context, more []ledger.Deliveries) error {
	return s.do(ctx, Count, func() error {
		for _, n := range more {
			d := s.deliveries[n.Scope]
			if d == nil {
				d = &ledger.Deliveries{Scope: n.Scope, Since: s.now()}
				s.deliveries[n.Scope] = d
			}
			d.Misses, d.Hits, d.Timeouts = d.Misses+n.Misses, d.Hits+n.Hits, d.Timeouts+n.Timeouts
		}
		return nil
	})
}

func (s *store) Deliveries(context.Context) (all []ledger.Deliveries, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.deliveries {
		all = append(all, *d)
	}
	slices.SortFunc(all, func(a, b ledger.Deliveries) int {
		return cmp.Or(cmp.Compare(b.Misses+b.Hits, a.Misses+a.Hits), cmp.Compare(a.Scope, b.Scope))
	})
	return all[:min(len(all), ledger.MaxStatScopes)], nil
}
