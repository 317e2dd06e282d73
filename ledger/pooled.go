package ledger

// Pooled is a ledger whose InTx takes its transactions from a pool of connections. PostgreSQL is.
type Pooled interface {
	// TxConns is how many connections that pool has at most, 1 or more. It may be called concurrently.
	TxConns() int
}
