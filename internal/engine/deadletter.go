package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/backoff"
	"github.com/ackledger/ackledger/internal/killpoint"
	"github.com/ackledger/ackledger/ledger"
	"go.uber.org/zap"
)

// Between a message's failure and its settlement stands the publishing of its dead letter: the item is in phase settling
// meanwhile, so it is ours, holds its lane, and is let go of like any other that is being settled. Publishers are
// goroutines of their own, so that a target that is away takes no handler's place; only a suspect is published in its own
// place, since publishing, too, may kill the process.
//
// A mismatch is archived first, marked unsent, and published then: it has no row in which its crashes could be counted. So
// if publishing it kills the process, it is known when it comes again, and acknowledged; else it would kill for ever, and
// take innocents to their crash limit.
//
// Published or not, any other failure is settled then, with the archive. So all that publishing can do to a message is to delay
// its settlement, by a bounded time.

// publishers is how many dead letters of one worker are published at once, at most.
const publishers = 16

// publishing is the backoff between two tries.
var publishing = backoff.Policy{Base: 200 * time.Millisecond, Max: 5 * time.Second}

var (
	errTarget  = errors.New("consumer: calls of the dead-letter target have not returned in time, and still run")
	errPast    = errors.New("consumer: the broker is about to forget the message")
	errLethal  = errors.New("consumer: the message's process crashed at its dead letter too")
	errLeftOut = errors.New("consumer: what failed was never read: there is nothing to publish")
	errDrained = errors.New("consumer: the worker shuts down")
)

// letters is what an engine keeps of dead letters.
type letters struct {
	target consumer.DeadLetterer // nil: there is none
	calls  chan struct{}         // a place for each call of the target that has not returned
	ctx    context.Context       // ends when nothing is published any more: the drain's time is nearly over
	end    context.CancelFunc

	// Guarded by the engine's lock.
	waiting fifo[settlement]
	held    int  // waiting, or being published
	away    bool // the last message's tries were all in vain
}

func (e *Engine) newLetters() {
	e.letters.target, e.letters.calls = e.opt.DeadLetter, make(chan struct{}, publishers)
	e.letters.ctx, e.letters.end = context.WithCancel(e.gone)
}

// forwards says whether something is to be done to a failure before it is settled.
func (e *Engine) forwards() bool { return e.letters.target != nil || e.opt.Cipher != nil }

// forward puts a failure on its way: to its publisher, if there is one.
func (e *Engine) forward(s settlement) {
	if s.item.ticket.IsMismatch() && e.letters.target != nil {
		whole := *s.more.Dead
		s.whole = &whole
	}
	if !e.forwards() || s.whole != nil && e.opt.Cipher == nil {
		e.settleQ.push(s)
		return
	}
	e.letters.held++
	e.s.eased = true // its handler's place is free: the worker may poll for it
	if s.item.placed {
		s.item.extra().letter = &s
		return
	}
	e.letters.waiting.push(s)
}

// publishLoop publishes one dead letter after the other.
func (e *Engine) publishLoop() {
	for {
		e.mu.Lock()
		for !e.closed && e.letters.waiting.len() == 0 {
			e.toPublish.Wait()
		}
		if e.closed {
			e.mu.Unlock()
			return
		}
		s := e.letters.waiting.pop()
		e.unlock()
		e.publish(&s)
	}
}

// publishFiled has a mismatch published that is archived.
func (e *Engine) publishFiled(s *settlement) {
	next, more := *s, *s.more
	more.Dead = s.whole
	next.more, next.filed = &more, true
	e.letters.held++
	e.letters.waiting.push(next)
}

// publish publishes the dead letter of a failure, if there is a target, and hands the settlement on, whatever came of it.
// What cannot be sealed is not archived, so it is kept.
func (e *Engine) publish(s *settlement) {
	if e.letters.target != nil && (s.whole == nil || s.filed) && !s.tried {
		e.publishLetter(s)
		s.tried = true
	}
	if s.filed {
		e.mu.Lock()
		e.letters.held--
		e.finish(s.item, Verdict{Ack: true})
		e.unlock()
		return
	}
	err := e.seal(s)
	e.mu.Lock()
	e.letters.held--
	switch {
	case err == nil:
		e.settleQ.push(*s)
	case s.item.phase == settling:
		e.refused(s, err, true)
	}
	e.unlock()
}

