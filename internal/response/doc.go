// Package response decides how a caller of package idempotency is answered: by what the ledger has said of its call, and how its function
// ended. It is pure. The simulator of internal/sim goes through the same rules.
package response
