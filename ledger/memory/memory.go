package memory

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
)

// defaultKeep is how long pending rows stay past their expiry without [WithKeep].
const defaultKeep = 30 * 24 * time.Hour

// Ledger implements [ledger.Ledger]. The zero value is not usable: call [New]. Safe for concurrent use.
type Ledger struct {
	now    func() time.Time
	begin  time.Time // what times of rows count from
	limits ledger.Limits
	keep   time.Duration
	counts ranges.Counts

	mu       sync.Mutex
	joined   uint64
	calls    uint32            // numbers the claim calls, to tell a key repeated within one
	live     map[string]*owner // an owner that left or died is known only to its rows
	rows     rows
	first    time.Duration // no row ends before
	some     bool          // first is known: there was a row
	archives map[[ledger.KeySize]byte][]ledger.ArchiveRecord
	logs     map[ranges.Log]*rangeLog
	token    uint64 // the highest of any log that a sweep has dropped: no log begins below
	before   Fault
	after    Fault

	sweeper chan struct{} // the turn of Maintain and Sweep
	last    *passed       // nil: there was no pass

	deliveries map[string]*ledger.Deliveries // by scope

	audits  []ledger.AuditRecord // the oldest first
	audited int64                // how many there ever were
}

// Option changes a new ledger.
type Option func(*Ledger)

// WithClock sets the ledger's clock, which is the database's in other stores. For tests that make leases, backoffs and
// windows pass without waiting. It is called with the ledger's lock held, by any goroutine. Default, and nil: time.Now.
func WithClock(now func() time.Time) Option {
	return func(l *Ledger) {
		if now != nil {
			l.now = now
		}
	}
}

// WithLimits sets what is stored of one message. For tests of results, archives and error lists at their bounds.
// Default: [ledger.DefaultLimits]; a negative limit counts as 0.
func WithLimits(limits ledger.Limits) Option {
	return func(l *Ledger) {
		l.limits = ledger.Limits{
			Result: max(limits.Result, 0), Archive: max(limits.Archive, 0), Errors: max(limits.Errors, 0),
		}
	}
}

// WithKeep sets how long a pending row stays past its expiry, like the archive's retention in other stores. For
// long-lived fakes with many abandoned messages. Default: 30 days; less than 0 counts as 0.
func WithKeep(keep time.Duration) Option { return func(l *Ledger) { l.keep = max(keep, 0) } }

// New makes an empty ledger.
func New(options ...Option) *Ledger {
	l := &Ledger{
		now: time.Now, limits: ledger.DefaultLimits, keep: defaultKeep,
		live:     make(map[string]*owner),
		rows:     newRows(),
		archives: make(map[[ledger.KeySize]byte][]ledger.ArchiveRecord),
		logs:     make(map[ranges.Log]*rangeLog),
		sweeper:  make(chan struct{}, 1),

		deliveries: make(map[string]*ledger.Deliveries),
	}
	for _, option := range options {
		option(l)
	}
	l.begin = l.now()
	return l
}

// Limits implements [ledger.Ledger].
func (l *Ledger) Limits() ledger.Limits { return l.limits }

// Join implements [ledger.Ledger]. A lease that is not above zero is refused with an [*ledger.InvalidError].
func (l *Ledger) Join(ctx context.Context, lease time.Duration) (ledger.Owner, error) {
	if lease <= 0 {
		return nil, &ledger.InvalidError{Field: "lease", Bound: "above 0", Value: lease.String()}
	}
	var joined *owner
	err := l.do(ctx, Join, func() error {
		now := l.now()
		l.joined++
		joined = &owner{
			ledger: l, id: "memory-" + strconv.FormatUint(l.joined, 10),
			lease: lease, end: now.Add(lease), fate: live, pulse: ledger.NewPulse(lease, now),
		}
		l.live[joined.id] = joined
		l.rows.join(joined)
		joined.ranged = ranges.NewOwner(joined, l.limits, &l.counts)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return joined.ranged, nil
}

// Get returns all that the ledger knows of one message: a copy. [ledger.ErrNotFound] if there is no row; the record
// then still carries the archive, which outlives its row.
func (l *Ledger) Get(ctx context.Context, key ledger.Key) (ledger.Record, error) {
	if err := ctx.Err(); err != nil {
		return ledger.Record{}, err
	}
	sum := key.Sum()
	l.mu.Lock()
	defer l.mu.Unlock()
	rec := ledger.Record{Key: sum}
	for i := range l.archives[sum] {
		a := l.archives[sum][i]
		if ledger.NoBodies(ctx) {
			a.Body, a.BodyBytes = nil, len(a.Body)
		}
		a.Archive = a.Clone()
		rec.Archived = append(rec.Archived, a)
	}
	r := l.rows.get(sum)
	if r == nil {
		if log, offset := ranges.SplitSum(sum); l.find(log, offset, &rec) {
			return rec, nil
		}
		return rec, fmt.Errorf("%w: %v", ledger.ErrNotFound, key)
	}
	l.record(r, &rec)
	return rec, nil
}

// record fills in what a row has. The ledger is locked.
func (l *Ledger) record(r *row, rec *ledger.Record) {
	rec.Scope, rec.ID, rec.Fingerprint = l.rows.scopeOf(r), clone(l.rows.id(r)), r.fingerprint
	rec.State, rec.Token, rec.Attempts, rec.Crashes = r.state, r.token, int(r.attempts), int(r.crashes)
	rest := l.rows.rest(r)
	rec.Result, rec.Errors, rec.Generation = clone(rest.result), copyErrors(rest.errors), rest.generation
	rec.At, rec.Expiry = l.begin.Add(r.at), l.begin.Add(r.expiry)
	if rest.due != 0 {
		rec.Due = l.begin.Add(rest.due)
	}
	if o := l.rows.ownerOf(r); o != nil {
		rec.Owner = o.id
	}
}

// Declare seals a live owner dead at once, as a peer's beat does with an overdue one: its rows can be taken over, and
// count as crashes. For tests of lost leases. It says whether there was such a live owner.
func (l *Ledger) Declare(ownerID string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	o, ok := l.live[ownerID]
	if ok {
		l.seal(o, dead)
	}
	return ok
}

// Len returns the number of message rows.
func (l *Ledger) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rows.len()
}

// Drop deletes a message's row, as the sweep does when its window is over; the archive stays. Of a key with a position it
// drops all that ranges hold of the log at its epoch.
func (l *Ledger) Drop(key ledger.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rows.remove(key.Sum())
	if key.Pos != nil {
		log, _ := ranges.SplitSum(key.Sum())
		l.dropLog(log)
	}
}

func (l *Ledger) seal(o *owner, f fate) {
	o.fate = f
	delete(l.live, o.id)
	l.rows.forget(o)
}
