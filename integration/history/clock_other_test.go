//go:build !linux

package history_test

import "time"

// now is a clock that all processes of the machine share. Nobody may set it during a run.
func now() int64 { return time.Now().UnixNano() }
