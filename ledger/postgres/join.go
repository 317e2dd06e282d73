package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/ackledger/ackledger/internal/beats"
	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// Join implements [ledger.Ledger]. Its errors for which [ledger.Unusable] is true: an engine that is refused ([EngineError]), no tables, a schema too old or too
// new for this program, a refused login, no such database, a missing privilege. The owner makes batches of concurrent
// calls ([ledger.Group]), and holds records of logs in ranges where it may ([ledger.Entry.Ranged]).
func (l *Ledger) Join(ctx context.Context, lease time.Duration) (ledger.Owner, error) {
	if lease < time.Millisecond || lease > 24*time.Hour {
		return nil, &ledger.InvalidError{Field: "lease", Bound: "1ms to 24h", Value: lease.String()}
	}
	ctx, cancel := storage.WithDeadline(ctx)
	defer cancel()
	conn, err := l.beats.Acquire(ctx)
	if err != nil {
		return nil, notSent(err)
	}
	defer conn.Release()
	if err := l.checkOn(ctx, conn); err != nil {
		return nil, err
	}
	l.scopes.forget()                          // this may be another database than the one that numbered them
	hold, boards, err := l.pausesOn(ctx, conn) // before there is an owner: who begins under a pause begins nothing
	if err != nil {
		return nil, fmt.Errorf("postgres: join: %w", usable(err))
	}
	id, before := newOwnerID(), time.Now()
	var now int64
	if err := conn.QueryRow(ctx, l.sql(sqlJoin), id, lease.Microseconds(), []byte(l.cfg.Host)).Scan(&now); err != nil {
		return nil, fmt.Errorf("postgres: join: %w", sent(err))
	}
	o := &owner{ledger: l, id: id, lease: lease, pulse: beats.NewPulse(lease, before)}
	o.clock.note(time.UnixMicro(now), time.Now())
	o.boards.Store(boards)
	o.Heard(hold)
	o.ranged = ranges.NewOwner(o, l.cfg.Limits, &l.counts)
	return ledger.Group(o.ranged, ledger.GroupConfig{
		Flushes: max(int(l.cfg.MaxConns)/2, 1), OneFlush: o.opens.Load, Timeout: ledger.CallTimeout, Settled: newPatience(o).settled,
	}), nil
}