// seal has the user's cipher make what is archived unreadable.
func (e *Engine) seal(s *settlement) error {
	if e.opt.Cipher == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(e.gone, e.opt.DeadLetterTimeout)
	defer cancel()
	e.fit(s)
	plain := *s.more.Dead
	answered := apart("Options.Cipher", func() (*ledger.Archive, error) {
		return e.sealed(ctx, plain)
	})
	sealed, err := outcomeOf(ctx, "Options.Cipher", answered)
	if err != nil {
		return err
	}
	s.more.Dead = sealed
	return nil
}

// publishLetter tries to publish the dead letter of a failure, and notes whether it is.
func (e *Engine) publishLetter(s *settlement) {
	tries, err := e.tryAll(s)
	killpoint.At(killpoint.Published)
	s.more.Dead.Sent = err == nil
	e.mu.Lock()
	was := e.letters.away
	if err == nil || tries == e.opt.DeadLetterTries && !consumer.IsTerminal(err) {
		e.letters.away = err != nil
	}
	is := e.letters.away
	e.unlock()
	if ledger.IsLost(err) {
		return // the settlement is told the same, and the message is asked for again
	}
	e.tel.published(1, err == nil)
	if err != nil {
		e.log.Error("dead letter not published: the archive alone has the message", zap.String("message_id", s.item.Msg.ID),
			zap.String("kind", string(s.more.Dead.Kind)), zap.Int("tries", tries), zap.Error(err))
	}
	switch {
	case is && !was:
		e.log.Warn("the dead-letter target is away: each message is tried once")
	case was && !is:
		e.log.Info("dead letters are published again")
	}
}

// tryAll tries until the dead letter is published, and returns how often it did.
func (e *Engine) tryAll(s *settlement) (tries int, err error) {
	if s.item.crashes > ledger.CrashLimit {
		return 0, errLethal
	}
	if _, leftOut := s.more.Dead.LeftOut(); leftOut { // without its body a copy is another message
		return 0, errLeftOut
	}
	ctx, cancel := e.letterTime(s)
	defer cancel()
	d := e.deadLetter(s)
	for {
		switch most, lost := e.mostTries(s); {
		case lost:
			return tries, ledger.ErrLost
		case ctx.Err() != nil:
			return tries, errors.Join(err, context.Cause(ctx))
		case tries >= most:
			return tries, err
		}
		tries++
		if err = e.try(ctx, d); err == nil || consumer.IsTerminal(err) {
			return tries, err
		}
		if most, _ := e.mostTries(s); tries < most {
			rest(ctx, s.sess.ended, publishing.Ceiling(tries)/2+publishing.Delay(tries, rand.Float64())/2)
		}
	}
}

// mostTries says how often a dead letter is tried: once while the target is away and during a drain. Whose message it is
// not any more publishes nothing.
func (e *Engine) mostTries(s *settlement) (most int, lost bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.letters.away || e.draining {
		return 1, s.sess.lost
	}
	return e.opt.DeadLetterTries, s.sess.lost
}

// letterTime is the time in which a dead letter may be published: until the drain needs the rest of its own, and until
// the broker forgets the message.
func (e *Engine) letterTime(s *settlement) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(e.base))
	stop := context.AfterFunc(e.letters.ctx, func() { cancel(errDrained) })
	until, end := context.Context(ctx), context.CancelFunc(func() {})
	if it := s.item; !it.Deadline.IsZero() && !it.overdue {
		until, end = context.WithDeadlineCause(ctx, it.Deadline, errPast)
	}
	return until, func() { end(); stop(); cancel(nil) }
}

// rest waits for d, less if ctx or the session ends.
func rest(ctx context.Context, ended <-chan struct{}, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ended:
	case <-ctx.Done():
	}
}

