package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// batch is one transaction of claims or settles: one write lock, so that what it reads cannot change until it has
// written, and one clock.
type batch struct {
	o      *owner
	ctx    context.Context
	tx     *sql.Tx
	now    time.Time
	stmts  map[*sql.Stmt]*sql.Stmt // bound to tx
	owners map[int64]holder
	scopes map[string]int64 // those that this transaction looked up
}

type holder struct {
	fate     int
	leaseEnd int64
}

// run carries fn out as one batch of so many items, in a transaction that it may share.
func (o *owner) run(ctx context.Context, items int, fn func(*batch) error) error {
	var b *batch
	err := o.l.main.share(ctx, items, func(ctx context.Context, tx *sql.Tx) error {
		b = newBatch(ctx, o, tx, time.Now())
		return fn(b)
	})
	if err == nil {
		o.l.scopes.keep(b.scopes)
	}
	return err
}

func newBatch(ctx context.Context, o *owner, tx *sql.Tx, now time.Time) *batch {
	return &batch{
		o: o, ctx: ctx, tx: tx, now: now,
		stmts: make(map[*sql.Stmt]*sql.Stmt), owners: make(map[int64]holder), scopes: make(map[string]int64),
	}
}

func (b *batch) stmt(s *sql.Stmt) *sql.Stmt {
	bound, ok := b.stmts[s]
	if !ok {
		bound = b.tx.StmtContext(b.ctx, s)
		b.stmts[s] = bound
	}
	return bound
}

// exec returns the number of rows that s changed.
func (b *batch) exec(s *sql.Stmt, args ...any) (int64, error) {
	res, err := b.stmt(s).ExecContext(b.ctx, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// holder looks an owner up. One without a row is as one that left: rows of owners that pending messages name are never
// removed, so only a lost owners file can have held it (Config.NewOwners).
func (b *batch) holder(id int64) (holder, error) {
	if h, ok := b.owners[id]; ok {
		return h, nil
	}
	var h holder
	err := b.stmt(b.o.l.stmts.owner).QueryRowContext(b.ctx, id).Scan(&h.fate, &h.leaseEnd)
	if errors.Is(err, sql.ErrNoRows) {
		h, err = holder{fate: fateLeft}, nil
	}
	if err != nil {
		return holder{}, fmt.Errorf("reading owner %d: %w", id, err)
	}
	b.owners[id] = h
	return h, nil
}

// row is a message as this transaction sees it.
type row struct {
	ledger.Row
	generation int
	errors     []byte
	result     blob
}

// row reads a message, and whether a delivery of it is archived; nil if there is none.
func (b *batch) row(sum []byte, delivery []byte) (*row, error) {
	var (
		r           row
		fingerprint []byte
		owner, due  sql.NullInt64
	)
	err := b.stmt(b.o.l.stmts.row).QueryRowContext(b.ctx, sum, delivery).Scan(&fingerprint, &r.State, &r.Token, &owner,
		&r.Attempts, &r.Crashes, &r.generation, &due, &r.errors, &r.result, &r.Archived)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading message %x: %w", sum, err)
	}
	copy(r.Fingerprint[:], fingerprint)
	if due.Valid {
		r.DueIn = time.Duration(due.Int64-b.now.UnixMicro()) * time.Microsecond
	}
	if !owner.Valid {
		return &r, nil
	}
	if r.Holder, r.HeldFor, err = b.holds(owner.Int64); err != nil {
		return nil, err
	}
	return &r, nil
}

// scope returns the number of a scope's name.
func (b *batch) scope(name string) (int64, error) {
	if id, ok := b.scopes[name]; ok {
		return id, nil
	}
	if id, ok := b.o.l.scopes.get(name); ok {
		return id, nil
	}
	var id int64
	if err := b.stmt(b.o.l.stmts.scope).QueryRowContext(b.ctx, []byte(name)).Scan(&id); err != nil {
		return 0, fmt.Errorf("the scope's number: %w", err)
	}
	b.scopes[name] = id
	return id, nil
}

// scopeCache holds committed scopes, which never change.
type scopeCache struct {
	mu  sync.Mutex
	ids map[string]int64
}

const maxScopes = 1024 // a program has a handful; more are looked up again

func (c *scopeCache) get(name string) (int64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id, ok := c.ids[name]
	return id, ok
}

func (c *scopeCache) keep(ids map[string]int64) {
	if len(ids) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ids == nil || len(c.ids)+len(ids) > maxScopes {
		c.ids = make(map[string]int64)
	}
	for name, id := range ids {
		if len(c.ids) < maxScopes {
			c.ids[name] = id
		}
	}
}
