// Package engine runs handlers through the ledger for every broker: claim, handle, settle, and only then a verdict.
//
// A worker (packages sqs and kafka) offers [Item]s and gets each back once, through [Sink], with a [Verdict]. In between
// an item moves through these phases; the scheduler (lane.go, pure) keeps them, the loops around it do the I/O:
//
//	Offer ─▶ queued ─▶ claiming ─▶ claimed ─▶ starting ─▶ running ─▶ settling ─▶ finished (Ack)
//	            ▲          │           │                                 │
//	            │          │           └── release: behind a waiting head, drain, revoke
//	            │          ├──▶ finished (Ack): Done
//	            │          ├──▶ settling: Spent, Mismatch ─▶ finished (Ack)
//	            │          └──▶ waiting: Busy                             │
//	            └──────────────────┴────── due ◀───────── waiting: backoff ◀┘
//
// Records of one log that all go well may go through as one: see [Stretch].
//
// The ledger is authoritative for what is ours, the broker for what is delivered; the engine believes neither for longer
// than a lease. Ownership that may exist is never forgotten: an unanswered claim is asked again, a release is repeated,
// until answered or until the worker has left the ledger.
//
// Decisions are pure functions: policy.decide (what follows from a handler's end), askAgain, the scheduler. The package
// is internal because its seam serves the two workers, and is free to change with them.
package engine
