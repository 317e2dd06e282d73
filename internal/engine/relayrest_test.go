package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/ledger/storage"
)

// taken counts how often lanes are taken.
type taken struct {
	*memory.Ledger
	n atomic.Int64
}

func (l *taken) TakeLane(ctx context.Context, targets []string, lease time.Duration) (ledger.Lane, bool, error) {
	lane, ok, err := l.Ledger.TakeLane(ctx, targets, lease)
	if ok {
		l.n.Add(1)
	}
	return lane, ok, err
}

// resting is a relay of a target, with a ledger that counts.
func resting(t *testing.T, a consumer.Publisher) (*relaying, *taken) {
	t.Helper()
	l := &taken{Ledger: memory.New()}
	r, err := engine.NewRelay(l, consumer.Relay{Targets: map[string]consumer.Publisher{"a": a}, HoldKeys: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var over sync.WaitGroup
	over.Go(func() {
		defer r.Close()
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); over.Wait() })
	return &relaying{T: t, Ledger: l.Ledger}, l
}

// TestPitfall275_NothingDueIsBusy: of each lane one message waits for its next try, and the lanes are taken and given back all the time.
func TestPitfall275_NothingDueIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, l := resting(t, &shop{refuse: func(*consumer.Publication, int) error { return errNever }})
		lanes := map[int]bool{}
		for i := 0; len(lanes) < ledger.Lanes; i++ {
			m := keyed(fmt.Sprint("k", i), "refused")
			if shard, _ := storage.LaneOf(&m); !lanes[shard] {
				lanes[shard] = true
				r.publish(m)
			}
		}
		time.Sleep(10 * time.Minute) // by now 15 s and more lie between two tries
		before := l.n.Load()
		time.Sleep(time.Minute)
		// Once a second, and once more for each of at most four tries.
		if n := l.n.Load() - before; n > ledger.Lanes*(60+2*4) {
			t.Fatalf("lanes were taken %d times in a minute", n)
		}
	})
}

// TestRelayRestsNoLonger: a lane is looked at when its first message is due, and what is published for a lane that was sent to its end does
// not wait for what waits in others.
func TestRelayRestsNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refusals := 1
		a := &shop{refuse: func(*consumer.Publication, int) error {
			if refusals--; refusals >= 0 {
				return errors.New("once")
			}
			return nil
		}}
		r, _ := resting(t, a)
		// The first refusal of a message that came alone is an outage of its target: 200 ms. Then the message has 200 ms more.
		r.publish(keyed("k", "1"))
		time.Sleep(700 * time.Millisecond)
		if got := fmt.Sprint(a.bodies()); got != "[1]" {
			t.Fatalf("sent %s", got)
		}
		for range 20 {
			r.publish(keyed("k", "more"))
			time.Sleep(200 * time.Millisecond)
		}
		if n := len(a.bodies()); n != 21 {
			t.Fatalf("%d were sent within 200 ms, want 21", n)
		}
	})
}
