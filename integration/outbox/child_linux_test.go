package outbox_test

import "syscall"

// childAttributes make a worker end with this process, also when that is killed.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
