package ledger

import "time"

// Pooled is a ledger whose InTx takes its transactions from a pool of connections. PostgreSQL is.
type Pooled interface {
	// TxConns is how many connections that pool has at most, 1 or more. It may be called concurrently.
	TxConns() int
}

// PoolInspector is a ledger that keeps its database's connections in pools. PostgreSQL does.
type PoolInspector interface {
	// Pools says how each pool is doing. It asks nothing of the database, never blocks, and any number may call it at once.
	Pools() []PoolStats
}

// PoolStats is one pool of connections of this process. What it counts began when the pool was made, and never falls.
type PoolStats struct {
	Name  string // whose calls it serves: "ledger", the ledger's own; "intx", those of InTx and of the pool's owner
	InUse int64  // connections in hand
	Max   int64
	// Waits counts calls for which no connection was free, and which got one in the end; one that was opened for them
	// counts, too. Waited is for how long they waited in sum.
	Waits  int64
	Waited time.Duration
	// GaveUp counts calls whose context ended before they had a connection.
	GaveUp int64
}
