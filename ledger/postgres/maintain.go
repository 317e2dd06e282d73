package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/zap"

	"github.com/ackledger/ackledger/internal/maintenance"
	"github.com/ackledger/ackledger/ledger"
)

var (
	_ ledger.Maintainer = (*Ledger)(nil)
	_ ledger.Inspector  = (*Ledger)(nil)
)

const (
	// turnPoll is how often Sweep asks whether the process that sweeps has ended its pass.
	turnPoll = 200 * time.Millisecond
	// endLimit bounds the closing of a pass's connection, and then the giving back of its turn: a worker that ends while the
	// database is away waits for each no longer.
	endLimit = 2 * time.Second
)

const (
	// sqlTurn takes the turn, if nobody has it and (for Maintain) a pass is due.
	sqlTurn = `
UPDATE {s}.maintenance SET holder = $1::bigint, host = $2::bytea, began = clock_timestamp(),
	lease_end = clock_timestamp() + $3::bigint * interval '1 microsecond'
WHERE lease_end < clock_timestamp() AND (due < clock_timestamp() OR $4::boolean)
RETURNING (extract(epoch FROM began) * 1000000)::bigint, message_page, coalesce(archive_page, -1)`

	sqlTurnWait = `
SELECT greatest((extract(epoch FROM greatest(CASE WHEN lease_end > clock_timestamp() THEN lease_end END, due)
	- clock_timestamp()) * 1000000)::bigint, 0) FROM {s}.maintenance`

	// sqlTurnEnd gives the turn back; a whole pass leaves what it counted.
	sqlTurnEnd = `
UPDATE {s}.maintenance SET holder = NULL, lease_end = '-infinity',
	due = clock_timestamp() + $2::bigint * interval '1 microsecond',
	archive_page = CASE WHEN $3::bytea IS NULL THEN archive_page END,
	seen = coalesce($3::bytea, seen), seen_at = CASE WHEN $3::bytea IS NULL THEN seen_at ELSE clock_timestamp() END
WHERE holder = $1::bigint`
)

// Maintain implements [ledger.Maintainer]. It sweeps on a connection of its own, which it has only while it sweeps.
func (l *Ledger) Maintain(ctx context.Context, cfg ledger.MaintainConfig) error {
	cfg, err := maintenance.WithDefaults(cfg)
	if err != nil {
		return err
	}
	failing := false
	pace := maintenance.NewPace(cfg.Batch, sweepAim)
	return maintenance.Run(ctx, cfg, func(ctx context.Context) (time.Duration, error) {
		wait, err := l.maintainOnce(ctx, cfg, pace)
		if err != nil && ctx.Err() == nil && !failing {
			l.log.Warn("the sweep failed; it is tried again", zap.Error(err))
		}
		failing = err != nil
		return wait, err
	})
}

// maintainOnce makes a pass if it is this process' turn, and returns when to look again.
func (l *Ledger) maintainOnce(ctx context.Context, cfg ledger.MaintainConfig, pace *maintenance.Pace) (time.Duration, error) {
	report, swept, err := l.takeTurn(ctx, cfg, pace, false)
	if err != nil || swept {
		return maintenance.PassPause(cfg, &report), err
	}
	wait, err := l.turnWait(ctx)
	return min(max(wait, turnPoll), max(cfg.Interval, turnPoll)), err
}

// Sweep implements [ledger.Maintainer].
func (l *Ledger) Sweep(ctx context.Context, cfg ledger.MaintainConfig) (ledger.SweepReport, error) {
	cfg, err := maintenance.WithDefaults(cfg)
	if err != nil {
		return ledger.SweepReport{}, err
	}
	for {
		report, swept, err := l.takeTurn(ctx, cfg, maintenance.NewPace(cfg.Batch, sweepAim), true)
		if err != nil || swept {
			return report, err
		}
		select {
		case <-time.After(turnPoll):
		case <-ctx.Done():
			return report, fmt.Errorf("postgres: sweep: another process sweeps: %w", ctx.Err())
		}
	}
}

// takeTurn makes a whole pass, if nobody else is at it and (unless now is set) one is due.
func (l *Ledger) takeTurn(ctx context.Context, cfg ledger.MaintainConfig, pace *maintenance.Pace, now bool) (
	report ledger.SweepReport, swept bool, err error,
) {
	p := &pass{ledger: l, cfg: cfg, me: newOwnerID(), gentle: !now, pace: pace, named: make(map[int64]bool), names: make(map[int32]string),
		ranged: make(map[int32]int64)}
	var began int64
	err = l.ask(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, l.sql(sqlTurn), p.me, []byte(l.cfg.Host), maintainLease.Microseconds(), now).
			Scan(&began, &p.from, &p.archived)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return report, false, nil
	}
	if err != nil {
		return report, false, fmt.Errorf("postgres: sweep: %w", err)
	}
	p.report.Began = time.UnixMicro(began).UTC()
	if p.pool, err = ownPool(ctx, l.user, 1); err == nil {
		err = p.run(ctx)
		pace.PassEnded()
		p.closePool()
	}
	if end := p.end(ctx, err == nil); err == nil {
		err = end
	}
	if err != nil {
		return p.report, true, fmt.Errorf("postgres: sweep: %w", err)
	}
	if cfg.Report != nil {
		cfg.Report(p.report)
	}
	return p.report, true, nil
}

// closePool closes the pass's connection. pgx waits fifteen seconds for one that says nothing: this waits endLimit, and the rest
// goes on behind.
func (p *pass) closePool() {
	closed := make(chan struct{})
	go func() {
		p.pool.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(endLimit):
	}
}

// end gives the turn back, whatever became of the pass; a process that cannot leaves its lease to end by itself.
func (p *pass) end(ctx context.Context, whole bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLimit)
	defer cancel()
	var seen []byte
	pause := time.Duration(0)
	if whole {
		var err error
		pause = maintenance.PassPause(p.cfg, &p.report)
		stored := maintenance.Pass{At: p.report.Began.Add(p.report.Took), Report: p.report, Scopes: p.tally.Scopes()}
		if seen, err = stored.Encode(); err != nil {
			return err
		}
	}
	return p.ledger.ask(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		tag, err := conn.Exec(ctx, p.ledger.sql(sqlTurnEnd), p.me, pause.Microseconds(), seen)
		if err == nil && whole && tag.RowsAffected() == 0 {
			return errTurnLost
		}
		return err
	})
}

func (l *Ledger) turnWait(ctx context.Context) (time.Duration, error) {
	var wait int64
	err := l.ask(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, l.sql(sqlTurnWait)).Scan(&wait)
	})
	return time.Duration(wait) * time.Microsecond, err
}
