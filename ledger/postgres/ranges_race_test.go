package postgres_test

import (
	"context"
	"encoding/binary"
	"sync"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// waiting says whether a session of the database waits for another one's lock.
func waiting(t *testing.T, b *bench) func() bool {
	t.Helper()
	return func() bool {
		return b.number(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) > 0
	}
}

func logKey(e ledger.Entry) int64 {
	sum := e.Key.Sum()
	return int64(binary.BigEndian.Uint64(sum[:8]))
}

func ticketsOf(claims []ledger.Claim) []ledger.Ticket {
	tickets := make([]ledger.Ticket, len(claims))
	for i, c := range claims {
		tickets[i] = c.Ticket
	}
	return tickets
}

func declareDead(t *testing.T, b *bench, o ledger.Owner) {
	t.Helper()
	if err := b.store().Declare(t.Context(), o.ID()); err != nil {
		t.Fatal(err)
	}
}

// TestOpenNewerThanSnapshot: a worker that knows the log opens a range there without a look, and another one takes the same
// offsets between the snapshot of that statement and its work.
func TestOpenNewerThanSnapshot(t *testing.T) {
	t.Parallel()
	direct := newBench(t, variant{})
	p := newPauser(t, direct)
	first, late := join(t, direct, time.Minute), join(t, p.bench, time.Minute)
	succeedAll(t, late, claimsOf(t, late, records("s", 0, 0, 10), ledger.Run))
	p.shut(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		claims, err := late.Claim(t.Context(), records("s", 0, 10, 10))
		if err != nil || claims[0].Answer != ledger.Busy || claims[9].Answer != ledger.Busy {
			t.Errorf("%+v, %v", claims, err)
		}
	})
	p.await(t)
	claims := claimsOf(t, first, records("s", 0, 10, 10), ledger.Run)
	p.open(t)
	wg.Wait()
	succeedAll(t, first, claims)
	claimsOf(t, late, records("s", 0, 0, 20), ledger.Done)
}

// TestLookNewerThanLock: a worker waits for a log, and whoever holds it puts a range, or a row and a segment, there. A
// statement whose snapshot is older than the lock would see nothing of it.
func TestLookNewerThanLock(t *testing.T) {
	t.Parallel()
	for name, put := range map[string]string{
		"range": `INSERT INTO ackledger.claim_range (log, token, first, last, owner, messages, keep, at)
			VALUES ($1, 7, 10, 20, $2, 10, 1e9, now())`,
		"segment": `INSERT INTO ackledger.segment (log, first, last, kind, messages, since, until, expiry)
			SELECT $1, 10, 20, 1, 10, now(), now(), now() + interval '1 hour' WHERE $2::bigint <> 0`,
		"row": `INSERT INTO ackledger.message (token, at, expiry, owner, scope, state, attempts, crashes, key, fingerprint, id)
			SELECT 1, now(), now() + interval '1 hour', $2, g.scope, 1, 0, 0, encode(int8send($1::bigint) || int8send(i), 'hex')::uuid,
				gen_random_uuid(), 'id' FROM ackledger.range_log g, generate_series(10, 19) i WHERE g.log = $1`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, variant{cfg: &postgres.Config{LockWait: 20 * time.Second}})
			first, late := join(t, b, time.Minute), join(t, b, time.Minute)
			all := records("s", 0, 0, 20)
			succeedAll(t, first, claimsOf(t, first, all[:10], ledger.Run))
			tx, err := b.pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
			if _, err := tx.Exec(t.Context(), "SELECT FROM ackledger.range_log FOR NO KEY UPDATE"); err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			wg.Go(func() {
				want := ledger.Busy
				if name == "segment" {
					want = ledger.Done
				}
				claims, err := late.Claim(t.Context(), all[10:])
				if err != nil {
					t.Error(err)
					return
				}
				for i, c := range claims {
					if c.Answer != want && (name != "row" || c.Answer != ledger.Mismatch) {
						t.Errorf("%d: %+v", i, c)
					}
				}
			})
			poll(t, "the claim waits for the log", waiting(t, b))
			owner, err := postgres.OwnerNumber(first.ID())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(t.Context(), put, logKey(all[0]), owner); err != nil {
				t.Fatal(err)
			}
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			wg.Wait()
		})
	}
}

