package kafka

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/twmb/franz-go/pkg/kgo"
)

// What follows is played on kfake here and on the real broker in real_test.go, with both group protocols.

var protocols = map[string][]kgo.Opt{"classic": nil, "KIP-848": {kgo.ServerSideBalancer()}}

// onBoth plays a scenario in process with both group protocols, and both ways to hold records.
func onBoth(t *testing.T, partitions int32, scenario func(*site)) {
	inBoth(t, func(t *testing.T, audit Audit) {
		onBothProtocols(t, partitions, func(s *site) { scenario(s.with(audit)) })
	})
}

// onBothProtocols is onBoth for scenarios that choose themselves how records are held.
func onBothProtocols(t *testing.T, partitions int32, scenario func(*site)) {
	for name, opts := range protocols {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fakeSite(t, partitions)
			s.opts = opts
			scenario(s)
		})
	}
}

// A commit of the highest offset SEEN, when partitions are revoked, loses what is between it and the first unfinished
// record. Only the finished prefix may be committed; the rest is handled by the next owner.
func TestPitfall52_RevokeCommitsTheFinishedPrefix(t *testing.T) { onBoth(t, 2, revokeCommitsThePrefix) }

func revokeCommitsThePrefix(s *site) {
	t := s.t
	values := append(numbers("p0-", 10), numbers("p1-", 10)...)
	s.send(0, values[:10]...)
	s.send(1, values[10:]...)
	a, b := newBook(), newBook()
	held := func(m *consumer.Message) bool { return m.Offset == 3 }
	first := s.start(func(ctx context.Context, m *consumer.Message) error {
		if held(m) {
			<-ctx.Done() // unfinished until it is told that the partition went, or that the worker stops
			return ctx.Err()
		}
		return a.handle(ctx, m)
	}, revokeIn(300*time.Millisecond))
	eventually(t, "all but the held ones are handled", func() bool { return a.len() == 18 })
	second := s.start(b.handle, nil)
	second.owns(1)
	eventually(t, "the next owner handles what was held", func() bool { return b.len() == 1 })
	for p := range int32(2) {
		if at := s.committed(p); at != 3 && b.runs[fmt.Sprintf("p%d-3", p)] == 0 {
			t.Errorf("partition %d is committed to %d while its record 3 is not handled", p, at)
		}
	}
	first.end()
	s.caughtUp()
	second.end()
	a.mu.Lock()
	for v, n := range a.runs {
		b.runs[v] += n
	}
	a.mu.Unlock()
	b.once(t, values)
}

func revokeIn(d time.Duration) *Config {
	c := quick()
	c.RevokeDrain, c.Drain = d, 5*time.Second // a tenth of it is what handlers have that wait until they are told to end
	return c
}

// gate holds handlers, deaf to their context, until it is opened.
type gate struct {
	open chan struct{}
	once sync.Once
}

func newGate(t *testing.T) *gate {
	g := &gate{open: make(chan struct{})}
	t.Cleanup(g.release)
	return g
}

func (g *gate) release() { g.once.Do(func() { close(g.open) }) }

// A handler of the old owner ends after its partition went to another member. Its commit, late, would rewind the group
// (Kafka accepts it from any member). It may change the ledger, and nothing else.
func TestPitfall53_LateCompletionMovesNoOffset(t *testing.T) { onBoth(t, 2, lateCompletion) }

