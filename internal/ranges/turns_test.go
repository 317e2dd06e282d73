package ranges

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

func newTurns() *turns { return &turns{of: map[Log]*turn{}} }

// waits says whether a call for the turns of logs has to wait, and takes them if not.
func (t *turns) waits(logs ...Log) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return t.take(ctx, logs) != nil
}

func TestTurnsAreOfLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTurns()
		a, b, c := Log{1}, Log{2}, Log{3}
		if s.waits(a, b) || s.waits(c) {
			t.Fatal("what is free has to be waited for")
		}
		if !s.waits(b) || s.try(b) {
			t.Error("a turn was given twice")
		}
		s.give([]Log{c})
		if !s.waits(b, c) { // gives up, and c is free again
			t.Error("half of the turns was enough")
		}
		if !s.try(c) {
			t.Error("who gave up keeps a turn")
		}
		s.give([]Log{a, b})
		s.give([]Log{c})
		if len(s.of) != 0 {
			t.Errorf("%d turns are left that nobody has", len(s.of))
		}
	})
}

// TestTurnsGiveUp: an error says that no turn was taken, and why.
func TestTurnsGiveUp(t *testing.T) {
	s := newTurns()
	if !s.try(Log{1}) {
		t.Fatal("taken")
	}
	why := errors.New("ended")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if err := s.take(ctx, []Log{{0}, {1}, {2}}); !errors.Is(err, why) {
		t.Errorf("%v", err)
	}
	s.give([]Log{{1}})
	if err := s.take(ctx, []Log{{1}}); err != nil { // what is free is taken
		t.Error(err)
	}
	s.give([]Log{{1}})
	if len(s.of) != 0 {
		t.Errorf("%d turns are left", len(s.of))
	}
}

// TestTurnsComeToAll: calls for any logs neither meet nor wait in a circle.
func TestTurnsComeToAll(t *testing.T) {
	t.Parallel()
	s := newTurns()
	var has [4]int // by log; the race detector sees who meets
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(n)))
			for range 500 {
				var logs []Log
				for range 1 + r.IntN(4) {
					logs = append(logs, Log{byte(r.IntN(len(has)))})
				}
				logs = sortLogs(logs)
				if err := s.take(t.Context(), logs); err != nil {
					t.Error(err)
					return
				}
				for _, log := range logs {
					has[log[0]]++
				}
				s.give(logs)
			}
		})
	}
	all.Wait()
	if has[0] == 0 || len(s.of) != 0 {
		t.Errorf("%v, %d turns are left", has, len(s.of))
	}
}

// waiting is a store whose calls wait until the test lets one go on.
type waiting struct {
	Store
	under atomic.Int32
	next  chan struct{}
}

func (s *waiting) Open(_ context.Context, openings []Opening) ([]bool, error) {
	s.under.Add(1)
	<-s.next
	s.under.Add(-1)
	opened := make([]bool, len(openings))
	for i := range opened {
		opened[i] = true
	}
	return opened, nil
}

func (s *waiting) Update(_ context.Context, queries []Query, plan func(int, *Facts) Change) error {
	s.under.Add(1)
	<-s.next
	s.under.Add(-1)
	for i := range queries {
		plan(i, &Facts{Token: 1, Ranges: []Range{{Token: 1, Span: Span{0, 10}, Holder: ledger.Mine, Messages: 10}}})
	}
	return nil
}

// recordOf is the first record of a log's stretch, and the log.
func recordOf(partition string, offset int64) (e ledger.Entry, log Log) {
	e = ledger.Entry{Ranged: true, Window: time.Hour, Delivery: []byte("d"), Key: ledger.Key{
		Scope: "scope", ID: fmt.Appendf(nil, "t-%s-%d", partition, offset),
		Pos: &ledger.Position{Log: "c/t/" + partition, Offset: offset, Prev: offset - 1},
	}}
	log, _ = SplitSum(e.Key.Sum())
	return e, log
}

