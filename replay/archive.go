package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/acts"
	"github.com/ackledger/ackledger/ledger"
)

var errSealed = errors.New("it is sealed by the workers' cipher, and Config.Filter.Cipher is not set")

// errAstray is of a record that would send its message to another queue or topic than the one that its consumer reads.
var errAstray = errors.New("the archive record names a source that is not that of its scope")

// errLeftOut is of a message that was larger than the ledger archives: without its body it is another message.
type errLeftOut struct {
	ledger.LeftOut
	delivery string
}

func (e *errLeftOut) Error() string {
	if e.Offsets != "" {
		return fmt.Sprintf("no message, but a batch of records that was passed: %s (offsets %s)", e.Where, e.Offsets)
	}
	return fmt.Sprintf("it was larger than the ledger archives: %s (%d bytes, SHA-256 %s, delivery %s)", e.Where, e.Bytes, e.SHA256, e.delivery)
}

// Archive is the ledger's own archive as a source: failed messages, and those that are pending and nobody's, such as what a
// killed replay in place left behind. Nothing is removed from it. What the workers' cipher has sealed (consumer.Options.Cipher)
// is refused, unless Config.Filter.Cipher opens it, and so is what was too large to be archived with its body (ledger.LeftOut).
func Archive(op ledger.Operator) Source { return &archive{op: op} }

// Renewals is the part of [Archive] that was renewed (Config.FreshKeys, Config.Mend) and has not run since: see [Renewed].
// For people who had a replay killed between a renewal and its send, and have moved the dead letters by hand since.
func Renewals(op ledger.Operator) Source { return &archive{op: op, renewed: true} }

// Renewed says that a dead letter was made another message on purpose (ledger.Renewal), and that no worker has claimed its
// copy since: the copy is on its way, or was never sent, because the replay was killed before. From then on the archive alone
// has what is to run: copies of the failure before it, such as the one in a dead-letter queue, are acknowledged and not run.
// A replay from the archive sends it, with the renewal's token, so that it runs once however often it is sent.
func Renewed(d *ledger.DeadLetter) bool {
	s := &d.Status
	if s.State != ledger.Failed || string(d.Delivery) != string(s.Delivery) || !d.Purged.IsZero() {
		return false
	}
	return d.Generation < s.Generation || string(d.Delivery) == string(acts.RenewedDelivery(d.Token))
}

type archive struct {
	op      ledger.Operator
	renewed bool // only these
}

func (a *archive) String() string {
	if a.renewed {
		return "the renewed messages in the ledger's archive"
	}
	return "the ledger's archive"
}
func (a *archive) Address(context.Context) (string, error) { return "", nil }
func (a *archive) Done(context.Context, []*Letter) error   { return nil }
func (a *archive) Keep([]*Letter)                          {}
func (a *archive) Removes() bool                           { return false }
func (a *archive) Warnings() []string                      { return nil }

// countFor is how long an archive is counted before its replay begins. A larger one has no estimate.
const countFor = 3 * time.Second

