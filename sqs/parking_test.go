package sqs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
)

// A retry that waits in the ledger is deleted from its queue, and comes to its handler as the queue's message would.
func TestRetryIsParked(t *testing.T) {
	s := newSite(t, "", 100)
	var mu sync.Mutex
	var seen []consumer.Message
	c := steady()
	c.ParkAfter = time.Second
	ids := s.send("m")
	r := s.start(func(_ context.Context, m *consumer.Message) error {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, m.Clone())
		if len(seen) == 1 {
			return consumer.RetryAfter(errors.New("not yet"), 5*time.Second)
		}
		return nil
	}, c)
	parking := s.ledger
	eventually(t, "the worker is ready", func() bool { return r.Health().Ready })
	scope := r.queue.scope
	eventually(t, "it is parked", func() bool {
		n, err := parking.ParkedIn(t.Context(), scope)
		return err == nil && n.Messages == 1
	})
	s.empty()
	eventually(t, "it has succeeded", func() bool { return s.record(r.Worker, ids[0]).State == ledger.Succeeded })
	r.end()
	if n, err := parking.ParkedIn(context.Background(), scope); err != nil || n.Messages != 0 {
		t.Errorf("%+v, %v", n, err)
	}
	if len(seen) != 2 {
		t.Fatalf("%d runs", len(seen))
	}
	first, second := seen[0], seen[1]
	if first.Attempt != 1 || second.Attempt != 2 || string(second.Body) != "m" || second.ID != ids[0] || second.Source != first.Source ||
		second.Group != first.Group || !second.SentAt.Equal(first.SentAt) ||
		!slices.EqualFunc(first.Headers, second.Headers, func(a, b consumer.Header) bool {
			return a.Name == b.Name && string(a.Value) == string(b.Value) && a.Type == b.Type
		}) {
		t.Errorf("%+v\n%+v", first, second)
	}
}

// A FIFO group of which a message is parked keeps its order, through workers that come and go. The other groups go on, and the queue has
// nothing of what is parked any more.
func TestGroupIsParked(t *testing.T) { groupIsParked(t, true) }

// Workers without ParkGroups took over from those with it, as after a rollback, and ran groups ahead of what was parked of them.
func TestPitfall265_GroupsParkedBefore(t *testing.T) { groupIsParked(t, false) }

// groupIsParked has groups parked by one worker, and run by others, which have the setting or not.
func groupIsParked(t *testing.T, both bool) {
	const groups, each = 6, 12
	s := newSite(t, ".fifo", 100)
	var bodies []string
	for i := range each {
		for group := range groups {
			bodies = append(bodies, fmt.Sprintf("g%d:%d", group, i))
		}
	}
	s.send(bodies...)
	c := steady()
	c.ParkAfter, c.ParkGroups = time.Second, true
	var mu sync.Mutex
	order, done := map[string][]string{}, 0
	handle := func(_ context.Context, m *consumer.Message) error {
		group, n, _ := strings.Cut(string(m.Body), ":")
		if late := group == "g0" || group == "g3"; late && n == "2" && m.Attempt == 1 {
			return consumer.RetryAfter(errors.New("not yet"), 10*time.Second)
		}
		mu.Lock()
		defer mu.Unlock()
		if group != m.Group {
			t.Errorf("group %q, of %q", m.Group, m.Body)
		}
		order[group] = append(order[group], n)
		done++
		return nil
	}
	r := s.start(handle, c)
	s.empty()
	mu.Lock()
	if done != (groups-2)*each+4 {
		t.Errorf("%d are done, want all of %d groups and 2 of each other", done, groups-2)
	}
	mu.Unlock()
	r.end()
	s.send(fmt.Sprintf("g0:%d", each), fmt.Sprintf("g1:%d", each))
	c.ParkGroups = both
	one, two := s.start(handle, c), s.start(handle, c)
	eventually(t, "all are done", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return done >= groups*each+2
	})
	one.end()
	two.end()
	for group, list := range order {
		for i, n := range list {
			if n != fmt.Sprint(i) {
				t.Errorf("%s: %q", group, list)
				break
			}
		}
	}
}
