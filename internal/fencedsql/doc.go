// Package fencedsql hands out database/sql transactions that only their maker can commit.
//
// A ledger's InTx gives the user a plain *sql.Tx, and must itself run the last statement (the fence) and the COMMIT. So
// [Connector] wraps a driver's connector, and [Begin] marks a transaction as ours through the context of BeginTx: a
// Commit or Rollback that the user calls on the handed *sql.Tx is answered at once by a real ROLLBACK and
// [ErrRefused], whatever the user asked for. database/sql ends its Tx and gives the connection back after any Commit,
// even a refused one, so there must be nothing open on it; and a Commit by the user must never reach the database.
//
// What is sent as text (`COMMIT` through Exec) does not pass here: stores detect it in the database, with the fence.
//
// Transactions of a wrapped connector that were not begun by [Begin] behave as ever.
package fencedsql
