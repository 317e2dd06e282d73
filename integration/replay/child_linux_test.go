package replay_test

import "syscall"

// childAttributes make a replay end with this process, also when that is killed.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
