package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"go.uber.org/zap"
)

// Reasons that Plan has no part in.
const (
	nowhere    Reason = "it does not say where it came from, and Config.Origin is not set"
	nobody     Reason = "it does not say which consumer failed, and the ledger knows none or several of its source: set Config.Consumer"
	unseen     Reason = "the ledger has never seen its consumer: it may be another ledger's"
	notFailed  Reason = "only a failed message can be renewed"
	changed    Reason = "its message changed meanwhile"
	unreadable Reason = "it cannot be read"
	unsendable Reason = "the target cannot take it"
	sendError  Reason = "the send failed"
	broke      Reason = "its handler failed again"
	unkeyed    Reason = "KeyFunc or FingerprintFunc refuses it"
	ownSent    Reason = "sent as a message of its own"
)

// batch decides about letters, does what was decided, and counts. An error ends the run.
func (r *runner) batch(ctx context.Context, letters []*Letter) error {
	all := slices.Clone(letters)
	var last scoped
	for _, l := range letters {
		r.identify(l, &last)
	}
	letters, err := r.decide(ctx, letters)
	if err != nil {
		return err
	}
	var sends, done []*Letter
	for _, l := range letters {
		switch step := l.decision.Step; {
		case step == Send, step == Refuse && l.ordered(): // what is refused keeps those behind it from overtaking, not those before it
			sends = append(sends, l)
		case step == Drop:
			done = append(done, l)
			r.count(l, nil)
		default:
			r.count(l, nil)
			r.waits(l)
		}
	}
	sent, err := r.send(ctx, sends)
	done = append(done, sent...)
	if r.c.DryRun {
		done = nil
	}
	r.src.Keep(without(all, done))
	if len(done) > 0 {
		settle, cancel := toTheEnd(ctx)
		defer cancel()
		if gone := r.src.Done(settle, done); gone != nil {
			r.c.Logger.Warn("dead letters that are done with could not be removed", zap.Error(gone))
			err = errors.Join(err, r.failed(fmt.Errorf("remove from %s: %w", r.src, gone)))
		}
	}
	return err
}

// toTheEnd is for one call that is not to be broken off when the run is cancelled.
func toTheEnd(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), finishing)
}

// without returns those of all that are not among some.
func without(all, some []*Letter) []*Letter {
	if len(some) == len(all) {
		return nil
	}
	gone := make(map[*Letter]bool, len(some))
	for _, l := range some {
		gone[l] = true
	}
	return slices.DeleteFunc(all, func(l *Letter) bool { return gone[l] })
}

// identify finds the key of a letter that another source than the ledger has. Without one it is decided upon at once.
func (r *runner) identify(l *Letter, last *scoped) {
	m := &l.Message
	if l.Unreadable != nil {
		l.decision, l.why = Decision{Step: Refuse, Reason: unreadable}, l.Unreadable
		switch _, leftOut := errors.AsType[*errLeftOut](l.Unreadable); {
		case leftOut:
			l.decision.Reason = LeftOut
		case errors.Is(l.Unreadable, errAstray):
			l.decision.Reason = Astray
		case errors.Is(l.Unreadable, errSealed):
			l.decision.Reason = Sealed
		}
		return
	}
	if l.Archived {
		return
	}
	m.Source = cmp.Or(m.Source, r.c.Origin)
	if l.Consumer == "" && l.Stamp != nil {
		l.Consumer = l.Stamp.Group
	}
	if l.Consumer == "" {
		l.Consumer = r.onlyConsumer(m.Source)
	}
	switch {
	case m.Source == "":
		l.decision = Decision{Step: Refuse, Reason: nowhere}
		return
	case l.Consumer == "":
		l.decision = Decision{Step: Refuse, Reason: nobody}
		return
	case !r.believes(l):
		l.decision = Decision{Step: Refuse, Reason: Unsigned}
		return
	}
	l.Key = ledger.Key{Scope: last.of(m.Source, l.Consumer), ID: []byte(m.ID)}
	if n := len(l.Key.Scope); n > ledger.MaxScope {
		l.decision, l.why = Decision{Step: Refuse, Reason: unreadable}, fmt.Errorf("its source and consumer make a scope of at most %d bytes, is %d", ledger.MaxScope, n)
		l.Key = ledger.Key{}
		return
	}
	if l.Stamp != nil {
		l.Key.Pos, l.Token, l.Fingerprint = l.Stamp.Pos, l.Stamp.Token, l.Stamp.Fingerprint
	} else {
		l.Fingerprint = ledger.BodyFingerprint(m.Body)
	}
	l.Key = l.Key.Known()
	if !r.scopes[l.Key.Scope] && !r.c.Unknown {
		l.decision = Decision{Step: Refuse, Reason: unseen}
	}
}

// scoped is the scope of the letter before, which mostly is the next one's too.
type scoped struct{ source, consumer, scope string }

