package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/internal/checks"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// hasLanes says whether there may be any. Where none are known of it looks whether the schema has them by now.
func (l *Ledger) hasLanes(ctx context.Context) (bool, error) {
	if l.parks.Load() {
		return true, nil
	}
	err := l.Check(ctx)
	return l.parks.Load(), err
}

// ParkedLane implements [ledger.Parking].
func (l *Ledger) ParkedLane(ctx context.Context, scope string, lane []byte) (s ledger.LaneStats, err error) {
	if err := checks.ParkedLane(scope, lane); err != nil {
		return s, err
	}
	ctx, cancel := storage.WithDeadline(ctx)
	defer cancel()
	if has, err := l.hasLanes(ctx); !has || err != nil {
		return s, err
	}
	names := map[string]int32{scope: 0}
	if err := l.numbers(ctx, names); err != nil {
		return s, err
	}
	var wait int64
	if err := l.one(ctx, sqlParkedLane, []any{names[scope], lane, int64(ledger.MaxInLane)}, &s.Messages, &wait); err != nil {
		return ledger.LaneStats{}, named("what is parked of a lane", usable(err))
	}
	s.Wait = time.Duration(wait) * time.Microsecond
	return s, nil
}

// ParkedLanes implements [ledger.Parking].
func (l *Ledger) ParkedLanes(ctx context.Context, scope string, prefix []byte, most int) (lanes [][]byte, more bool, err error) {
	if err := checks.ParkedLanes(scope, prefix, most); err != nil {
		return nil, false, err
	}
	ctx, cancel := storage.WithDeadline(ctx)
	defer cancel()
	if has, err := l.hasLanes(ctx); !has || err != nil {
		return nil, false, err
	}
	names := map[string]int32{scope: 0}
	if err := l.numbers(ctx, names); err != nil {
		return nil, false, err
	}
	err = l.list(ctx, sqlParkedLanes, []any{names[scope], orEmpty(prefix), int64(most) + 1}, func(rows pgx.Rows) error {
		var lane []byte
		err := rows.Scan(&lane)
		lanes = append(lanes, lane)
		return err
	})
	if err != nil {
		return nil, false, named("the lanes of what is parked", usable(err))
	}
	return lanes[:min(len(lanes), most)], len(lanes) > most, nil
}
