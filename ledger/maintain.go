package ledger

import (
	"context"
	"time"
)

// Maintainer is what keeps a ledger small: it removes what has expired. The stores of this module are Maintainers, and
// workers call Maintain by default, so that nothing needs to be set up.
//
// What goes, by the clock of the database:
//   - a succeeded or failed message, once its own expiry has passed. The expiry was fixed at its first claim (a redrive
//     renews it), so workers with different windows cannot sweep each other's messages.
//   - a pending message past its expiry is abandoned: its broker has forgotten it, or nobody consumes it any more. It is
//     reported, and runs if it does come. It goes only after [MaintainConfig.Keep] and its own window have passed again,
//     and never while its owner is live.
//   - an archived delivery, at its own expiry.
//   - what is kept of messages that have gone ([PastKeeper]), at its own expiry.
//   - an audit row, after [MaintainConfig.KeepAudit].
//   - an owner that left or died, once that was at least [OwnerRest] ago and a whole pass that began after it met no
//     pending message that names it.
//
// A pass looks at every row once, in short transactions that each look at a bounded number of rows, and waits for
// nobody's locks. A process that dies in the middle loses nothing: the next one goes on where it stopped. The pass also
// counts what [Inspector] answers. All methods may be called concurrently, by any number of processes.
type Maintainer interface {
	// Maintain makes one pass after the other until ctx ends, then returns nil. Of all processes one sweeps at a time, by
	// a row that it holds with a lease; the others look again now and then. It goes on after an outage; the error is an
	// [*InvalidError] of cfg, or one for which [Unusable] is true.
	Maintain(ctx context.Context, cfg MaintainConfig) error

	// Sweep makes one whole pass now, at full speed, and says what it did. While another process sweeps it waits for
	// it, until ctx ends. For commands and tests.
	Sweep(ctx context.Context, cfg MaintainConfig) (SweepReport, error)
}

// MinKeepAudit is how long the audit stays at least, whoever sweeps: who may sweep could else remove the traces of an act.
const MinKeepAudit = 90 * 24 * time.Hour

// OwnerRest is how long the row of an owner that left or died stays at least: longer than any statement of its time can
// still run.
const OwnerRest = time.Hour

// Defaults of MaintainConfig.
const (
	DefaultKeep          = 90 * 24 * time.Hour
	DefaultKeepAudit     = 400 * 24 * time.Hour
	DefaultSweepInterval = time.Minute
	DefaultSweepBatch    = 5000
)

// MaintainConfig is how a ledger is maintained. The zero value of each field means its default.
type MaintainConfig struct {
	// Keep is how long a pending message stays past its expiry, 1 ms to [MaxWindow]; never less than its own window
	// again, whatever is said here. Default 90 days. For people who set the archive's retention (consumer.Options.Keep):
	// it is meant to be the same. Of several processes that maintain one ledger, the one that has the turn applies its
	// own, to all scopes: give all the longest that any of them needs.
	Keep time.Duration
	// KeepAudit is how long the rows of the audit stay, [MinKeepAudit] to [MaxWindow]. Default 400 days: a year's review finds
	// the year. For people whose rules ask for longer, or who want less. As Keep, it is that of the process that has the turn.
	KeepAudit time.Duration
	// Interval is the least pause after a pass that found little to remove, 1 ms to 24 h; after one that took longer, the
	// pause is as long as it took, up to an hour; after one that found much the next begins at once. Default 1 min. For
	// people who want fresher statistics, or less reading on huge tables.
	Interval time.Duration
	// Batch is about how many rows one transaction looks at, 100 to 100,000; it shrinks by itself while transactions
	// take long. Default 5,000. For databases with very slow disks, or with large results in the rows.
	Batch int
	// Report gets what each pass did, from Maintain and from Sweep. It is called between transactions, by one goroutine;
	// a slow one holds the sweep up. For people who log or alert on abandoned messages. Default: none.
	Report func(SweepReport)
}

// MaxAbandoned is how many abandoned messages a report names.
const MaxAbandoned = 20

// SweepReport is what one pass did.
type SweepReport struct {
	Began time.Time     // on the database's clock
	Took  time.Duration // the whole pass, pauses included
	Rows  int64         // message rows that were looked at, those that were removed included

	Messages int64 // finished messages removed
	Dropped  int64 // pending messages removed, long past their expiry
	Archives int64 // archived deliveries removed
	Owners   int64 // owners removed
	Audits   int64 // audit rows removed
	Past     int64 // results removed that were kept beyond their rows
	Locked   int64 // expired rows that others held locked: the next pass looks again

	Abandoned int64       // pending messages past their expiry that are still there
	Oldest    []Abandoned // some of them, the first expired first, at most [MaxAbandoned]

	Transactions int64         // short ones that the pass was made of
	Longest      time.Duration // the longest of them, as seen by this process
}

// Removed is the number of rows that the pass removed.
func (r *SweepReport) Removed() int64 {
	return r.Messages + r.Dropped + r.Archives + r.Owners + r.Audits + r.Past
}

// Abandoned is a pending message past its expiry.
type Abandoned struct {
	Scope  string    `json:"scope"`
	ID     []byte    `json:"id"`
	At     time.Time `json:"at"`     // its first claim
	Expiry time.Time `json:"expiry"` // when its window ended
}