// TestCallsOfOtherLogsGoSideBySide: an owner's claims, and its settlements, wait for those of the same log alone.
func TestCallsOfOtherLogsGoSideBySide(t *testing.T) {
	claim := func(o *Owner, e ledger.Entry, _ Log) error {
		tokens, err := o.ClaimStretches(context.Background(), []ledger.Stretch{{First: e, Last: e.Key.Pos.Offset + 9}})
		if err == nil && tokens[0] == 0 {
			err = errors.New("not claimed")
		}
		return err
	}
	each := func(o *Owner, e ledger.Entry, _ Log) error {
		claims, err := o.Claim(context.Background(), []ledger.Entry{e})
		if err == nil && claims[0].Answer != ledger.Run {
			err = fmt.Errorf("%+v", claims[0])
		}
		return err
	}
	settle := func(o *Owner, e ledger.Entry, log Log) error {
		errs, err := o.Settle(context.Background(), []ledger.Settlement{success(log, e.Key.Pos.Offset, 1)})
		return errors.Join(append(errs, err)...)
	}
	for name, c := range map[string]struct {
		call  func(*Owner, ledger.Entry, Log) error
		later int64
	}{"claims": {claim, 10}, "claims of one record": {each, 10}, "settlements": {settle, 1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &waiting{next: make(chan struct{})}
				o := NewOwner(s, ledger.DefaultLimits, new(Counts))
				var all sync.WaitGroup
				begin := func(partition string, offset int64) {
					e, log := recordOf(partition, offset)
					if o.logs[log] == nil {
						o.logs[log] = &held{known: true, info: Info{Log: log, Scope: "scope", Prefix: "t-" + partition + "-"}, past: map[uint64]past{},
							open: map[uint64]*open{1: {Range: Range{Token: 1, Span: Span{0, 10}, Messages: 10}}}}
					}
					all.Go(func() {
						if err := c.call(o, e, log); err != nil {
							t.Error(err)
						}
					})
					synctest.Wait()
				}
				begin("0", 0)
				begin("1", 0)
				if s.under.Load() != 2 {
					t.Errorf("%d calls of two logs are under way, want 2", s.under.Load())
				}
				begin("0", c.later)
				if s.under.Load() != 2 {
					t.Errorf("%d calls are under way: two of one log are", s.under.Load())
				}
				close(s.next)
				all.Wait()
			})
		})
	}
}

// TestFlushComesBack: a range that is over, in a log in which something is being settled just then, is closed by a later flush,
// and with many others by a claim of its own log, which waits for no few; a claim of another one leaves it alone.
func TestFlushComesBack(t *testing.T) {
	s := &waiting{next: make(chan struct{})}
	close(s.next)
	o := NewOwner(s, ledger.DefaultLimits, new(Counts))
	over := func(log Log, n uint64) {
		h := &held{open: map[uint64]*open{}, past: map[uint64]past{}}
		for i := range n {
			span := Span{int64(i) * 10, int64(i)*10 + 10}
			h.open[i+1] = &open{Range: Range{Token: i + 1, Span: span, Messages: 10, Done: setOf(span)}}
		}
		o.logs[log] = h
		o.ripe.Store(1)
	}
	left := func(log Log) int { return len(o.logs[log].open) }
	busy, other := Log{1}, Log{2}
	over(busy, 1)
	over(other, 1)
	if !o.saves.try(busy) {
		t.Fatal("taken")
	}
	o.flush(t.Context())
	if left(busy) != 1 || left(other) != 0 || o.ripe.Load() == 0 {
		t.Errorf("%d ranges of the busy log, %d of the other, ripe %d", left(busy), left(other), o.ripe.Load())
	}
	o.saves.give([]Log{busy})
	o.flushOf(t.Context(), []Log{other})
	if left(busy) != 1 {
		t.Error("a claim of another log has closed it")
	}
	o.flush(t.Context())
	if left(busy) != 0 || o.ripe.Load() != 0 || len(o.saves.of) != 0 {
		t.Errorf("%d ranges, ripe %d, %d turns", left(busy), o.ripe.Load(), len(o.saves.of))
	}
	for n, want := range map[uint64]int{manyOver - 1: manyOver - 1, manyOver: 0} {
		over(busy, n)
		if o.flushOf(t.Context(), []Log{busy}); left(busy) != want {
			t.Errorf("%d ranges are over, and a claim of their log leaves %d, want %d", n, left(busy), want)
		}
	}
}
