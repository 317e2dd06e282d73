package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
	"time"
)

var highWater = regexp.MustCompile(`VmHWM:\s*(\d+) kB`)

// runMeasured runs a command and returns its largest resident size, in bytes. Maxrss of getrusage(2) would be this
// process's own, which the child shares until it calls exec.
func runMeasured(t *testing.T, cmd *exec.Cmd) (largest int64, err error) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() { over <- cmd.Wait() }()
	for {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid)) // it goes when the process ends
		if m := highWater.FindSubmatch(status); m != nil {
			kib, _ := strconv.ParseInt(string(m[1]), 10, 64)
			largest = max(largest, kib<<10)
		}
		select {
		case err := <-over:
			return largest, err
		case <-time.After(20 * time.Millisecond):
		}
	}
}
