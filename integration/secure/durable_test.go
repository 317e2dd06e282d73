package secure_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// TestPitfall107_DurableBehindPgBouncer: synchronous_commit is off on the database, and PgBouncer in transaction mode gives
// each transaction any of its sessions. The server is stopped at once after each answer to a settle, and what was
// acknowledged is there when it runs again.
func TestPitfall107_DurableBehindPgBouncer(t *testing.T) {
	t.Parallel()
	services.NeedServers(t)
	server, err := services.StartPostgres(t.Context(), services.PostgresOptions{Conf: map[string]string{
		"wal_writer_delay": "10s", "wal_writer_flush_after": "1GB", // nobody else flushes what a commit did not
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	migrate(t, server.URL())
	plain := openPool(t, server.URL(), pgx.QueryExecModeSimpleProtocol)
	if _, err := plain.Exec(t.Context(), `CREATE TABLE effect (id text NOT NULL); ALTER DATABASE postgres SET synchronous_commit = off`); err != nil {
		t.Fatal(err)
	}
	url := startPooler(t, server.URL()) // only now: its sessions are to begin with the setting
	for name, mode := range poolerModes {
		t.Run(name, func(t *testing.T) {
			pool := openPool(t, url, mode)
			var setting string
			if err := pool.QueryRow(t.Context(), `SHOW synchronous_commit`).Scan(&setting); err != nil || setting != "off" {
				t.Fatalf("synchronous_commit behind the pooler: %q, %v", setting, err)
			}
			l, err := postgres.New(t.Context(), pool, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			owner, err := l.Join(t.Context(), time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range endings(name) {
				e.acknowledge(t, owner)
				if err := errors.Join(server.Kill(), server.Start(t.Context())); err != nil {
					t.Fatal(err)
				}
				e.check(t, server.URL())
			}
		})
	}
}

// ending is how some messages that are claimed in one call end in another.
type ending struct {
	name    string
	entries []ledger.Entry
	settle  ledger.Settlement // what becomes of each
	inTx    bool              // their success is that of a transaction, with one effect
	want    ledger.State
}

// endings are those that have a statement of their own.
func endings(mode string) []ending {
	rows := func(name string, n int) []ledger.Entry { return messages(mode+" "+name, n) }
	ranged := func(from, n int) []ledger.Entry { // of one log
		keys := ledger.LogKeys{Scope: mode, Log: "cluster topic 0"}
		entries := make([]ledger.Entry, n)
		for i := range entries {
			at := int64(from + i)
			id := fmt.Appendf(nil, "topic-0-%d", at)
			key := keys.Key(id, &ledger.Position{Log: keys.Log, Offset: at, Prev: at - 1})
			entries[i] = ledger.Entry{Key: key, Delivery: id, Window: time.Hour, Ranged: true}
		}
		return entries
	}
	succeed := ledger.Settlement{Kind: ledger.Succeed}
	return []ending{
		{name: "a success", entries: rows("one", 1),
			settle: ledger.Settlement{Kind: ledger.Succeed, Result: []byte("result")}, want: ledger.Succeeded},
		{name: "successes", entries: rows("many", 3), settle: succeed, want: ledger.Succeeded},
		{name: "failures", entries: rows("failed", 3), settle: ledger.Settlement{Kind: ledger.Fail}, want: ledger.Failed},
		{name: "releases", entries: rows("released", 3),
			settle: ledger.Settlement{Kind: ledger.Release, Count: true}, want: ledger.Pending},
		{name: "InTx", entries: rows("fenced", 1), inTx: true, want: ledger.Succeeded},
		{name: "InTx of a batch", entries: rows("fenced batch", 3), inTx: true, want: ledger.Succeeded},
		{name: "a new log's range", entries: ranged(0, 3), settle: succeed, want: ledger.Succeeded},
		{name: "its next range", entries: ranged(3, 3), settle: succeed, want: ledger.Succeeded}, // by the short statements
		{name: "InTx of a range", entries: ranged(6, 3), inTx: true, want: ledger.Succeeded},
	}
}

// effect names the one of a transaction.
func (e *ending) effect() string { return e.entries[0].Key.Scope + " " + e.name }

// acknowledge claims the messages and ends them, and returns when all of that is answered.
func (e *ending) acknowledge(t *testing.T, owner ledger.Owner) {
	t.Helper()
	claims, err := owner.Claim(t.Context(), e.entries)
	if err != nil {
		t.Fatalf("%s: claim: %v", e.name, err)
	}
	tickets, settlements := make([]ledger.Ticket, len(claims)), make([]ledger.Settlement, len(claims))
	for i, c := range claims {
		if c.Answer != ledger.Run {
			t.Fatalf("%s: claim %d: %+v", e.name, i, c)
		}
		tickets[i], settlements[i] = c.Ticket, e.settle
		settlements[i].Ticket = c.Ticket
		if e.settle.Kind == ledger.Fail {
			settlements[i].Dead = archive(e.entries[i])
		}
	}
	if e.inTx {
		a := ledger.NewBatchAttempt(owner, tickets)
		err = postgres.InTx(ledger.WithAttempt(t.Context(), a), func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO effect VALUES ($1)`, e.effect())
			return err
		})
	} else {
		var errs []error
		errs, err = owner.Settle(t.Context(), settlements)
		err = errors.Join(append(errs, err)...)
	}
	if err != nil {
		t.Fatalf("%s: %v", e.name, err)
	}
}

// check reads, past the pooler, what is there of the messages.
func (e *ending) check(t *testing.T, url string) {
	t.Helper()
	pool := openPool(t, url, pgx.QueryExecModeExec)
	l, err := postgres.New(t.Context(), pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, entry := range e.entries {
		r, err := l.Get(t.Context(), entry.Key)
		if err != nil || r.State != e.want || r.Owner != "" || string(r.Result) != string(e.settle.Result) ||
			(r.State == ledger.Failed) != (len(r.Archived) == 1) || (r.State == ledger.Pending) != (r.Attempts == 1) {
			t.Errorf("%s: acknowledged, and after an immediate stop: %+v, %v", e.name, r, err)
		}
	}
	var effects int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM effect WHERE id = $1`, e.effect()).Scan(&effects); err != nil ||
		(effects == 1) != e.inTx {
		t.Errorf("%s: %d effects after an immediate stop, %v", e.name, effects, err)
	}
}
