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
	ordered bool     // effects of one group come in order
	samples int      // of committed offsets
	spared  int      // fine messages that the crash limit archived
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
		a.ordered = true
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
	if err := a.broker.send(ctx, first, next); err != nil {
		return err
	}
	a.bodies = append(a.bodies, next...)
	return nil
}

// finished counts the messages that have their effect or are archived.
func (a *arm) finished(ctx context.Context) (int, error) {
	n, err := a.store.number(ctx, `SELECT (SELECT count(*) FROM effect) + (SELECT count(*) FROM `+a.store.prefix+`archive)`)
	return int(n), err
}

// progress says that fewer than all messages are finished; empty when they are.
func (a *arm) progress() string {
	n, err := a.finished(a.t.Context())
	switch {
	case err != nil:
		return err.Error()
	case n < len(a.bodies):
		return format("%s: %d of %d messages are finished", a.name, n, len(a.bodies))
	}
	return ""
}

// left says what the broker still holds; empty: nothing.
func (a *arm) left() string {
	if wrong := a.broker.left(a.t.Context()); wrong != "" {
		return a.name + ": " + wrong
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
		at, err := l.committed(ctx)
		if err != nil {
			continue // the broker is away
		}
		for p, offset := range at {
			n, err := a.store.number(ctx, format(terminalQuery, p, offset))
			if err != nil {
				break // the database is away
			}
			if a.samples++; n < offset {
				a.t.Errorf("%s: partition %d: offset %d is committed, %d records before it are terminal", a.name, p, offset, n)
			}
		}
	}
}

// eventually polls until nothing is wrong, or fails with what is.
func eventually(t *testing.T, patience time.Duration, what func() (wrong string)) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		wrong := what()
		if wrong == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s: %s", patience, wrong)
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal(wrong)
		}
	}
}
