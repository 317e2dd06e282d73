package engine

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
)

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
	// Shown is what the worker knows of itself, and the engine does not.
	Shown Shown
	// HoldMax is the longest wait for which an item is held; with a longer one it is let go of, with Verdict.Again. Zero:
	// no limit, everything is held. Negative: what is released is let go of, even if it is due at once.
	HoldMax time.Duration
	// AskMax is the longest time after which a busy message is asked for again. Zero: as long as the reason lasts, 10 s at most.
	AskMax time.Duration
	// Told says that who offers an item is told by Heard of a mismatch, which then is the end of it: nothing is archived.
	Told bool
	// Heard is told what the ledger has answered of an item, before anything follows from it, by the goroutine that asked: it must not
	// block. Nil: nobody wants to know.
	Heard func(*Item, *ledger.Claim)
	// Failed is told of each message that a handler has left without a success, before anything follows from it, by the handler's
	// goroutine: it must not block. What is run again at once, or asked for again, has not failed yet. Nil: nobody wants to know.
	Failed func(*Item)
	// Suspects limits how many suspects run at once: messages whose claims ended in crashes before. Nil: the process' one
	// place, shared by all workers in it. For tests that play several processes.
	Suspects *consumer.Limiter
}

// Shown is what a worker shows of itself, in metrics and in the reports that its beats take along. Its functions must not block.
type Shown struct {
	Health func() consumer.Health // it knows more than the engine's. Nil: the engine's
	// Scopes are the worker's, as far as they are known before it has read anything: it heeds pauses of them, and of those of what comes.
	Scopes []string
	// Heedless says that it heeds no pauses: it cannot wait.
	Heedless bool
	// Revive makes what a handler is shown of a message that was parked in the ledger. Its bytes may be those of what was parked. Nil:
	// nothing is parked.
	Revive func(*ledger.Parked) *consumer.Message
	// Pins says whether what is unfinished holds up so much of an item's source that a retry of a second is parked already. Nil: it never
	// does.
	Pins func(*Item) bool
	Lag  func() []ledger.Lag // what it is behind, the largest first. Nil: nobody knows
}

// Sink is the worker's side of an engine.
type Sink interface {
	// Finish is called exactly once for every offered item, in batches, from any goroutine and never under a lock of the
	// engine's. It must not block for long, and must not keep the slice. After Drain's time is up it is called for what still runs too, with a zero
	// verdict, and a handler that ends later changes only the ledger.
	Finish(done []Finished)
}

// Finished is an item that the engine lets go of, or the first N records of a stretch.
type Finished struct {
	Item    *Item // nil: see Stretch
	Stretch *Stretch
	N       int
	Verdict Verdict
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
