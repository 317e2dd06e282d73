//go:build !unix

package reliability

import "os"

// lock does nothing: long runs that write at once need a system with flock.
func lock(*os.File) error { return nil }
