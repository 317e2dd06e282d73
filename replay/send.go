package replay

import (
	"context"
	"errors"
	"fmt"

	"github.com/ackledger/ackledger/internal/marks"
	"github.com/ackledger/ackledger/ledger"
	"go.uber.org/zap"
)

// send brings letters to the target, with the audit first, and counts what became of them. It returns those that their
// source need not keep.
func (r *runner) send(ctx context.Context, letters []*Letter) (done []*Letter, err error) {
	ready, full := r.admit(letters)
	if full != nil {
		r.stop(full)
	}
	if r.c.DryRun {
		for _, l := range ready {
			r.count(l, &Result{Outcome: Sent})
		}
		return nil, nil
	}
	if len(ready) == 0 {
		return nil, nil
	}
	if err := r.pause(ctx, len(ready)); err != nil {
		r.unsent.Store(true)
		return nil, err
	}
	if ready, err = r.prepare(ctx, ready); len(ready) == 0 {
		return nil, err
	}
	for i, result := range r.dst.Send(ctx, ready) {
		l := ready[i]
		r.count(l, &result)
		switch {
		case result.settled():
			done = append(done, l)
		case result.Err != nil:
			r.block(l)
		default:
			l.decision = Decision{Step: Leave, Reason: result.Reason}
			r.waits(l)
		}
		if result.Outcome == Broken && result.Err == nil {
			result.Err = errors.New(string(broke))
		}
		if result.Err != nil {
			err = errors.Join(err, r.failed(fmt.Errorf("message %q: %w", l.Message.ID, result.Err)))
		}
	}
	return done, err
}

// admit says which letters may be sent: the target takes them, nothing before them in their lane has failed or is
// refused, and there are not more of them than asked for.
func (r *runner) admit(letters []*Letter) (ready []*Letter, full error) {
	for _, l := range letters {
		if l.decision.Step == Refuse {
			r.count(l, nil)
			r.block(l)
			continue
		}
		r.stamp(l)
		if err := r.accept(l); err != nil {
			l.decision, l.why = Decision{Step: Refuse, Reason: unsendable}, err
			r.count(l, nil)
			if l.ordered() {
				r.block(l)
			}
			continue
		}
		r.mu.Lock()
		waits, over := r.blocked[line{l.lane, l.Consumer}] || r.blocked[line{lane: l.lane}], r.reserved == r.c.limit()
		if !waits && !over {
			r.reserved++
		}
		r.mu.Unlock()
		switch {
		case waits:
			l.decision = Decision{Step: Leave, Reason: Behind}
			r.count(l, nil)
		case over:
			return ready, errLimit
		default:
			ready = append(ready, l)
		}
	}
	return ready, nil
}

// accept asks the target whether it takes a letter: with its new body, before the ledger is told of that.
func (r *runner) accept(l *Letter) error {
	if !r.c.Mend {
		return r.dst.Accept(l)
	}
	mended := *l
	mended.Message.Body, mended.Fingerprint = r.c.Body, ledger.BodyFingerprint(r.c.Body)
	r.stamp(&mended)
	return r.dst.Accept(&mended)
}

// prepare renews what is to be renewed, and writes the audit. With an error some may be ready all the same: what is renewed
// is to be sent.
func (r *runner) prepare(ctx context.Context, letters []*Letter) (ready []*Letter, err error) {
	ready = letters
	if r.c.FreshKeys || r.c.Mend {
		ready, err = r.renew(ctx, letters)
	}
	records := make([]ledger.AuditRecord, 0, len(ready))
	for _, l := range ready {
		action := ledger.ActionReplay
		if l.own {
			action = ledger.ActionSend
		}
		delivery := l.Delivery
		if !l.Archived && l.status.State == ledger.Failed {
			delivery = l.status.Delivery
		}
		records = append(records, ledger.AuditRecord{
			By: r.c.By, Action: action, Key: l.Key, State: l.status.State, Token: l.status.Token, Delivery: delivery, Detail: r.detail(l),
		})
	}
	if len(records) == 0 {
		return nil, err
	}
	ctx, cancel := toTheEnd(ctx)
	defer cancel()
	if gone := r.op.Audit(ctx, records); gone != nil {
		return nil, errors.Join(err, fmt.Errorf("replay: write the audit of %d messages: %w", len(records), gone))
	}
	return ready, err
}

// renew makes failed messages others on purpose, one by one: with an error, or when the run is cancelled, some are done.
func (r *runner) renew(ctx context.Context, letters []*Letter) (ready []*Letter, err error) {
	for _, l := range letters {
		if ctx.Err() != nil {
			r.unsent.Store(true)
			return ready, nil
		}
		renewal := ledger.Renewal{Key: l.Key, Token: l.status.Token, By: r.c.By}
		if r.c.Mend {
			if err := r.mend(ctx, l, &renewal); err != nil {
				return ready, err
			}
		}
		call, cancel := toTheEnd(ctx)
		renewed, err := r.op.Renew(call, renewal)
		cancel()
		if errors.Is(err, ledger.ErrChanged) {
			l.decision = Decision{Step: Leave, Reason: changed}
			r.count(l, nil)
			continue
		}
		if err != nil {
			return ready, fmt.Errorf("replay: renew %v: %w", l.Key, err)
		}
		l.decision.Token, l.status.Token, l.Delivery, l.Token = renewed.Token, renewed.Token, renewed.Delivery, renewed.Token
		l.status.Delivery = renewed.Delivery
		r.stamp(l)
		ready = append(ready, l)
	}
	return ready, nil
}

// mend gives a letter its new body. What is stored of it is sealed if what failed is.
func (r *runner) mend(ctx context.Context, l *Letter, renewal *ledger.Renewal) error {
	l.Message.Body, l.Fingerprint = r.c.Body, ledger.BodyFingerprint(r.c.Body)
	renewal.Mended, renewal.Body, renewal.Fingerprint = true, r.c.Body, l.Fingerprint
	if r.c.Filter.Cipher == nil {
		return nil
	}
	rec, err := r.get(ctx, l.Key)
	if err != nil {
		return err
	}
	for i := range rec.Archived {
		a := &rec.Archived[i].Archive
		if string(a.Delivery) != string(l.status.Delivery) || !a.Sealed() {
			continue
		}
		whole := ledger.Archive{Key: l.Key, Body: r.c.Body, Headers: l.Message.Headers}
		if l.Message.Key != nil && len(l.Message.Key) == 0 {
			marks.EmptyKey(&whole)
		}
		if err := whole.Seal(ctx, r.c.Filter.Cipher); err != nil {
			return err
		}
		renewal.Body = whole.Body
	}
	return nil
}

// waits keeps what comes behind a letter that is left from overtaking it, where no queue keeps the order: in place.
func (r *runner) waits(l *Letter) {
	if _, ok := r.dst.(*inPlace); ok && l.decision.Step == Leave && l.decision.Reason != Unproved {
		r.block(l)
	}
}

// line is what one consumer has in a lane: its order is its own. Of what names none, the line is everybody's.
type line struct{ lane, consumer string }

// block keeps what comes behind a letter in its lane from overtaking it.
func (r *runner) block(l *Letter) {
	if l.lane == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.blocked[line{l.lane, l.Consumer}] = true
}

// failed counts an error, and returns one that ends the run if there were too many.
func (r *runner) failed(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.c.Logger.Warn("not replayed", zap.Error(err))
	if r.errors++; r.errors < r.c.StopAfter {
		return nil
	}
	return fmt.Errorf("%w: after %d errors, the last: %w", ErrStopped, r.errors, err)
}
