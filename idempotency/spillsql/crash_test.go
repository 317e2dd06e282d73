package spillsql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/idempotency/spillsql"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

// envChild has the test binary do one request on the files of a folder, and be killed right after its result was put.
const envChild = "SPILLSQL_TEST_FOLDER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(envChild); dir != "" {
		err := child(dir)
		fmt.Fprintln(os.Stderr, "it was to be killed:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// killing is a spill whose process is killed once something was put.
type killing struct{ *spillsql.Spill }

func (k killing) Put(ctx context.Context, name string, data []byte, keep time.Duration) error {
	if err := k.Spill.Put(ctx, name, data, keep); err != nil {
		return err
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		return err
	}
	select {}
}

func child(dir string) error {
	l, _, s, err := files(context.Background(), dir)
	if err != nil {
		return err
	}
	_, err = once(context.Background(), l, killing{s})
	return err
}

// files opens the ledger, and the spill with its database.
func files(ctx context.Context, dir string) (*sqlite.Ledger, *sql.DB, *spillsql.Spill, error) {
	l, err := sqlite.Open(ctx, filepath.Join(dir, "ledger.db"), nil)
	if err != nil {
		return nil, nil, nil, err
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, "spilled.db"))
	if err != nil {
		return nil, nil, nil, err
	}
	s, err := spillsql.New(db, "spilled")
	if err == nil {
		err = s.Create(ctx)
	}
	return l, db, s, err
}

// body is more than the ledger keeps.
var body = []byte(strings.Repeat("answer ", 20_000))

// once does the request, whose effect is a row of the ledger's file, and ends.
func once(ctx context.Context, l *sqlite.Ledger, s idempotency.Spill) (out idempotency.Outcome, err error) {
	r, err := idempotency.New(l, idempotency.Options{Spill: s, Lease: 3 * time.Second, Wait: time.Minute})
	if err != nil {
		return out, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	defer func() { cancel(); err = errors.Join(err, <-ended) }()
	for !r.Health().Ready && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	return r.Do(ctx, idempotency.Request{Scope: "s", Key: "k"}, func(ctx context.Context) (idempotency.Result, error) {
		res := idempotency.Result{Body: body}
		return res, sqlite.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, "INSERT INTO effect VALUES ('k')"); err != nil {
				return err
			}
			return idempotency.SetResult(ctx, res)
		})
	})
}

// A process that is killed between putting a result and its commit has done nothing: the request runs again, has one effect, and its own
// result; what the dead one put is nobody's, and goes with its time.
func TestKilledBeforeTheCommit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, db, s, err := files(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(); _ = db.Close() })
	own, err := sql.Open("sqlite", filepath.Join(dir, "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = own.Close() })
	if _, err := own.ExecContext(t.Context(), "CREATE TABLE effect (key TEXT)"); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), envChild+"="+dir)
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the child: %v: %s", err, out)
	}
	count := func(db *sql.DB, table string, want int) {
		t.Helper()
		var n int
		if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil || n != want {
			t.Errorf("%d rows of %s, want %d, %v", n, table, want, err)
		}
	}
	count(own, "effect", 0)
	count(db, "spilled", 1)
	for again := range 2 {
		got, err := once(t.Context(), l, s)
		if err != nil || string(got.Result.Body) != string(body) || got.Replayed != (again == 1) {
			t.Errorf("%d: %d bytes, %t, %v", again, len(got.Result.Body), got.Replayed, err)
		}
	}
	count(own, "effect", 1)
	count(db, "spilled", 2)
}
