package postgres

import (
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// published is the statement that writes what an attempt has published in a transaction; nil: nothing.
func (l *Ledger) published(began *int64, messages []ledger.Outgoing) *statement {
	n := len(messages)
	if n == 0 {
		return nil
	}
	targets, shards, sums := make([]string, n), make([]int16, n), make([]int64, n)
	keys, ids, bodies, headers := make(byteArray, n), make(byteArray, n), make(byteArray, n), make(byteArray, n)
	for i := range messages {
		m := &messages[i]
		shard, sum := storage.LaneOf(m)
		targets[i], shards[i], sums[i], ids[i], bodies[i], headers[i] = m.Target, int16(shard), sum, []byte(m.ID), m.Body, storage.EncodeHeaders(m.Headers)
		if len(m.Key) > 0 {
			keys[i] = m.Key
		}
	}
	return &statement{l.sql(sqlPublish), []any{began, targets, shards, keys, sums, ids, bodies, headers}}
}

// statement is one with its arguments.
type statement struct {
	sql  string
	args []any
}