// try calls the target once. A call that does not end with its context is left behind; it keeps its place among the
// calls, so that there are never more than publishers of them.
func (e *Engine) try(ctx context.Context, d *consumer.DeadLetter) error {
	ctx, cancel := context.WithTimeout(ctx, e.opt.DeadLetterTimeout)
	defer cancel()
	select {
	case e.letters.calls <- struct{}{}:
	case <-ctx.Done():
		return errTarget
	}
	answered := apart("Options.DeadLetter", func() (struct{}, error) {
		defer func() { <-e.letters.calls }()
		return struct{}{}, readable(e.letters.target.Publish(ctx, d))
	})
	_, err := outcomeOf(ctx, "Options.DeadLetter", answered)
	return err
}

// deadLetter is what is published of a failure.
func (e *Engine) deadLetter(s *settlement) *consumer.DeadLetter {
	it, dead := s.item, *s.more.Dead
	dead.UnmarkEmptyKey() // the letter has the key itself
	m := *it.Msg
	m.ID, m.Source, m.Body, m.Headers, m.Attempt = string(it.Key.ID), dead.Source, dead.Body, dead.Headers, it.attempt
	if m.Key != nil && it.Original != nil {
		m.Key = it.Original(it).Key
	}
	d := &consumer.DeadLetter{Message: m, Delivery: dead.Delivery, Kind: dead.Kind, Consumer: e.opt.Name}
	if n := len(dead.Errors); n > 0 {
		last := &dead.Errors[n-1]
		d.Class, d.Error, d.FailedAt = last.Kind, consumer.DeadLetterError(last.Error, dead.Body), last.At.Truncate(time.Millisecond)
	}
	if it.ticket.IsMismatch() {
		// It is no copy of the message that has its id: whoever sends it again must not pretend that it is.
		d.Message.Headers = slices.DeleteFunc(slices.Clone(m.Headers), func(h ledger.Header) bool { return h.Name == consumer.StampName })
		return d
	}
	stamp := consumer.Stamp{
		Source: dead.Source, ID: m.ID, Pos: it.Key.Pos, Fingerprint: it.Fingerprint, Token: it.ticket.Token(), Group: e.cfg.Group,
	}.Sign(e.opt.Stamps.Keys...)
	d.Stamp = &stamp
	return d
}

// targetTries is how often a target is asked how long it keeps dead letters: the worker starts without an answer, too, and
// does so for as long as it runs.
const targetTries = 3

// TargetRetention asks how long dead letters are kept where they go; zero: there is no such place, or it is not known. What
// is kept for longer than half of the longest window counts as kept for ever.
func TargetRetention(ctx context.Context, o *consumer.Options) (keeps time.Duration, err error) {
	target, ok := o.DeadLetter.(consumer.Retainer)
	if !ok {
		return 0, nil
	}
	for n := 1; ; n++ {
		asked, cancel := context.WithTimeout(ctx, o.DeadLetterTimeout)
		err = guard("Options.DeadLetter", func() (err error) { keeps, err = target.Retention(asked); return err })
		cancel()
		switch {
		case err == nil && keeps > ledger.MaxWindow/2:
			return 0, fmt.Errorf("consumer: Options.DeadLetter: keeps messages for %s: it %w", keeps, consumer.ErrUnbounded)
		case err == nil:
			return max(keeps, 0), nil
		case errors.Is(err, consumer.ErrUnbounded) || n == targetTries:
			return 0, err
		}
		select {
		case <-time.After(time.Duration(n) * 500 * time.Millisecond):
		case <-ctx.Done():
			return 0, err
		}
	}
}

// CheckTarget asks where dead letters go. A target that is one of the worker's own sources is an error; one that cannot be
// asked is a warning, since messages can be consumed without it.
func CheckTarget(ctx context.Context, o *consumer.Options, sources ...string) (warning string, err error) {
	if o.DeadLetter == nil {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, o.DeadLetterTimeout)
	defer cancel()
	var target string
	failed := guard("Options.DeadLetter", func() (err error) { target, err = o.DeadLetter.Source(ctx); return err })
	switch {
	case failed != nil:
		return fmt.Sprintf("dead letters may not arrive, the archive has them all the same: %v", failed), nil
	case target != "" && slices.Contains(sources, target):
		return "", fmt.Errorf("consumer: Options.DeadLetter: must not be the source itself, is %s: each failure would be consumed again", target)
	}
	return "", nil
}