func (s *scoped) of(source, consumer string) string {
	if s.scope == "" || s.source != source || s.consumer != consumer {
		*s = scoped{source, consumer, Scope(source, consumer)}
	}
	return s.scope
}

// onlyConsumer is the consumer to assume for letters that do not say.
func (r *runner) onlyConsumer(source string) (found string) {
	if r.c.Consumer != "" || source == "" {
		return r.c.Consumer
	}
	for scope := range r.scopes {
		if of, name, ok := ParseScope(scope); ok && of == source {
			if found != "" {
				return ""
			}
			found = name
		}
	}
	return found
}

// decide asks the ledger for the messages' rows and plans. It returns the letters that the filter selects.
func (r *runner) decide(ctx context.Context, letters []*Letter) ([]*Letter, error) {
	if err := r.ask(ctx, letters); err != nil {
		return nil, err
	}
	for _, l := range letters {
		if err := r.prove(ctx, l); err != nil {
			return nil, err
		}
		l.Vouched = l.Archived || l.Moved || l.known()
	}
	if err := r.rekey(ctx, letters); err != nil {
		return nil, err
	}
	kept, owns := letters[:0], []*Letter(nil)
	for _, l := range letters {
		if ok, err := r.selects(ctx, l); err != nil {
			return nil, err
		} else if !ok {
			continue
		}
		kept = append(kept, l)
		if l.decision.Reason != "" {
			continue
		}
		if err := r.plan(ctx, l); err != nil {
			return nil, err
		}
		if l.decision.Step == Mismatch && r.c.Mismatched && !r.c.FreshKeys && !r.c.Mend {
			if err := r.vouchMismatch(ctx, l); err != nil {
				return nil, err
			}
			owns = append(owns, l)
		}
	}
	for _, l := range owns {
		l.becomeOwn()
	}
	if err := r.ask(ctx, owns); err != nil {
		return nil, err
	}
	for _, l := range owns {
		l.decision = Plan(Case{Identified: true, Fingerprint: l.Fingerprint, Status: l.status, Proved: true, Unknown: true})
	}
	return kept, nil
}

// rekey asks KeyFunc about letters that have no better name, in place; on the way to a worker that is the worker's.
func (r *runner) rekey(ctx context.Context, letters []*Letter) error {
	t, ok := r.dst.(*inPlace)
	if !ok || t.opt.KeyFunc == nil {
		return nil
	}
	var keyed []*Letter
	for _, l := range letters {
		if l.decision.Reason == "" && l.Consumer == t.opt.Name && l.byBroker() {
			t.rekey(l)
			keyed = append(keyed, l)
		}
	}
	return r.ask(ctx, keyed)
}

