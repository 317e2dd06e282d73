package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/backoff"
	"github.com/ackledger/ackledger/internal/flow"
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

// publisher publishes dead letters, and seals archives.
type publisher struct {
	*kernel
	life     *life
	cfg      *Config
	archives *archives
	target   consumer.DeadLetterer // nil: there is none
	calls    chan struct{}         // a place for each call of the target that has not returned
	ctx      context.Context       // ends when nothing is published any more: the drain's time is nearly over
	end      context.CancelFunc
}

func newPublisher(k *kernel, l *life, cfg *Config, archives *archives) *publisher {
	p := &publisher{kernel: k, life: l, cfg: cfg, archives: archives, target: cfg.Options.DeadLetter, calls: make(chan struct{}, publishers)}
	p.ctx, p.end = context.WithCancel(l.gone)
	return p
}

// needed says whether something is to be done to a failure before it is settled.
func (p *publisher) needed() bool { return p.target != nil || p.cfg.Options.Cipher != nil }

// loop publishes one dead letter after the other.
func (p *publisher) loop() {
	var s flow.Settlement
	for p.await(p.wait.publish, func() (ok bool) { s, ok = p.flow.NextLetter(); return ok }) {
		letter := s
		p.publish(&letter)
	}
}

// publish publishes the dead letter of a failure, if there is a target, and hands the settlement on, whatever came of it.
func (p *publisher) publish(s *flow.Settlement) {
	if p.target != nil && (s.Whole == nil || s.Filed) && !s.Tried {
		p.publishLetter(s)
		s.Tried = true
	}
	var unsealed error
	if !s.Filed {
		unsealed = p.seal(s)
	}
	p.do(func(f *flow.Flow, now time.Duration) { f.Published(now, s, unsealed) })
}

// seal has the user's cipher make what is archived unreadable.
func (p *publisher) seal(s *flow.Settlement) error {
	o := &p.cfg.Options
	if o.Cipher == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(p.life.gone, o.DeadLetterTimeout)
	defer cancel()
	p.archives.fit(s)
	plain := *s.More.Dead
	if s.Kind == ledger.Park { // whole, or not at all: nobody else has it then
		return p.sealParked(ctx, s, plain)
	}
	answered := apart("Options.Cipher", func() (*ledger.Archive, error) {
		return p.archives.sealed(ctx, plain)
	})
	sealed, err := outcomeOf(ctx, "Options.Cipher", answered, endsIn)
	if err != nil {
		return err
	}
	s.More.Dead = sealed
	return nil
}

// sealParked seals what is parked.
func (p *publisher) sealParked(ctx context.Context, s *flow.Settlement, plain ledger.Archive) error {
	sealed, err := outcomeOf(ctx, "Options.Cipher", apart("Options.Cipher", func() (*ledger.Archive, error) {
		own := plain
		return &own, own.Seal(ctx, p.cfg.Options.Cipher)
	}), endsIn)
	if err == nil {
		s.More.Dead = sealed
	}
	return err
}

// publishLetter tries to publish the dead letter of a failure, and notes whether it is.
func (p *publisher) publishLetter(s *flow.Settlement) {
	tries, err := p.tryAll(s)
	killpoint.At(killpoint.Published)
	s.More.Dead.Sent = err == nil
	p.mu.Lock()
	was := p.flow.TargetAway()
	if err == nil || tries == p.cfg.Options.DeadLetterTries && !consumer.IsTerminal(err) {
		p.flow.TargetSaid(err != nil)
	}
	is := p.flow.TargetAway()
	p.unlock()
	if ledger.IsLost(err) {
		return // the settlement is told the same, and the message is asked for again
	}
	p.tel.published(1, err == nil)
	if err != nil {
		p.log.Error("dead letter not published: the archive alone has the message", zap.String("message_id", s.Item.Of.(*Item).Msg.ID),
			zap.String("kind", string(s.More.Dead.Kind)), zap.Int("tries", tries), zap.Error(err))
	}
	switch {
	case is && !was:
		p.log.Warn("the dead-letter target is away: each message is tried once")
	case was && !is:
		p.log.Info("dead letters are published again")
	}
}

