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
// lists. [New] makes of it all that a ledger of this module is: a [ledger.Ledger] whose owners hold records of a log in
// ranges, a [ledger.Operator], [ledger.Maintainer], [ledger.Inspector], [ledger.DeliveryCounter], [ledger.ArchiveMeter], [ledger.SuccessReader]
// and [ledger.PastKeeper].
// A store with transactions of its own for handlers fences them with [Begin]. docs/store.md leads through a new store.
//
// # How a call goes
//
// A call becomes a [Call], which says what it is and what it will touch, and a function of a Tx. In it rows are read, the
// tables decide ([ledger.Decide], [ledger.DecideSettle], the plans of ranges), and what they say is written. Nothing is
// decided in a store.
//
// The function may be run more than once for one call: a store that locks what it reads runs it once; one that writes on
// the condition that nothing has changed runs it again when something has. Only what the last run said counts.
//
// # What a store promises
//
// A transaction is whole and durable: what Update answered nil for is there after a crash, all of it, and nothing of what
// it answered an error for which [ledger.Unknown] is false. What a transaction reads is as it was at one moment that no
// other transaction's write lies between and its own. What comes too late for the deadline of its context changes nothing.
//
// # Time
//
// [Reader.Now] is the time of one transaction, and all that is written in it goes by that: it is the server's where there is
// one. [Store.Now] is what this process knows of the same clock, for heartbeats alone. Times may be stored in microseconds.
package driver
