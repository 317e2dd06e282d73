package kafka

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// named is a ledger that has an id.
type named struct {
	*memory.Ledger
	id string
}

func newNamed(id string) *named { return &named{memory.New(), id} }

func (n *named) ID(context.Context) (string, error) { return n.id, nil }

// startOf runs a worker of a ledger.
func (s *site) startOf(l ledger.Ledger, h consumer.HandlerFunc, c *Config, opts ...kgo.Opt) *running {
	s.t.Helper()
	return runWorker(s.t, s.workerOf(l, h, c, opts...))
}

// isRefused waits until Run ends because of another ledger's commits, and names both.
func (r *running) isRefused(texts ...string) {
	r.t.Helper()
	err := r.wait()
	if !errors.Is(err, ErrOtherLedger) {
		r.t.Fatalf("Run: %v, want ErrOtherLedger", err)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			r.t.Errorf("%q does not say %q", err, text)
		}
	}
}

// movedFrom are settings of a worker whose ledger takes another one's place.
func movedFrom(ids ...string) *Config {
	c := quick()
	c.MovedFrom = ids
	return c
}

// Two machines had a ledger's file each, and one consumer group: what was delivered again after a rebalance was done twice,
// and nobody said a word. The second one is refused while the first one runs, and afterwards.
func TestPitfall137_TwoLedgersInOneGroup(t *testing.T) { onBoth(t, 2, twoLedgers) }

func twoLedgers(s *site) {
	t := s.t
	one, two := newNamed("one"), newNamed("two")
	b := newBook()
	first := s.startOf(one, b.handle, nil)
	first.owns(2) // no message was handled yet
	s.startOf(two, b.handle, nil).isRefused(`topic "`+s.topic+`"`, "ledger, one;", `ledger is "two"`, "Config.MovedFrom")
	values := numbers("", 20)
	s.send(0, values[:10]...)
	s.send(1, values[10:]...)
	s.caughtUp()
	first.end()
	s.startOf(two, b.handle, nil).isRefused()
	s.start(b.handle, nil).isRefused(`ledger is ""`)
	s.startOf(two, b.handle, movedFrom("three")).isRefused()

	moved := s.startOf(two, b.handle, movedFrom("three", "one"))
	moved.owns(2)
	s.startOf(one, b.handle, nil).isRefused("ledger, two;")
	s.send(0, "more")
	s.caughtUp()
	moved.end()
	again := s.startOf(two, b.handle, nil)
	again.owns(2)
	again.end()
	b.once(t, append(values, "more"))
}

// slowJoin is a ledger whose worker has looked at the group, and waits before it joins.
type slowJoin struct {
	*named
	once   sync.Once
	looked chan struct{}
	goOn   *gate
}

func (l *slowJoin) Join(ctx context.Context, lease time.Duration) (ledger.Owner, error) {
	l.once.Do(func() { close(l.looked) }) // a call that took too long is repeated
	<-l.goOn.open
	return l.named.Join(ctx, lease)
}

// The second looks before the first one has committed, and meets that one's commits with its first partitions.
func TestSecondLedgerMeetsCommitsOfTheFirst(t *testing.T) {
	inBoth(t, func(t *testing.T, audit Audit) {
		s := fakeSite(t, 2).with(audit)
		b := newBook()
		two := &slowJoin{named: newNamed("two"), looked: make(chan struct{}), goOn: newGate(t)}
		second := s.startOf(two, b.handle, nil)
		<-two.looked
		first := s.startOf(newNamed("one"), b.handle, nil)
		first.owns(2)
		s.send(0, numbers("a", 10)...)
		s.caughtUp()
		two.goOn.release()
		second.isRefused("ledger, one;")
		first.owns(2)
		s.send(0, numbers("b", 10)...)
		s.send(1, numbers("c", 10)...)
		s.caughtUp()
		first.end()
		b.once(t, slices.Concat(numbers("a", 10), numbers("b", 10), numbers("c", 10)))
	})
}

// The first deployment: all members of a new group begin in one generation, each with its own part of the topic, and have seen
// no commit. At most one ledger passes, and what was refused does not stand in the way of a good one: if each saw the other,
// whichever comes back is served.
func TestTwoLedgersBeginTogether(t *testing.T) {
	inBoth(t, func(t *testing.T, audit Audit) {
		s := fakeSite(t, 2).with(audit)
		s.send(0, numbers("a", 10)...)
		s.send(1, numbers("b", 10)...)
		tried := s.beginTogether(nil)
		b := newBook()
		one, two := newNamed("one"), newNamed("two")
		eager := kgo.Balancers(kgo.RangeBalancer())
		first := s.startOf(one, b.handle, nil, eager)
		<-tried
		second := s.startOf(two, b.handle, nil, eager)
		refused, left, l := first, second, two
		select {
		case <-first.done:
		case <-second.done:
			refused, left, l = second, first, one
		}
		refused.isRefused()
		eventually(t, "the other one is refused as well, or has all", func() bool { return left.isDone() || left.owned() == 2 })
		if left.isDone() {
			left.isRefused()
			left = s.startOf(l, b.handle, nil)
		}
		left.owns(2)
		s.caughtUp()
		left.end()
		b.once(t, append(numbers("a", 10), numbers("b", 10)...))
	})
}

