package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/backoff"
	"github.com/ackledger/ackledger/ledger"
)

// refusals is the backoff between two tries of one message.
var refusals = backoff.Policy{Base: 200 * time.Millisecond, Max: 30 * time.Second}

// errNotBuried says that the ledger does not let a message be archived now.
var errNotBuried = errors.New("consumer: the ledger answers that somebody else has the message")

// grave is where messages go that were refused for good: the ledger's archive.
type grave struct {
	ledger ledger.Ledger
	keep   time.Duration
	cipher ledger.Cipher // nil: none
}

// bury archives a message that was refused for good, as one of its target's that failed: a replay sends it there. A message that is archived
// already, since the outbox was not told, is done.
func (g *grave) bury(ctx context.Context, q *ledger.Queued, source string, refused error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxCall)
	defer cancel()
	owner, err := g.ledger.Join(ctx, time.Minute)
	if err != nil {
		return err
	}
	defer func() { _ = owner.Leave(context.WithoutCancel(ctx)) }() // else its lease ends
	key := ledger.Key{Scope: ledger.OutboxScope(q.Target), ID: []byte(q.ID)}
	print := ledger.BodyFingerprint(q.Body)
	delivery := fmt.Appendf(nil, "outbox-%d", q.Num)
	claims, err := owner.Claim(ctx, []ledger.Entry{{Key: key, Fingerprint: print, Delivery: delivery, Window: g.keep}})
	if err != nil {
		return err
	}
	c := &claims[0]
	switch {
	case c.Err != nil:
		return c.Err
	case c.Answer == ledger.Done:
		return nil
	case c.Answer == ledger.Busy:
		return errNotBuried
	}
	kind, now := ledger.KindExhausted, time.Now()
	if consumer.IsTerminal(refused) {
		kind = ledger.KindTerminal
	}
	dead := &ledger.Archive{Key: key, Fingerprint: print, Delivery: delivery, Kind: kind, Body: q.Body, Headers: q.Headers, Source: source,
		Group: string(q.Key), Attempts: q.Tries + 1, SentAt: q.At, Keep: g.keep,
		Errors: []ledger.AttemptError{{Attempt: q.Tries + 1, Kind: ledger.KindError, Error: consumer.DeadLetterError(refused.Error(), q.Body), At: now}}}
	if dead, err = g.sealed(ctx, dead); err != nil {
		return err
	}
	answers, err := owner.Settle(ctx, []ledger.Settlement{{Ticket: c.Ticket, Kind: ledger.Fail, Dead: dead}})
	if err != nil {
		return err
	}
	return answers[0]
}

// sealed is an archive as it is stored.
func (g *grave) sealed(ctx context.Context, plain *ledger.Archive) (*ledger.Archive, error) {
	if g.cipher == nil {
		return plain, nil
	}
	dead := *plain
	answered := apart("Relay.Cipher", func() (*ledger.Archive, error) { return &dead, dead.Seal(ctx, g.cipher) })
	return outcomeOf(ctx, "Relay.Cipher", answered, endsIn)
}
