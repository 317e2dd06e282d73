// Package model checks the rules of the ledger in small worlds: it goes through every order in which things can happen,
// or walks through larger worlds by chance, and looks at the promises of docs/design.md §1 after every step. A broken
// promise is told with all the steps that led to it, and what is told by [Explore] is the shortest such story.
//
// A world ([Config]) has one to three workers, messages, a broker that is like SQS (visibility, copies that come again,
// deletes that are lost, a dead-letter queue of its own) or like Kafka (one partition with a committed offset, which moves
// from worker to worker, also without the old one knowing), a dead-letter place and replays. Its state is one array of
// bytes: the database, the broker, the memory of each process and the network.
//
// # What is the real code, and what is a model of it
//
// Real are the decisions: [ledger.Decide], [ledger.DecideSettle] and [ledger.DecideCommit], the engine's verdict on a
// handler's end (engine.Judge) and [replay.Plan]. A guard that is taken out of one of them is taken out around it.
//
// Modelled are the statements around these decisions (each is atomic, as it is under its row locks in the stores), owner
// rows with lease, beat, declaration of death and sweep, the worker's memory of each message in hand, the brokers, and the
// steps of a replay. There is no clock: a lease may run out, a backoff may be over, a sweep may pass at any moment, and a
// frozen worker is one that makes no step while the others do.
//
// # A ledger without a clock
//
// In some worlds ([Config].Watched) the ledger is one of single conditional writes, without a clock and without anything that looks at two
// rows at once, as on DynamoDB (watch.go): an owner is declared dead by a peer that has seen the same beat for a lease, claims do not look at
// their owner's row, and statements of owners that are dead, or whose rows are gone, land at any time. All promises are the same.
//
// What replaces the statement's deadline is that each write is on a condition that nobody else's taking survives. A claim is on the row as it
// was read, so of two that are under way one lands at most, and once a repeated one is answered, the earlier one cannot land any more: the
// repeat has changed the row, or met it changed. A settlement, a step or a transaction is on owner and token. A row that names an owner that
// is dead, or not there, is free at once for whoever comes next, with the next token.
//
// A transaction whose answer was lost is sent again as it was, with the same token of the client; where nothing is locked, a read that
// finds the row pending says nothing of what is under way. And an answer counts while the own lease runs: later the worker may not go by it.
//
// A crash may be counted for a claim that never ran: it landed when its process had died. That is so with a clock, too, where a process dies
// between the claim and its answer; what is exact is that a death counts once for a message at most. It needs AskInLease: a claim reads its
// row only while its own lease runs, so that one of a dead owner lands on nothing that anybody has had since.
//
// # Faults
//
// Statements that never arrive, whose answer is lost, that the client repeats, or that are given up and execute later (they
// had passed their deadline's check and stalled, or their process died); COMMITs that hang, and are decided by the server
// at any time; handlers that fail, kill their process, are cancelled, or return while their transaction runs on; leases
// that run out under a live worker; processes that die or exit with work in hand; copies delivered again before or after
// their deletion, or moved away; partitions that are revoked or lost; publishing that fails; replays killed between any two
// of their steps. Each kind has a budget in the world, so that there is an end.
//
// # Promises
//
// Those that the simulator has, too, are worded in internal/promises; it plays worlds of the shapes of [Small] on the code that runs.
// After each step: a message is somewhere as long as it did not succeed; what the broker was told to forget is finished (so
// a committed offset is never ahead of that); a failed delivery is in the archive; effects of a transaction and its success
// are one, once; two live owners never run a message at once; no two owners' effects are accepted under one token; tokens
// and committed offsets only grow; what succeeded stays so; attempts and crashes are counted honestly and end; an innocent
// message is never given up; a failure that was replayed runs once for it; what is parked is not begun again; another body
// is never run. And from every state that is looked at (Explore's argument) the world comes to its end when no more faults
// happen: nobody waits for ever.
//
// # What it found
//
// A parked message whose answer Spent was lost was Run when its claim was repeated, so its effect could happen twice:
// TestParkedClaimWithoutAnswer; row 7 counts such a row now. Any delivery that did not fail itself counts as a redrive of a failed message (row 10):
// a second record of the same business key runs it again, parked or not; so does a copy that a worker of an SQS queue still
// had in hand while the broker moved it away and its replay failed. If that run is cut short, the message is pending and
// nobody's, and only a replay from the archive brings it back.
//
// A suspect that may be ours did not keep the next one waiting, and a message whose copy the broker had back was asked for
// alone beside one: where that killed the process, an innocent message had a crash counted that was not its own (DoubtKeepsPlace,
// OwnPlaceOnly). Two bodies under one id were one delivery when they were replayed in place.
//
// # What is not modelled
//
// Ranges (internal/ranges), batches, lanes and FIFO order, receive counts, retention and the sweep of message rows, reopen,
// renew and purge, several partitions, topics that are created anew, clocks, and the stores' SQL: that it decides as these
// functions do is held by the differential tests. An effect without transaction may happen twice by promise, so it is only
// asked whether its token is the newest. Deliveries that the broker repeats while the old one is still in hand of the same
// worker wait for that one.
package model
