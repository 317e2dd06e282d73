package chaos_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/ackledger/ackledger/integration/chaos/plan"
	"github.com/ackledger/ackledger/internal/services"
)

// smallDisk mounts a file system of so many MiB in memory. That takes the right to mount: without it the test says that
// it shows nothing. (ledger/sqlite has the same with max_page_count, for everybody.)
func smallDisk(t *testing.T, mib int) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ackledger-disk-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("ackledger", dir, "tmpfs", 0, fmt.Sprintf("size=%dm,mode=1777", mib)); err != nil {
		services.Missing(t, fmt.Sprintf("a full disk needs the right to mount a file system: %v", err))
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill writes a file until the file system takes no more, and returns its path.
func fill(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "ballast")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	zero := make([]byte, 1<<20)
	for err == nil {
		_, err = f.Write(zero)
		for n := len(zero) / 2; errors.Is(err, syscall.ENOSPC) && n > 0; n /= 2 { // to the last byte
			_, _ = f.Write(zero[:n]) // it takes it, or the next half
		}
	}
	if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, io.ErrShortWrite) {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// The disk under the store fills up in the middle of the work, and has room again later: the store that cannot write
// accepts nothing, so nothing is acknowledged that is not done; then everything is done, once.
func TestDiskFull(t *testing.T) {
	needLong(t, "`make test` has ledger/sqlite's max_page_count")
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		scenario(t, "the disk under SQLite is full, and has room again")
		dir := smallDisk(t, 64)
		q := newQueue(t, services.Name(t), services.ElasticMQ(t), false)
		diskFull(t, newArm(t, "disk", newSQLite(t, dir), q, plan.Orders{}), dir, nil)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		scenario(t, "the disk under PostgreSQL is full, and has room again")
		dir := smallDisk(t, 512)
		pg, err := services.StartPostgres(t.Context(), services.PostgresOptions{Dir: dir, Conf: map[string]string{
			"wal_recycle": "off", "max_wal_size": "32MB", // so that it needs new room soon
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = pg.Close() })
		l := newLog(t, services.Name(t), services.Kafka(t))
		diskFull(t, newArm(t, "disk", newPostgres(t, pg.URL()), l, plan.Orders{}), dir, pg.Server)
	})
}

// diskFull fills the disk when work has begun. A server that did not survive that is started again when there is room.
func diskFull(t *testing.T, a *arm, dir string, server *services.Server) {
	const n, full = 3000, 8 * time.Second
	if err := a.send(t.Context(), n, func(i int) string { return fmt.Sprintf("%s %09d", plan.Fine, i) }); err != nil {
		t.Fatal(err)
	}
	a.crew.keep = true
	a.crew.start("", 0)
	a.crew.start("", 0)
	eventually(t, 2*time.Minute, func() string {
		if done, err := a.finished(t.Context()); err != nil || done < n/10 {
			return fmt.Sprintf("%d of %d are done (%v)", done, n, err)
		}
		return ""
	})
	path := fill(t, dir)
	before, err := a.finished(t.Context())
	t.Logf("the disk is full when %d of %d messages are done (%v)", before, n, err)
	time.Sleep(full) // the length of the outage is what is tested
	if a.progress() == "" {
		t.Error("everything was done on a full disk: nothing is tested")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if server != nil {
		startAgain(t, "PostgreSQL", server)
	}
	eventually(t, 3*time.Minute, a.progress)
	eventually(t, time.Minute, a.left)
	a.crew.dismissAll()
	a.verify()
}
