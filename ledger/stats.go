package ledger

import (
	"context"
	"time"
)

// Inspector is a ledger that can say how it is doing. The stores of this module are Inspectors.
type Inspector interface {
	// Stats is cheap at any size of the tables: counts and ages were made by the last whole pass of [Maintainer], and
	// Stats.At says when; what the database knows by itself (owners, sizes, locks) is of now. It may be called by any
	// number of processes and goroutines.
	Stats(ctx context.Context) (Stats, error)
}

// Stats is how a ledger is doing.
type Stats struct {
	// At is when the pass ended that Scopes comes from, on the database's clock; zero: there was none yet.
	At time.Time
	// Age is how long ago that was, on the database's clock.
	Age time.Duration
	// Pass is that pass.
	Pass SweepReport
	// Scopes has those that had rows, at most [MaxStatScopes], the largest first.
	Scopes []ScopeStats
	// Owners counts the owners' rows as of now.
	Owners OwnerStats
	// Tables has what the ledger's tables take as of now, as the database estimates it.
	Tables []TableStats
	// LockWaits is how many sessions on the ledger's tables wait for a lock at this moment; always 0 where there are no
	// row locks (sqlite, memory).
	LockWaits int64
	// LockWaited is how long such sessions have waited in sum, as far as calls of Stats on this [Ledger] value have seen it: of
	// a wait that was there at a call, all until the last call at which it was. Waits that begin and end between two calls are
	// not in it. It only grows, and is always 0 where LockWaits is.
	LockWaited time.Duration
	// Deliveries has what workers of all processes have counted and added ([DeliveryCounter]), of at most [MaxStatScopes]
	// scopes, the largest first. Workers count the same as metric ackledger.dedup.
	Deliveries []Deliveries
	// Answered counts what this [Ledger] value has answered since it was made: the tables do not say how often a message was
	// asked for. It is for code that claims without a worker; a claim that is asked again counts again.
	Answered Answered
}

// Answered counts answers to claims.
type Answered struct {
	Decided    int64 // all but Busy: what is asked for again until it is decided counts once
	Duplicates int64 // Done: messages that were finished already
	// First counts messages that were claimed for the first time ([Claim.First]), but those that were given back without a
	// trace ([Claim.Ranged]): these count when they are claimed the next time. Retries and take-overs are no first claims.
	First int64
}

// DedupRate is the share of duplicates in messages that were new or duplicates, from 0 to 1; 0 before the first.
func (a Answered) DedupRate() float64 { return dedupRate(a.First, a.Duplicates) }

// MaxStatScopes is how many scopes Stats names.
const MaxStatScopes = 1000

// ScopeStats counts the messages of one scope: a consumer of one source.
type ScopeStats struct {
	Scope     string `json:"scope"`
	Pending   int64  `json:"pending"`
	Succeeded int64  `json:"succeeded"`
	Failed    int64  `json:"failed"`
	Abandoned int64  `json:"abandoned"` // of the pending ones: past their expiry
	// Ages of pending messages at the pass, since their first claim (or redrive). OldestPending is exact; the percentiles
	// are too high by up to a tenth. Zero: nothing is pending.
	OldestPending time.Duration `json:"oldest_pending"`
	PendingAgeP95 time.Duration `json:"pending_age_p95"`
	PendingAgeP99 time.Duration `json:"pending_age_p99"`
}

// OwnerStats counts owners by their fate.
type OwnerStats struct {
	Live    int64
	Overdue int64 // of the live ones: their lease has ended, and no peer declared them dead yet
	Left    int64
	Dead    int64
}

// TableStats is the size of one table.
type TableStats struct {
	Name       string // message, archive, owner, …
	Rows       int64  // an estimate; -1: not known yet
	Bytes      int64  // the table itself, with what is stored out of line; 0 where the store cannot tell
	IndexBytes int64
}
