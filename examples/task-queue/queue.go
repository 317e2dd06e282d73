package main

import (
	"context"
	"database/sql"
	"errors"
	"time"

	_ "modernc.org/sqlite" // the queue's driver
)

// queue is a table of tasks that is polled. It stands for any queue that delivers at least once, and knows nothing of the ledger: what is
// taken, and not removed before it is visible again, is taken once more.
type queue struct {
	db   *sql.DB
	hide time.Duration // how long a task that was taken is not visible
}

// task is one delivery of a task.
type task struct {
	ID       string
	Cents    int
	Delivery int // counted from 1
}

// openQueue opens the queue in the file at path, and makes it if it is not there.
func openQueue(ctx context.Context, path string, hide time.Duration) (*queue, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		return nil, err
	}
	_, err = db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS task (id TEXT PRIMARY KEY, cents INTEGER NOT NULL,
		deliveries INTEGER NOT NULL DEFAULT 0, visible INTEGER NOT NULL DEFAULT 0)`)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &queue{db: db, hide: hide}, nil
}

func (q *queue) Close() error { return q.db.Close() }

// push puts a task into the queue, unless it is there.
func (q *queue) push(ctx context.Context, t task) error {
	_, err := q.db.ExecContext(ctx, "INSERT INTO task (id, cents) VALUES (?, ?) ON CONFLICT DO NOTHING", t.ID, t.Cents)
	return err
}

// take takes the next visible task; found: there is one.
func (q *queue) take(ctx context.Context) (t task, found bool, err error) {
	now := time.Now()
	err = q.db.QueryRowContext(ctx, `UPDATE task SET visible = ?, deliveries = deliveries + 1
		WHERE id = (SELECT id FROM task WHERE visible <= ? ORDER BY visible, id LIMIT 1) RETURNING id, cents, deliveries`,
		now.Add(q.hide).UnixMilli(), now.UnixMilli()).Scan(&t.ID, &t.Cents, &t.Delivery)
	if errors.Is(err, sql.ErrNoRows) {
		return t, false, nil
	}
	return t, err == nil, err
}

// remove removes a task that is done.
func (q *queue) remove(ctx context.Context, t task) error {
	_, err := q.db.ExecContext(ctx, "DELETE FROM task WHERE id = ?", t.ID)
	return err
}

// left is how many tasks are in the queue, visible or not.
func (q *queue) left(ctx context.Context) (n int, err error) {
	err = q.db.QueryRowContext(ctx, "SELECT count(*) FROM task").Scan(&n)
	return n, err
}
