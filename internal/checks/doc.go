// Package checks refuses what no store of a ledger can hold, or cannot be meant, before anything is sent: entries, settlements, and what
// operators ask for. Each refusal is a [*ledger.InvalidError] that names the field, its bound and the value, so that one odd item fails by
// itself and not its whole batch. It is pure.
package checks
