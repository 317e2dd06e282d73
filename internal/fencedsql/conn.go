package fencedsql

import (
	"context"
	"database/sql/driver"
	"fmt"
	"io"
)

// Connector wraps c so that [Begin] works on a database opened with sql.OpenDB. Drivers that do not know contexts (no
// ConnBeginTx, ConnPrepareContext, ExecerContext, QueryerContext or SessionResetter) are refused when they connect.
// Closing the sql.DB closes c if it is an io.Closer.
func Connector(c driver.Connector) driver.Connector { return &connector{c} }

type connector struct{ driver.Connector }

// Connect opens a wrapped connection.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	dc, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	modern, ok := dc.(modernConn)
	if !ok {
		_ = dc.Close()
		return nil, fmt.Errorf("fencedsql: the driver's connection (%T) lacks the interfaces that take a context", dc)
	}
	if v, ok := dc.(driver.Validator); ok {
		return &validConn{conn{modernConn: modern}, v}, nil
	}
	return &conn{modernConn: modern}, nil
}

// Close is called by sql.DB.Close.
func (c *connector) Close() error {
	if closer, ok := c.Connector.(io.Closer); ok {
		return closer.Close()
	}
	return nil
}

// modernConn is what a driver's connection must know; embedding it passes all of it on.
type modernConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.SessionResetter
}

// conn is used by one goroutine at a time, which database/sql sees to.
type conn struct {
	modernConn
	guard *guard // of the guarded transaction that is open
}

// validConn is a type of its own because database/sql treats a connection that is a driver.Validator differently: it
// keeps it after a cancelled transaction.
type validConn struct {
	conn
	driver.Validator
}

// BeginTx guards the transaction if ctx comes from Begin.
func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	tx, err := c.modernConn.BeginTx(ctx, opts)
	if err != nil {
		return nil, err
	}
	g, ok := ctx.Value(guardKey{}).(*guard)
	if !ok {
		return tx, nil
	}
	c.guard, g.on = g, c.modernConn
	return &guardedTx{tx: tx, conn: c, guard: g}, nil
}

// ExecContext ends with its transaction's time limit too: a rollback waits for the statements that are under way.
func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if c.guard != nil {
		bounded, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(c.guard.ctx, cancel)()
		ctx = bounded
	}
	return c.modernConn.ExecContext(ctx, query, args)
}

// QueryContext ends with its transaction's time limit too. Its rows may need the context until the transaction's end.
func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if c.guard != nil {
		bounded, cancel := context.WithCancel(ctx)
		context.AfterFunc(c.guard.ctx, cancel)
		ctx = bounded
	}
	return c.modernConn.QueryContext(ctx, query, args)
}

// Ping passes on; a driver without it is taken to be well, as database/sql does.
func (c *conn) Ping(ctx context.Context) error {
	if p, ok := c.modernConn.(driver.Pinger); ok {
		return p.Ping(ctx)
	}
	return nil
}

// CheckNamedValue passes on; a driver without it gets database/sql's own conversion.
func (c *conn) CheckNamedValue(nv *driver.NamedValue) error {
	if checker, ok := c.modernConn.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(nv)
	}
	return driver.ErrSkip
}
