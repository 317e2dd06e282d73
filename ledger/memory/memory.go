package memory

import (
	"context"
	"strconv"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
)

// defaultKeep is how long pending rows stay past their expiry without [WithKeep].
const defaultKeep = 30 * 24 * time.Hour

// Ledger implements [ledger.Ledger] and all that goes with it. The zero value is not usable: call [New]. Safe for concurrent
// use.
type Ledger struct {
	*driver.Ledger
	store *store
}

// Option changes a new ledger.
type Option func(*options)

type options struct {
	now    func() time.Time
	limits ledger.Limits
	keep   time.Duration
}

// WithClock sets the ledger's clock, which is the database's in other stores. For tests that make leases, backoffs and
// windows pass without waiting. It is called with the ledger's lock held, by any goroutine. Default, and nil: time.Now.
func WithClock(now func() time.Time) Option {
	return func(o *options) {
		if now != nil {
			o.now = now
		}
	}
}

// WithLimits sets what is stored of one message. For tests of results, archives and error lists at their bounds.
// Default: [ledger.DefaultLimits]; a negative limit counts as 0.
func WithLimits(limits ledger.Limits) Option {
	return func(o *options) {
		o.limits = ledger.Limits{
			Result: max(limits.Result, 0), Archive: max(limits.Archive, 0), Errors: max(limits.Errors, 0),
		}
	}
}

// WithKeep sets how long a pending row stays past its expiry, like the archive's retention in other stores. For
// long-lived fakes with many abandoned messages. Default: 30 days; less than 0 counts as 0.
func WithKeep(keep time.Duration) Option { return func(o *options) { o.keep = max(keep, 0) } }

// New makes an empty ledger.
func New(opts ...Option) *Ledger {
	s, o := build(opts)
	return &Ledger{Ledger: driver.New(s, driver.Config{Limits: o.limits, Parks: true}), store: s}
}

// NewStore makes an empty store alone: the reference of [driver.Store], for tests of what stands in front of one.
func NewStore(opts ...Option) driver.Store {
	s, _ := build(opts)
	return s
}

func build(opts []Option) (*store, options) {
	o := options{now: time.Now, limits: ledger.DefaultLimits, keep: defaultKeep}
	for _, option := range opts {
		option(&o)
	}
	return newStore(o.now, o.keep), o
}

// Sweep implements [ledger.Maintainer]. Tests with a clock of their own call it to see a window end. Without
// MaintainConfig.Keep it goes by [WithKeep].
//
// The ledger also sweeps a few rows at each claim by itself, so it does not grow for ever without.
func (l *Ledger) Sweep(ctx context.Context, cfg ledger.MaintainConfig) (ledger.SweepReport, error) {
	if cfg.Keep == 0 && l.store.keep >= time.Millisecond {
		cfg.Keep = l.store.keep
	}
	return l.Ledger.Sweep(ctx, cfg)
}

// Declare seals a live owner dead at once, as a peer's beat does with an overdue one: its rows can be taken over, and
// count as crashes. For tests of lost leases. It says whether there was such a live owner.
func (l *Ledger) Declare(ownerID string) bool {
	id, err := strconv.ParseInt(ownerID, 10, 64)
	s := l.store
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.owners[driver.OwnerID(id)]
	if err != nil || o == nil || o.fate != driver.Live {
		return false
	}
	s.seal(o, driver.Dead)
	return true
}

// Store returns what the ledger stands on: for tests of stores that stand in front of one, over the same tables.
func (l *Ledger) Store() driver.Store { return l.store }

// Len returns the number of message rows.
func (l *Ledger) Len() int {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	return len(l.store.rows.at)
}

// Drop deletes a message's row, as the sweep does when its window is over; the archive stays. Of a key with a position it
// drops all that ranges hold of the log at its epoch.
func (l *Ledger) Drop(key ledger.Key) {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	l.store.rows.remove(key.Sum())
	if key.Pos != nil {
		log, _ := driver.SplitKey(key.Sum())
		delete(l.store.logs, log)
	}
}
