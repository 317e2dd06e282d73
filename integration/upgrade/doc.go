// Package upgrade runs workers that were built of this repository's history beside those of today: the schema is migrated under them,
// and binaries are rolled back while the schema stays. It needs the history, and runs in `make test-long`.
package upgrade
