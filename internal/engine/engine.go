package engine

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
)

// Item is one delivery in a worker's hands. The worker fills in the exported fields and does not touch them after
// Offer; an item is offered once.
type Item struct {
	// Msg is what the handler gets.
	Msg *consumer.Message
	// Identity is whose message this is; see Config.Identify.
	Identity
	// Delivery is the id of this broker copy (ledger.Entry.Delivery).
	Delivery []byte
	// Late says Fingerprint and Delivery, if they are left out (ledger.Entry.Late); nil: they are there.
	Late ledger.Late
	// Lane orders items: those of one lane run one at a time, in the order in which they were offered. Empty: no order.
	Lane string
	// Log is the ledger.Position.Log of the log in which the message lies, for its order among stretches; empty: that of
	// its key, which is another where it carries a stamp.
	Log string
	// Size is how many bytes of memory the message takes as long as it is in hand, for Options.MaxHeldBytes. Zero: its
	// body's length.
	Size int64
	// Window is how long the ledger keeps the message's row; zero: Options.Window.
	Window time.Duration
	// Deadline is when the broker forgets the message, less a margin; zero: never, or not known.
	Deadline time.Time
	// Original returns what the broker delivered, for the archive and for a next attempt: whatever a handler did to Msg.
	// Nil: Msg is taken for it.
	Original func(*Item) Content
	// Alive is asked right before the handler starts, without a lock: false means that the broker has taken the message
	// back (an expired handle, after a pause of the process), and the item is dropped. Nil: always alive.
	Alive func(*Item) bool
	// Ref is the worker's own.
	Ref any

	task
}

// Content is what a broker delivered of a message. It is not changed.
type Content struct {
	Key, Body []byte
	Headers   []ledger.Header
}

// Verdict says what becomes of a message at its broker when the engine lets go of it. The zero value keeps it: it is
// never acknowledged by mistake.
type Verdict struct {
	// Ack says that the ledger is terminal for the message: delete or commit it.
	Ack bool
	// Again is, without Ack, in how long it makes sense to deliver the message again; zero: at once, or not known.
	Again time.Duration
	// Held says, without Ack, that the message may still be in a handler or owned: it should not be delivered again
	// before the broker does so by itself.
	Held bool
}

// Finished is an item that the engine lets go of, or the first N records of a stretch.
type Finished struct {
	Item    *Item // nil: see Stretch
	Stretch *Stretch
	N       int
	Verdict Verdict
}

// sample is the item, or one like those of the stretch.
func (f *Finished) sample() *Item {
	if f.Item != nil {
		return f.Item
	}
	return f.Stretch.Records.Items(0, 1, nil)[0]
}

// Sink is the worker's side of an engine.
type Sink interface {
	// Finish is called exactly once for every offered item, in batches, from any goroutine and never under a lock of the
	// engine's. It must not block for long, and must not keep the slice. After Drain's time is up it is called for what still runs too, with a zero
	// verdict, and a handler that ends later changes only the ledger.
	Finish(done []Finished)
}

// Config is what an engine is built of. Options have their defaults filled in.
type Config struct {
	Options consumer.Options
	Ledger  ledger.Ledger
	Handler consumer.Handler
	Sink    Sink
	// System is "sqs" or "kafka", for telemetry. Source is as in consumer.Message, for logs.
	System, Source string
	// Group is the only consumer group that is to handle a copy of a message that failed here: Kafka's; else empty.
	Group string
	// Retained says that the broker keeps messages that are acknowledged, as a log does. There a message that is too large for
	// the ledger's archive is archived without its body; elsewhere it is kept, and never acknowledged.
	Retained bool
	// Health is the worker's, for metrics: it knows more than the engine. Nil: the engine's.
	Health func() consumer.Health
	// HoldMax is the longest wait for which an item is held; with a longer one it is let go of, with Verdict.Again. Zero:
	// no limit, everything is held.
	HoldMax time.Duration
	// Suspects limits how many suspects run at once: messages whose claims ended in crashes before. Nil: the process' one
	// place, shared by all workers in it. For tests that play several processes.
	Suspects *consumer.Limiter
}

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

// CheckHandler refuses a handler that is nil, and a batch handler whose size is out of bounds.
func CheckHandler(h consumer.Handler) error {
	if IsNil(h) {
		return errors.New("the handler must not be nil")
	}
	if b, ok := h.(consumer.BatchHandler); ok {
		if n := b.BatchSize(); n < 1 || n > consumer.MaxBatch {
			return fmt.Errorf("the handler's BatchSize must be 1 to %d, is %d", consumer.MaxBatch, n)
		}
	}
	return nil
}

// IsNil also finds a nil pointer or function in an interface: what a constructor returns beside an error that nobody
// looked at.
func IsNil(v any) bool {
	if v == nil {
		return true
	}
	r := reflect.ValueOf(v)
	return (r.Kind() == reflect.Pointer || r.Kind() == reflect.Func) && r.IsNil()
}
