package services

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// folderPrefix begins the name of every temporary folder of this package.
const folderPrefix = "ackledger-services-"

// inUse keeps folders, and so their locks, alive: the garbage collector closes a file that nobody refers to any more,
// and of a shared server only the address is kept. Without it another process removes the data under a live server.
var inUse sync.Map

// folder is the temporary folder of one server. Its lock says that its process lives.
type folder struct {
	path string
	lock *os.File
}

// newFolder makes a folder that everybody may enter, and removes those of dead processes.
func newFolder(base string) (*folder, error) {
	if err := sweepFolders(base); err != nil {
		return nil, err
	}
	path, err := os.MkdirTemp(base, folderPrefix)
	if err != nil {
		return nil, err
	}
	f := &folder{path: path}
	if f.lock, err = lockFolder(path); err != nil {
		return nil, errors.Join(err, f.remove())
	}
	inUse.Store(f, nil)
	return f, nil
}

// lockFolder takes the lock before the file has its final name: a folder that shows a lock file is never unlocked while
// its process lives.
func lockFolder(path string) (*os.File, error) {
	if err := os.Chmod(path, 0o755); err != nil {
		return nil, err
	}
	early := filepath.Join(path, "owner.new")
	lock, err := os.OpenFile(early, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		err = os.Rename(early, filepath.Join(path, "owner.lock"))
	}
	if err != nil {
		lock.Close()
		return nil, fmt.Errorf("services: lock %s: %w", path, err)
	}
	return lock, nil
}

// remove deletes the folder, then gives up the lock.
func (f *folder) remove() error {
	err := removeTree(f.path)
	if f.lock != nil {
		f.lock.Close()
	}
	inUse.Delete(f)
	return err
}

// sweepFolders removes the folders whose process is gone. Those of other users are left.
func sweepFolders(base string) error {
	locks, err := filepath.Glob(filepath.Join(base, folderPrefix+"*", "owner.lock"))
	if err != nil {
		return err
	}
	for _, name := range locks {
		lock, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil { // another user's, or just removed
			continue
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			err = removeTree(filepath.Dir(name))
		}
		lock.Close()
		if err != nil {
			return fmt.Errorf("services: remove the folder of a dead process: %w", err)
		}
	}
	return nil
}

// removeTree removes a folder in which a dying server may still create a file or two.
func removeTree(path string) error {
	const tries = 10
	var err error
	for range tries {
		if err = os.RemoveAll(path); err == nil || !errors.Is(err, syscall.ENOTEMPTY) {
			return err
		}
	}
	return err
}

// tempBase is the folder for temporary folders that the user uid can reach; uid -1 is this process.
func tempBase(uid int) (string, error) {
	base := os.TempDir()
	if uid < 0 || reachable(base) {
		return base, nil
	}
	if reachable("/tmp") {
		return "/tmp", nil
	}
	return "", fmt.Errorf("services: neither %s nor /tmp can be entered by uid %d: set TMPDIR", base, uid)
}

// reachable says that every user may enter path: each folder up to the root has the x bit for others.
func reachable(path string) bool {
	path, err := filepath.EvalSymlinks(path)
	for err == nil {
		var info fs.FileInfo
		if info, err = os.Stat(path); err != nil || info.Mode().Perm()&0o001 == 0 {
			return false
		}
		if path == filepath.Dir(path) {
			return true
		}
		path = filepath.Dir(path)
	}
	return false
}
