package chaos_test

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// childAttributes make a worker end with this process, also when that is killed.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// forks are the commands that one goroutine starts. The signal of the parent's death is tied to the thread that forked,
// and Go ends threads as it likes: this goroutine keeps its own for ever.
var forks = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

func launch(cmd *exec.Cmd) error {
	done := make(chan error)
	forks() <- func() { done <- cmd.Start() }
	return <-done
}
