// Package replay holds tests that replay dead letters of real servers in child processes, kill those with SIGKILL at random
// moments, let two replay at once, and compare at the end with an oracle that knows every message sent: each effect once,
// none lost, nothing left that failed. Effects are counted in a table without a unique constraint, so that a double would be
// seen.
package replay