// ask fills in how the letters' messages are.
func (r *runner) ask(ctx context.Context, letters []*Letter) error {
	keys, of := make([]ledger.Key, 0, len(letters)), make([]*Letter, 0, len(letters))
	for _, l := range letters {
		if l.Key.Scope != "" && l.decision.Step != Refuse {
			keys, of = append(keys, l.Key), append(of, l)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	ctx, cancel := toTheEnd(ctx)
	defer cancel()
	status, err := r.op.Status(ctx, keys)
	if err != nil {
		return fmt.Errorf("replay: ask the ledger how %d messages are: %w", len(keys), err)
	}
	for i, l := range of {
		l.status = status[i]
	}
	return nil
}

// selects applies the filter to what the ledger's archive has not filtered.
func (r *runner) selects(ctx context.Context, l *Letter) (bool, error) {
	if l.Archived || r.all {
		return true, nil
	}
	ctx, cancel := toTheEnd(ctx)
	defer cancel()
	f := r.c.Filter
	f.Body, f.Limit = true, 0
	errs := l.Errors
	if errs == nil && l.Error != "" {
		errs = []ledger.AttemptError{{Kind: l.Class, Error: l.Error}}
	}
	at := l.At
	if at.IsZero() {
		at = l.Message.SentAt
	}
	d := ledger.DeadLetter{Status: l.status, ArchiveRecord: ledger.ArchiveRecord{At: at, Archive: ledger.Archive{
		Key: l.Key, Kind: l.Kind, Errors: errs, Headers: l.Message.Headers, Group: cmp.Or(l.Message.Group, string(l.Message.Key)),
	}}}
	return f.Keep(ctx, &d)
}

// selectsAll says that a filter, which was checked, selects every letter as it is.
func selectsAll(f ledger.Filter) bool {
	f.Limit, f.Body = 0, false
	return reflect.ValueOf(f).IsZero()
}

// plan decides about one letter.
func (r *runner) plan(ctx context.Context, l *Letter) error {
	c := Case{
		Identified: l.Identified, Archived: l.Archived, Superseded: l.Superseded, Kind: l.Kind, Token: l.Token,
		Fingerprint: l.Fingerprint, Status: l.status, Vouched: l.Vouched || l.known(), Unknown: r.c.Unknown, Proved: !r.src.Removes(),
	}
	l.Vouched = c.Vouched || l.Message.Source == r.c.Origin
	if l.Identified && !c.Proved && l.status.State == ledger.Succeeded && l.status.Fingerprint.IsZero() {
		rec, err := r.get(ctx, l.Key)
		if err != nil {
			return err
		}
		c.Proved = archivedAs(&rec, ledger.BodyFingerprint(l.Message.Body))
	}
	if err := r.renewed(ctx, l, &c); err != nil {
		return err
	}
	l.decision = Plan(c)
	if r.c.Mend && l.decision.Reason == Mended && l.status.State == ledger.Failed {
		l.decision = Decision{Step: Send, Reason: Failed, Token: l.status.Token}
	}
	if why := r.unsigned(l); why != "" && l.decision.Step == Send {
		l.decision = Decision{Step: Refuse, Reason: why}
	}
	if (r.c.FreshKeys || r.c.Mend) && l.decision.Step == Send && l.status.State != ledger.Failed {
		l.decision = Decision{Step: Refuse, Reason: notFailed}
	}
	return nil
}

// renewed asks whether the failure of a letter, which has an older token than its row, was renewed since. A dead-letter
// queue or topic is not told of that.
func (r *runner) renewed(ctx context.Context, l *Letter, c *Case) error {
	s := &l.status
	if !l.Identified || l.Archived || s.State == 0 || s.Generation == 0 || l.Token >= s.Token {
		return nil
	}
	rec, err := r.get(ctx, l.Key)
	if err != nil {
		return err
	}
	for i := range rec.Archived {
		a := &rec.Archived[i]
		if s.State == ledger.Failed && string(a.Delivery) == string(s.Delivery) && a.Generation < s.Generation {
			c.Renewals = uint64(s.Generation - a.Generation)
		}
		c.Mended = c.Mended || a.Kind != ledger.KindMismatch && l.Token != 0 && a.Token == l.Token && a.Fingerprint.Agrees(ledger.BodyFingerprint(l.Message.Body))
	}
	return nil
}

// get reads all that is stored of a message, but for bodies; nothing, if the ledger does not know it. A ledger may be far away, and a batch
// large: a run that is cancelled asks no more.
func (r *runner) get(ctx context.Context, key ledger.Key) (ledger.Record, error) {
	if ctx.Err() != nil {
		return ledger.Record{}, context.Cause(ctx)
	}
	ctx, cancel := toTheEnd(ctx)
	defer cancel()
	rec, err := r.op.Get(ledger.WithoutBodies(ctx), key)
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return rec, fmt.Errorf("replay: ask the ledger for %v: %w", key, err)
	}
	return rec, nil
}

// byBroker says that the broker's id is all that names the letter's message, and that no handler had it under that: the ledger
// knows nothing of it, or KeyFunc or FingerprintFunc failed. A worker with KeyFunc may well know the message.
func (l *Letter) byBroker() bool {
	if !l.Identified || l.own {
		return false
	}
	return l.Kind == ledger.KindInvalid || !l.Archived && (l.Stamp == nil || l.Stamp.Broker) && l.status.State == 0
}

// becomeOwn makes a message of its own of a letter that is no copy of what has its id.
func (l *Letter) becomeOwn() {
	id := ownID(l)
	l.own, l.Stamp, l.Token, l.Kind = true, nil, 0, ""
	l.Message.ID, l.Fingerprint = id, ledger.BodyFingerprint(l.Message.Body)
	l.Key = ledger.Key{Scope: l.Key.Scope, ID: []byte(id)}.Known()
}

// stamp gives a letter the stamp of its copy. One whose key cannot be told from its id has none: no copy would meet its row.
func (r *runner) stamp(l *Letter) {
	key := ledger.Key{Scope: l.Key.Scope, ID: l.Key.ID, Pos: l.Key.Pos}
	if key.Sum() != l.Key.Sum() {
		l.Stamp = nil
		return
	}
	stamp := consumer.Stamp{
		Source: l.Message.Source, ID: string(l.Key.ID), Pos: l.Key.Pos, Fingerprint: l.Fingerprint, Token: l.decision.Token,
		Broker: l.byBroker(),
	}
	if !isARN(l.Message.Source) {
		stamp.Group = l.Consumer
	}
	stamp = stamp.Sign(r.c.StampKeys...)
	l.Stamp = &stamp
}

// detail is what the audit says of a send.
func (r *runner) detail(l *Letter) string {
	if !l.own {
		return r.to
	}
	return detail("to " + r.dst.String() + " as " + l.Message.ID)
}

// detail makes of a text what an audit takes.
func detail(text string) string {
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "\uFFFD")
	return text[:min(len(text), 500)]
}

// pause keeps to the rate. An error: the run is cancelled, or its deadline is too near.
func (r *runner) pause(ctx context.Context, n int) error {
	if ctx.Err() == nil && (r.rate == nil || r.rate.WaitN(ctx, n) == nil) {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: the rate allows no more before the deadline: %w", ErrStopped, context.DeadlineExceeded)
}
