package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

var errOnPurpose = errors.New("on purpose")

// storm is what the handlers of a storm have in common.
type storm struct {
	t      *testing.T
	b      *bench
	plain  sync.Map // offsets that a plain success was answered for; false: perhaps, its first answer was lost
	counts [8]atomic.Int64
	end    time.Time
}

func (s *storm) insert(ctx context.Context, a *ledger.Attempt, offsets []int64, fail bool) error {
	run := inTx
	if rand.IntN(6) == 0 {
		run = inSQLTx
	}
	return run(ledger.WithAttempt(ctx, a), func(ctx context.Context) error {
		for _, o := range offsets {
			if err := ctx.Value(inserterKey{}).(inserter)(ctx, fmt.Sprint(o)); err != nil {
				return err
			}
		}
		if fail {
			return errOnPurpose
		}
		return nil
	})
}

// settle repeats a settlement until it is answered.
func (s *storm) settle(o ledger.Owner, one ledger.Settlement) error {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		began := time.Now()
		errs, err := o.Settle(ctx, []ledger.Settlement{one})
		cancel()
		if d := time.Since(began); d > 4*time.Second {
			s.t.Logf("a settlement took %s: %v", d, err)
		}
		switch {
		case err == nil && (errs[0] == nil || ledger.IsLost(errs[0])):
			return errs[0]
		case time.Now().After(s.end):
			return fmt.Errorf("never answered: %w", errors.Join(append(errs, err)...))
		case ledger.IsLost(err):
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// claim asks until the entries are ours (Run) or done; ok false: the owner is lost.
func (s *storm) claim(o ledger.Owner, es []ledger.Entry) (out []ledger.Claim, ok bool) {
	out = make([]ledger.Claim, len(es))
	left := make([]int, len(es))
	began, since := time.Now(), time.Now()
	for i := range left {
		left[i] = i
	}
	for len(left) > 0 {
		if time.Now().After(s.end) {
			s.t.Errorf("never claimed: %s", es[left[0]].Key.ID)
			return nil, false
		}
		ask := make([]ledger.Entry, len(left))
		for k, i := range left {
			ask[k] = es[i]
			ask[k].Solo = true
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		claims, err := ledger.Ungroup(o).Claim(ctx, ask) // a group waits 10 s after an unknown answer
		cancel()
		if ledger.IsLost(err) {
			return nil, false
		}
		if time.Since(since) > 6*time.Second {
			since = time.Now()
			s.t.Logf("still asking %s %s: %+v, %v", es[left[0]].Key.ID, time.Since(began), claims, err)
		}
		if err != nil {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		var next []int
		for k, i := range left {
			if c := claims[k]; c.Answer == ledger.Run || c.Answer == ledger.Done || c.Answer == ledger.Spent {
				out[i] = c
			} else {
				next = append(next, i)
			}
		}
		if left = next; len(left) > 0 {
			time.Sleep(5 * time.Millisecond)
		}
	}
	return out, true
}

// handle works on messages until they are done; false: the owner is lost.
func (s *storm) handle(o ledger.Owner, es []ledger.Entry, first []ledger.Claim) bool {
	if len(es) > 1 { // a batch
		var tickets []ledger.Ticket
		var offsets []int64
		for i, c := range first {
			if c.Answer == ledger.Run {
				tickets, offsets = append(tickets, c.Ticket), append(offsets, es[i].Key.Pos.Offset)
			}
		}
		if len(tickets) > 0 {
			a := ledger.NewBatchAttempt(o, tickets)
			_ = s.insert(context.Background(), a, offsets, rand.IntN(4) == 0)
			st, _ := a.State()
			s.counts[st].Add(1)
			if st == ledger.AttemptOpen { // again at once, one by one
				for i := range es {
					if first[i].Answer == ledger.Run && !s.handle(o, es[i:i+1], first[i:i+1]) {
						return false
					}
				}
				return true
			}
			if st == ledger.AttemptSucceeded {
				return true
			}
		}
		for i := range es {
			c, ok := s.claim(o, es[i:i+1])
			if !ok || !s.handle(o, es[i:i+1], c) {
				return false
			}
		}
		return true
	}
	e, c := es[0], first[0]
	for c.Answer != ledger.Done {
		if !s.once(o, e, c) {
			return true
		}
		again, ok := s.claim(o, es)
		if !ok {
			return false
		}
		c = again[0]
	}
	return true
}

// once runs one attempt; false: it is done.
func (s *storm) once(o ledger.Owner, e ledger.Entry, c ledger.Claim) (again bool) {
	at := e.Key.Pos.Offset
	a := ledger.NewAttempt(o, c.Ticket)
	release := ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Release, Count: rand.IntN(2) == 0, Fingerprint: e.Fingerprint}
	switch k := rand.IntN(100); {
	case k < 3:
		_ = s.settle(o, release)
		return true
	case k < 6:
		if err := s.settle(o, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed}); err != nil {
			s.plain.Store(at, false)
			return true
		}
		s.plain.Store(at, true)
		return false
	case k < 9:
		_ = a.SetResult([]byte("r"))
	case k < 13:
		_ = s.insert(context.Background(), a, []int64{at}, true)
		_ = s.settle(o, release)
		return true
	case k < 20: // it is given back in the midst of it
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = s.insert(context.Background(), a, []int64{at}, false)
		}()
		time.Sleep(time.Duration(rand.IntN(6000)) * time.Microsecond)
		_ = s.settle(o, release)
		if rand.IntN(2) == 0 {
			<-ended
		}
		return true
	}
	ctx, cancel := context.WithCancel(context.Background())
	if rand.IntN(20) == 0 {
		go func() { time.Sleep(time.Duration(rand.IntN(5000)) * time.Microsecond); cancel() }()
	}
	_ = s.insert(ctx, a, []int64{at}, false)
	cancel()
	state, _ := a.State()
	s.counts[state].Add(1)
	switch state {
	case ledger.AttemptSucceeded:
		return false
	case ledger.AttemptOpen:
		_ = s.settle(o, release)
	}
	return true
}

// TestFenceStorm: 32 handlers of one log insert by InTx, one by one and in batches, fail, give messages back in the midst of it, set
// results, or succeed without a transaction; in calm, with connections that are cut or held at COMMIT, and with an owner that is
// declared dead. Each message has one effect, or its plain success.
func TestFenceStorm(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead} {
		for _, mode := range []string{"calm", "cuts", "dead"} {
			t.Run(fmt.Sprint(level, " ", mode), func(t *testing.T) { t.Parallel(); fenceStorm(t, level, mode) })
		}
	}
}

