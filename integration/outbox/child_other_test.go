//go:build !linux

package outbox_test

import "syscall"

// childAttributes are none where the system cannot end children with their parent.
func childAttributes() *syscall.SysProcAttr { return nil }
