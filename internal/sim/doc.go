// Package sim drives the pure core of workers in simulated worlds: everything that a worker meets happens in one goroutine, in an
// order that follows from a seed.
//
// Real are the core ([flow.Flow]), the assignments of a group's member ([offsets.Table]), and the ledger's rules ([ledger.Decide] and the ranges, in the ledger that
// is kept in memory). Simulated are the shells around the core, the broker, the network, the handlers and the clock. A world has
// requests that are lost, answers that are lost or late, messages that fail, take long or kill their process, processes that die
// or freeze, partitions that are revoked and moved, with and without their owner's knowledge, logs with gaps and of several leaders
// that lose records and write others in their place, commits that are refused, lost or forgotten, and leases that run out.
//
// The promises of docs/design.md §1 are checked when something could break them. A broken one is told with the seed and the steps
// before it; the same seed makes the same steps, so the story can be played again.
package sim
