// Package driver is the seam between the rules of a ledger and the tables that hold it.
//
//	store := &counting{Store: memory.NewStore()}
//	l := driver.New(store, driver.Config{Name: "counting", Limits: ledger.DefaultLimits, Keys: 2})
//	owner, err := l.Join(context.Background(), time.Minute)
//	if err != nil {
//		fmt.Println(err)
//		return
//	}
//
// The author of a store writes [Store]: transactions that read and write rows ([Tx]), owners ([Owners]), and pages of
// lists. [New] makes of it all that a ledger of this module is:
//
//   - a [ledger.Ledger] whose owners hold records of a log in ranges
//   - a [ledger.Operator], [ledger.Maintainer], [ledger.Inspector] and [ledger.Board]
//   - a [ledger.DeliveryCounter], [ledger.ArchiveMeter], [ledger.SuccessReader] and [ledger.PastKeeper]
//
// A store that has transactions for handlers fences them with [Begin]. One whose transactions are also an [OutboxTx] is a
// [ledger.Outbox]: what handlers publish is written in their commits. Package storage has forms in which rows may be stored.
// docs/store.md leads through a new store.
//
// # How a call goes
//
// A call becomes a [Call] and a function of a Tx. The Call says what it is and what it will touch. The function reads rows,
// the tables decide ([ledger.Decide], [ledger.DecideSettle], the plans of ranges), and the function writes what they say.
// Nothing is decided in a store.
//
// The function may run more than once for one call. A store that locks what it reads runs it once. A store that writes on
// the condition that nothing has changed runs it again when something has. Only what the last run said counts.
//
// # What a store promises
//
//   - A transaction is whole and durable. When Update answered nil, all of the transaction is there after a crash. When it
//     answered an error for which [ledger.Unknown] is false, nothing of it is there.
//   - A transaction reads everything as it was at one moment. Between that moment and its own write no other transaction
//     writes what it read.
//   - What comes too late for the deadline of its context changes nothing.
//
// # Time
//
// [Reader.Now] is the time of one transaction, and everything that the transaction writes goes by it. It is the server's
// time where there is a server. [Store.Now] is what this process knows of the same clock, for heartbeats alone. Times may be
// stored in microseconds.
package driver
