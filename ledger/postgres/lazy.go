package postgres

import (
	"cmp"
	"context"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ackledger/ackledger/internal/fencedsql"
)

// mark tells a transaction from others.
type mark struct {
	began    int64 // its now()
	backend  int32 // the server process that carries it out
	readOnly bool  // it began so: the server, or its session, takes no writes
}

// at is its now(); nil: it has not begun.
func (m mark) at() *int64 {
	if m == (mark{}) {
		return nil
	}
	return &m.began
}

// txLimits are the limits of a transaction of InTx: arguments of sqlTxBegin.
func (l *Ledger) txLimits() []any {
	return []any{milliseconds(l.cfg.IdleLimit), milliseconds(l.cfg.TxLimit + l.cfg.CommitLimit)}
}

// fencedTx is the transaction that the handler gets: it may do everything but end it. It begins with the handler's first statement, in the
// same round trip.
type fencedTx struct {
	pooled *pgxpool.Conn
	conn   *pgx.Conn
	opts   pgx.TxOptions
	limits []any           // arguments of sqlTxBegin
	ctx    context.Context //nolint:containedctx // InTx's, where pgx.Tx has none

	mu      sync.Mutex
	tx      pgx.Tx // nil: it has not begun
	mark    mark
	failed  error // why it cannot begin any more
	over    bool  // its function has returned: nobody else may use it
	refused error
}

// Commit is refused, and dooms the transaction.
func (t *fencedTx) Commit(context.Context) error { return t.refuse() }

// Rollback is refused, and dooms the transaction.
func (t *fencedTx) Rollback(context.Context) error { return t.refuse() }

func (t *fencedTx) refuse() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refused = fencedsql.ErrRefused
	return t.refused
}

// Begin makes a savepoint.
func (t *fencedTx) Begin(ctx context.Context) (pgx.Tx, error) {
	tx, err := t.now(ctx)
	if err != nil {
		return nil, err
	}
	return t.savepoint(tx.Begin(ctx))
}

// CopyFrom implements pgx.Tx.
func (t *fencedTx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource) (int64, error) {
	tx, err := t.now(ctx)
	if err != nil {
		return 0, err
	}
	return tx.CopyFrom(ctx, table, columns, rows)
}

// Prepare implements pgx.Tx.
func (t *fencedTx) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	tx, err := t.now(ctx)
	if err != nil {
		return nil, err
	}
	return tx.Prepare(ctx, name, sql)
}

// LargeObjects implements pgx.Tx. Where the transaction cannot begin, what is done with them fails (pgx.ErrTxClosed), and InTx does.
func (t *fencedTx) LargeObjects() pgx.LargeObjects {
	tx, err := t.now(t.ctx)
	if err != nil {
		t.spoil(err)
		closed := &pgx.Batch{}
		closed.BeginTx(t.opts)
		return pgx.FailedBatchResults(closed, err).Tx().LargeObjects()
	}
	return tx.LargeObjects()
}

// Conn implements pgx.Tx. Where the transaction cannot begin, the connection is closed, and InTx fails: what is done with it would not be
// in the transaction.
func (t *fencedTx) Conn() *pgx.Conn {
	if _, err := t.now(t.ctx); err != nil {
		t.spoil(err)
	}
	return t.conn
}

// spoil ends a transaction that has not begun, and its connection. One that is over has its connection no more.
func (t *fencedTx) spoil(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return
	}
	t.failed = cmp.Or(t.failed, err)
	ended, cancel := context.WithCancel(t.ctx)
	cancel()
	_ = t.conn.Close(ended) // at once
}

// Exec implements pgx.Tx. A text without arguments may have several statements: pgx sends it by itself.
func (t *fencedTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if _, first := t.begun(); first && len(args) > 0 {
		rows, _ := t.Query(ctx, sql, args...)
		rows.Close()
		return rows.CommandTag(), rows.Err()
	}
	tx, err := t.now(ctx)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	return tx.Exec(ctx, sql, args...)
}