// tryAll tries until the dead letter is published, and returns how often it did.
func (p *publisher) tryAll(s *flow.Settlement) (tries int, err error) {
	if s.Item.Crashes() > ledger.CrashLimit {
		return 0, errLethal
	}
	if _, leftOut := s.More.Dead.LeftOut(); leftOut { // without its body a copy is another message
		return 0, errLeftOut
	}
	ctx, cancel := p.letterTime(s)
	defer cancel()
	d := p.deadLetter(s)
	for {
		switch most, lost := p.mostTries(s); {
		case lost:
			return tries, ledger.ErrLost
		case ctx.Err() != nil:
			return tries, errors.Join(err, context.Cause(ctx))
		case tries >= most:
			return tries, err
		}
		tries++
		if err = p.try(ctx, d); err == nil || consumer.IsTerminal(err) {
			return tries, err
		}
		if most, _ := p.mostTries(s); tries < most {
			rest(ctx, sessionOf(s.Session).ended, publishing.Ceiling(tries)/2+publishing.Delay(tries, rand.Float64())/2)
		}
	}
}

// mostTries says how often a dead letter is tried. Whose message it is not any more publishes nothing.
func (p *publisher) mostTries(s *flow.Settlement) (most int, lost bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.flow.Tries(p.cfg.Options.DeadLetterTries), s.Session.Lost()
}

// letterTime is the time in which a dead letter may be published: until the drain needs the rest of its own, and until
// the broker forgets the message.
func (p *publisher) letterTime(s *flow.Settlement) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(p.life.base))
	stop := context.AfterFunc(p.ctx, func() { cancel(errDrained) })
	until, end := context.Context(ctx), context.CancelFunc(func() {})
	if it := s.Item.Of.(*Item); !it.Deadline.IsZero() && !it.overdue {
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
func (p *publisher) try(ctx context.Context, d *consumer.DeadLetter) error {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Options.DeadLetterTimeout)
	defer cancel()
	select {
	case p.calls <- struct{}{}:
	case <-ctx.Done():
		return errTarget
	}
	answered := apart("Options.DeadLetter", func() (struct{}, error) {
		defer func() { <-p.calls }()
		return struct{}{}, readable(p.target.Publish(ctx, d))
	})
	_, err := outcomeOf(ctx, "Options.DeadLetter", answered, endsIn)
	return err
}

// deadLetter is what is published of a failure.
func (p *publisher) deadLetter(s *flow.Settlement) *consumer.DeadLetter {
	it, dead := s.Item.Of.(*Item), *s.More.Dead
	dead.UnmarkEmptyKey() // the letter has the key itself
	m := *it.Msg
	m.ID, m.Source, m.Body, m.Headers, m.Attempt = string(it.Key.ID), dead.Source, dead.Body, dead.Headers, it.Attempt()
	if m.Key != nil && it.Original != nil {
		m.Key = it.Original(it).Key
	}
	d := &consumer.DeadLetter{Message: m, Delivery: dead.Delivery, Kind: dead.Kind, Consumer: p.cfg.Options.Name}
	if n := len(dead.Errors); n > 0 {
		last := &dead.Errors[n-1]
		d.Class, d.Error, d.FailedAt = last.Kind, consumer.DeadLetterError(last.Error, dead.Body), last.At.Truncate(time.Millisecond)
	}
	if it.Ticket().IsMismatch() {
		// It is no copy of the message that has its id: whoever sends it again must not pretend that it is.
		d.Message.Headers = slices.DeleteFunc(slices.Clone(m.Headers), func(h ledger.Header) bool { return h.Name == consumer.StampName })
		return d
	}
	stamp := consumer.Stamp{
		Source: dead.Source, ID: m.ID, Pos: it.Key.Pos, Fingerprint: it.Fingerprint, Token: it.Ticket().Token(), Group: p.cfg.Group,
	}.Sign(p.cfg.Options.Stamps.Keys...)
	d.Stamp = &stamp
	return d
}
