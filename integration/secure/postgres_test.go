package secure_test

import (
	"context"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// TestPostgresOverTLS: sslmode=verify-full with the server's authority, as a ledger and by the command; with another
// authority, or under another name, a clear error.
func TestPostgresOverTLS(t *testing.T) {
	t.Parallel()
	services.NeedServers(t)
	authority, err := services.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	server, err := authority.Issue("postgres")
	if err != nil {
		t.Fatal(err)
	}
	db, err := services.StartPostgres(t.Context(), services.PostgresOptions{TLS: server})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	stranger, err := services.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	ca, other := filepath.Join(t.TempDir(), "ca.pem"), filepath.Join(t.TempDir(), "other.pem")
	for file, pem := range map[string][]byte{ca: authority.PEM, other: stranger.PEM} {
		if err := os.WriteFile(file, pem, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	url := func(host, roots string) string {
		return "postgres://postgres:" + password2 + "@" + strings.Replace(db.Addr(), "127.0.0.1", host, 1) +
			"/postgres?sslmode=verify-full&connect_timeout=10&sslrootcert=" + roots
	}
	right := url("127.0.0.1", ca)
	if r := ackledger(t, "migrate", "--ledger", right); r.code != 0 {
		t.Fatalf("migrate: code %d: %s", r.code, r.text)
	}
	pool := openPool(t, right, pgx.QueryExecModeCacheStatement)
	var encrypted bool
	if err := pool.QueryRow(t.Context(), `SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()`).Scan(&encrypted); err != nil || !encrypted {
		t.Errorf("TLS: %v, %v", encrypted, err)
	}
	cycle(t, pool, 10)
	for mode, says := range map[string]string{
		"verify-full": "the server's name is verified", "verify-ca": "its name was not looked at",
		"prefer": "nobody has looked whose it is", "disable": "is not encrypted, and does not leave this machine",
	} {
		at := strings.Replace(right, "verify-full", mode, 1)
		if r := ackledger(t, "doctor", "--ledger", at); r.code != 0 || !strings.Contains(r.text, says) {
			t.Errorf("doctor with sslmode=%s: code %d: %s", mode, r.code, r.text)
		}
	}

	for name, bad := range map[string]string{"an unknown authority": url("127.0.0.1", other), "another name": url("localhost", ca)} {
		pool := openPool(t, bad, pgx.QueryExecModeCacheStatement)
		l, err := postgres.New(t.Context(), pool, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = l.Join(t.Context(), time.Minute)
		l.Close()
		_, authority := errors.AsType[x509.UnknownAuthorityError](err)
		_, host := errors.AsType[x509.HostnameError](err)
		if !ledger.Unusable(err) || !authority && !host || strings.Contains(err.Error(), password2) {
			t.Errorf("%s: Join: %v", name, err)
		}
		t.Logf("%s: %v", name, err)
		r := ackledger(t, "stats", "--ledger", bad)
		if r.code != 1 || !strings.Contains(r.text, "x509") || strings.Count(r.text, "\n") != 1 || strings.Contains(r.text, password2) {
			t.Errorf("%s: code %d: %s", name, r.code, r.text)
		}
		t.Logf("%s: %s", name, r.text)
	}
}

// password2 is a database's, of characters that URLs take.
const password2 = "hush-s3cret"

func openPool(t *testing.T, url string, mode pgx.QueryExecMode) *pgxpool.Pool {
	t.Helper()
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	c.ConnConfig.DefaultQueryExecMode = mode
	pool, err := pgxpool.NewWithConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func messages(scope string, n int) []ledger.Entry {
	entries := make([]ledger.Entry, n)
	for i := range entries {
		id := []byte{'m', byte(i)}
		entries[i] = ledger.Entry{Key: ledger.Key{Scope: scope, ID: id}, Delivery: id, Window: time.Hour}
	}
	return entries
}

func archive(e ledger.Entry) *ledger.Archive {
	return &ledger.Archive{Key: e.Key, Delivery: e.Delivery, Kind: ledger.KindTerminal, Body: []byte{0, 0xff}, Keep: time.Hour}
}

// cycle joins, claims n messages, settles them in each way, beats and leaves.
func cycle(t *testing.T, pool *pgxpool.Pool, n int) {
	t.Helper()
	ctx := t.Context()
	l, err := postgres.New(ctx, pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	owner, err := l.Join(ctx, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	entries := messages(services.Name(t), n)
	claims, err := owner.Claim(ctx, entries)
	if err != nil {
		t.Fatal(err)
	}
	settlements := make([]ledger.Settlement, n)
	for i, c := range claims {
		settlements[i] = ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed, Result: []byte("result")}
		if i%2 == 1 {
			settlements[i].Kind, settlements[i].Result = ledger.Fail, nil
			settlements[i].Dead = archive(entries[i])
		}
	}
	errs, err := owner.Settle(ctx, settlements)
	if err := errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
	if left, err := owner.Beat(ctx); err != nil || left <= 0 {
		t.Errorf("beat: %s, %v", left, err)
	}
	again, err := owner.Claim(ctx, entries)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range again {
		if c.Answer != ledger.Done {
			t.Errorf("message %d: %+v, want Done", i, c)
		}
	}
	if err := owner.Leave(context.WithoutCancel(ctx)); err != nil {
		t.Error(err)
	}
}
