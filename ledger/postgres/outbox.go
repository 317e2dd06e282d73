package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

var (
	_ ledger.Outbox   = (*Ledger)(nil)
	_ ledger.Outboxed = (*owner)(nil)
)

// laneArgs are the arguments of a statement on a lane.
func laneArgs(lane ledger.Lane, more ...any) []any {
	return append([]any{lane.Target, int16(lane.Shard)}, more...)
}

// TakeLane implements [ledger.Outbox]. Of a schema before version 17 its error says to migrate.
func (l *Ledger) TakeLane(ctx context.Context, targets []string, lease time.Duration) (lane ledger.Lane, ok bool, err error) {
	err = askOn(ctx, l.relays, func(ctx context.Context, conn *pgxpool.Conn) error {
		if err := l.makeLanes(ctx, conn, targets); err != nil {
			return err
		}
		var token int64
		err := tunedRow(ctx, conn, l.sql(sqlLaneTake), []any{targets, lease.Microseconds()}, &lane.Target, &lane.Shard, &token)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		lane.Token, ok = uint64(token), err == nil
		return err
	})
	return lane, ok, named("take a lane of the outbox", err)
}

// lanesAgain is when lanes are made once more: a database that was restored may be older than they are.
const lanesAgain = time.Minute

// makeLanes makes the lanes of targets.
func (l *Ledger) makeLanes(ctx context.Context, conn *pgxpool.Conn, targets []string) error {
	fresh := slices.DeleteFunc(slices.Clone(targets), func(t string) bool {
		made, ok := l.lanes.Load(t)
		return ok && time.Since(made.(time.Time)) < lanesAgain
	})
	if len(fresh) == 0 {
		return nil
	}
	if _, err := conn.Exec(ctx, l.sql(sqlLaneMake), fresh, ledger.Lanes); err != nil {
		return err
	}
	for _, t := range fresh {
		l.lanes.Store(t, time.Now())
	}
	return nil
}

// report queues what writes a report, and holds the lane for so long.
func (l *Ledger) report(b *pgx.Batch, lane ledger.Lane, report *ledger.LaneReport, hold time.Duration, ours *bool) {
	b.Queue(sqlRelayTune)
	b.Queue(l.sql(sqlLaneHold), laneArgs(lane, int64(lane.Token), hold.Microseconds())...).Query(func(rows pgx.Rows) error {
		*ours = rows.Next()
		rows.Close()
		return rows.Err()
	})
	if len(report.Done) > 0 {
		b.Queue(l.sql(sqlOutboxDone), laneArgs(lane, report.Done)...)
	}
	if n := len(report.Failed); n > 0 {
		nums, after, texts, counts := make([]int64, n), make([]int64, n), make([]string, n), make([]bool, n)
		for i, f := range report.Failed {
			nums[i], after[i], texts[i], counts[i] = f.Num, f.After.Microseconds(), storage.CutError(f.Error), !f.Uncounted
		}
		b.Queue(l.sql(sqlOutboxFailed), laneArgs(lane, nums, after, texts, counts)...)
	}
}

// usualPage is for how many messages of a lane room is made at once.
const usualPage = 1000

// NextOutgoing implements [ledger.Outbox], in one round trip.
func (l *Ledger) NextOutgoing(ctx context.Context, lane ledger.Lane, lease time.Duration, report ledger.LaneReport, n, size int) (next []ledger.Queued, err error) {
	err = askOn(ctx, l.relays, func(ctx context.Context, conn *pgxpool.Conn) error {
		b, ours := &pgx.Batch{}, false
		l.report(b, lane, &report, lease, &ours)
		b.Queue(l.sql(sqlOutboxNext), laneArgs(lane, n, size)...).Query(each(func(rows pgx.Rows) error {
			q := ledger.Queued{Outgoing: ledger.Outgoing{Target: lane.Target}}
			var id, headers []byte
			var at int64
			if err := rows.Scan(&q.Num, &id, &q.Key, &q.Body, &headers, &at, &q.Tries, &q.Error); err != nil {
				return err
			}
			q.ID, q.At = string(id), time.UnixMicro(at)
			if next == nil {
				next = make([]ledger.Queued, 0, min(n, usualPage))
			}
			var err error
			q.Headers, err = storage.DecodeHeaders(headers)
			next = append(next, q)
			return err
		}))
		if err := conn.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		if !ours {
			return storage.LaneLost(lane)
		}
		return nil
	})
	if err != nil {
		return nil, named("relay", err)
	}
	return next, nil
}

