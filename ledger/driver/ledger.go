package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/ackledger/ackledger/internal/beats"
	"github.com/ackledger/ackledger/internal/checks"
	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// foldAfter is how long the row of a message that a range covers stays once it has succeeded: as long as anybody may
// settle it again.
const foldAfter = 10 * time.Minute

// Config is what a store says of itself.
type Config struct {
	// Name begins the texts of errors. Empty: errors of the store come as they are.
	Name string
	// Limits bounds what is stored of one message.
	Limits ledger.Limits
	// Keys is how many messages one transaction of claims, settlements, Reopen or Purge takes; a call of more is split. Default,
	// and 0: any number. For stores whose transactions have a limit.
	Keys int
	// Parts is how many messages one transaction of Reopen or Purge takes. Default, and 0: as Keys. For stores that claim and settle each
	// message by itself.
	Parts int
	// Interval is the default of [ledger.MaintainConfig].Interval. Default, and 0: the ledger's. For stores that are paid by what a pass
	// reads.
	Interval time.Duration
	// Parks says that the store's transactions are all [Parker]s. Default: they are not, and the ledger parks nothing.
	Parks bool
	// Group says how an owner makes batches of concurrent calls ([ledger.Group]). What OneFlush is, the ledger says. Default, and nil: it
	// makes none. For stores that carry out several messages in one request.
	Group *ledger.GroupConfig
	// OutboxMessages and OutboxBytes are how many messages, and bytes of their bodies, wait in the outbox at most. Default, and 0:
	// [ledger.MaxOutbox] and [ledger.MaxOutboxBytes]. Keys and headers are not counted. For stores with less room.
	OutboxMessages, OutboxBytes int64
	// Warn is told what no caller can be told: what failed, and why. It is called by any goroutine. Default: nobody is told.
	Warn func(what string, err error)
}

// Ledger is a ledger in a store. Make one with [New]. It is safe for concurrent use.
type Ledger struct {
	store  Store
	cfg    Config
	room   room
	counts ranges.Counts
}

// room is what is known of the outbox's room.
type room struct {
	mu   sync.Mutex
	next time.Time // when it is asked for again
	err  error
}

func (c *Config) outboxBounds() (messages, bytes int64) {
	return cmp.Or(c.OutboxMessages, ledger.MaxOutbox), cmp.Or(c.OutboxBytes, ledger.MaxOutboxBytes)
}

var (
	_ ledger.Ledger          = (*Ledger)(nil)
	_ ledger.Operator        = (*Ledger)(nil)
	_ ledger.Maintainer      = (*Ledger)(nil)
	_ ledger.Inspector       = (*Ledger)(nil)
	_ ledger.ArchiveMeter    = (*Ledger)(nil)
	_ ledger.DeliveryCounter = (*Ledger)(nil)
	_ ledger.SuccessReader   = (*Ledger)(nil)
	_ ledger.PastKeeper      = (*Ledger)(nil)
	_ ledger.Board           = (*Ledger)(nil)
	_ ledger.ParkingOperator = (*Ledger)(nil)
	_ ledger.Boarded         = (*owner)(nil)
)

// New returns the ledger that a store holds. It does nothing with the store yet.
func New(store Store, cfg Config) *Ledger {
	if cfg.Warn == nil {
		cfg.Warn = func(string, error) {}
	}
	return &Ledger{store: store, cfg: cfg}
}

// Limits implements [ledger.Ledger].
func (l *Ledger) Limits() ledger.Limits { return l.cfg.Limits }

// Join implements [ledger.Ledger]. A lease that is not above zero, or above [ledger.MaxWindow], is refused with an
// [*ledger.InvalidError].
func (l *Ledger) Join(ctx context.Context, lease time.Duration) (ledger.Owner, error) {
	if lease <= 0 || lease > ledger.MaxWindow {
		return nil, &ledger.InvalidError{Field: "lease", Bound: fmt.Sprintf("above 0, at most %s", ledger.MaxWindow), Value: lease.String()}
	}
	ctx, cancel := storage.WithDeadline(ctx)
	defer cancel()
	pauses, err := l.pauses(ctx) // before there is an owner: who begins under a pause begins nothing
	if err != nil {
		return nil, l.named("join", err)
	}
	o := &owner{l: l, lease: lease, pulse: beats.NewPulse(lease, l.store.Now())}
	o.Heard(pauses)
	if o.id, err = l.store.Join(ctx, lease); err != nil {
		return nil, l.named("join", err)
	}
	o.ranged = ranges.NewOwner(o, l.cfg.Limits, &l.counts)
	return l.grouped(o), nil
}

// grouped is what Join answers with.
func (l *Ledger) grouped(o *owner) ledger.Owner {
	if l.cfg.Group == nil {
		return o.ranged
	}
	cfg := *l.cfg.Group
	cfg.OneFlush = o.opens.Load
	return ledger.Group(o.ranged, cfg)
}

// CountDeliveries implements [ledger.DeliveryCounter].
func (l *Ledger) CountDeliveries(ctx context.Context, more []ledger.Deliveries) error {
	if err := checks.Deliveries(more); err != nil {
		return err
	}
	ctx, cancel := storage.WithDeadline(ctx)
	defer cancel()
	return l.named("count deliveries", l.store.AddDeliveries(ctx, more))
}

// named is an error with what failed before it; nil stays nil.
func (l *Ledger) named(what string, err error) error {
	if err == nil || l.cfg.Name == "" {
		return err
	}
	return fmt.Errorf("%s: %s: %w", l.cfg.Name, what, err)
}

// operate is an operator's write in one transaction.
func (l *Ledger) operate(ctx context.Context, call Call, fn func(Tx) error) error {
	ctx, cancel := storage.WithDeadline(ctx)
	defer cancel()
	call.Op = Operate
	return l.store.Update(ctx, call, fn)
}

// errBusy is the mark of an error for which Busy is true.
type errBusy struct{ error }

// Unwrap returns what was marked.
func (e errBusy) Unwrap() error { return e.error }

// MarkBusy makes an error one for which [Busy] is true: a lock was not free in time, and nothing was written. Nil stays nil.
func MarkBusy(err error) error {
	if err == nil {
		return nil
	}
	return errBusy{err}
}

// Busy says whether a transaction waited for a lock in vain. Then claims are answered as Busy, and settlements are to be
// repeated: it is no outage. Where a part of a call was busy and another may have been written it is false: who is told Busy forgets
// what it may own.
func Busy(err error) bool {
	var e errBusy
	return errors.As(err, &e) && !ledger.Unknown(err)
}

// String is the owner's id as workers see it.
func (id OwnerID) String() string { return strconv.FormatInt(int64(id), 10) }
