package sqlite_test

import (
	"errors"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/sqlite"
	"golang.org/x/sys/unix"
	driver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Others write and lock so fast that SQLite gives a read up after ten seconds (SQLITE_PROTOCOL): the answer is read all the
// same. The locks of readers in the file's shared memory (https://www.sqlite.org/walformat.html, "WAL Locks") are taken here
// until two other reads, one after the other, have been given up.
func TestReadThatLosesTheRaceIsRepeated(t *testing.T) {
	t.Parallel()
	path := sqlite.Fresh(t)
	var shm *os.File
	t.Cleanup(func() { _ = shm.Close() }) // after the ledger: closing it ends what locks this process has on the file
	l, a := openAt(t, path, nil)
	shm, err := os.OpenFile(path+"-shm", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	lock := unix.Flock_t{Start: 123, Len: 5}
	setLock := func(kind int16) {
		t.Helper()
		lock.Type = kind
		if err := unix.FcntlFlock(shm.Fd(), unix.F_OFD_SETLK, &lock); err != nil {
			t.Fatal(err)
		}
	}
	get := func() error {
		_, err := l.Get(t.Context(), message("unknown").Key)
		return err
	}
	if err := get(); !errors.Is(err, ledger.ErrNotFound) { // its connection is there
		t.Fatal(err)
	}
	setLock(unix.F_WRLCK)
	got := make(chan error, 1)
	go func() { got <- get() }()
	for deadline := time.Now().Add(20 * time.Second); l.Reading() == 0; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("the read did not begin")
		}
	}
	for range 2 {
		var n int
		var lost *driver.Error
		err = a.main.QueryRowContext(t.Context(), "SELECT count(*) FROM ackledger_message").Scan(&n)
		if !errors.As(err, &lost) || lost.Code() != sqlite3.SQLITE_PROTOCOL {
			t.Errorf("a read while all readers' locks are taken: %v, want SQLITE_PROTOCOL", err)
		}
	}
	setLock(unix.F_UNLCK)
	if err := <-got; !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("get: %v", err)
	}
}
