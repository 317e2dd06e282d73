//go:build !linux

package services

import "syscall"

// needsGuard is true: no signal on the parent's death here.
const needsGuard = true

func endWithParent(*syscall.SysProcAttr) {}