// TestSettleBesideClaim: every settlement of a log waited for the COMMIT of the claim before it, and every claim for a
// settlement's, which made ranges twice as slow as rows where messages come one by one. A settlement that takes a whole range
// away goes beside a claim; a take-over, which looks at the log, still waits for it.
func TestSettleBesideClaim(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	o, taker := join(t, b, time.Minute), join(t, b, time.Minute)
	all := records("s", 0, 0, 30)
	succeedAll(t, o, claimsOf(t, o, all[:10], ledger.Run))
	hold := func(how string) func() {
		tx, err := b.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), "SELECT FROM ackledger.range_log FOR "+how); err != nil {
			t.Fatal(err)
		}
		return func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }
	}
	claims := claimsOf(t, o, all[10:20], ledger.Run)
	claim := hold("NO KEY UPDATE") // as sqlRangeOpen has it until its COMMIT
	defer claim()
	succeedAll(t, o, claims[:4]) // a part, which is noted in the range
	succeedAll(t, o, claims[4:])
	claim()
	claimsOf(t, o, all[20:], ledger.Run)
	declareDead(t, b, o)
	settlement := hold("KEY SHARE") // as sqlRangeOver has it
	defer settlement()
	claimsOf(t, taker, all[20:], ledger.Busy)
	settlement()
	claimsOf(t, taker, all[:20], ledger.Done)
	succeedAll(t, taker, claimsOf(t, taker, all[20:], ledger.Run))
}

// TestDissolvedBeforeSettle: an owner's settlement, on its way since before it was declared dead, comes after the take-over
// of its range. It is lost, and changes nothing of what the other has.
func TestDissolvedBeforeSettle(t *testing.T) {
	t.Parallel()
	direct := newBench(t, variant{})
	p := newPauser(t, direct)
	late, taker := join(t, p.bench, time.Minute), join(t, direct, time.Minute)
	all := records("s", 0, 0, 20)
	succeedAll(t, late, claimsOf(t, late, all[:10], ledger.Run)) // so that the next goes the short way
	claims := claimsOf(t, late, all[10:], ledger.Run)
	p.shut(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		var settlements []ledger.Settlement
		for _, c := range claims {
			settlements = append(settlements, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed})
		}
		errs, err := late.Settle(t.Context(), settlements)
		if !ledger.IsLost(err) && (err != nil || !ledger.IsLost(errs[0])) {
			t.Errorf("settle: %v, %v", errs, err)
		}
	})
	p.await(t)
	declareDead(t, direct, late)
	taken := claimsOf(t, taker, all[10:], ledger.Run)
	p.open(t)
	wg.Wait()
	for i, c := range taken {
		if !c.TookOver || c.Crashes != 1 {
			t.Fatalf("%d: %+v", i, c)
		}
	}
	if r, err := direct.Get(t.Context(), all[15].Key); err != nil || r.State != ledger.Pending || r.Owner != taker.ID() {
		t.Fatalf("%+v, %v", r, err)
	}
	succeedAll(t, taker, taken)
}

// TestSettledBeforeDissolve: a settlement that has its log is there when its owner is declared dead meanwhile: the taker
// waits its turn, and finds what is finished.
func TestSettledBeforeDissolve(t *testing.T) {
	t.Parallel()
	direct := newBench(t, variant{})
	p := newPauser(t, direct)
	late, taker := join(t, p.bench, time.Minute), join(t, direct, time.Minute)
	all := records("s", 0, 0, 10)
	claims := claimsOf(t, late, all, ledger.Run)
	p.shut(t)
	var wg sync.WaitGroup
	wg.Go(func() { succeedAll(t, late, claims[:5]) })
	p.await(t)
	declareDead(t, direct, late)
	claimsOf(t, taker, all, ledger.Busy) // it holds the log
	p.open(t)
	wg.Wait()
	claimsOf(t, taker, all[:5], ledger.Done)
	succeedAll(t, taker, claimsOf(t, taker, all[5:], ledger.Run))
}

