//go:build !linux

package chaos_test

import (
	"os/exec"
	"syscall"
)

// childAttributes are none where the system cannot end children with their parent.
func childAttributes() *syscall.SysProcAttr { return nil }

func launch(cmd *exec.Cmd) error { return cmd.Start() }
