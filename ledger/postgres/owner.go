package postgres

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/zap"

	"github.com/ackledger/ackledger/internal/beats"
	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// owner implements [ledger.Owner].
type owner struct {
	ledger *Ledger
	id     int64
	lease  time.Duration
	ranged *ranges.Owner // what Join returned, in a group
	opens  atomic.Bool   // it has claimed in ranges, where claims of one log wait for each other
	boards atomic.Bool   // the schema has reports and pauses
	beats.Slate

	mu    sync.Mutex
	clock serverClock
	pulse beats.Pulse
}

// ID implements [ledger.Owner].
func (o *owner) ID() string { return ownerName(o.id) }

func ownerName(id int64) string { return "pg-" + strconv.FormatInt(id, 36) }

var _ ledger.Boarded = (*owner)(nil)

// newOwnerID draws an id, so that an owner restored away with a backup cannot meet another one under its number.
func newOwnerID() int64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return int64(binary.BigEndian.Uint64(b[:])>>1) | 1
}

// beatBoard is the beat where the schema has reports and pauses.
func (o *owner) beatBoard(ctx context.Context, conn *pgxpool.Conn) (now int64, err error) {
	rows, err := conn.Query(ctx, o.ledger.sql(sqlBeatBoard), o.id, o.lease.Microseconds(), o.Written())
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	met, durable := false, ""
	var hold []ledger.Pause
	for rows.Next() {
		p, err := scanPause(rows, &now, &durable)
		if err != nil {
			return 0, err
		}
		if met = true; p != nil {
			hold = append(hold, *p)
		}
	}
	if err := rows.Err(); err != nil {
		return 0, err
	}
	if !met {
		return 0, pgx.ErrNoRows
	}
	o.Heard(hold)
	return now, nil
}

// beat is one on any schema. One that was migrated down while this owner lived takes no reports any more.
func (o *owner) beat(ctx context.Context, conn *pgxpool.Conn) (now int64, err error) {
	if o.boards.Load() {
		if now, err = o.beatBoard(ctx, conn); !noBoard(err) {
			return now, err
		}
		o.boards.Store(false)
	}
	var durable string
	err = conn.QueryRow(ctx, o.ledger.sql(sqlBeat), o.id, o.lease.Microseconds()).Scan(&now, &durable)
	return now, err
}

// Beat implements [ledger.Owner].
func (o *owner) Beat(ctx context.Context) (time.Duration, error) {
	ctx, cancel := storage.WithDeadline(ctx)
	defer cancel()
	l := o.ledger
	before := time.Now()
	conn, err := l.beats.Acquire(ctx)
	if err != nil {
		return 0, o.missed(notSent(err))
	}
	defer conn.Release()
	now, err := o.beat(ctx, conn)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, o.missed(fmt.Errorf("%w: owner %s is not live any more", ledger.ErrLost, o.ID()))
	}
	if err != nil {
		return 0, o.missed(fmt.Errorf("postgres: beat: %w", sent(err)))
	}
	if o.confirmed(before, now) {
		l.seal(ctx, conn.Conn())
	}
	return o.lease, nil
}

func (o *owner) missed(err error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pulse.Missed(time.Now())
	return err
}

// confirmed notes a beat and says whether this owner may declare peers dead.
func (o *owner) confirmed(before time.Time, dbNow int64) bool {
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.clock.note(time.UnixMicro(dbNow), now)
	o.pulse.Confirmed(before, now)
	return o.pulse.MaySeal(now)
}

// seal declares overdue peers dead. It is nobody's error if it fails: the next beat tries again.
func (l *Ledger) seal(ctx context.Context, conn *pgx.Conn) {
	rows, err := conn.Query(ctx, l.sql(sqlSeal))
	if err == nil {
		var id int64
		var host []byte
		var durable string
		_, err = pgx.ForEachRow(rows, []any{&id, &host, &durable}, func() error {
			l.log.Warn("declared an owner dead: its lease ended and it did not leave",
				zap.String("owner", ownerName(id)), zap.ByteString("host", host))
			return nil
		})
	}
	if err != nil {
		l.log.Warn("looking for dead owners", zap.Error(err))
	}
}

// Leave implements [ledger.Owner].
func (o *owner) Leave(ctx context.Context) error {
	return onConn(ctx, o.ledger.beats, func(ctx context.Context, conn *pgxpool.Conn) error {
		_, err := conn.Exec(ctx, o.ledger.sql(sqlLeave), o.id)
		return named("leave", sent(err))
	})
}

// deadline is ctx's deadline on the database's clock, in microseconds.
func (o *owner) deadline(ctx context.Context) int64 {
	t, _ := ctx.Deadline()
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.clock.at(t).UnixMicro()
}