// QueryRow implements pgx.Tx.
func (t *fencedTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	rows, _ := t.Query(ctx, sql, args...)
	return firstRow{rows}
}

// Query implements pgx.Tx.
func (t *fencedTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	tx, first := t.begun()
	if first && sql != "" && joins(args) {
		b := &pgx.Batch{}
		b.Queue(sql, args...)
		if r := t.first(ctx, b); r != nil {
			rows, err := r.Query()
			if err != nil {
				_ = r.Close() // it says the same
			}
			return &firstRows{rows, r}, err
		}
	}
	if tx == nil {
		var err error
		if tx, err = t.now(ctx); err != nil {
			return pgx.FailedBatchResults(&pgx.Batch{}, err).Query()
		}
	}
	return tx.Query(ctx, sql, args...)
}

// joins says whether a statement with these arguments can be one of a batch.
func joins(args []any) bool {
	if len(args) > 0 {
		switch args[0].(type) {
		case pgx.QueryExecMode, pgx.QueryResultFormats, pgx.QueryResultFormatsByOID:
			return false
		}
	}
	return true
}

// SendBatch implements pgx.Tx.
func (t *fencedTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	tx, first := t.begun()
	if first {
		if r := t.first(ctx, b); r != nil {
			return r
		}
	}
	if tx == nil {
		var err error
		if tx, err = t.now(ctx); err != nil {
			return pgx.FailedBatchResults(b, err)
		}
	}
	return tx.SendBatch(ctx, b)
}

// begun is the transaction; nil: the next statement is its first one.
func (t *fencedTx) begun() (tx pgx.Tx, first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	simple := t.conn.Config().DefaultQueryExecMode == pgx.QueryExecModeSimpleProtocol // one message has one time: a COMMIT in it would not be seen
	if t.over {
		return nil, false
	}
	return t.tx, t.tx == nil && t.failed == nil && !simple
}

// first begins the transaction, and sends what b has with it. Nil: something in b was refused before anything was carried out, by the
// server or by pgx (an argument of another type). It is refused again in the transaction then, which is to fail with it.
func (t *fencedTx) first(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	t.mu.Lock()
	defer t.mu.Unlock()
	r, err := t.send(ctx, b)
	switch {
	case err == nil:
		return &userResults{r}
	case t.idle():
		return nil
	}
	t.failed = err
	return pgx.FailedBatchResults(b, err)
}

// now begins the transaction by itself, if it has not begun, for its function.
func (t *fencedTx) now(ctx context.Context) (pgx.Tx, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return nil, pgx.ErrTxClosed
	}
	return t.start(ctx)
}

// start is now. It is locked.
func (t *fencedTx) start(ctx context.Context) (pgx.Tx, error) {
	if t.tx != nil || t.failed != nil {
		return t.tx, t.failed
	}
	r, err := t.send(ctx, &pgx.Batch{})
	if err == nil {
		err = r.Close()
	}
	if err != nil && !t.idle() {
		t.failed = err
	}
	return t.tx, err
}

// idle says that the connection is as it was before the transaction's first statement: there may be another one.
func (t *fencedTx) idle() bool { return t.status() == 'I' }

// status is what the server has said last of the connection's transaction (I, T or E: PostgreSQL documentation, ReadyForQuery); 0: the
// connection is closed, or something of it is still to be read.
func (t *fencedTx) status() byte {
	c := t.conn.PgConn()
	if c.IsClosed() || c.IsBusy() {
		return 0
	}
	return c.TxStatus()
}

