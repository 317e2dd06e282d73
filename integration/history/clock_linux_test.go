package history_test

import "golang.org/x/sys/unix"

// now is a clock that never goes back, and that all processes of the machine share: clock_gettime(2), CLOCK_MONOTONIC.
func now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // there is no system without it
	}
	return t.Nano()
}
