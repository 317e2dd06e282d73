package consumer

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/ackledger/ackledger/ledger"
)

// Delivery is what the context of a handler carries beside the ledger's attempt. The engine sets it.
type Delivery struct {
	Message    *Message
	ID         string               // for people
	Key        [ledger.KeySize]byte // the message's in the ledger: ledger.Key.Sum
	Token      uint64
	Generation int
}

type deliveryKey struct{}

// WithDelivery returns a context for a handler. It is for code that runs handlers: the engine, and tests.
func WithDelivery(ctx context.Context, d *Delivery) context.Context {
	return context.WithValue(ctx, deliveryKey{}, d)
}

// Value answers for a context that has the delivery's values.
func (d *Delivery) Value(key any) (any, bool) {
	if key == (deliveryKey{}) {
		return d, true
	}
	return nil, false
}

func deliveryFrom(ctx context.Context) *Delivery {
	d, _ := ctx.Value(deliveryKey{}).(*Delivery)
	return d
}

// MessageFrom returns the message that ctx's handler was called with; nil outside of a handler.
func MessageFrom(ctx context.Context) *Message {
	if d := deliveryFrom(ctx); d != nil {
		return d.Message
	}
	return nil
}

// Token returns the claim's fencing token, for a store of the user's that can refuse a token lower than one it has seen
// (Martin Kleppmann, "How to do distributed locking", 2016). It grows with every claim of the message. 0 outside of a
// handler.
func Token(ctx context.Context) uint64 {
	if d := deliveryFrom(ctx); d != nil {
		return d.Token
	}
	return 0
}

// ChildKey returns a key for one outside effect of the message, to pass on as that service's idempotency key: 64
// hexadecimal digits, the same on every attempt of the message and by every worker, different for every step and every
// message. What the ledger takes for one message has one key: all copies of it that a stamp or Options.KeyFunc makes known,
// but not a record of a Kafka topic that was deleted and created again under the id of an old one. It changes only if an
// operator asks for fresh effects. It is empty outside of a handler, and with the context of a batch: there it takes [For].
func ChildKey(ctx context.Context, step string) string {
	d := deliveryFrom(ctx)
	if d == nil {
		return ""
	}
	return DeriveChildKey(d.Key, step, d.Generation)
}

// DeriveChildKey is the function behind ChildKey: SHA-256 over the message's stored key ([ledger.Key.Sum], or that of a
// [ledger.Record]), the step and the generation, without the token. The first and the last part have fixed lengths, so that
// no two splits of one text meet.
func DeriveChildKey(key [ledger.KeySize]byte, step string, generation int) string {
	buf := make([]byte, 0, len(key)+len(step)+8)
	buf = append(append(buf, key[:]...), step...)
	buf = binary.BigEndian.AppendUint64(buf, uint64(generation))
	sum := sha256.Sum256(buf)
	return hex.EncodeToString(sum[:])
}

// SetResult sets bytes to keep in the ledger with the message's success, up to the ledger's limit (64 KiB by default; a
// longer result is cut, with a marker). The last call wins. It returns ledger.ErrNoAttempt outside of a handler, and
// ledger.ErrSettled after InTx has committed, or the handler has returned.
func SetResult(ctx context.Context, result []byte) error {
	if one, ok := ctx.Value(oneKey{}).(*oneOf); ok && one.attempt != nil {
		return one.attempt.SetResultAt(one.at, result)
	}
	a, ok := ledger.AttemptFrom(ctx)
	if !ok {
		return ledger.ErrNoAttempt
	}
	return a.SetResult(result)
}