// send sends BEGIN, the limits, and what b has. The results of b are still to be read if there is no error. It is locked.
func (t *fencedTx) send(ctx context.Context, b *pgx.Batch) (pgx.BatchResults, error) {
	whole := &pgx.Batch{}
	whole.BeginTx(t.opts)
	whole.Queue(sqlTxBegin, t.limits...)
	for _, q := range b.QueuedQueries { // a copy: a batch that failed cannot be sent again
		whole.QueuedQueries = append(whole.QueuedQueries, &pgx.QueuedQuery{SQL: q.SQL, Arguments: q.Arguments, Fn: q.Fn})
	}
	r := t.conn.SendBatch(ctx, whole)
	var idle string
	var total *string // there is such a setting from PostgreSQL 17 on
	_, err := r.Exec()
	if err == nil {
		err = r.QueryRow().Scan(&t.mark.began, &t.mark.backend, &t.mark.readOnly, &idle, &total)
	}
	if err != nil {
		_ = r.Close() // it says the same
		return nil, err
	}
	t.tx = r.Tx()
	return r, nil
}

// carryOut sends a batch without results for the handler, with BEGIN if that was not sent.
func (t *fencedTx) carryOut(ctx context.Context, b *pgx.Batch) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.tx != nil {
		return t.tx.SendBatch(ctx, b).Close()
	}
	r, err := t.send(ctx, b)
	if err != nil {
		return err
	}
	return r.Close()
}

// savepoint is a savepoint of a fencedTx, which ends with it. pgx does not know that: the transaction's COMMIT went as a text.
type savepoint struct {
	pgx.Tx
	of *fencedTx
}

func (t *fencedTx) savepoint(inner pgx.Tx, err error) (pgx.Tx, error) {
	if err != nil {
		return nil, err
	}
	return &savepoint{inner, t}, nil
}

// open is the savepoint, or, if its transaction is over, one that is closed.
func (s *savepoint) open() pgx.Tx {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.of.over {
		closed := &pgx.Batch{}
		closed.BeginTx(pgx.TxOptions{})
		return pgx.FailedBatchResults(closed, pgx.ErrTxClosed).Tx()
	}
	return s.Tx
}

func (s *savepoint) Begin(ctx context.Context) (pgx.Tx, error) {
	return s.of.savepoint(s.open().Begin(ctx))
}
func (s *savepoint) Commit(ctx context.Context) error   { return s.open().Commit(ctx) }
func (s *savepoint) Rollback(ctx context.Context) error { return s.open().Rollback(ctx) }
func (s *savepoint) LargeObjects() pgx.LargeObjects     { return s.open().LargeObjects() }

func (s *savepoint) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource) (int64, error) {
	return s.open().CopyFrom(ctx, table, columns, rows)
}

func (s *savepoint) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	return s.open().SendBatch(ctx, b)
}

func (s *savepoint) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	return s.open().Prepare(ctx, name, sql)
}

func (s *savepoint) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return s.open().Exec(ctx, sql, args...)
}

func (s *savepoint) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return s.open().Query(ctx, sql, args...)
}

func (s *savepoint) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return s.open().QueryRow(ctx, sql, args...)
}

// userResults are the results of a handler's batch.
type userResults struct{ pgx.BatchResults }

// Tx says that the handler's batch has begun no transaction.
func (*userResults) Tx() pgx.Tx { return nil }

// firstRows are the rows of a transaction's first statement. Once they are read the connection is free for others.
type firstRows struct {
	pgx.Rows
	of pgx.BatchResults
}

func (r *firstRows) Close() {
	r.Rows.Close()
	_ = r.of.Close() // it says what Err does
}

func (r *firstRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

func (r *firstRows) Scan(dest ...any) error {
	err := r.Rows.Scan(dest...)
	if err != nil {
		r.Close()
	}
	return err
}

func (r *firstRows) Values() ([]any, error) {
	values, err := r.Rows.Values()
	if err != nil {
		r.Close()
	}
	return values, err
}

// firstRow is the one row that is asked for.
type firstRow struct{ rows pgx.Rows }

func (r firstRow) Scan(dest ...any) error {
	defer r.rows.Close()
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return pgx.ErrNoRows
	}
	if err := r.rows.Scan(dest...); err != nil {
		return err
	}
	r.rows.Close()
	return r.rows.Err()
}
