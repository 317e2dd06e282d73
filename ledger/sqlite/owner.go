package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
)

// The fates of an owner, as stored.
const (
	fateLive = 1
	fateLeft = 2
	fateDead = 3
)

// owner implements [ledger.Owner].
type owner struct {
	l     *Ledger
	id    int64
	lease time.Duration

	ranged *ranges.Owner // what Join returned

	mu    sync.Mutex
	pulse ledger.Pulse
}

// Join implements [ledger.Ledger]. A lease that is not above zero is refused with an [*ledger.InvalidError].
func (l *Ledger) Join(ctx context.Context, lease time.Duration) (ledger.Owner, error) {
	if lease <= 0 || lease > ledger.MaxWindow {
		return nil, &ledger.InvalidError{Field: "lease", Bound: fmt.Sprintf("above 0, at most %s", ledger.MaxWindow), Value: lease.String()}
	}
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	if _, err := checkSchema(ctx, l.read, l.path); err != nil { // a newer program may have migrated since Open
		return nil, fmt.Errorf("ledger/sqlite: join: %w", err)
	}
	o := &owner{l: l, lease: lease, pulse: ledger.NewPulse(lease, time.Now())}
	err := l.owners.do(ctx, func(ctx context.Context, tx *sql.Tx) error {
		now := time.Now()
		res, err := tx.ExecContext(ctx, "INSERT INTO ackledger_owner (lease_end, fate, host, joined, knows) VALUES (?, ?, ?, ?, ?)",
			now.Add(lease).UnixMicro(), fateLive, l.host, now.UnixMicro(), schemaVersion)
		if err != nil {
			return err
		}
		o.id, err = res.LastInsertId()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("ledger/sqlite: join: %w", err)
	}
	o.ranged = ranges.NewOwner(o, l.cfg.Limits, &l.counts)
	return o.ranged, nil
}

// ID implements [ledger.Owner].
func (o *owner) ID() string { return strconv.FormatInt(o.id, 10) }

// Beat implements [ledger.Owner].
func (o *owner) Beat(ctx context.Context) (time.Duration, error) {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	sent := time.Now()
	err := o.l.owners.do(ctx, func(ctx context.Context, tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, "UPDATE ackledger_owner SET lease_end = ? WHERE id = ? AND fate = ?",
			time.Now().Add(o.lease).UnixMicro(), o.id, fateLive)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return errors.Join(ledger.ErrLost, err)
		}
		return nil
	})
	if !o.note(sent, err) {
		return o.lease, nil
	}
	if err != nil {
		return 0, fmt.Errorf("ledger/sqlite: beat of owner %d: %w", o.id, err)
	}
	if err := o.seal(ctx); err != nil { // our own beat is confirmed; the next one tries again
		o.l.cfg.Logger.Warn("overdue owners were not declared dead", zap.String("owner", o.ID()), zap.Error(err))
	}
	return o.lease, nil
}

// wall is the clock by which leases in the file end. It goes on while the machine sleeps; the monotonic one, by which Go
// compares times that have it, does not on Linux (clock_gettime(2), CLOCK_MONOTONIC): the first worker to beat after that
// would find its own chain unbroken and all others overdue.
func wall() time.Time { return time.Now().Round(0) }

// note keeps the pulse, and says whether there is anything left to do: an error to tell, or peers to declare dead.
func (o *owner) note(sent time.Time, err error) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := wall()
	if err != nil {
		o.pulse.Missed(now)
		return true
	}
	o.pulse.Confirmed(sent, now)
	return o.pulse.MaySeal(now)
}

// seal declares overdue peers dead. The beat of such a peer is another transaction on the same file, so either it came
// before, and the peer is not overdue, or it finds itself dead.
func (o *owner) seal(ctx context.Context) error {
	return o.l.owners.do(ctx, func(ctx context.Context, tx *sql.Tx) error {
		now := time.Now().UnixMicro()
		_, err := tx.ExecContext(ctx, "UPDATE ackledger_owner SET fate = 3, fated_at = ?1 WHERE fate = 1 AND lease_end < ?1 AND id <> ?2",
			now, o.id)
		return err
	})
}

// Leave implements [ledger.Owner].
func (o *owner) Leave(ctx context.Context) error {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	err := o.l.owners.do(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE ackledger_owner SET fate = ?, fated_at = ? WHERE id = ? AND fate = ?",
			fateLeft, time.Now().UnixMicro(), o.id, fateLive)
		return err
	})
	if err != nil {
		return fmt.Errorf("ledger/sqlite: owner %d leaves: %w", o.id, err)
	}
	return nil
}
