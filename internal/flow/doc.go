// Package flow is the pure core of a worker: it holds all that is in flight, and decides what happens next to each message.
//
// A [Flow] is told what happened: a message was offered, a claim was answered, a handler ended, a settlement was answered, the
// lease was lost, a partition was revoked. It says what to do: claim these, run these, settle these, publish this, tell the
// worker of these, wake at. Whoever calls it does the work; package engine does so with goroutines, a simulator does without.
// It has no lock, no goroutine, no clock, no chance and no I/O, so the same events make the same decisions; a test
// (internal/archtest) holds it to that.
//
// An item moves through these phases:
//
//	Offer ─▶ queued ─▶ claiming ─▶ claimed ─▶ running ─▶ settling ─▶ finished (Ack)
//	            ▲          │           │                     │
//	            │          │           └── release: behind a waiting head, drain, revoke
//	            │          ├──▶ finished (Ack): Done
//	            │          ├──▶ settling: Spent, Mismatch ─▶ finished (Ack)
//	            │          └──▶ waiting: Busy                │
//	            └──────────────────┴───── due ◀── waiting: backoff
//
// Records of one log that all go well go through as one: see [Range].
//
// The ledger is authoritative for what is ours, the broker for what is delivered; the flow believes neither for longer than a
// lease. Ownership that may exist is never forgotten: an unanswered claim is asked again, a release is repeated, until answered
// or until the worker has left the ledger.
//
// # To add a rule
//
// A rule of scheduling is a [Rule], and takes three files: rule_NAME.go with its decisions, rule_NAME_test.go with a property test
// against a dumb twin, and rules.go of package sim, where its part in the simulated worlds is an entry of a table. [AtMost] and [Fair] are such.
//
// Rules are asked by rules.admit, in sched.grab, and told by rules.leave and rules.forget, where an item's key is given back and
// where the item leaves. Whichever way an item goes, these are the only places. What follows for every rule:
//
//   - What a rule refuses waits as behind another copy of its key: without a slot or a time, and its ordering key is closed behind
//     it. It is claimable again when the rule names it (Next), and has its place from then on.
//   - Only heads of sequences ask, so with rules nothing is claimed ahead behind a head.
//   - What may be ours keeps its place as it keeps its key, so it is claimed past all rules.
//   - Suspects and probes ask like others. Drains, revoked partitions and lost leases let go of what waits.
//   - With rules there are no ranges (Flow.Ranges), so nothing sets a phase of a range's items by itself (Flow.expandOne) that a rule
//     was not asked about.
//   - A rule decides by its calls alone. One whose room grows by an event of its own, such as an answer about a limit of several
//     workers, has that event in Flow, which then asks Next as rules.left does.
//
// One item of a key in flight (sched.grab, holdKey, letGo) is no Rule: each message passes it, so it is a hash table whose chains lie
// in the items; it holds in ranges too; and what waits for a key waits at the item that has it.
//
// The scheduler's twin in sched_test.go and the storm are played with the rules in bookRules, to which each rule's test file appends its
// own, with what must hold of it (rule_test.go). What this package may import, and that no rule's file uses another's, is in
// internal/archtest (pure_test.go, arrows_test.go).
//
// # Files
//
// Each file uses what stands below it:
//
//	claims.go      what to claim next, and what the ledger's answers mean
//	end.go         the end of each event: what is to be carried out, who has work, when to wake
//	revoke.go      what takes messages back: a revoked partition, a drain, a lost lease, a pause
//	part.go        what handlers get of ranges
//	dispatch.go    what handlers get, and what follows from how they end
//	limit.go       how many handlers may run, where that follows what they wait for
//	permits.go     permits of the ledger: which to ask for, which to give back, and that they are lost
//	probe.go       what is claimed alone: suspects, and what is tried while the breaker is open
//	settle.go      what to settle next, what the answers mean, and dead letters on their way
//	range.go       ranges: taking them in, and the one place that expands them into items
//	brake.go       what stops a worker: the breaker, the budget of archived bytes, and operators' pauses
//	phases.go      the moves that all of these make: release, give back, hold, finish, count
//	rangequeue.go  which ranges may be claimed and run
//	flow.go        the state, its commands and its news
//	parks.go       how settlements that park leave the ledger to others
//	settlement.go  what the ledger is told of a message
//	pace.go        how far claims run ahead of the handlers
//	sched.go       the phase of each item: what may be claimed, what may run, what waits until when
//	rule_*.go      rules, each by itself
//	rule.go        what else says which items may be in flight at the same time
//	inflight.go    the one item of each key that is, or may be, ours
//	sequence.go    the items of one ordering key, and the claim queue
//	budget.go      how much of each scope is archived
//	order.go       which scopes operators have paused
//	logs.go        what is in hand of each log
//	weight.go      the bytes in hand
//	breaker.go     when too much fails, and when it is over
//	line.go        a queue that any of its items may leave
//	queue.go       a queue
//	item.go        items, ranges, dispatches: what there is
//	lanes.go       which ordering keys may have messages parked
//	timers.go      what is to be done at a time
//	heap.go        a heap whose elements know their places
package flow
