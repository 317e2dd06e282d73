package ledgertest

import (
	"context"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// Store is one ledger under test, with what the suite needs beside the contract.
type Store struct {
	// Ledger is the store itself. It may hold other rows: every case uses scopes of its own.
	Ledger ledger.Ledger
	// Get reads one message with its archive; [ledger.ErrNotFound] if the ledger holds no row for the key.
	Get func(ctx context.Context, key ledger.Key) (ledger.Record, error)
	// Declare seals a live owner dead at once, as a peer's beat does with an overdue one. An owner that left or is dead
	// stays as it is.
	Declare func(ctx context.Context, ownerID string) error
	// Drop deletes the message's row physically, as the sweep does when its window is over; the archive stays. Of a key
	// with a position it deletes all that ranges know of the log, too.
	Drop func(ctx context.Context, key ledger.Key) error
	// DropOwner deletes a left or dead owner's row physically, as the sweep does long after its fate was sealed.
	DropOwner func(ctx context.Context, ownerID string) error
	// Rest makes look older, by more than [ledger.OwnerRest], what the sweep waits for: the fates of owners that left or
	// died, and the lease of a process that sweeps. Needed by [RunMaintain].
	Rest func(ctx context.Context) error
	// Age makes all that the ledger has written look older, as if so much time had passed; the leases of owners may end by
	// it. Nil: in [Differential] no time passes.
	Age func(ctx context.Context, d time.Duration) error
	// Ranged makes every message of the suite a record of a log, which the ledger may hold in a range; see [Ranged].
	Ranged bool
	// DSN is what a second process is given to open the same ledger (see [Main]). Empty: there are no second processes
	// (memory), and the cases that need one are not part of this store's suite.
	DSN string

	// InTx runs fn in a transaction that is fenced by the attempt in ctx ([ledger.AttemptFrom]), as the store's own InTx
	// does. Nil: the store has none.
	InTx func(ctx context.Context, fn func(ctx context.Context) error) error
	// InTxMost is how many messages, with an effect each, one InTx takes. 0: any number.
	InTxMost int
	// Effect inserts id into a table of effects without any unique constraint, inside the transaction that InTx handed
	// to fn in ctx. Needed with InTx.
	Effect func(ctx context.Context, id string) error
	// Effects counts the committed effects by id; the table may hold those of other cases. Needed with InTx.
	Effects func(ctx context.Context) (map[string]int, error)

	// Lose makes the calls of this ledger's owners be carried out and answered with an unknown error, until it is called
	// with false. Nil: the store's own tests lose answers.
	Lose func(lose bool)

	// Lock holds the message's row locked from another transaction until unlock is called, as a frozen worker's InTx
	// does. Nil: rows cannot be locked alone in this store (memory, sqlite), so that row 2 of the table cannot occur.
	Lock func(ctx context.Context, key ledger.Key) (unlock func(), err error)
}

// Open opens a fresh ledger, or one that is shared with other cases, and closes it with t.Cleanup. It may be called
// from parallel tests.
type Open func(t *testing.T) Store