// TestFenceAfterDissolve: an InTx whose range was taken over, or whose message has left it, while its handler ran commits
// nothing.
func TestFenceAfterDissolve(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(t *testing.T, b *bench, o ledger.Owner, all []ledger.Entry) ledger.Owner{
		"taken over": func(t *testing.T, b *bench, o ledger.Owner, all []ledger.Entry) ledger.Owner {
			declareDead(t, b, o)
			taker := join(t, b, time.Minute)
			claimsOf(t, taker, all, ledger.Run)
			return taker
		},
		"moved to a row": func(t *testing.T, _ *bench, o ledger.Owner, all []ledger.Entry) ledger.Owner {
			claimsOf(t, o, all[2:4], ledger.Run) // asked again, as after an answer that was lost
			return o
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, variant{})
			o := join(t, b, time.Minute)
			all := records("s", 0, 0, 10)
			claims := claimsOf(t, o, all, ledger.Run)
			a := ledger.NewBatchAttempt(o, ticketsOf(claims[2:4]))
			var owns ledger.Owner
			err := inTx(ledger.WithAttempt(t.Context(), a), func(ctx context.Context) error {
				owns = meanwhile(t, b, o, all)
				return oneEffect(ctx)
			})
			if state, _ := a.State(); !ledger.IsLost(err) || state != ledger.AttemptLost {
				t.Fatalf("InTx: %v, state %d", err, state)
			}
			if n := b.number(t, "SELECT count(*) FROM effects"); n != 0 {
				t.Fatalf("%d effects", n)
			}
			for _, e := range all[2:4] {
				if r, err := b.Get(t.Context(), e.Key); err != nil || r.State != ledger.Pending || r.Owner != owns.ID() {
					t.Fatalf("%+v, %v", r, err)
				}
			}
		})
	}
}

// TestFenceHolds: while an InTx is between fence and commit, nobody takes its range over, settlements of its neighbours go
// on, and it is theirs afterwards.
func TestFenceHolds(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	o, taker := join(t, b, time.Minute), join(t, b, time.Minute)
	all := records("s", 0, 0, 10)
	claims := claimsOf(t, o, all, ledger.Run)
	unlock, err := b.store().Lock(t.Context(), all[3].Key)
	if err != nil {
		t.Fatal(err)
	}
	unlock = sync.OnceFunc(unlock)
	defer unlock()
	succeedAll(t, o, claims[5:])
	declareDead(t, b, o)
	claimsOf(t, taker, all[:5], ledger.Busy)
	claimsOf(t, taker, all[5:], ledger.Done)
	unlock()
	claimsOf(t, taker, all[:5], ledger.Run)
}

// TestFrozenWithALog: a process that is frozen with the lock of a log makes claims there Busy, and costs the other logs of
// the same call no more than a moment.
func TestFrozenWithALog(t *testing.T) {
	t.Parallel()
	const patience = 5 * time.Second
	b := newBench(t, variant{})
	o := join(t, b, time.Minute)
	known := records("s", 0, 0, 10)
	succeedAll(t, o, claimsOf(t, o, known, ledger.Run))
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), "SELECT FROM ackledger.range_log FOR NO KEY UPDATE"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	claims, err := o.Claim(t.Context(), append(records("s", 0, 10, 5), records("s", 1, 0, 5)...))
	if took := time.Since(began); err != nil || took > patience {
		t.Fatalf("after %s: %v", took, err)
	}
	for i, c := range claims {
		if want := map[bool]ledger.Answer{true: ledger.Busy, false: ledger.Run}[i < 5]; c.Answer != want {
			t.Errorf("%d: %v, want %v", i, c.Answer, want)
		}
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	claimsOf(t, o, records("s", 0, 10, 5), ledger.Run)
}

