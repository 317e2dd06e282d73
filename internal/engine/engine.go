package engine

import (
	"context"
	"time"

	"github.com/ackledger/ackledger/consumer"
)

// API is what a worker uses of an engine; *Engine is the only implementation, the type is its table of contents.
type API interface {
	// Start joins the ledger and begins to work. It returns ledger.Unusable errors at once, keeps trying on others
	// until ctx is done, and is called once.
	Start(ctx context.Context) error
	// Offer hands items over. It never blocks and never refuses; the worker asks Room first. All items come back
	// through Sink.Finish.
	Offer(items []*Item)
	// Stretches says whether it pays now to offer stretches, of records that have an order or none. Whoever does so anyway,
	// offers what they are made of.
	Stretches(ordered bool) bool
	// OfferStretch is Offer for records that lie side by side. They come back through Sink.Finish, together or one by one.
	OfferStretch(s *Stretch)
	// Room says how many more items and bytes the engine wants; zero or less: stop polling. One large message does not count
	// (see Weight).
	Room() (items int, bytes int64)
	// Open says whether polling makes sense: joined, ledger reachable, not paused, not draining.
	Open() bool
	// Changed returns a channel that is closed when Room, Open or Load may have changed for the better since the call.
	Changed() <-chan struct{}
	// Load says what the engine is busy with.
	Load() Load
	// Live says whether this worker's lease holds, as far as it knows: visibility is extended only while it does.
	Live() bool
	// Drop takes back the items that match (a revoked partition, an expired handle). What was not started is released
	// and finished at once; what runs may go on for grace and is then cancelled with consumer.ErrRevoked. The channel is
	// closed when all that matched is finished and the sink has returned, also from calls that were under way. match is
	// called under the engine's lock: it must not call the engine.
	Drop(match func(*Item) bool, grace time.Duration) <-chan struct{}
	// Drain stops the start of handlers, releases what was not started, waits for the running ones up to Options.Drain
	// and finishes everything; in time, the sink has returned from all of it. It returns an error that names what still
	// ran. It is called once; ctx bounds it.
	Drain(ctx context.Context) error
	// Close leaves the ledger and ends all goroutines but those of deaf handlers.
	Close(ctx context.Context) error
	// Health, Pause and Resume are the worker's own.
	Health() consumer.Health
	Pause()
	Resume()
}

// Load is a snapshot of an engine's work, in items.
type Load struct {
	Held    int // everything in hand
	Running int // in a handler
	Queued  int // neither running nor waiting for a time: they want a slot
	Waiting int // busy elsewhere, in backoff, or for their dead letter
}

// Idle says how many handler slots nothing is queued for.
func (l Load) Idle(concurrency int) int { return max(concurrency-l.Running-l.Queued, 0) }
