package postgres_test

import (
	"context"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// holder is a proxy before the database that, once it is armed, hangs up on a client whose transaction has had an answer, and
// keeps what it says next: the server gets that when it is let go.
type holder struct {
	target string
	armed  atomic.Bool
	letGo  chan struct{}
	free   func()        // closes letGo
	over   chan struct{} // the server has done what was kept
}

// newHolder starts a proxy and returns it with the URL that leads through it.
func newHolder(t *testing.T, dsn string) (*holder, string) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &holder{target: u.Host, letGo: make(chan struct{}), over: make(chan struct{})}
	h.free = sync.OnceFunc(func() { close(h.letGo) })
	u.Host = listen.Addr().String()
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			client, err := listen.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { h.serve(client) })
		}
	})
	t.Cleanup(func() { // its clients have ended before
		_ = listen.Close()
		h.free()
		wg.Wait()
	})
	return h, u.String()
}

func (h *holder) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", h.target)
	if err != nil {
		return
	}
	defer server.Close()
	var answers atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer client.Close()
		buf := make([]byte, 1<<16)
		for {
			n, err := server.Read(buf)
			if err != nil {
				return
			}
			answers.Add(1)
			_, _ = client.Write(buf[:n]) // a client that has hung up ends the loop below
		}
	}()
	buf := make([]byte, 1<<20)
	began := int64(-1) // answers there were before what was asked first since it is armed
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		switch {
		case !h.armed.Load():
		case began < 0:
			began = answers.Load()
		case answers.Load() > began && h.armed.CompareAndSwap(true, false):
			_ = client.Close()
			<-h.letGo
			farewell := []byte{'X', 0, 0, 0, 4} // after it the server ends, once it has done all before
			_, _ = server.Write(append(buf[:n:n], farewell...))
			<-done
			close(h.over)
			return
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}

// TestSettlementArrivesLate: the connection of a settlement broke between its two round trips, and what it had planned
// reached the database after the next settlement of this owner had written more. The late segment lay hidden inside of the
// newer one, and all that had succeeded above it was new again. Now the next one waits for what is on its way.
func TestSettlementArrivesLate(t *testing.T) {
	t.Parallel()
	direct := newBench(t, variant{})
	h, url := newHolder(t, direct.url)
	o := ledger.Ungroup(join(t, openBench(t, url, variant{}), time.Minute))
	warm, all := records("s", 1, 0, 10), records("s", 0, 0, 40)
	succeedAll(t, o, claimsOf(t, o, warm, ledger.Run)) // the statements are prepared
	lower, upper := claimsOf(t, o, all[:10], ledger.Run), claimsOf(t, o, all[10:20], ledger.Run)
	settle := func(claims []ledger.Claim) error {
		var done []ledger.Settlement
		for _, c := range claims {
			done = append(done, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed})
		}
		errs, err := o.Settle(t.Context(), done)
		for _, e := range errs {
			if err == nil {
				err = e
			}
		}
		return err
	}
	h.armed.Store(true)
	if err := settle(upper); !ledger.Unknown(err) {
		t.Fatalf("the settlement whose connection broke: %v", err)
	}
	next := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(next)
		for _, claims := range [][]ledger.Claim{upper, lower} { // again, as the engine does; and one segment of both
			for n := 0; settle(claims) != nil; n++ {
				if n == 100 {
					t.Error("it is not settled")
					return
				}
			}
		}
	})
	waits := waiting(t, direct)
	poll(t, "the next settlement is over, or waits", func() bool {
		select {
		case <-next:
			return true
		default:
			return waits()
		}
	})
	h.free()
	<-h.over
	wg.Wait()
	succeedAll(t, o, claimsOf(t, o, all[20:30], ledger.Run))
	succeedAll(t, o, claimsOf(t, o, all[30:], ledger.Run))
	claimsOf(t, join(t, direct, time.Minute), all, ledger.Done) // the group was reset
}

// TestLateInTheMiddle: a settlement that was in time when it began, and waited past its deadline for what another transaction had
// locked, writes nothing: its caller has been told that it may not have been made, and somebody else may have the range by now.
func TestLateInTheMiddle(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{cfg: &postgres.Config{LockWait: time.Minute}})
	o := ledger.Ungroup(join(t, b, time.Minute))
	all := records("s", 0, 0, 10)
	claims := claimsOf(t, o, all, ledger.Run)
	other := hold(t, b, `INSERT INTO ackledger.segment (log, first, last, kind, messages, since, until, expiry)
		SELECT log, 0, 1, 1, 1, now(), now(), now() FROM ackledger.range_log`)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := o.Settle(ctx, successes(claims))
		ended <- err
	}()
	poll(t, "the settlement waits for the segment", func() bool { return lockWaiters(t, b) == 1 })
	if err := <-ended; !ledger.Unknown(err) {
		t.Errorf("settle: %v, want it unknown", err)
	}
	if err := other.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	poll(t, "its transaction is over", func() bool {
		return b.number(t, "SELECT count(*) FROM (SELECT FROM ackledger.claim_range FOR UPDATE SKIP LOCKED) f") == 1 ||
			b.number(t, "SELECT count(*) FROM ackledger.claim_range") == 0
	})
	if n := b.number(t, "SELECT count(*) FROM ackledger.segment"); n != 0 {
		t.Errorf("%d segments were written after the deadline", n)
	}
	succeedAll(t, o, claims)
}