func (r *running) isDone() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// At the end of the log a new member commits for all partitions, and puts its name where that of the other was. That comes back
// with the other one's next commit, and is seen by whoever looks next.
func TestTwoLedgersBeginAtLatest(t *testing.T) {
	inBoth(t, func(t *testing.T, audit Audit) {
		s := fakeSite(t, 2).with(audit)
		h := &heldAnswer{there: make(chan struct{}), goOn: newGate(t)}
		tried := s.beginTogether(h.there)
		c := quick()
		c.Start = StartLatest
		eager := kgo.Balancers(kgo.RangeBalancer())
		first := s.startOf(newNamed("one"), nothing, c, eager)
		<-tried
		second := s.startOf(newNamed("two"), nothing, c, eager, kgo.WithHooks(h))
		<-h.there
		first.owns(1)
		h.goOn.release()
		select {
		case <-first.done:
			first.isRefused()
		case <-second.done:
			second.isRefused()
		}
		first.stop()
		second.stop()
	})
}

// note is the metadata of the group's commit of partition 0.
func (s *site) note() string {
	s.t.Helper()
	all, err := s.adm.FetchOffsets(s.t.Context(), s.group)
	if err != nil {
		s.t.Fatal(err)
	}
	o, _ := all.Lookup(s.topic, 0)
	return o.Metadata
}

// Commits that name no ledger count as ever: of workers from before there were ids, of operators, and those that were copied
// from another cluster. The position gets our name at once, though nothing is there to be handled.
func TestCommitsThatNameNoLedger(t *testing.T) {
	inBoth(t, func(t *testing.T, audit Audit) {
		for name, note := range map[string]func(*site) string{
			"an older worker":        func(s *site) string { return noteOf("c", s.id()) },
			"an operator":            func(*site) string { return "" },
			"another cluster":        func(*site) string { return noteIn("two", "other", topicID{9}) },
			"another cluster, by us": func(*site) string { return noteIn("one", "other", topicID{9}) },
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := fakeSite(t, 1, kfake.ClusterID("c")).with(audit)
				values := numbers("", 7)
				s.send(0, values...)
				s.commitAs(0, 7, note(s))
				b := newBook()
				r := s.startOf(newNamed("one"), b.handle, nil)
				eventually(t, "the position names the ledger", func() bool { return s.note() == noteIn("one", "c", s.id()) })
				s.send(0, "next")
				s.caughtUp()
				r.end()
				b.once(t, []string{"next"})
			})
		}
	})
}

// lateNamed is a ledger whose tables are migrated while its worker runs, and which is away for a moment when it is asked.
type lateNamed struct {
	*memory.Ledger
	id    atomic.Pointer[string]
	fails atomic.Int32
}

func (l *lateNamed) ID(context.Context) (string, error) {
	if l.fails.Add(-1) >= 0 {
		return "", errors.New("away")
	}
	return *l.id.Load(), nil
}

// A worker that began before the migration has no name, and meets that of its own ledger.
func TestLedgerIsMigratedMeanwhile(t *testing.T) {
	inBoth(t, func(t *testing.T, audit Audit) {
		s := fakeSite(t, 2).with(audit)
		l := &lateNamed{Ledger: memory.New()}
		l.id.Store(new(""))
		l.fails.Store(2)
		b := newBook()
		old := s.startOf(l, b.handle, nil)
		old.owns(2)
		l.id.Store(new("one"))
		young := s.startOf(l, b.handle, nil)
		young.owns(1)
		s.send(0, numbers("a", 10)...)
		s.send(1, numbers("b", 10)...)
		s.caughtUp()
		young.end()
		old.owns(2)
		s.send(0, "more")
		s.caughtUp()
		old.end()
		b.once(t, slices.Concat(numbers("a", 10), numbers("b", 10), []string{"more"}))
	})
}

// What a worker cannot name itself after ends Run.
func TestLedgerIDsThatCannotBe(t *testing.T) {
	t.Parallel()
	s := fakeSite(t, 1)
	if err := s.workerOf(newNamed("a:b"), nothing, nil).Run(t.Context()); err == nil || !strings.Contains(err.Error(), `is "a:b"`) {
		t.Errorf("an id with a colon: %v", err)
	}
	for _, ids := range [][]string{{""}, {"one", "a:b"}, make([]string, maxMoved+1)} {
		c := quick()
		c.MovedFrom = ids
		if _, err := NewWorker(good(), memory.New(), nothing, c); err == nil || !strings.Contains(err.Error(), "Config.MovedFrom") {
			t.Errorf("%q: %v", ids, err)
		}
	}
}

func TestAnotherLedger(t *testing.T) {
	t.Parallel()
	id := topicID{1}
	for _, c := range []struct {
		note, ours, want string
	}{
		{noteIn("one", "here", id), "one", ""},
		{noteIn("one", "here", id), "two", "one"},
		{noteIn("one", "here", id), "", "one"},
		{noteIn("one", "here", topicID{}), "two", "one"},
		{noteIn("one", "there", id), "two", ""},
		{noteIn("old", "here", id), "two", ""},
		{noteOf("here", id), "two", ""},
		{"", "two", ""},
		{"consumer-1-2f0c", "two", ""},
		{noteLedgerPrefix, "two", ""},
		{noteLedgerPrefix + "one", "two", ""},
	} {
		if got := anotherLedger(c.note, "here", c.ours, []string{"old"}); got != c.want {
			t.Errorf("%q for %q: %q, want %q", c.note, c.ours, got, c.want)
		}
	}
	// Workers of before read no more than this. A note that names a ledger is a foreign one to them, and their topic's id in it
	// must not be taken for another one's.
	if strings.HasPrefix(noteIn("one", "here", id), "ackledger:2:") || !strings.HasPrefix(noteIn("one", "here", id), "ackledger:") {
		t.Error("a worker of the version before reads the note wrongly")
	}
}
