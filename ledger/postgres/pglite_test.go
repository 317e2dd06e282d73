package postgres_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger/postgres"
)

// The versions of PGlite, and of its server, that have failed the suite.
var pglitePackages = []string{"@electric-sql/pglite@0.5.14", "@electric-sql/pglite-socket@0.2.17"}

// TestPGliteIsRefused: an engine that is no pretender. It is PostgreSQL's own code, and differs from it in what it says of itself alone.
func TestPGliteIsRefused(t *testing.T) {
	t.Parallel()
	if os.Getenv("ACKLEDGER_LONG") == "" {
		t.Skip("it fetches 20 MB: ACKLEDGER_LONG=1")
	}
	url := startPGlite(t)
	if s := identified(t, url); s.Engine != postgres.PGlite {
		t.Errorf("it is %+v", s)
	}
	for _, open := range opens {
		refusedAs(t, open(t.Context(), url), postgres.PGlite, "PostgreSQL 1")
	}
}

func startPGlite(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip(err)
	}
	const limit = 2 * time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	dir := t.TempDir()
	if out, err := exec.CommandContext(ctx, "npm", append([]string{"install", "--silent", "--no-audit", "--no-fund", "--prefix", dir}, pglitePackages...)...).CombinedOutput(); err != nil {
		t.Skipf("npm: %v: %s", err, out)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().(*net.TCPAddr)
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	server := exec.CommandContext(context.WithoutCancel(t.Context()), filepath.Join(dir, "node_modules", ".bin", "pglite-server"),
		"--db=memory://", "--host=127.0.0.1", "--port="+strconv.Itoa(addr.Port), "--max-connections=20")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	for ctx.Err() == nil {
		conn, err := net.Dial("tcp", addr.String())
		if err == nil {
			_ = conn.Close()
			return "postgres://postgres@" + addr.String() + "/postgres?sslmode=disable"
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("PGlite does not answer")
	return ""
}
