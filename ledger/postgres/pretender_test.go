package postgres_test

import (
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/ackledger/ackledger/ledger/postgres"
)

// pretender is a server that speaks enough of PostgreSQL's protocol to be asked what it is. It keeps what it was sent, and answers
// an error to all that it does not know.
type pretender struct {
	listen  net.Listener
	crdb    string              // the parameter crdb_version; empty: it has none
	process uint32              // the number of its process, as it says it when a connection is made
	rows    map[string][]string // its answers: one row each
	refuses string              // the SQLSTATE of its errors

	mu    sync.Mutex
	said  []string
	conns []net.Conn
}

// start serves until the test ends, and returns the URL.
func (p *pretender) start(t *testing.T) string {
	t.Helper()
	var err error
	if p.listen, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := p.listen.Accept()
			if err != nil {
				return
			}
			p.mu.Lock()
			p.conns = append(p.conns, conn)
			p.mu.Unlock()
			wg.Go(func() { p.serve(conn) })
		}
	})
	t.Cleanup(func() {
		if err := p.listen.Close(); err != nil {
			t.Error(err)
		}
		p.mu.Lock()
		for _, conn := range p.conns {
			_ = conn.Close()
		}
		p.mu.Unlock()
		wg.Wait()
	})
	return "postgres://someone@" + p.listen.Addr().String() + "/shop?sslmode=disable"
}

// beyond are the statements that do not find out what it is.
func (p *pretender) beyond() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.said), func(sql string) bool { return slices.Contains(postgres.Detection, sql) })
}

func (p *pretender) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	b := pgproto3.NewBackend(conn, conn)
	if first, err := b.ReceiveStartupMessage(); err != nil {
		return
	} else if _, ok := first.(*pgproto3.StartupMessage); !ok {
		return // to cancel something
	}
	b.Send(&pgproto3.AuthenticationOk{})
	for name, value := range map[string]string{
		"server_version": "16.0", "client_encoding": "UTF8", "standard_conforming_strings": "on", "crdb_version": p.crdb,
	} {
		if value != "" {
			b.Send(&pgproto3.ParameterStatus{Name: name, Value: value})
		}
	}
	b.Send(&pgproto3.BackendKeyData{ProcessID: p.process, SecretKey: []byte{1, 2, 3, 4}})
	b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	for b.Flush() == nil {
		message, err := b.Receive()
		if err != nil {
			return
		}
		switch m := message.(type) {
		case *pgproto3.Query:
			p.answer(b, m.String)
			b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		case *pgproto3.Parse:
			p.keep(m.Query)
			b.Send(p.refusal())
		case *pgproto3.Sync:
			b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		case *pgproto3.Terminate:
			return
		}
	}
}

func (p *pretender) keep(sql string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said = append(p.said, sql)
}

func (p *pretender) refusal() *pgproto3.ErrorResponse {
	return &pgproto3.ErrorResponse{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: p.refuses, Message: "not known here"}
}

func (p *pretender) answer(b *pgproto3.Backend, sql string) {
	p.keep(sql)
	row, ok := p.rows[sql]
	if !ok {
		b.Send(p.refusal())
		return
	}
	var fields []pgproto3.FieldDescription
	var values [][]byte
	for _, value := range row {
		fields = append(fields, pgproto3.FieldDescription{Name: []byte("c"), DataTypeOID: 25, DataTypeSize: -1, TypeModifier: -1})
		values = append(values, []byte(value))
	}
	b.Send(&pgproto3.RowDescription{Fields: fields})
	b.Send(&pgproto3.DataRow{Values: values})
	b.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")})
}
