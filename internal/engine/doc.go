// Package engine runs handlers through the ledger for every broker: claim, handle, settle, and only then a verdict.
//
// A worker (packages sqs and kafka) offers [Item]s and gets each back once, through [Sink], with a [Verdict]. What happens in
// between is decided by package flow, the pure core; this package carries it out. Each part is small, has goroutines of its own,
// and knows the flow through the kernel, which is its lock: a part takes what is next, does it without the lock, and reports
// what came of it.
//
// The package is internal because its seam serves the two workers, and is free to change with them.
//
// # Files
//
// Each file uses what stands below it:
//
//	gauges.go      the metrics that are read
//	health.go      what probes, metrics and pollers are told of a worker
//	drain.go       how a worker gives messages back and ends
//	core.go        the Engine: its parts, and how it starts
//	report.go      what a worker says of itself with its beats
//	apart.go       one message at a time, beside the pool: suspects and probes
//	relay.go       the outbox: who takes its lanes
//	relayrest.go   how long a lane of it rests
//	relaysend.go   a batch of it, on its way
//	relayopen.go   what is sealed of it
//	relaybury.go   what a target refuses for good
//	relaymeters.go the metrics of the outbox
//	pool.go        the goroutines that run handlers
//	batch.go       the calls of the handler: one by one, or a batch
//	held.go        what does not begin, since its ordering key is parked
//	publisher.go   dead letters, and the cipher
//	handle.go      one call of the handler, and what follows from how it ends
//	permits.go     permits of limits over all workers
//	keyorder.go    what of an ordering key is parked: asked of the ledger
//	parking.go     retries that wait in the ledger
//	claimer.go     claims
//	settler.go     settlements
//	lease.go       the lease: join, beat, leave, and whether the ledger answers
//	identity.go    whose message a delivery is
//	target.go      what a dead-letter target says of itself
//	upkeep.go      the sweep, and how much is archived
//	archives.go    what is archived of a failure
//	notes.go       what is said of messages as they come
//	admission.go   the rate and the shared limiter
//	guard.go       calls of the user's functions that are no handlers
//	kernel.go      the flow under its lock, and who waits for it
//	chunk.go       what a goroutine has taken
//	deliveries.go  the counts of deliveries
//	life.go        what goroutines live by
//	telemetry.go   the instruments
//	run.go         one run of a handler: its context, its message, its end
//	config.go      what an engine is built of
//	verdict.go     what follows from a handler's end: pure
//	stretch.go     records that go through as one
//	item.go        one delivery
//	lanes.go       the ordering keys of a log of which messages may be parked
package engine