// TestIdleHolderEnds: the database ends a transaction that holds a log while its process says nothing.
func TestIdleHolderEnds(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	o := join(t, b, time.Minute)
	all := records("s", 0, 0, 10)
	claims := claimsOf(t, o, all, ledger.Run)
	frozen := make(chan struct{})
	go func() {
		defer close(frozen)
		postgres.FreezeUpdate(t, o, all[0], claims[0].Token, 30*time.Second)
	}()
	poll(t, "the log is held", func() bool {
		return b.number(t, "SELECT count(*) FROM (SELECT FROM ackledger.range_log FOR UPDATE SKIP LOCKED) f") == 0
	})
	poll(t, "the log is free", func() bool {
		return b.number(t, "SELECT count(*) FROM (SELECT FROM ackledger.range_log FOR UPDATE SKIP LOCKED) f") == 1
	})
	succeedAll(t, o, claims)
	<-frozen
}

// TestRangeAnswerLost: the answer to a COMMIT of ranges that is lost on the wire is unknown, and asking again ends it.
func TestRangeAnswerLost(t *testing.T) {
	t.Parallel()
	direct := newBench(t, variant{})
	cut, url := newCutter(t, direct.url)
	b := openBench(t, url, variant{})
	o := ledger.Ungroup(join(t, b, time.Minute))
	all := records("s", 0, 0, 10)
	cut.cutAfter("commit\x00", false)
	if _, err := o.Claim(t.Context(), all); !ledger.Unknown(err) {
		t.Fatalf("claim: %v", err)
	}
	claims := claimsOf(t, o, all, ledger.Run)
	cut.cutAfter("commit\x00", false)
	settlements := []ledger.Settlement{}
	for _, c := range claims {
		settlements = append(settlements, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed})
	}
	if _, err := o.Settle(t.Context(), settlements); err != nil && !ledger.Unknown(err) {
		t.Fatalf("settle: %v", err)
	}
	succeedAll(t, o, claims)
	claimsOf(t, o, all, ledger.Done)
}

// TestLateRanges: what of ranges reaches the database after its deadline writes nothing.
func TestLateRanges(t *testing.T) {
	t.Parallel()
	direct := newBench(t, variant{})
	p := newPauser(t, direct)
	o := ledger.Ungroup(join(t, p.bench, time.Minute))
	all := records("s", 0, 0, 20)
	claims := claimsOf(t, o, all[:10], ledger.Run)
	const sum = `SELECT sum(token + top + length(coalesce(done, '')))
		FROM ackledger.range_log JOIN ackledger.claim_range USING (log, token)`
	for name, late := range map[string]func(ctx context.Context) error{
		"claim": func(ctx context.Context) error { _, err := o.Claim(ctx, all[10:]); return err },
		"settle": func(ctx context.Context) error {
			_, err := o.Settle(ctx, []ledger.Settlement{{Ticket: claims[0].Ticket, Kind: ledger.Succeed}})
			return err
		},
	} {
		before := direct.number(t, sum)
		p.shut(t)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if err := late(ctx); err == nil {
			t.Errorf("%s: no error", name)
		}
		cancel()
		p.open(t)
		poll(t, "the late statement is over", func() bool {
			return direct.number(t, "SELECT count(*) FROM (SELECT FROM ackledger.range_log FOR UPDATE SKIP LOCKED) f") == 1
		})
		after := direct.number(t, sum)
		if before != after {
			t.Errorf("%s: %d before, %d after", name, before, after)
		}
	}
	succeedAll(t, o, claims)
	claimsOf(t, o, all[10:], ledger.Run)
}
