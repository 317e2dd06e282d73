package consumer

import (
	"context"
	"fmt"
	"sync"

	"github.com/ackledger/ackledger/ledger"
)

// MaxBatch is the largest size of a batch, in messages.
const MaxBatch = 10_000

// BatchHandler does the work of many messages in one call, for work that is cheaper in bulk: one multi-row insert, one
// request to an API that takes lists. [Batch] makes one of a function.
//
// A worker calls HandleBatch with what is ready at that moment, 1 to BatchSize messages in no particular order, and never
// waits for a batch to fill. Of messages that have an order (a FIFO group, a Kafka key or partition) at most one of each
// is in a batch.
//
// The errors are in the order of the messages, each with the meaning that it has for [Handler]; nil instead of the slice
// means that all succeeded. What spoils the whole batch (a panic, runtime.Goexit, the time limit, a slice of another
// length, a transaction that failed) counts for none of its messages: each is handled again at once, in a batch of its
// own, so that one bad message costs its neighbours no attempt.
//
// postgres.InTx, postgres.InSQLTx, sqlite.InTx, dynamodb.InTx and memory.InTx commit the effects and the success of all messages
// of the batch in one transaction: the errors returned after it are logged and change nothing, so a message that is to fail must
// fail the transaction. Its context is the batch's: [For] returns that of one message, for [ChildKey], [Token] and
// [SetResult]. A transaction of DynamoDB has 100 items, the messages' rows among them: that bounds BatchSize.
//
// A batch counts once against Options.Concurrency, Options.Limiter and Options.Rate, and has one Options.HandlerTimeout.
//
// BatchSize is asked when the worker is built, and must not change: 1 to [MaxBatch], or the worker is refused.
type BatchHandler interface {
	Handler
	HandleBatch(ctx context.Context, batch []*Message) []error
	BatchSize() int
}

// Batch returns a handler that gets up to size messages at once, 1 to [MaxBatch]; workers refuse another size, by name. For
// a nil f it is nil, which they refuse as well. Middleware around it sees single messages: it makes the handler a plain one again.
func Batch(size int, f func(ctx context.Context, batch []*Message) []error) Handler {
	if f == nil {
		return nil
	}
	return &batchHandler{size: size, f: f}
}

type batchHandler struct {
	size int
	f    func(context.Context, []*Message) []error
}

func (b *batchHandler) BatchSize() int { return b.size }

func (b *batchHandler) HandleBatch(ctx context.Context, batch []*Message) []error {
	return b.f(ctx, batch)
}

// Handle is for code that knows single messages only.
func (b *batchHandler) Handle(ctx context.Context, m *Message) error {
	errs := b.f(ctx, []*Message{m})
	switch {
	case errs == nil:
		return nil
	case len(errs) != 1:
		return BatchLengthError{Messages: 1, Errors: len(errs)}
	}
	return errs[0]
}

// BatchLengthError says that a batch handler returned another number of errors than it was given messages.
type BatchLengthError struct{ Messages, Errors int }

// Error names both numbers.
func (e BatchLengthError) Error() string {
	return fmt.Sprintf("consumer: HandleBatch: must return nil or one error for each of %d messages, returned %d", e.Messages, e.Errors)
}

// BatchDelivery is what the context of a batch handler carries. The engine sets it.
type BatchDelivery struct {
	Deliveries []Delivery // in the order of the messages

	once  sync.Once
	index map[*Message]int
}

type batchKey struct{}

// Value answers for a context that has the batch's values.
func (b *BatchDelivery) Value(key any) (any, bool) {
	if key == (batchKey{}) {
		return b, true
	}
	return nil, false
}

func (b *BatchDelivery) find(m *Message) (int, bool) {
	b.once.Do(func() {
		b.index = make(map[*Message]int, len(b.Deliveries))
		for i := range b.Deliveries {
			b.index[b.Deliveries[i].Message] = i
		}
	})
	i, ok := b.index[m]
	return i, ok
}

// For returns the context of one message of the batch that ctx belongs to, for [ChildKey], [Token], [SetResult] and
// [MessageFrom]. A message of no batch, and one of another, gets ctx back. Transactions belong to the whole batch: InTx
// is called with the batch's context, and answers ledger.ErrNoAttempt to that of one message.
func For(ctx context.Context, m *Message) context.Context {
	b, _ := ctx.Value(batchKey{}).(*BatchDelivery)
	if b == nil {
		return ctx
	}
	i, ok := b.find(m)
	if !ok {
		return ctx
	}
	o := &oneOf{Context: ctx, batch: b, at: i}
	if other, ok := ctx.Value(oneKey{}).(*oneOf); ok { // from one message to another, or to itself
		o.attempt = other.attempt
	} else {
		o.attempt, _ = ledger.AttemptFrom(ctx)
	}
	return o
}

// oneOf is the context of one message of a batch.
type oneOf struct {
	context.Context
	batch   *BatchDelivery
	at      int
	attempt *ledger.Attempt // the batch's; nil: there is none
}

// String keeps the messages out of what is printed of a context.
func (o *oneOf) String() string { return "ackledger handler of " + o.batch.Deliveries[o.at].ID }

func (o *oneOf) Value(key any) any {
	if key == (oneKey{}) {
		return o
	}
	if v, ok := o.batch.Deliveries[o.at].Value(key); ok {
		return v
	}
	if _, ok := ledger.AttemptValue(key, nil); ok {
		return nil
	}
	return o.Context.Value(key)
}

type oneKey struct{}