func fenceStorm(t *testing.T, level pgx.TxIsoLevel, mode string) {
	direct := newBench(t, variant{})
	cut, url := newCutter(t, direct.url)
	b := openBench(t, url, variant{mode: pgx.QueryExecModeExec, cfg: &postgres.Config{Isolation: level, LockWait: 200 * time.Millisecond, CommitLimit: 3 * time.Second}})
	s := &storm{t: t, b: b, end: time.Now().Add(3 * time.Minute)}
	es := withGaps(300)
	o := join(t, b, 10*time.Minute)
	switch mode {
	case "cuts":
		stop := cutCommits(cut)
		s.work(o, es, nil)
		stop()
	case "dead":
		s.work(o, es, func() { declareDead(t, direct, o) })
		o = join(t, b, 10*time.Minute)
		s.work(o, es, nil)
	default:
		s.work(o, es, nil)
	}
	poll(t, "what was late", func() bool {
		return direct.number(t, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL") == 0
	})
	t.Logf("%d open, %d succeeded, %d lost, %d unknown, %d cuts", s.counts[ledger.AttemptOpen].Load(), s.counts[ledger.AttemptSucceeded].Load(),
		s.counts[ledger.AttemptLost].Load(), s.counts[ledger.AttemptUnknown].Load(), cut.count())
	s.check(direct, es)
	_ = o.Leave(t.Context())
	claimsOf(t, join(t, direct, time.Minute), es, ledger.Done)
	if n := direct.number(t, `SELECT count(*) FROM ackledger.segment a JOIN ackledger.segment b ON a.log = b.log AND a.first < b.first
		AND b.first < a.last`); n != 0 {
		t.Errorf("%d segments meet", n)
	}
}

// withGaps are n records of a log, of which some offsets were never delivered.
func withGaps(n int) (es []ledger.Entry) {
	prev := int64(-1)
	for _, e := range records("s", 0, 0, 2*n) {
		if rand.IntN(10) < 7 && len(es) < n {
			e.Key.Pos.Prev, prev = prev, e.Key.Pos.Offset
			es = append(es, e)
		}
	}
	return es
}

// cutCommits cuts connections before and behind COMMIT, and holds some, until it is stopped.
func cutCommits(cut *cutter) (stop func()) {
	var chaos sync.WaitGroup
	over := make(chan struct{})
	chaos.Go(func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(time.Duration(100+rand.IntN(200)) * time.Millisecond):
			}
			switch rand.IntN(3) {
			case 0:
				cut.mu.Lock()
				cut.held = nil
				cut.mu.Unlock()
				cut.cutBefore("commit\x00")
			case 1:
				cut.cutAfter("commit\x00", false)
			case 2:
				time.AfterFunc(time.Duration(rand.IntN(1500))*time.Millisecond, cut.delay())
			}
		}
	})
	return func() {
		close(over)
		chaos.Wait()
		cut.arm("", false, false)
	}
}

// work has 32 handlers handle all; half, if it is given, is called in the midst of it.
func (s *storm) work(o ledger.Owner, es []ledger.Entry, half func()) {
	type job struct {
		es []ledger.Entry
		cs []ledger.Claim
	}
	jobs := make(chan job)
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for j := range jobs {
				s.handle(o, j.es, j.cs)
			}
		})
	}
	for from := 0; from < len(es); from += 100 {
		if half != nil && from > len(es)/2 {
			half()
		}
		part := es[from:min(from+100, len(es))]
		claims, ok := s.claim(o, part)
		if !ok {
			break
		}
		for i := 0; i < len(part); {
			k := 1
			if rand.IntN(8) == 0 {
				k = min(1+rand.IntN(4), len(part)-i)
			}
			jobs <- job{part[i : i+k], claims[i : i+k]}
			i += k
		}
	}
	close(jobs)
	wg.Wait()
}

// check checks the effects of all.
func (s *storm) check(direct *bench, es []ledger.Entry) {
	got := map[string]int{}
	rows, _ := direct.pool.Query(s.t.Context(), "SELECT id, count(*) FROM effects GROUP BY id")
	var id string
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&id, &n}, func() error { got[id] = n; return nil }); err != nil {
		s.t.Fatal(err)
	}
	for _, e := range es {
		at := e.Key.Pos.Offset
		sure, plain := s.plain.Load(at)
		if n := got[fmt.Sprint(at)]; n > 1 || !plain && n != 1 || plain && sure.(bool) && n != 0 {
			s.t.Errorf("offset %d: %d effects, a plain success %t (%v)", at, n, plain, sure)
		}
	}
}
