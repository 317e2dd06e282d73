package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/ledgertest"
	"github.com/ackledger/ackledger/ledger/postgres"
	"github.com/ackledger/ackledger/ledger/storage"
)

func TestOutbox(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]variant{
		"pgx": {}, "sql": {sql: true}, "exec": {mode: pgx.QueryExecModeExec}, "simple": {mode: pgx.QueryExecModeSimpleProtocol}, "14": {old: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ledgertest.RunOutbox(t, shared(t, v))
		})
	}
	t.Run("ranges", func(t *testing.T) { t.Parallel(); ledgertest.RunOutbox(t, ledgertest.Ranged(shared(t, variant{}))) })
	t.Run("ranges, sql", func(t *testing.T) {
		t.Parallel()
		ledgertest.RunOutbox(t, ledgertest.Ranged(shared(t, variant{sql: true})))
	})
}

func TestPitfall241_OutboxOvertaken(t *testing.T) { t.Parallel(); ledgertest.Pitfall241(t, open) }
func TestPitfall244_OutboxTwoRelays(t *testing.T) { t.Parallel(); ledgertest.Pitfall244(t, open) }
func TestPitfall274_OutboxUncounted(t *testing.T) { t.Parallel(); ledgertest.Pitfall274(t, open) }

// handling makes the context of a handler of a message.
func handling(t *testing.T, b *bench, id string) (context.Context, *ledger.Attempt) {
	t.Helper()
	o := join(t, b, time.Minute)
	a := ledger.NewAttempt(o, claimOne(t, o, entry(id), ledger.Run).Ticket)
	return ledger.WithAttempt(t.Context(), a), a
}

// TestPitfall240_OutboxCommittedLate: a transaction takes its number first and commits last.
func TestPitfall240_OutboxCommittedLate(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	m := ledger.Outgoing{Target: "t", Key: []byte("k"), Body: []byte("early"), ID: "early"}
	shard, sum := storage.LaneOf(&m)
	late, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = late.Rollback(t.Context()) }()
	_, err = late.Exec(t.Context(), "INSERT INTO ackledger.outbox (target, shard, key, sum, id, body) VALUES ($1, $2, $3, $4, $5, $6)",
		m.Target, shard, m.Key, sum, []byte(m.ID), m.Body)
	if err != nil {
		t.Fatal(err)
	}
	ctx, a := handling(t, b, "a")
	err = postgres.InTx(ctx, func(ctx context.Context, _ pgx.Tx) error {
		return a.Publish(ctx, ledger.Outgoing{Target: "t", Key: m.Key, Body: []byte("1")}, ledger.Outgoing{Target: "t", Key: m.Key, Body: []byte("2")})
	})
	if err != nil {
		t.Fatal(err)
	}
	lane, ok, err := b.TakeLane(t.Context(), []string{"t"}, time.Minute)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	list, err := b.NextOutgoing(t.Context(), lane, time.Minute, ledger.LaneReport{}, 1, 1000)
	if err != nil || len(list) != 1 || string(list[0].Body) != "1" {
		t.Fatalf("%+v, %v", list, err)
	}
	if err := late.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	list, err = b.NextOutgoing(t.Context(), lane, time.Minute, ledger.LaneReport{Done: []int64{list[0].Num}}, 10, 1000)
	if err != nil || len(list) != 2 || string(list[0].Body) != "early" {
		t.Fatalf("%d messages, %v; want the one that was committed late, first", len(list), err)
	}
}

// TestPitfall242_OutboxEscaped: a handler ends its transaction by a text, and what it published is written behind that.
func TestPitfall242_OutboxEscaped(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	for _, text := range []string{"COMMIT", "ROLLBACK", "COMMIT; BEGIN"} {
		for name, run := range map[string]func(ctx context.Context, a *ledger.Attempt) error{
			"sql": func(ctx context.Context, a *ledger.Attempt) error {
				return postgres.InSQLTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
					if err := a.Publish(ctx, ledger.Outgoing{Target: "t", Body: []byte(text)}); err != nil {
						return err
					}
					_, err := tx.ExecContext(ctx, text)
					return err
				})
			},
			"pgx": func(ctx context.Context, a *ledger.Attempt) error {
				return postgres.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
					if err := a.Publish(ctx, ledger.Outgoing{Target: "t", Body: []byte(text)}); err != nil {
						return err
					}
					_, err := tx.Exec(ctx, text, pgx.QueryExecModeSimpleProtocol)
					return err
				})
			},
		} {
			ctx, a := handling(t, b, name+text)
			if err := run(ctx, a); err == nil {
				t.Errorf("%s, %s: no error", name, text)
			}
		}
	}
	if list, err := b.ListOutbox(t.Context(), "", 0, 100, true); err != nil || len(list) > 0 {
		t.Fatalf("%d messages without their commit, %v", len(list), err)
	}
}

