package replay_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/replay"
)

// far is a ledger a slow network away, whose renewals fail from the n-th on; 0: none does.
type far struct {
	*memory.Ledger
	takes time.Duration
	fails int

	mu      sync.Mutex
	renewed int
}

func (f *far) Renew(ctx context.Context, r ledger.Renewal) (ledger.Renewed, error) {
	time.Sleep(f.takes)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fails > 0 && f.renewed+1 >= f.fails {
		return ledger.Renewed{}, errors.New("unreachable")
	}
	if ctx.Err() != nil {
		return ledger.Renewed{}, ctx.Err()
	}
	f.renewed++
	return f.Ledger.Renew(ctx, r)
}

// sink is a target that takes everything.
type sink struct {
	mu   sync.Mutex
	took int
}

func (*sink) String() string                            { return "a sink" }
func (*sink) Begin(context.Context, replay.Begin) error { return nil }
func (*sink) Accept(*replay.Letter) error               { return nil }
func (*sink) Most() int                                 { return 500 }
func (*sink) End(context.Context) error                 { return nil }

func (s *sink) Send(_ context.Context, letters []*replay.Letter) []replay.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took += len(letters)
	out := make([]replay.Result, len(letters))
	for i := range out {
		out[i].Outcome = replay.Sent
	}
	return out
}

func alone(_ int, a *ledger.Archive) { a.Group = "" }

// Renewals go one by one, and all of a batch had fifteen seconds: from far away none was ever sent, and each try renewed the
// same messages once more.
func TestFreshKeysFromFarAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, s := &far{Ledger: memory.New(), takes: 4 * time.Second}, &sink{}
		failed(t, f.Ledger, 30, alone)
		report, err := replay.Run(t.Context(), f, replay.Archive(f), s, replay.Config{By: by, FreshKeys: true, Concurrency: 1})
		if err != nil || report.Replayed != 30 || s.took != 30 || f.renewed != 30 {
			t.Errorf("%v, %d sent, %d renewed: %+v", err, s.took, f.renewed, report)
		}
	})
}

// What was renewed before the ledger failed is sent, and counted.
func TestRenewalsBeforeAnError(t *testing.T) {
	t.Parallel()
	f, s := &far{Ledger: memory.New(), fails: 6}, &sink{}
	failed(t, f.Ledger, 9, alone)
	report, err := replay.Run(t.Context(), f, replay.Archive(f), s, replay.Config{By: by, FreshKeys: true, Concurrency: 1})
	if err == nil || !strings.Contains(err.Error(), "unreachable") || report.Replayed != 5 || s.took != 5 {
		t.Errorf("%v, %d sent: %+v", err, s.took, report)
	}
	if a := audits(t, f.Ledger); a[ledger.ActionReplay] != 5 {
		t.Errorf("audit: %v", a)
	}
}

// A run that is cancelled while some of the last letters that its limit allows wait for the rate is not done.
func TestCancelAtTheLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, s := memory.New(), &sink{}
		failed(t, l, 8, alone)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		time.AfterFunc(300*time.Millisecond, cancel)
		report, err := replay.Run(ctx, l, replay.Archive(l), s,
			replay.Config{By: by, Rate: 4, Concurrency: 4, Filter: ledger.Filter{Limit: 4}})
		if !errors.Is(err, replay.ErrStopped) || !errors.Is(err, context.Canceled) || s.took == 4 || !strings.Contains(report.Stopped, "run it again") {
			t.Errorf("%v, %d sent: %+v", err, s.took, report)
		}
	})
}

// deep is a source that knows how much it has.
type deep struct {
	replay.Source
	has int64
}

func (d *deep) Count(context.Context, *ledger.Filter) (int64, error) { return d.has, nil }

// The estimate is of what the source still has, whatever the filter selects of it, and of no more than is asked for.
func TestEstimate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		has   int64
		limit int
		least time.Duration
		most  time.Duration
	}{
		"all of a source":      {40, 0, 3 * time.Second, 10 * time.Second},
		"a few of a deep one":  {1_000_000, 12, 0, 3 * time.Second},
		"as far as it is deep": {40, 1000, 3 * time.Second, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := memory.New()
				failed(t, l, 40, alone)
				var seen []replay.Progress
				_, err := replay.Run(t.Context(), l, &deep{replay.Archive(l), c.has}, &sink{}, replay.Config{
					By: by, Rate: 4, Concurrency: 1, Interval: 2100 * time.Millisecond, Filter: ledger.Filter{Limit: c.limit},
					Progress: func(p replay.Progress) { seen = append(seen, p) },
				})
				if err != nil || len(seen) < 2 || seen[0].Left < c.least || seen[0].Left > c.most {
					t.Fatalf("%v, %+v", err, seen)
				}
				if last := seen[len(seen)-1]; last.Total < last.Seen || last.Report.Read > last.Seen {
					t.Errorf("at the end %+v", last)
				}
			})
		})
	}
}

// An error in the batch that reaches the limit was taken for the end of the run: all was well, and nothing was sent.
func TestErrorAtTheLimit(t *testing.T) {
	t.Parallel()
	f, s := &far{Ledger: memory.New(), fails: 3}, &sink{}
	failed(t, f.Ledger, 9, alone)
	report, err := replay.Run(t.Context(), f, replay.Archive(f), s,
		replay.Config{By: by, FreshKeys: true, Concurrency: 1, Filter: ledger.Filter{Limit: 5}})
	if err == nil || !strings.Contains(err.Error(), "unreachable") || report.Replayed != 2 || s.took != 2 {
		t.Errorf("%v, %d sent: %+v", err, s.took, report)
	}
}

// A deadline that comes before the rate allows all is no end of the run.
func TestDeadlineBeforeTheRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, s := memory.New(), &sink{}
		failed(t, l, 20, alone)
		ctx, cancel := context.WithTimeout(t.Context(), 1900*time.Millisecond)
		defer cancel()
		report, err := replay.Run(ctx, l, replay.Archive(l), s, replay.Config{By: by, Rate: 4, Concurrency: 1})
		if !errors.Is(err, replay.ErrStopped) || !errors.Is(err, context.DeadlineExceeded) || s.took == 20 || report.Replayed != int64(s.took) {
			t.Errorf("%v, %d sent: %+v", err, s.took, report)
		}
	})
}
