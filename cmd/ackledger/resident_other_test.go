//go:build unix && !linux

package main

import (
	"os/exec"
	"syscall"
	"testing"
)

// runMeasured runs a command and returns its largest resident size, in bytes, as getrusage(2) has it on macOS.
func runMeasured(t *testing.T, cmd *exec.Cmd) (int64, error) {
	t.Helper()
	err := cmd.Run()
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		t.Fatal("no figures of the process")
	}
	return usage.Maxrss, err
}
