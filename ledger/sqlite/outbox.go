package sqlite

import (
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
	"github.com/ackledger/ackledger/ledger/storage"
)

var _ driver.OutboxTx = (*tx)(nil)

const (
	sqlEnqueue = `INSERT INTO ackledger_outbox (target, shard, key, id, body, headers, at) VALUES (?, ?, ?, ?, ?, ?, ?)`
	sqlDequeue = `DELETE FROM ackledger_outbox WHERE num = ? AND target = ? AND shard = ?`
	sqlRefuse  = `UPDATE ackledger_outbox SET tries = tries + ?, due = ?, error = ? WHERE num = ? AND target = ? AND shard = ?`
	sqlLane    = `SELECT free, token FROM ackledger_outbox_lane WHERE target = ? AND shard = ?`
	sqlPutLane = `INSERT INTO ackledger_outbox_lane (target, shard, free, token) VALUES (?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET free = excluded.free, token = excluded.token`

	sqlQueued  = `SELECT num, target, id, key, CASE WHEN ?1 THEN body END, CASE WHEN ?1 THEN headers END, at, tries, coalesce(due, 0), coalesce(error, ''), coalesce(length(body), 0) FROM ackledger_outbox `
	sqlWaiting = sqlQueued + `WHERE target = ?2 AND shard = ?3 AND num > ?4 ORDER BY num LIMIT ?5`
	sqlUndue   = sqlQueued + `WHERE target = ?2 AND shard = ?3 AND due > ?4`
	sqlListBox = sqlQueued + `WHERE (?2 = '' OR target = ?2) AND num > ?3 ORDER BY num LIMIT ?4`
	sqlBoxStat = `SELECT o.target, sum(o.n), sum(o.size), sum(o.failing), min(o.first), min(max(coalesce(l.free, 0), o.first)) FROM (
		SELECT target, shard, count(*) AS n, coalesce(sum(length(body)), 0) AS size, coalesce(sum(tries > 0), 0) AS failing, min(at) AS first
		FROM ackledger_outbox GROUP BY target, shard) o
		LEFT JOIN ackledger_outbox_lane l ON l.target = o.target AND l.shard = o.shard GROUP BY o.target`
)

// Enqueue implements [driver.OutboxTx].
func (t *tx) Enqueue(m *ledger.Outgoing, shard int, at time.Time) error {
	var key any
	if len(m.Key) > 0 {
		key = m.Key
	}
	_, err := t.exec(sqlEnqueue, m.Target, shard, key, []byte(m.ID), m.Body, storage.EncodeHeaders(m.Headers), at.UnixMicro())
	return err
}

// Dequeue implements [driver.OutboxTx].
func (t *tx) Dequeue(target string, shard int, nums []int64) error {
	for _, num := range nums {
		if _, err := t.exec(sqlDequeue, num, target, shard); err != nil {
			return err
		}
	}
	return nil
}

// Refuse implements [driver.OutboxTx].
func (t *tx) Refuse(target string, shard int, num int64, tries int, due time.Time, text string) error {
	_, err := t.exec(sqlRefuse, tries, due.UnixMicro(), text, num, target, shard)
	return err
}

// Lane implements [driver.OutboxReader].
func (t *tx) Lane(target string, shard int) (s driver.LaneState, err error) {
	var free int64
	err = t.one(sqlLane, []any{target, shard}, &free, &s.Token)
	s.Free = moment(free)
	return s, err
}

// PutLane implements [driver.OutboxTx].
func (t *tx) PutLane(target string, shard int, s driver.LaneState) error {
	_, err := t.exec(sqlPutLane, target, shard, s.Free.UnixMicro(), int64(s.Token))
	return err
}

// Waiting implements [driver.OutboxReader].
func (t *tx) Waiting(target string, shard int, after int64, n int) ([]ledger.Queued, error) {
	list, err := rows(t, sqlWaiting, []any{true, target, shard, after, n}, queued)
	for i := range list {
		list[i].Size = 0
	}
	return list, err
}

// Undue implements [driver.OutboxReader].
func (t *tx) Undue(target string, shard int) ([]ledger.Queued, error) {
	return rows(t, sqlUndue, []any{false, target, shard, t.now.UnixMicro()}, queued)
}

// ListOutbox implements [driver.OutboxReader].
func (t *tx) ListOutbox(target string, after int64, n int, bodies bool) ([]ledger.Queued, error) {
	return rows(t, sqlListBox, []any{bodies, target, after, n}, queued)
}

func queued(row scanner) (q ledger.Queued, err error) {
	var id []byte
	var key, body, headers blob
	var at, due int64
	if err := row.Scan(&q.Num, &q.Target, &id, &key, &body, &headers, &at, &q.Tries, &due, &q.Error, &q.Size); err != nil {
		return q, err
	}
	q.ID, q.Key, q.Body, q.At = string(id), key, body, moment(at)
	if due != 0 {
		q.Due = moment(due)
	}
	q.Headers, err = storage.DecodeHeaders(headers)
	return q, err
}

// OutboxStats implements [driver.OutboxReader].
func (t *tx) OutboxStats() ([]ledger.OutboxStats, error) {
	return rows(t, sqlBoxStat, nil, func(row scanner) (s ledger.OutboxStats, err error) {
		var oldest, free int64
		err = row.Scan(&s.Target, &s.Waiting, &s.Bytes, &s.Failing, &oldest, &free)
		s.Oldest, s.Untaken = t.now.Sub(moment(oldest)), max(t.now.Sub(moment(free)), 0)
		return s, err
	})
}
