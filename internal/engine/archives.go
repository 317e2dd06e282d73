package engine

import (
	"context"
	"errors"
	"time"

	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/internal/marks"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
	"go.uber.org/zap"
)

// archives makes what is archived of messages that failed for good.
type archives struct {
	*kernel
	cfg *Config
}

// unrun makes the archive of a message that is not run: what the ledger answered says why.
func (a *archives) unrun(it *Item, answer *ledger.Claim) *ledger.Archive {
	kind, err := ledger.KindInvalid, it.Invalid
	switch answer.Answer {
	case ledger.Spent:
		kind, err = spentKind(answer)
	case ledger.Mismatch:
		kind, err = ledger.KindMismatch, errMismatch
	}
	return a.of(it, answer.Attempt, kind, ledger.AttemptError{Attempt: answer.Attempt, Kind: kind, Error: err.Error(), At: time.Now()})
}

// of makes the whole of a failed delivery.
func (a *archives) of(it *Item, attempt int, kind ledger.FailureKind, failure ledger.AttemptError) *ledger.Archive {
	it.complete()
	c := Content{Key: it.Msg.Key, Body: it.Msg.Body, Headers: it.Msg.Headers}
	if it.Original != nil {
		c = it.Original(it)
	}
	group := it.Msg.Group
	if group == "" && c.Key != nil {
		group = string(c.Key)
	}
	var earlier []ledger.AttemptError
	if it.errors != nil {
		earlier = *it.errors
	}
	dead := &ledger.Archive{
		Key: it.Key, Fingerprint: it.Fingerprint, Delivery: it.Delivery, Kind: kind,
		Errors: storage.AppendError(earlier, failure, a.cfg.Ledger.Limits().Errors),
		Body:   c.Body, Headers: c.Headers, Source: it.Msg.Source, Group: group, Attempts: attempt,
		SentAt: it.Msg.SentAt, Keep: a.cfg.Options.Keep,
	}
	if group == "" && c.Key != nil {
		marks.EmptyKey(dead)
	}
	return dead
}

// parked makes what the ledger has of a message meanwhile: the whole of it.
func (a *archives) parked(it *Item) *ledger.Archive {
	dead := a.of(it, it.Attempt(), "", ledger.AttemptError{})
	dead.Errors = nil
	return dead
}

// fit makes an archive fit the ledger, where that loses nothing. It hashes what it leaves out, so no lock is held.
func (a *archives) fit(s *flow.Settlement) {
	if s.Kind != ledger.Fail || !a.cfg.Retained {
		return
	}
	limit, whole := a.cfg.Ledger.Limits().Archive, s.More.Dead
	if s.More.Dead = marks.Excerpt(whole, limit); s.More.Dead != whole {
		a.tel.refused(1, refusedLarge)
		a.log.Error("message is larger than the ledger archives: it is archived without its body, which is in the log",
			zap.String("message_id", s.Item.Of.(*Item).Msg.ID), zap.Int("bytes", whole.Size()), zap.Int("limit", limit))
	}
}

// sealed seals an archive. What is too large only when it is sealed is sealed without its body, where that is to be had.
func (a *archives) sealed(ctx context.Context, plain ledger.Archive) (*ledger.Archive, error) {
	limit, sealed := a.cfg.Ledger.Limits().Archive, plain
	if err := sealed.Seal(ctx, a.cfg.Options.Cipher); err != nil || sealed.Size() <= limit || !a.cfg.Retained {
		return &sealed, err
	}
	a.tel.refused(1, refusedLarge)
	a.log.Error("message is larger than the ledger archives when it is sealed: it is archived without its body, which is in the log",
		zap.String("message_id", string(plain.Key.ID)), zap.Int("bytes", sealed.Size()), zap.Int("limit", limit))
	for before := &plain; ; {
		// Sealing adds a share: so much less is sealed next, down to the mark alone.
		excerpt := marks.Excerpt(&plain, int(int64(before.Size())*int64(limit)/int64(sealed.Size()))-1)
		sealed = *excerpt
		err := sealed.Seal(ctx, a.cfg.Options.Cipher)
		if err != nil || sealed.Size() <= limit || excerpt.Size() >= before.Size() {
			return &sealed, err
		}
		before = excerpt
	}
}

var errMismatch = errors.New("consumer: a message with this id and another body is known: this one is not run")
