//go:build unix

package reliability

import (
	"os"
	"syscall"
)

// lock keeps other processes' writes off until the file is closed.
func lock(file *os.File) error { return syscall.Flock(int(file.Fd()), syscall.LOCK_EX) }