// TestOutboxFull: while more waits than there is room for nothing is published, and no attempt counts.
func TestOutboxFull(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{cfg: &postgres.Config{OutboxMessages: 2}})
	publish := func(id string) error {
		ctx, a := handling(t, b, id)
		return postgres.InTx(ctx, func(ctx context.Context, _ pgx.Tx) error {
			m := ledger.Outgoing{Target: "t"}
			return a.Publish(ctx, m, m, m)
		})
	}
	if err := publish("a"); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; {
		err := publish("b" + time.Now().String())
		if err != nil {
			if !errors.Is(err, ledger.ErrOutboxFull) || !ledger.Unavailable(err) {
				t.Fatalf("%v, want ErrOutboxFull, unavailable", err)
			}
			break
		}
		if time.Now().After(end) {
			t.Fatal("it is never full")
		}
	}
	b.exec(t, "DELETE FROM ackledger.outbox")
	for end := time.Now().Add(time.Minute); publish("c"+time.Now().String()) != nil; {
		if time.Now().After(end) {
			t.Fatal("it stays full")
		}
	}
}

// TestOutboxMissing: of a schema that is older Publish says what to do.
func TestOutboxMissing(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	b.exec(t, "DROP TABLE ackledger.outbox")
	ctx, a := handling(t, b, "a")
	err := postgres.InTx(ctx, func(ctx context.Context, _ pgx.Tx) error { return a.Publish(ctx, ledger.Outgoing{Target: "t"}) })
	if !errors.Is(err, ledger.ErrNoOutbox) {
		t.Fatalf("%v, want ErrNoOutbox", err)
	}
	if list, err := b.ListOutbox(t.Context(), "", 0, 1, false); err != nil || len(list) > 0 {
		t.Fatal(list, err)
	}
}

// TestFromSixteen: a process goes on through the migration, and publishes after it. Who worked before may relay, who read bodies may read
// these, and who read none may not.
func TestFromSixteen(t *testing.T) {
	t.Parallel()
	db := services.Postgres(t)
	conn, err := pgx.ParseConfig(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	if err := postgres.MigrateTo(t.Context(), conn, 16); err != nil {
		t.Fatal(err)
	}
	b := openBench(t, db.URL, variant{})
	may := map[string]string{ // by what was granted before
		"SELECT ON ackledger.message":         "",
		"SELECT ON ackledger.archive":         "SELECT",
		"SELECT, INSERT ON ackledger.archive": "SELECT, INSERT, DELETE",
	}
	roles := map[string]string{}
	for right := range may {
		name := strings.ToLower(services.Name(t))
		roles[right] = name
		b.exec(t, "CREATE ROLE "+name)
		b.exec(t, "GRANT "+right+" TO "+name)
		t.Cleanup(func() { // t.Context is over here
			for _, sql := range []string{"DROP OWNED BY " + name, "DROP ROLE " + name} {
				if err := execOn(context.Background(), db.URL, sql); err != nil {
					t.Errorf("%s: %v", sql, err)
				}
			}
		})
	}
	n := 0
	publish := func() error {
		n++
		ctx, a := handling(t, b, fmt.Sprint("message ", n))
		return postgres.InTx(ctx, func(ctx context.Context, _ pgx.Tx) error { return a.Publish(ctx, ledger.Outgoing{Target: "t"}) })
	}
	if err := publish(); !errors.Is(err, ledger.ErrNoOutbox) || !strings.Contains(err.Error(), "postgres.Migrate") {
		t.Fatalf("before the migration: %v, want ErrNoOutbox", err)
	}
	if _, ok, err := b.TakeLane(t.Context(), []string{"t"}, time.Minute); ok || err == nil || errors.Is(err, ledger.ErrNoOutbox) {
		t.Fatalf("before the migration: %v, %v; want an error that does not end a relay", ok, err)
	}
	if all, err := b.OutboxStats(t.Context()); err != nil || len(all) > 0 {
		t.Fatalf("before the migration: %v, %v", all, err)
	}
	if err := postgres.Migrate(t.Context(), conn, ""); err != nil {
		t.Fatal(err)
	}
	for right, want := range may {
		var got []string
		for _, one := range []string{"SELECT", "INSERT", "UPDATE", "DELETE"} {
			var ok bool
			if err := b.pool.QueryRow(t.Context(), "SELECT has_table_privilege($1, 'ackledger.outbox', $2)", roles[right], one).Scan(&ok); err != nil {
				t.Fatal(err)
			}
			if ok {
				got = append(got, one)
			}
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("with %s: %v on the outbox, want %s", right, got, want)
		}
	}
	for end := time.Now().Add(time.Minute); publish() != nil; {
		if time.Now().After(end) {
			t.Fatal("it does not publish after the migration")
		}
	}
	if _, ok, err := b.TakeLane(t.Context(), []string{"t"}, time.Minute); !ok || err != nil {
		t.Fatal(ok, err)
	}
}
