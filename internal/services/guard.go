package services

import (
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"syscall"
)

// guard starts a shell that kills pid when this process ends, however it ends: the shell reads from a pipe whose other
// end nobody else holds. A line on the pipe releases it.
func guard(pid int) (release func() error, err error) {
	cmd := exec.Command("/bin/sh", "-c", `read -r released || kill -9 "$1"`, "guard", strconv.Itoa(pid))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("services: start the guard of process %d: %w", pid, err)
	}
	return func() error {
		_, err := pipe.Write([]byte("released\n"))
		return errors.Join(err, pipe.Close(), cmd.Wait())
	}, nil
}
