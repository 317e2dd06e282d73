// Package storm holds tests that run the workers as child processes on real servers, kill them with SIGKILL, let others
// join and leave, stop the database in the middle, and compare at the end with an oracle that knows every message sent.
// Effects are counted in a table without a unique constraint, so that a double would be seen.
package storm
