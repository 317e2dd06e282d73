package chaos_test

import (
	"cmp"
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/ackledger/ackledger/integration/chaos/plan"
)

// arm is one broker, store and group, with its crew and its oracle.
type arm struct {
	t       *testing.T
	name    string
	store   *database
	broker  broker
	crew    *crew
	journal string
	bodies  []string // of all that was sent, by number
	gone    int      // so many of the first may never be done: the broker lost them
	doubt   []string // of bodies: nobody knows whether these were sent
	ordered bool     // effects of one group come in order
	samples int      // of committed offsets
	away    int      // times when there was no sample, since a server was away
	aimed   int      // processes that were killed because they ran something, where nothing else is
	found   tally    // by the oracle
}

// lease is short, so that the work of a killed process is taken over soon.
const lease = 3 * time.Second

func newArm(t *testing.T, name string, d *database, b broker, o plan.Orders) *arm {
	t.Helper()
	dir := t.TempDir()
	a := &arm{t: t, name: name, store: d, broker: b, journal: filepath.Join(dir, "journal")}
	o.Store, o.Database, o.Journal, o.Lease = d.kind, d.where, a.journal, cmp.Or(o.Lease, lease)
	b.orders(&o)
	a.crew = newCrew(t, dir, name, o)
	switch b := b.(type) {
	case *log:
		a.ordered = !o.Parks || o.Keyed
	case *queue:
		a.ordered = b.fifo
	}
	return a
}

// send sends the next n messages, whose bodies body says.
func (a *arm) send(ctx context.Context, n int, body func(int) string) error {
	first := len(a.bodies)
	next := make([]string, n)
	for i := range next {
		next[i] = body(first + i)
	}
	doubt, err := a.broker.send(ctx, first, next)
	if err != nil {
		return err
	}
	a.bodies, a.doubt = append(a.bodies, next...), append(a.doubt, doubt...)
	return nil
}

// finished counts the messages that have their effect or are archived.
func (a *arm) finished(ctx context.Context) (int, error) {
	n, err := a.store.number(ctx, `SELECT (SELECT count(*) FROM effect WHERE body NOT LIKE 'plain%') +
		(SELECT count(DISTINCT body) FROM effect WHERE body LIKE 'plain%') + (SELECT count(*) FROM `+a.store.prefix+`archive)`)
	return int(n), err
}

// progress says that fewer than all messages are finished; empty when they are.
func (a *arm) progress() string {
	n, err := a.finished(a.t.Context())
	switch {
	case err != nil:
		return err.Error()
	case n < len(a.bodies)-len(a.doubt):
		return format("%s: %d of %d messages are finished", a.name, n, len(a.bodies))
	}
	return ""
}

// left says what the broker still holds, or the ledger in its stead; empty: nothing.
func (a *arm) left() string {
	if wrong := a.broker.left(a.t.Context()); wrong != "" {
		return a.name + ": " + wrong
	}
	if a.crew.orders.Parks {
		if n, err := a.store.number(a.t.Context(), "SELECT count(*) FROM ackledger.parked"); err != nil || n > 0 {
			return format("%s: %d messages are parked (%v)", a.name, n, err)
		}
	}
	return ""
}

// idle says that handlers run; empty when none does.
func (a *arm) idle() string {
	if a.crew.running() {
		return a.name + ": handlers run"
	}
	return ""
}

// sample compares the committed offsets with what is terminal, until ctx is done. It reads the offsets first, so whatever
// they have passed must be there.
func (a *arm) sample(ctx context.Context) {
	l, ok := a.broker.(*log)
	if !ok {
		return
	}
	t := time.NewTicker(400 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		if err := a.sampleOnce(ctx, l); err != nil && ctx.Err() == nil {
			a.away++
		}
	}
}

// sampleOnce is one sample; the error is that of a server that is away.
func (a *arm) sampleOnce(ctx context.Context, l *log) error {
	at, err := l.committed(ctx)
	if err != nil {
		return err
	}
	for p, offset := range at {
		n, err := a.store.number(ctx, format(terminalQuery, p, offset))
		if err != nil {
			return err
		}
		pending, err := a.store.number(ctx, format(pendingQuery, p, offset))
		if err != nil {
			return err
		}
		if pending >= 0 {
			a.t.Errorf("%s: partition %d: offset %d is committed, and %d is pending", a.name, p, offset, pending)
			a.t.Log(a.timeline(format("%s-%d-%d", l.topic, p, pending)))
		}
		if a.samples++; n < offset {
			missing, err := a.store.number(ctx, format(missingQuery, p, offset))
			a.t.Errorf("%s: partition %d: offset %d is committed, %d records before it are terminal, the first one missing is %d (%v)",
				a.name, p, offset, n, missing, err)
			a.t.Log(a.timeline(format("%s-%d-%d", l.topic, p, missing)))
		}
	}
	return nil
}

// eventually polls until nothing is wrong, or fails with what is.
func eventually(t *testing.T, patience time.Duration, what func() (wrong string)) {
	t.Helper()
	if wrong := within(t, patience, what); wrong != "" {
		t.Fatalf("after %s: %s", patience, wrong)
	}
}

// within polls until nothing is wrong, or says what is.
func within(t *testing.T, patience time.Duration, what func() (wrong string)) string {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		wrong := what()
		if wrong == "" || time.Now().After(deadline) || t.Context().Err() != nil {
			return wrong
		}
		<-time.After(200 * time.Millisecond)
	}
}

// expect is eventually, for what is to come of all messages: if it does not, the oracle says of which messages, and what is
// known of them.
func (a *arm) expect(patience time.Duration, what func() (wrong string)) {
	a.t.Helper()
	wrong := within(a.t, patience, what)
	if wrong == "" {
		return
	}
	a.t.Errorf("%s: after %s: %s", a.name, patience, wrong)
	a.verify()
	a.t.Log(a.crew.tails())
	a.t.FailNow()
}
