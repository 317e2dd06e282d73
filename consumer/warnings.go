package consumer

import (
	"fmt"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

const (
	// shortLease is the shortest lease without a warning: a process may well stand still for a second, while its machine is
	// busy or moved, and beats that come three times a second may wait as long for the ledger's disk.
	shortLease = time.Second
	// leaving is what Run needs after the drain, for the last settlements and for leaving broker and ledger.
	leaving = 5 * time.Second
)

// Warnings says which settings are allowed but unwise, each with what follows from it. The options have their defaults
// filled in; conns is how many connections InTx can have at once ([ledger.Pooled]), 0: it is not bound by them. Workers call
// it when they start, log what it returns, and show it in [Health].
func (o Options) Warnings(conns int) (all []string) {
	warn := func(format string, args ...any) { all = append(all, "consumer: Options."+fmt.Sprintf(format, args...)) }
	if o.Lease < shortLease {
		warn("Lease: is %s, below %s: a worker that stands still for as long is taken for dead, its messages run again "+
			"elsewhere, and each counts a crash, of which %d archive it", o.Lease, shortLease, ledger.CrashLimit)
	}
	if need := o.Drain + leaving; need > o.Grace {
		warn("Drain: is %s, and Run needs up to %s more to leave, but the platform kills the process after %s (Options.Grace): "+
			"give it %s (terminationGracePeriodSeconds in Kubernetes) and say so in Grace, or lower Drain", o.Drain, leaving, o.Grace, need)
	}
	if o.MaxHeld < o.Concurrency {
		warn("MaxHeld: is %d, below the Concurrency of %d: no more than %d handlers run at once", o.MaxHeld, o.Concurrency, o.MaxHeld)
	}
	if o.ClaimAhead > o.MaxHeld {
		warn("ClaimAhead: is %d, above the MaxHeld of %d: all that is held may be claimed, and a crash leaves all of it to be "+
			"taken over", o.ClaimAhead, o.MaxHeld)
	}
	n := o.Concurrency
	if o.MinConcurrency > 0 { // it comes down to the pool by itself
		n = o.MinConcurrency
	}
	if o.Limiter != nil {
		n = min(n, o.Limiter.n)
	}
	if conns > 0 && n > conns {
		warn("Concurrency: %d handlers run at once, and the pool that InTx uses has %d connections: the others wait for one. "+
			"Give it as many (pool_max_conns), or lower Concurrency", n, conns)
	}
	return all
}