func lateCompletion(s *site) {
	t := s.t
	values := append(numbers("p0-", 10), numbers("p1-", 10)...)
	s.send(0, values[:10]...)
	s.send(1, values[10:]...)
	g, a := newGate(t), newBook()
	first := s.start(func(ctx context.Context, m *consumer.Message) error {
		if m.Offset == 3 {
			<-g.open
		}
		return a.handle(ctx, m)
	}, revokeIn(50*time.Millisecond))
	eventually(t, "all but the held ones are handled", func() bool { return a.len() == 18 })
	second := s.start(a.handle, nil)
	second.owns(1)
	moved := s.movedTo(second)
	s.send(moved, numbers("new-", 5)...)
	eventually(t, "the new owner handles what is new", func() bool { return a.len() == 23 })
	eventually(t, "the position stays before what the old owner has not finished", func() bool { return s.committed(moved) == 3 })
	g.release()
	eventually(t, "the whole partition is committed", func() bool {
		at := s.committed(moved)
		if at != 3 && at != 15 { // the new owner's next commit is of all; anything else is the old one's
			t.Fatalf("the old owner committed %d after its partition went", at)
		}
		return at == 15
	})
	for deadline := time.Now().Add(300 * time.Millisecond); time.Now().Before(deadline); {
		if at := s.committed(moved); at != 15 {
			t.Fatalf("the offset went back from 15 to %d", at)
		}
	}
	first.end()
	second.end()
	a.once(t, append(values, numbers("new-", 5)...))
}

// movedTo is the partition that a worker owns.
func (s *site) movedTo(r *running) int32 {
	s.t.Helper()
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	for _, a := range r.table.core.All() {
		return a.Partition
	}
	s.t.Fatal("the worker owns no partition")
	return -1
}

// A partition goes and comes back while a record of it is in its handler. An entry left in the tracker would swallow the
// redelivered record, or a late completion would count for the wrong delivery.
func TestPitfall54_RevokedAndAssignedAgainWithWorkInFlight(t *testing.T) { onBoth(t, 2, awayAndBack) }

func awayAndBack(s *site) {
	t := s.t
	values := append(numbers("p0-", 10), numbers("p1-", 10)...)
	s.send(0, values[:10]...)
	s.send(1, values[10:]...)
	g, b := newGate(t), newBook()
	first := s.start(func(ctx context.Context, m *consumer.Message) error {
		if m.Offset == 3 {
			<-g.open
		}
		return b.handle(ctx, m)
	}, revokeIn(50*time.Millisecond))
	eventually(t, "all but the held ones are handled", func() bool { return b.len() == 18 })
	second := s.start(b.handle, nil)
	second.owns(1)
	second.end()
	first.owns(2)
	for p := range int32(2) {
		if at := s.committed(p); at != 3 {
			t.Errorf("partition %d is committed to %d while its record 3 is in its handler", p, at)
		}
	}
	g.release()
	s.caughtUp()
	first.end()
	b.once(t, values)
}

// Pauses of the client outlive a rebalance, and counters that leak stop a worker for good after enough of them.
func TestPitfall55_HundredRebalancesLeakNoPause(t *testing.T) {
	inBoth(t, func(t *testing.T, audit Audit) {
		s := fakeSite(t, 2).with(audit)
		s.opts = []kgo.Opt{kgo.HeartbeatInterval(40 * time.Millisecond)}
		b := newBook()
		c := revokeIn(20 * time.Millisecond)
		c.Span = 2 // reached with every few records
		var hold atomic.Pointer[gate]
		r := s.start(func(ctx context.Context, m *consumer.Message) error {
			if g := hold.Load(); g != nil && string(m.Body) == "held" {
				<-g.open
				return nil
			}
			return b.handle(ctx, m)
		}, c)
		r.owns(2)
		var want []string
		for i := range 50 { // each is a join and a leave
			g := newGate(t)
			if i%10 == 5 { // certain to be paused, until after the revoke
				hold.Store(g)
				s.send(0, "held", "held")
				s.send(1, "held", "held")
				eventually(t, "both are paused", func() bool { return len(r.kgo.PauseFetchPartitions(nil)[s.topic]) == 2 })
			}
			other, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...), kgo.ConsumerGroup(s.group), kgo.ConsumeTopics(s.topic),
				kgo.DisableAutoCommit(), kgo.HeartbeatInterval(40*time.Millisecond))
			if err != nil {
				t.Fatal(err)
			}
			values := numbers(fmt.Sprintf("%d-", i), 4)
			s.send(0, values[:2]...)
			s.send(1, values[2:]...)
			want = append(want, values...)
			r.owns(1)
			g.release()
			other.Close()
			r.owns(2)
		}
		eventually(t, "all are handled", func() bool { return b.len() == len(want) })
		s.caughtUp()
		if p := r.kgo.PauseFetchPartitions(nil); len(p) != 0 {
			t.Errorf("still paused: %v", p)
		}
		r.table.mu.Lock()
		for _, a := range r.table.core.All() {
			if n, _ := a.Held(); n != 0 || a.Span() != 0 {
				t.Errorf("%v: %d in hand, span %d", a.TopicPartition, n, a.Span())
			}
		}
		r.table.mu.Unlock()
		r.end()
		b.once(t, want)
	})
}