// TestRangeChangesUnderAFence: a fence that goes by how its range was opened meets a range that this owner has changed since. Its
// message is ours still, and runs again, uncounted. One that somebody else has changed is lost.
func TestRangeChangesUnderAFence(t *testing.T) {
	t.Parallel()
	for name, own := range map[string]bool{"our own": true, "another's": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, variant{cfg: &postgres.Config{LockWait: 100 * time.Millisecond}})
			o := join(t, b, time.Minute)
			claims := claimsOf(t, o, records("s", 0, 0, 5), ledger.Run)
			tx, err := b.pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(context.Background()) }()
			if _, err := tx.Exec(t.Context(), `SELECT FROM ackledger.claim_range FOR UPDATE; UPDATE ackledger.claim_range SET done = '\x0301'`); err != nil { // offset 3
				t.Fatal(err)
			}
			a := ledger.NewAttempt(o, claims[1].Ticket)
			ended := make(chan error, 1)
			go func() { ended <- inTx(ledger.WithAttempt(context.Background(), a), oneEffect) }()
			poll(t, "the fence waits", waiting(t, b))
			if own {
				errs, err := o.Settle(t.Context(), []ledger.Settlement{{Ticket: claims[2].Ticket, Kind: ledger.Release, Count: true}})
				if err == nil && errs[0] == nil {
					t.Error("a settlement has passed by what holds its range")
				}
			}
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			err = <-ended
			state, _ := a.State()
			if own && (!ledger.Unavailable(err) || ledger.IsLost(err) || state != ledger.AttemptOpen) || !own && (!ledger.IsLost(err) || state != ledger.AttemptLost) {
				t.Errorf("InTx: %v, state %d", err, state)
			}
			if n := b.number(t, "SELECT count(*) FROM effects"); n != 0 {
				t.Errorf("%d effects", n)
			}
		})
	}
}

// TestFenceOfARangeWithGaps: what was never delivered lies in a range's sets from the first on, which its fences know.
func TestFenceOfARangeWithGaps(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	o := join(t, b, time.Minute)
	all := records("s", 0, 0, 20)
	some := []ledger.Entry{all[0], all[5], all[6], all[19]}
	for i := range some[1:] {
		some[i+1].Key.Pos.Prev = some[i].Key.Pos.Offset
	}
	claims := claimsOf(t, o, some, ledger.Run)
	if n := b.number(t, "SELECT count(*) FROM ackledger.claim_range WHERE done IS NOT NULL"); n != 1 {
		t.Fatalf("%d ranges with gaps", n)
	}
	for i, c := range claims {
		if err := inTx(ledger.WithAttempt(t.Context(), ledger.NewAttempt(o, c.Ticket)), oneEffect); err != nil {
			t.Errorf("message %d: %v", i, err)
		}
	}
	if n := b.number(t, "SELECT count(*) FROM effects"); n != len(some) {
		t.Errorf("%d effects", n)
	}
	if err := o.Leave(t.Context()); err != nil { // which closes what is over
		t.Fatal(err)
	}
	if n := b.number(t, "SELECT count(*) FROM ackledger.claim_range"); n != 0 {
		t.Errorf("%d ranges are left", n)
	}
	claimsOf(t, join(t, b, time.Minute), some, ledger.Done)
}

// TestPitfall186_FenceOfAStretchWithGaps: so it is where records were claimed as one. Its first messages were told that they were lost.
func TestPitfall186_FenceOfAStretchWithGaps(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	joined := join(t, b, time.Minute)
	succeedAll(t, joined, claimsOf(t, joined, records("s", 0, 0, 10), ledger.Run))
	stretch := ledger.Stretch{First: records("s", 0, 10, 1)[0], Last: 29, Gaps: []ledger.Gap{{From: 15, To: 18}}}
	tokens, err := ledger.Ungroup(joined).(ledger.StretchOwner).ClaimStretches(t.Context(), []ledger.Stretch{stretch})
	if err != nil || tokens[0] == 0 {
		t.Fatal(tokens, err)
	}
	for _, e := range append(records("s", 0, 10, 5), records("s", 0, 18, 12)...) {
		a := ledger.NewAttempt(joined, ledger.NewTicket(e.Key.Sum(), tokens[0]))
		if err := inTx(ledger.WithAttempt(t.Context(), a), oneEffect); err != nil {
			t.Errorf("%s: %v", e.Key.ID, err)
		}
	}
	if n := b.number(t, "SELECT count(*) FROM effects"); n != 17 {
		t.Errorf("%d effects", n)
	}
}

// TestPitfall188_RepeatableReadBesideARelease: a message that leaves its range ends the transactions of its neighbours that have begun before, if
// they see what was then. That was counted as an attempt of theirs.
func TestPitfall188_RepeatableReadBesideARelease(t *testing.T) {
	t.Parallel()
	for name, another := range map[string]bool{"its neighbour's": false, "of all by another owner": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, variant{cfg: &postgres.Config{Isolation: pgx.RepeatableRead}})
			o := join(t, b, time.Minute)
			all := records("s", 0, 0, 5)
			claims := claimsOf(t, o, all, ledger.Run)
			a := ledger.NewAttempt(o, claims[1].Ticket)
			err := inTx(ledger.WithAttempt(t.Context(), a), func(ctx context.Context) error {
				if err := oneEffect(ctx); err != nil {
					return err
				}
				if another {
					declareDead(t, b, o)
					claimsOf(t, join(t, b, time.Minute), all[2:3], ledger.Run)
					return nil
				}
				return settleOne(t, o, ledger.Settlement{Ticket: claims[2].Ticket, Kind: ledger.Release, Count: true})
			})
			state, _ := a.State()
			if !another && (!ledger.Unavailable(err) || ledger.IsLost(err) || state != ledger.AttemptOpen) ||
				another && (!ledger.IsLost(err) || state != ledger.AttemptLost) {
				t.Errorf("InTx: %v, state %d", err, state)
			}
			if n := b.number(t, "SELECT count(*) FROM effects"); n != 0 {
				t.Errorf("%d effects", n)
			}
		})
	}
}