// Count implements Source. It lists the archive once, without bodies.
func (a *archive) Count(ctx context.Context, f *ledger.Filter) (n int64, err error) {
	if a.renewed {
		return -1, nil
	}
	bare := *f
	bare.Body, bare.Limit = false, 0
	limited, cancel := context.WithTimeout(ctx, countFor)
	defer cancel()
	for _, err := range a.op.DeadLetters(limited, bare) {
		if err != nil && limited.Err() != nil && ctx.Err() == nil {
			return -1, nil
		}
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

// Letters implements Source.
func (a *archive) Letters(ctx context.Context, f *ledger.Filter) iter.Seq2[*Letter, error] {
	return func(yield func(*Letter, error) bool) {
		whole := *f
		whole.Body, whole.Limit = true, 0
		list := a.op.DeadLetters(ctx, whole)
		if a.renewed {
			list = a.renewals(ctx, whole)
		}
		for d, err := range list {
			var l *Letter
			if err == nil {
				l, err = a.letter(ctx, &d)
			}
			if !yield(l, err) || err != nil {
				return
			}
		}
	}
}

// renewals lists what was renewed and has not run since. It is little of what failed: only its bodies are read.
func (a *archive) renewals(ctx context.Context, whole ledger.Filter) iter.Seq2[ledger.DeadLetter, error] {
	return func(yield func(ledger.DeadLetter, error) bool) {
		bare := whole
		bare.Body = false
		for d, err := range a.op.DeadLetters(ctx, bare) {
			if err == nil && !Renewed(&d) {
				continue
			}
			if err != nil {
				yield(d, err)
				return
			}
			one := whole
			one.Scope, one.IDs = d.Key.Scope, [][]byte{d.Key.ID}
			for again, err := range a.op.DeadLetters(ctx, one) {
				same := err != nil || again.Key.Sum() == d.Key.Sum() && bytes.Equal(again.Delivery, d.Delivery) && Renewed(&again)
				if same && (!yield(again, err) || err != nil) {
					return
				}
			}
		}
	}
}

// letter makes of an archived delivery what was delivered.
func (a *archive) letter(ctx context.Context, d *ledger.DeadLetter) (*Letter, error) {
	key, complete := completeKey(d.Key, d.Delivery, d.Headers)
	if !complete && d.Status.State != 0 && d.Status.State != ledger.Succeeded && !d.Superseded {
		var err error
		if key, err = a.complete(ctx, key); err != nil {
			return nil, err
		}
	}
	l := &Letter{
		Key: key, Identified: true, Archived: true, Superseded: d.Superseded, At: d.At, Errors: d.Errors, Token: d.Token,
		Fingerprint: d.Fingerprint,
	}
	if d.Sealed() {
		l.Unreadable = errSealed
	}
	if left, ok := d.LeftOut(); ok {
		l.Unreadable = &errLeftOut{left, string(d.Delivery)}
		d.UnmarkLeftOut()
	}
	l.Delivery, l.Kind, l.FailedAt = d.Delivery, d.Kind, d.At
	if n := len(d.Errors); n > 0 {
		l.Class, l.Error = d.Errors[n-1].Kind, d.Errors[n-1].Error
	}
	source, name, ok := ParseScope(d.Key.Scope)
	outbox := ledger.IsOutboxScope(d.Key.Scope) // it was never sent: its copy is for whoever consumes
	if l.Consumer = name; d.Source != "" && (!ok || d.Source != source) && !outbox {
		l.Unreadable = fmt.Errorf("%w: %.200q, and %.200q", errAstray, d.Source, d.Key.Scope)
	}
	emptyKey := d.UnmarkEmptyKey()
	m := &l.Message
	*m = consumer.Message{
		ID: string(d.Key.ID), Source: d.Source, Body: d.Body, Headers: d.Headers, SentAt: d.SentAt, Attempt: d.Attempts,
	}
	if isARN(d.Source) {
		m.Group = d.Group
		return l, nil
	}
	if emptyKey || d.Group != "" {
		m.Key = []byte(d.Group)
	}
	_, m.Topic = cutLast(d.Source, '/')
	m.Partition, m.Offset = placeOf(d.Key.ID)
	return l, nil
}

// complete looks for the position of a message among all its failed deliveries.
func (a *archive) complete(ctx context.Context, key ledger.Key) (ledger.Key, error) {
	rec, err := a.op.Get(ledger.WithoutBodies(ctx), key)
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return key, err
	}
	for i := range rec.Archived {
		if whole, ok := completeKey(key, rec.Archived[i].Delivery, rec.Archived[i].Headers); ok {
			return whole, nil
		}
	}
	return key, nil // it can be handled in place
}

// placeOf reads `topic-partition-offset`; zeros if the id is another one.
func placeOf(id []byte) (partition int32, offset int64) {
	rest, last := cutLast(string(id), '-')
	_, first := cutLast(rest, '-')
	o, err := strconv.ParseInt(last, 10, 64)
	p, bad := strconv.ParseInt(first, 10, 32)
	if err != nil || bad != nil {
		return 0, 0
	}
	return int32(p), o
}
