//go:build killpoints

package killpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

var (
	target, passage = parse(os.Getenv(Variable))
	passed          atomic.Int64
)

// parse reads "step@passage". A test that misspells it must not take a worker that lives for one that survived.
func parse(text string) (Step, int64) {
	if text == "" {
		return "", 0
	}
	step, n, _ := strings.Cut(text, "@")
	at, err := strconv.ParseInt(n, 10, 64)
	if err != nil || at < 1 {
		panic(fmt.Sprintf("killpoint: %s must be step@passage, passages from 1, is %q", Variable, text))
	}
	return Step(step), at
}

// At kills the process with SIGKILL if it is told to die at this passage of the step.
func At(s Step) {
	if s != target || passed.Add(1) < passage {
		return
	}
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGKILL); err != nil {
		panic(err)
	}
	select {} // the signal is on its way
}
