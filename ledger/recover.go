package ledger

import "context"

// Recoverer is a ledger that can be told that it was restored from a backup. PostgreSQL and SQLite are. It is for operators, after a
// restore and while no worker runs; `ackledger recover` calls it.
type Recoverer interface {
	// Recover begins a new epoch, in one transaction. The ledger gets the id of that epoch, so that commits of before are those of
	// another ledger to every worker. Owners that look alive leave, uncounted: what they held is free. The next tokens of pending messages,
	// of ranges and of logs are above all that was handed out in epochs before. What has failed or succeeded keeps its token, which dead
	// letters name.
	//
	// An epoch that is not above the ledger's is an [*InvalidError], and an id that is not the ledger's any more [ErrChanged]: somebody
	// else was quicker. It needs the rights of the tables' owner. On PostgreSQL it reads all messages once.
	Recover(ctx context.Context, r Recovery) (Recovered, error)
}

// MaxEpoch is the last epoch of a ledger: a token has 11 bits for it.
const MaxEpoch = 1<<11 - 1

// Recovery begins an epoch: a ledger has epoch 0, and one for each time that it was restored.
type Recovery struct {
	ID    string // the ledger's, as it was read before
	Epoch int    // above the ledger's, at most MaxEpoch
	By    By
}

// Recovered is what a Recovery changed.
type Recovered struct {
	ID       string // the ledger's from now on
	Owners   int64  // that looked alive, and have left
	Messages int64  // that are pending
	Ranges   int64  // that were open
}
