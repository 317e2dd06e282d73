// Package history checks recorded histories of the ledgers against the claim table.
//
// Several clients, goroutines and real processes, call one ledger at once: they join, claim, settle, beat and leave, are
// declared dead, reopen and renew, while something goes wrong between them and the database (connections cut, answers lost
// after the commit, delays, locks, processes killed). Each records its calls with their times, all on one clock. What was
// answered must then be explained by some order of the calls, each of them taking effect at one moment between its begin and
// its end, under the rules of ledger.Decide and ledger.DecideSettle: that is what linearizability means (Herlihy and Wing,
// 1990), and what porcupine decides, message by message. A call whose answer is not known never ends: it may take effect at
// any later moment, or never.
//
// Thousands of short histories find more than one long one, and are quick to decide: see TestMemory, TestSQLite and
// TestPostgres. TestBrokenStores shows that a store that breaks a rule is found.
package history
