package ledger

import (
	"context"
	"time"
)

// Board is a ledger on which workers say how they do, and operators tell them to pause. The stores of this module are. All methods
// may be called concurrently, by any number of processes; times are of the database's clock.
type Board interface {
	// Workers returns what the workers of live owners said last, and of those that died or left within about [OwnerRest]; at most
	// [MaxWorkers], live ones first. The order says nothing else. A worker that reports nothing is there with its owner alone.
	Workers(ctx context.Context) ([]WorkerStatus, error)

	// Pause makes the workers of a scope start nothing, within a beat of each, until [Board.Resume]: what runs goes on to its end,
	// what is claimed and not begun is given back, nothing is polled. A worker of several scopes pauses as a whole if one of them is
	// paused. The scope "" is all workers. Pausing what is paused changes who says so, and why, but not since when. It is audited as
	// [ActionPause] under the key of the scope alone, without an id. What cannot be stored is an [*InvalidError] ([MaxScope],
	// [MaxPauseReason], [MaxPauses]).
	Pause(ctx context.Context, scope string, by By) error

	// Resume ends a pause, and says whether there was one. The scope "" ends the pause of all, and no other. If there was one, it is
	// audited as [ActionResume], as Pause is.
	Resume(ctx context.Context, scope string, by By) (bool, error)

	// Pauses returns the pauses that hold, sorted by scope.
	Pauses(ctx context.Context) ([]Pause, error)
}

// Boarded is an owner whose beats take along what its worker says, and bring what operators say: no call more than without. The
// owners of this module's stores are. Both methods may be called concurrently, and neither asks the ledger.
type Boarded interface {
	// Report sets what the next beats write. What does not fit into [MaxReport] bytes is cut, the lists first.
	Report(r WorkerReport)
	// Pauses are those that held when the owner joined, or at the last beat that brought them. While the ledger does not answer they
	// stay as they were. The slice is not changed.
	Pauses() []Pause
}

// BoardedOf finds the Boarded of an owner, beneath whatever wraps it; nil: it has none.
func BoardedOf(o Owner) Boarded {
	for {
		if b, ok := o.(Boarded); ok {
			return b
		}
		g, ok := o.(interface{ Unwrap() Owner })
		if !ok {
			return nil
		}
		o = g.Unwrap()
	}
}

// Bounds of a [Board].
const (
	MaxReport      = 2 << 10 // bytes of a report, encoded
	MaxWorkers     = 1000    // that Workers returns
	MaxPauses      = 100     // that hold at once: one more is refused
	MaxPauseReason = 512     // bytes of the reason of a pause: each beat brings it to each worker
)

// Pause is a scope whose workers start nothing.
type Pause struct {
	Scope string    `json:"scope"` // empty: all
	By    By        `json:"by"`    // who said so last
	Since time.Time `json:"since"` // by the database's clock
}

// WorkerReport is what a worker says of itself, with each beat. Counts are since it started. A worker's role may write what it
// likes, so texts are not to be trusted.
type WorkerReport struct {
	Scope   string    `json:"scope"`            // empty: the worker knows it by its messages alone
	Scopes  []string  `json:"scopes,omitempty"` // all of them, of a worker of several; Scope is the first
	Host    string    `json:"host"`             // as the operating system names it
	PID     int       `json:"pid"`              // of the process
	Version string    `json:"version"`          // of the program, if the build says it
	Started time.Time `json:"started"`          // by the worker's clock

	Held    int           `json:"held"`    // messages in hand
	Running int           `json:"running"` // of these, in a handler
	Waiting int           `json:"waiting"` // of these, for a retry, or for another worker's end
	Oldest  time.Duration `json:"oldest"`  // for how long the longest of the running handlers runs

	Succeeded  int64 `json:"succeeded"`
	Failed     int64 `json:"failed"` // for good
	Retried    int64 `json:"retried"`
	Duplicates int64 `json:"duplicates"`

	Alive    bool     `json:"alive"` // as in consumer.Health, like the next five
	Ready    bool     `json:"ready"`
	Paused   string   `json:"paused,omitempty"` // why nothing starts, as consumer.Stall says it: an operator, breaker, budget; empty: it does
	Stalled  []string `json:"stalled,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	Error    string   `json:"error,omitempty"`

	Lag []Lag `json:"lag,omitempty"` // the largest first
}

// Lag is how far a worker is behind one queue or partition of its own.
type Lag struct {
	Source  string `json:"source"`  // the queue's name, or topic-partition
	Waiting int64  `json:"waiting"` // messages, as the broker said last; of a queue an approximation
}

// WorkerStatus is a worker as the ledger sees it.
type WorkerStatus struct {
	Owner  string        // [Owner.ID]
	Fate   Holder        // Live, Left or Dead
	Lease  time.Duration // of a live one: what is left of its lease; zero or less: overdue
	Report WorkerReport  // as of the last beat; zero Started: it reports nothing
}

// PausedBy returns the pause that holds for a scope: its own, or that of all.
func PausedBy(pauses []Pause, scope string) (Pause, bool) {
	for _, p := range pauses {
		if p.Scope == "" || p.Scope == scope {
			return p, true
		}
	}
	return Pause{}, false
}
