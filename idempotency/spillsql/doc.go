// Package spillsql keeps results that are too large for the ledger in a table of a database: an idempotency.Spill over database/sql, for
// PostgreSQL and SQLite, with whatever driver the caller has.
//
//	spill, err := spillsql.New(db, "spilled")
//	if err == nil {
//		err = spill.Create(ctx)
//	}
//	if err != nil {
//		panic(err)
//	}
//	runner, err := idempotency.New(memory.New(), idempotency.Options{Spill: spill})
//
// The table may be in the ledger's database or in another; on SQLite it is in a file of its own: a transaction that settles a request
// (sqlite.InTx) has the ledger's file to itself, and would wait in vain for its own result to be put there. A result is one row of a few
// megabytes at most; [Spill.Create] makes the table, or people do by themselves:
//
//	CREATE TABLE spilled (name TEXT PRIMARY KEY, expiry BIGINT NOT NULL, data BYTEA NOT NULL);
//	CREATE INDEX spilled_expiry ON spilled (expiry);
//
// Somebody calls [Spill.Sweep] on a schedule: nothing else removes what has expired.
package spillsql