// A revoke that finds 2,000 claimed records in the queue: they are released at once and count no attempt, or ten
// deploys in a row exhaust messages that never ran.
func TestPitfall98_RevokeReleasesTheQueueUncounted(t *testing.T) {
	inBoth(t, func(t *testing.T, audit Audit) {
		s := fakeSite(t, 2).with(audit)
		values := append(numbers("p0-", 1500), numbers("p1-", 1500)...)
		s.send(0, values[:1500]...)
		s.send(1, values[1500:]...)
		var mu sync.Mutex
		attempts := map[string]int{}
		slow := newGate(t)
		handler := func(ctx context.Context, m *consumer.Message) error {
			select {
			case <-slow.open:
			case <-ctx.Done():
				return ctx.Err()
			}
			mu.Lock()
			defer mu.Unlock()
			attempts[string(m.Body)] = m.Attempt
			return nil
		}
		c := revokeIn(20 * time.Millisecond)
		c.Concurrency = 1
		first := s.start(handler, c)
		for range 10 {
			first.owns(2)
			eventually(t, "records are claimed ahead", func() bool { return first.eng.Load().Held > 1000 })
			other := s.start(handler, c)
			other.owns(1)
			other.end()
		}
		slow.release()
		s.caughtUp()
		first.end()
		mu.Lock()
		defer mu.Unlock()
		if len(attempts) != len(values) {
			t.Errorf("%d of %d were handled", len(attempts), len(values))
		}
		for v, n := range attempts {
			if n != 1 {
				t.Fatalf("%s ran in attempt %d: a release was counted", v, n)
			}
		}
	})
}

// Run ends during a rebalance whose revocation drains, with its own callbacks under way: nothing waits for itself.
func TestPitfall62_ClosingDuringARebalance(t *testing.T) { onBoth(t, 2, closeDuringARebalance) }

func closeDuringARebalance(s *site) {
	t := s.t
	s.send(0, numbers("p0-", 5)...)
	s.send(1, numbers("p1-", 5)...)
	started := make(chan struct{}, 100)
	first := s.start(func(ctx context.Context, _ *consumer.Message) error {
		started <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}, revokeIn(3*time.Second))
	<-started
	second := s.start(nothing, nil)
	eventually(t, "a revocation is under way", func() bool { return first.owned() == 1 })
	first.stop()
	first.stop()
	if err := first.wait(); err != nil {
		t.Logf("the handlers were cut short: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := first.Run(ended); err == nil { // not a worker that ended at once, either
		t.Error("a worker ran twice")
	}
	s.caughtUp()
	second.end()
}

// A worker whose context ends before, or while, it begins.
func TestPitfall62_ClosingAtTheStart(t *testing.T) {
	t.Parallel()
	s := fakeSite(t, 1)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.worker(nothing, nil).Run(ended); err != nil {
		t.Errorf("ended before it began: %v", err)
	}
	for i := range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i*20)*time.Millisecond)
		if err := s.worker(nothing, nil).Run(ctx); err != nil {
			t.Errorf("ended after %d ms: %v", i*20, err)
		}
		cancel()
	}
}
