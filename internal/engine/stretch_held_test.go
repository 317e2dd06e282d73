package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// heldLedger answers the first settlement of a stretch that another transaction holds the log.
type heldLedger struct {
	ledger.Ledger
	mu    sync.Mutex
	held  bool
	calls [][]int64 // offsets that were settled one by one, by call
}

type heldOwner struct {
	ledger.StretchOwner
	l *heldLedger
}

func (l *heldLedger) Join(ctx context.Context, d time.Duration) (ledger.Owner, error) {
	o, err := l.Ledger.Join(ctx, d)
	if err != nil {
		return nil, err
	}
	return &heldOwner{ledger.Ungroup(o).(ledger.StretchOwner), l}, nil
}

func (o *heldOwner) SettleStretches(ctx context.Context, d []ledger.StretchDone) ([]error, error) {
	o.l.mu.Lock()
	defer o.l.mu.Unlock()
	if o.l.held {
		o.l.held = false
		return slices.Repeat([]error{errors.New("held")}, len(d)), nil
	}
	return o.StretchOwner.SettleStretches(ctx, d)
}

func (o *heldOwner) Settle(ctx context.Context, s []ledger.Settlement) ([]error, error) {
	o.l.mu.Lock()
	defer o.l.mu.Unlock()
	var call []int64
	for i := range s {
		sum := s[i].Ticket.Sum()
		call = append(call, int64(sum[15]))
	}
	slices.Sort(call)
	o.l.calls = append(o.l.calls, call)
	return o.StretchOwner.Settle(ctx, s)
}

// The ledger says of a stretch that another transaction holds its log, for now: each record was then settled again by
// itself, in any order, although they are of one lane.
func TestHeldStretchKeepsItsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &heldLedger{Ledger: memory.New()}
		s := &stretches{t: t, acks: map[int64]int{}, keeps: map[int64]int{}}
		s.startOn(l, func(context.Context, *consumer.Message) error { return nil })
		pass(time.Second)
		l.held, l.calls = true, nil
		r := s.records(100)
		r.lane = func(string) string { return "p" }
		s.OfferStretch(r.stretch())
		pass(time.Minute)
		if order := slices.Concat(l.calls...); len(order) != 100 || !slices.IsSorted(order) {
			t.Errorf("%d calls, the records of one lane were settled in the order %v", len(l.calls), order)
		}
		end(t, s.Engine)
	})
}

// startOn begins an engine on l, whose handlers are known to be quick.
func (s *stretches) startOn(l ledger.Ledger, h consumer.HandlerFunc) {
	s.t.Helper()
	o, err := options().WithDefaults()
	if err != nil {
		s.t.Fatal(err)
	}
	s.Engine, err = engine.New(engine.Config{Options: o, Ledger: l, Sink: s, Handler: h, Suspects: consumer.NewLimiter(1)})
	if err == nil {
		err = s.Start(s.t.Context())
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.Offer(s.records(10).Items(0, 10))
}

// A handler's context that is printed after the handler has returned, by a goroutine that it left behind: with -race.
func TestContextIsPrintedAfterItsHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stretches{t: t, acks: map[int64]int{}, keeps: map[int64]int{}}
		n := 0
		s.startOn(&link{Ledger: memory.New(), stretches: true}, func(ctx context.Context, _ *consumer.Message) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			if n++; n%50 == 0 {
				late := time.Duration(n%7) * 100 * time.Microsecond
				go func() { time.Sleep(late); _ = fmt.Sprint(ctx) }()
			}
			return nil
		})
		for range 20 {
			pass(time.Second)
			s.offer(500)
		}
		pass(time.Minute)
		if s.whole == 0 {
			t.Error("no stretch came back whole")
		}
		end(t, s.Engine)
	})
}
