// Package sim drives the pure core of workers in simulated worlds: everything that a worker meets happens in one goroutine, in an
// order that follows from a seed.
//
// Real are the core ([flow.Flow]), the assignments of a group's member ([offsets.Table]), the visibility table ([visibility.Table]), and
// the ledger's rules ([ledger.Decide] and the ranges, in the ledger that is kept in memory). Simulated are the shells around the core, the
// broker, the network, the handlers and the clock. A world has requests that are lost, answers that are lost or late, calls that are torn,
// messages that fail, are sent again once they have, take long or kill their process, processes that die or freeze, leases that run out,
// and an operator who reopens messages. In some worlds the broker is a cluster: its partitions are revoked and moved, with and without
// their owner's knowledge, its logs have gaps and several leaders, which lose records and write others in their place, and drop what is
// old, and commits are refused, lost or forgotten. In others it is a queue, standard or FIFO, whose visibility timeouts end, now and then
// before their time. In some there is no broker: callers ask processes to do requests once, as package idempotency does them, wait or do
// not, send the same or another body, give up, and ask again until they are answered. In some worlds handlers make outside calls that are
// steps (consumer.Step). In some the ledger's clock runs a hundred times faster ([Config].Hours). In some it has none ([Config].Watched):
// owners are declared dead by peers that watch their beats, each by a clock that runs fast or slow, and what is late or comes twice
// arrives when its owner is dead.
//
// The promises of docs/design.md §1 are checked when something could break them. A broken one is told as the smallest world in which it
// breaks ([Shrink]), with the steps of the message in question; the same seed makes the same steps, so the story can be played again.
//
// # To add a rule, an option or a kind of trouble
//
// A rule of scheduling ([flow.Rule]) is one entry of the table in rules.go: in how many worlds it is in force, how its bound is drawn,
// how it is made, what must hold when a handler begins, and how many run at least in a world without trouble. The table does the rest:
// processes have the rule, its promise is checked and, in rules_test.go, broken on purpose, and a world is made smaller by doing without.
// Its bound is an integer from 1 on, of whatever the rule counts; at 1 it must be broken by handlers of equal messages that begin one
// after the other. That nobody starves is checked as ever, as far as worlds show it, which all end: each comes to its end, and one without
// trouble takes its time and no more. The order among those that wait is for the rule's own test.
//
// Any other option of the worlds is a field of [Config], drawn in [Drawn] behind all others, since a draw in between changes all worlds; it
// is passed on in worker.start and made smaller in shrink.go. Items are made in source.go. A kind of trouble is a constant in config.go
// with its usual share. A promise is checked where it could break (begins, mustFit, look, mustHaveEnded) and has its line in
// promises_test.go, where it is broken on purpose; what callers are told is checked in reply.go, steps in steps.go, what is left when all
// is over in fade.go. What the ledger answers about rows is held to a twin (twin.go). mustHaveBeenStill
// bounds what a world without trouble may take. TestWorldsTakeTheirTime holds what decisions cost.
package sim
