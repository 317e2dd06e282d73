// Package items makes a store of ledgers out of a table of items. Each item is written on the condition that it is as it was read. It is
// for DynamoDB, and for whatever else has conditional writes and no locks. The author of an engine writes a [Table], some hundred lines,
// and gets a [driver.Store]:
//
//	var table items.Table = itemstest.NewTable(0, 1) // yours
//	store := items.New(table)
//	l := driver.New(store, driver.Config{Name: "ledger/mine", Limits: ledger.DefaultLimits, Keys: items.Messages, Parts: items.Parts})
//	owner, err := l.Join(ctx, 30*time.Second)
//	if err != nil {
//		log.Fatal(err)
//	}
//	key := ledger.Key{Scope: "payments", ID: []byte("order-17")}
//	claims, err := owner.Claim(ctx, []ledger.Entry{{Key: key, Delivery: []byte("message-1"), Window: time.Hour}})
//
// Package itemstest has a table in memory, and the hooks that the conformance suite asks for.
//
// # How it holds its promises
//
// Every item has a version, drawn anew with each write. A transaction reads items, and keeps back what it writes. Then it writes all in
// one [Set], on the condition that nothing it read has another version. When somebody was ahead, the transaction runs again.
//
// A claim or a settlement of many messages is many transactions ([Store.Each]), mostly of one item each. A table writes them in batches.
// A process need not read a message again in the state in which it left the message itself.
//
// An owner is an item with a beat that grows. A peer that has seen one beat for the owner's lease and a margin, by its OWN monotonic clock,
// declares the owner dead, on the condition that the item is as it was read. So one item decides between a beat and a death, and no two
// clocks are ever compared. It is assumed that clocks run at the same rate, to within [driver.ClockDrift] on each side. Amazon's DynamoDB
// lock client and the lease table of the Kinesis client library do the same.
//
// An owner counts its lease from before it sent the beat that was confirmed, and stops when the lease is over. What it had sent before may
// still arrive, and is harmless:
//
//   - If somebody has taken the item since, nothing is written.
//   - If nobody has, a settlement says what did happen.
//   - If nobody has, a claim leaves the message to a dead owner. Whoever comes next takes it from that owner.
//
// What is made where nothing was is made on the condition that nothing was there since. A log that is new checks the floor of tokens, which
// each drop of a log writes: else one that was made and dropped meanwhile would come back with tokens that handlers have seen.
//
// A large body lies in parts, which are written before the delivery that names them. What is purged leaves empty ones, so that a request
// that writes one late is refused. Parts that no delivery came to name, since its owner lost the message, go by their TTL alone: the sweep
// cannot tell them from those that are to be named next, and no purge knows of them.
//
// # Where what lies
//
// A place is the partition key. These are the places:
//
//   - a message, by its key, with its archive, its past and its steps
//   - a log, with its ranges and segments as one item
//   - owners
//   - the audit
//   - what the ledger is as a whole
//
// Records of a log that lie side by side share a place. Blocks of them that have rows are marked, so that the rows of a span are found.
// There are two indexes, which may lag: dead letters by time, and what is found by a message's id.
//
// # Files
//
// Each file uses what stands below it:
//
//	sweep.go    lists of messages, and what goes
//	archive.go  archived deliveries and dead letters
//	bodies.go   what of a delivery is too large for its item
//	past.go     what messages ended with
//	steps.go    recorded steps
//	logs.go     ranges and segments
//	owed.go     rows that a transaction has made which was too large
//	blocks.go   which blocks of a log have rows
//	each.go     calls of many messages
//	store.go    calls, and the store
//	owners.go   owners
//	board.go    what workers say, and pauses
//	meta.go     scopes, counts, audit
//	tx.go       one transaction
//	item.go     what is in an item
//	table.go    the engine
package items
