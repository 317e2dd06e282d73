package services

import "syscall"

// needsGuard is false: the kernel ends the children.
const needsGuard = false

func endWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
