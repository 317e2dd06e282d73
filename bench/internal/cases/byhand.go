package cases

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ackledger/ackledger/bench/internal/suite"
)

// byHand is what people write so that a request is done once: a row of its key, the work, the answer. A process that dies in between
// leaves its key closed; nobody waits, no body is compared, nothing is fenced, nothing expires.
type byHand struct{ pool *pgxpool.Pool }

// byHandNote says in the results what that is.
const byHandNote = "INSERT … ON CONFLICT DO NOTHING of the key with its state, the function, UPDATE with the answer, one commit each; " +
	"a repetition reads the answer. pgx pool of 32 connections, with index look-ups forced. No lease, fence, comparison of bodies, waiting or expiry"

// openByHand makes the tables in a fresh schema.
func openByHand(ctx context.Context, r *suite.Run) (*shop, error) {
	pool, err := freshPool(ctx, r, 32)
	if err != nil {
		return nil, err
	}
	b := &byHand{pool}
	s := &shop{once: b.do, step: b.step, schema: pool.Config().ConnConfig.RuntimeParams["search_path"], end: func() error { pool.Close(); return nil }}
	_, err = pool.Exec(ctx, `CREATE TABLE request (key text PRIMARY KEY, state text NOT NULL, at timestamptz NOT NULL DEFAULT now(), status integer, body bytea);
		CREATE TABLE step (key text, name text, result text NOT NULL, PRIMARY KEY (key, name))`)
	return s, err
}

// do is a once.
func (b *byHand) do(ctx context.Context, key string, f func(context.Context) error) (replayed bool, err error) {
	tag, err := b.pool.Exec(ctx, `INSERT INTO request (key, state) VALUES ($1, 'running') ON CONFLICT (key) DO NOTHING`, key)
	if err != nil {
		return false, err
	}
	if tag.RowsAffected() == 0 {
		return true, b.stored(ctx, key)
	}
	if err := f(ctx); err != nil {
		return false, err
	}
	tag, err = b.pool.Exec(ctx, `UPDATE request SET state = 'done', status = $2, body = $3 WHERE key = $1`, key, answerStatus, answerBody)
	return false, wantRows(int(tag.RowsAffected()), 1, err)
}

// stored reads what a request was answered with.
func (b *byHand) stored(ctx context.Context, key string) error {
	var state string
	var status *int
	var body []byte
	if err := b.pool.QueryRow(ctx, `SELECT state, status, body FROM request WHERE key = $1`, key).Scan(&state, &status, &body); err != nil {
		return err
	}
	if status == nil {
		return fmt.Errorf("request %s is %s", key, state)
	}
	return wantAnswer(*status, body)
}

// step keeps the result of an outside call. A request that runs for the first time has none to read, so it reads none.
func (b *byHand) step(ctx context.Context, key, name string) error {
	tag, err := b.pool.Exec(ctx, `INSERT INTO step (key, name, result) VALUES ($1, $2, $3)`, key, name, key+":"+name)
	return wantRows(int(tag.RowsAffected()), 1, err)
}

// shop is a program that does requests once, with steps, on PostgreSQL.
type shop struct {
	once   once
	step   func(ctx context.Context, key, name string) error // within once
	schema string
	end    func() error // its sessions end, so that what they did is counted
}

// once does f for a key, and keeps the answer. Of a key that is known it reads the answer, and does nothing.
type once func(ctx context.Context, key string, f func(context.Context) error) (replayed bool, err error)
