package cases

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ackledger/ackledger/bench/internal/suite"
)

// bare is the least that a program of one's own would do for the same rows: one INSERT for a batch of claims, one UPDATE
// for a batch of settles, autocommit, the answers read. No take-over, no retries, no mismatches, no deadlines.
type bare struct {
	pool *pgxpool.Pool
}

// bareNote says in the results how the bare rows are made.
const bareNote = "unnest INSERT … ON CONFLICT DO NOTHING RETURNING, then UPDATE … WHERE key = ANY, each its own commit, " +
	"4 connections, with index look-ups forced; a row with the same needs (key, fingerprint, readable id, owner, token, times), fillfactor 70"

// barePlans keeps the update on its index whatever the statistics say: the fairest bare loop has the right plan.
var barePlans = map[string]string{"enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off"}

// newBare makes the table in a fresh schema.
func newBare(ctx context.Context, r *suite.Run, conns int32) (*bare, error) {
	pool, err := freshPool(ctx, r, conns)
	if err != nil {
		return nil, err
	}
	_, err = pool.Exec(ctx, `CREATE TABLE bare (token bigint NOT NULL, at timestamptz NOT NULL, expiry timestamptz NOT NULL,
		owner bigint NOT NULL, scope integer NOT NULL, state smallint NOT NULL, key uuid PRIMARY KEY, fingerprint uuid NOT NULL,
		id bytea NOT NULL) WITH (fillfactor = 70)`)
	return &bare{pool}, err
}

// freshPool is of a fresh schema, which is its search_path and names its sessions.
func freshPool(ctx context.Context, r *suite.Run, conns int32) (*pgxpool.Pool, error) {
	d, schema, drop, err := newSchema(ctx, r)
	if err != nil {
		return nil, err
	}
	r.Cleanup(drop)
	params := map[string]string{"search_path": schema, "application_name": schema}
	maps.Copy(params, barePlans)
	pool, err := newPool(ctx, d.url, conns, params)
	if err != nil {
		return nil, err
	}
	r.Cleanup(func() error { pool.Close(); return nil })
	return pool, nil
}

// bareBatch are the columns of a batch of new messages.
type bareBatch struct {
	keys, prints [][16]byte
	ids          [][]byte
}

func (b *bareBatch) add(partition int32, offset int64, print [16]byte) {
	var key [16]byte
	binary.BigEndian.PutUint64(key[:], uint64(partition)+1)
	binary.BigEndian.PutUint64(key[8:], uint64(offset))
	b.keys, b.prints = append(b.keys, key), append(b.prints, print)
	b.ids = append(b.ids, fmt.Appendf(nil, "orders-%d-%d", partition, offset))
}

// newBareBatch are the next messages of a partition.
func newBareBatch(partition, from, n int) (b bareBatch) {
	for i := range n {
		var print [16]byte
		binary.BigEndian.PutUint64(print[:], uint64(from+i))
		b.add(int32(partition), int64(from+i), print)
	}
	return b
}

const bareOwner = int64(7_000_000_001)

// claim inserts the batch, and fails if a row was there.
func (b *bare) claim(ctx context.Context, batch bareBatch) error {
	rows, err := b.pool.Query(ctx, `INSERT INTO bare (key, fingerprint, id, token, at, expiry, owner, scope, state)
		SELECT k, f, i, 1, now(), now() + $5::interval, $4, 1, 1 FROM unnest($1::uuid[], $2::uuid[], $3::bytea[]) AS u(k, f, i)
		ON CONFLICT (key) DO NOTHING RETURNING key`, batch.keys, batch.prints, batch.ids, bareOwner, 24*time.Hour)
	if err != nil {
		return err
	}
	n := 0
	for rows.Next() {
		var key [16]byte
		if err := rows.Scan(&key); err != nil {
			return err
		}
		n++
	}
	return wantRows(n, len(batch.keys), rows.Err())
}

// settle updates the batch's rows.
func (b *bare) settle(ctx context.Context, batch bareBatch) error {
	tag, err := b.pool.Exec(ctx, `UPDATE bare SET state = 2, at = now() WHERE key = ANY ($1::uuid[]) AND owner = $2 AND token = 1 AND state = 1`, batch.keys, bareOwner)
	return wantRows(int(tag.RowsAffected()), len(batch.keys), err)
}

// claimOne and settleOne are the pattern without batches: one statement, one commit, one message.
func (b *bare) claimOne(ctx context.Context, batch bareBatch, i int) error {
	tag, err := b.pool.Exec(ctx, `INSERT INTO bare (key, fingerprint, id, token, at, expiry, owner, scope, state)
		VALUES ($1, $2, $3, 1, now(), now() + $5::interval, $4, 1, 1) ON CONFLICT (key) DO NOTHING`,
		batch.keys[i], batch.prints[i], batch.ids[i], bareOwner, 24*time.Hour)
	return wantRows(int(tag.RowsAffected()), 1, err)
}

func (b *bare) settleOne(ctx context.Context, batch bareBatch, i int) error {
	tag, err := b.pool.Exec(ctx, `UPDATE bare SET state = 2, at = now() WHERE key = $1 AND owner = $2 AND token = 1 AND state = 1`,
		batch.keys[i], bareOwner)
	return wantRows(int(tag.RowsAffected()), 1, err)
}

func wantRows(got, want int, err error) error {
	if err == nil && got != want {
		return fmt.Errorf("%d rows were written, want %d", got, want)
	}
	return err
}