// LeaveLane implements [ledger.Outbox].
func (l *Ledger) LeaveLane(ctx context.Context, lane ledger.Lane, report ledger.LaneReport, rest time.Duration) error {
	return named("leave a lane of the outbox", askOn(ctx, l.relays, func(ctx context.Context, conn *pgxpool.Conn) error {
		b, ours := &pgx.Batch{}, false
		l.report(b, lane, &report, rest, &ours)
		if err := conn.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		if !ours {
			return storage.LaneLost(lane)
		}
		return nil
	}))
}

// ListOutbox implements [ledger.Outbox]. A schema before version 17 has none.
func (l *Ledger) ListOutbox(ctx context.Context, target string, after int64, n int, bodies bool) (list []ledger.Queued, err error) {
	err = l.outboxRead(ctx, sqlOutboxList, []any{target, after, n, bodies}, func(rows pgx.Rows) error {
		var q ledger.Queued
		var id, headers []byte
		var at, due int64
		if err := rows.Scan(&q.Num, &q.Target, &id, &q.Key, &q.Body, &headers, &at, &q.Tries, &due, &q.Error, &q.Size); err != nil {
			return err
		}
		q.ID, q.At = string(id), time.UnixMicro(at)
		if due != 0 {
			q.Due = time.UnixMicro(due)
		}
		var err error
		q.Headers, err = storage.DecodeHeaders(headers)
		list = append(list, q)
		return err
	})
	return list, named("list the outbox", err)
}

// OutboxStats implements [ledger.Outbox]. A schema before version 17 has none.
func (l *Ledger) OutboxStats(ctx context.Context) (all []ledger.OutboxStats, err error) {
	err = l.outboxRead(ctx, sqlOutboxStats, nil, func(rows pgx.Rows) error {
		var s ledger.OutboxStats
		var oldest, untaken int64
		err := rows.Scan(&s.Target, &s.Waiting, &s.Bytes, &s.Failing, &oldest, &untaken)
		s.Oldest, s.Untaken = time.Duration(oldest)*time.Microsecond, time.Duration(max(untaken, 0))*time.Microsecond
		all = append(all, s)
		return err
	})
	return all, named("count the outbox", err)
}

// outboxRead reads all of a table, so that no plan settings are wanted.
func (l *Ledger) outboxRead(ctx context.Context, sql string, args []any, scan func(pgx.Rows) error) error {
	return askOn(ctx, l.relays, func(ctx context.Context, conn *pgxpool.Conn) error {
		var there bool
		if err := conn.QueryRow(ctx, l.sql(sqlHasOutbox)).Scan(&there); err != nil || !there {
			return err
		}
		rows, err := conn.Query(ctx, l.sql(sql), args...)
		if err != nil {
			return err
		}
		return each(scan)(rows)
	})
}

// How often it is counted, at most.
const (
	roomRest  = time.Second
	roomShare = 20 // the rest is so many times as long as the counting took
)

// Room implements [ledger.Outboxed]. Nobody but the first waits for a counting.
func (o *owner) Room(ctx context.Context) error {
	r := &o.ledger.room
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case !r.asked:
		if err := o.ledger.countRoom(ctx, r); err != nil {
			return err
		}
		r.asked = true
	case !r.asking && time.Now().After(r.next):
		r.asking = true
		go func() {
			var found room
			err := o.ledger.countRoom(context.WithoutCancel(ctx), &found)
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.asking = false; err == nil {
				r.err, r.next = found.err, found.next
			} else {
				r.next = time.Now().Add(roomRest)
			}
		}()
	}
	return r.err
}

// countRoom counts what waits. Its error is that of a ledger that did not answer.
func (l *Ledger) countRoom(ctx context.Context, r *room) error {
	began, there := time.Now(), false
	var n, size int64
	err := askOn(ctx, l.relays, func(ctx context.Context, conn *pgxpool.Conn) error {
		if err := conn.QueryRow(ctx, l.sql(sqlHasOutbox)).Scan(&there); err != nil || !there {
			return err
		}
		return conn.QueryRow(ctx, l.sql(sqlOutboxRoom), l.cfg.OutboxMessages+1).Scan(&n, &size)
	})
	if err != nil {
		return named("room in the outbox", err)
	}
	r.next = time.Now().Add(max(roomRest, roomShare*time.Since(began)))
	if !there {
		r.err = fmt.Errorf("%w: postgres: its schema is older than version 17: %s", ledger.ErrNoOutbox, runMigrate)
	} else {
		r.err = named("outbox", storage.OutboxFull(n, l.cfg.OutboxMessages, size, l.cfg.OutboxBytes))
	}
	return nil
}
