package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// pauser is a ledger whose statements stop, while it is shut, between their snapshot and their work: its sessions find a
// clock_timestamp that waits for an advisory lock.
type pauser struct {
	*bench
	gate pgx.Tx
}

func newPauser(t *testing.T, direct *bench) *pauser {
	t.Helper()
	direct.exec(t, "CREATE SCHEMA slow")
	direct.exec(t, `CREATE FUNCTION slow.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS $$ BEGIN
		PERFORM pg_advisory_xact_lock_shared(42);
		RETURN pg_catalog.clock_timestamp();
	END $$`)
	u, err := url.Parse(direct.url)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("search_path", "slow,pg_catalog,public")
	u.RawQuery = q.Encode()
	return &pauser{bench: openBench(t, u.String(), variant{cfg: &postgres.Config{LockWait: time.Minute}})}
}

// shut stops the statements that begin from now on.
func (p *pauser) shut(t *testing.T) {
	t.Helper()
	var err error
	if p.gate, err = p.pool.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.gate.Exec(t.Context(), "SELECT pg_advisory_xact_lock(42)"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.gate.Rollback(context.Background()) }) // a test that failed
}

// await waits until a statement has stopped.
func (p *pauser) await(t *testing.T) {
	t.Helper()
	const waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = " +
		"(SELECT oid FROM pg_database WHERE datname = current_database())"
	poll(t, "a statement has stopped", func() bool { return p.number(t, waiting) > 0 })
}

func (p *pauser) open(t *testing.T) {
	t.Helper()
	if err := p.gate.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func poll(t *testing.T, what string, cond func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("never: %s", what)
		}
	}
}

func failed(e ledger.Entry, c ledger.Claim) ledger.Settlement {
	return ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Fail,
		Dead: &ledger.Archive{Key: e.Key, Delivery: e.Delivery, Keep: time.Hour}}
}

// TestRowNewerThanSnapshot: a statement locks rows as they are now, but sees owners and archives as of its snapshot. What
// changed between the two is Busy: taken at its word, a live owner's row would be taken over, or an archived delivery
// would run again.
func TestRowNewerThanSnapshot(t *testing.T) {
	t.Parallel()
	e := entry("a")
	for name, between := range map[string]func(t *testing.T, b *bench, first ledger.Owner, c ledger.Claim){
		"taken over by an owner that joined after it": func(t *testing.T, b *bench, first ledger.Owner, _ ledger.Claim) {
			if err := first.Leave(t.Context()); err != nil {
				t.Fatal(err)
			}
			claimOne(t, join(t, b, time.Minute), e, ledger.Run)
		},
		"failed": func(t *testing.T, _ *bench, first ledger.Owner, c ledger.Claim) {
			if err := settleOne(t, first, failed(e, c)); err != nil {
				t.Fatal(err)
			}
		},
		"failed, redriven and released": func(t *testing.T, _ *bench, first ledger.Owner, c ledger.Claim) {
			if err := settleOne(t, first, failed(e, c)); err != nil {
				t.Fatal(err)
			}
			again := e
			again.Delivery = []byte("redriven")
			c = claimOne(t, first, again, ledger.Run)
			if err := settleOne(t, first, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Release}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			direct := newBench(t, variant{})
			p := newPauser(t, direct)
			first, late := join(t, direct, time.Minute), join(t, p.bench, time.Minute)
			c := claimOne(t, first, e, ledger.Run)
			p.shut(t)
			var wg sync.WaitGroup
			wg.Go(func() {
				asked := e
				asked.Solo = true // goes to the claim table at once, and not ahead of it to sqlFresh with a snapshot of its own
				if claims, err := late.Claim(t.Context(), []ledger.Entry{asked}); err != nil || claims[0].Answer != ledger.Busy {
					t.Errorf("%+v, %v", claims, err)
				}
			})
			p.await(t)
			between(t, direct, first, c)
			p.open(t)
			wg.Wait()
		})
	}
}

// TestFreshKeyTaken: another worker claims a new key between the snapshot of a statement for new keys and its insert. The
// key is the other's, and the batch's other keys are claimed all the same.
func TestFreshKeyTaken(t *testing.T) {
	t.Parallel()
	direct := newBench(t, variant{})
	p := newPauser(t, direct)
	first, late := join(t, direct, time.Minute), join(t, p.bench, time.Minute)
	p.shut(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		claims, err := late.Claim(t.Context(), []ledger.Entry{entry("a"), entry("b"), entry("c")})
		if err != nil || claims[0].Answer != ledger.Run || claims[1].Answer != ledger.Busy || claims[1].Wait == 0 ||
			claims[2].Answer != ledger.Run || claims[2].Token != 1 {
			t.Errorf("%+v, %v", claims, err)
		}
	})
	p.await(t)
	claimOne(t, first, entry("b"), ledger.Run)
	p.open(t)
	wg.Wait()
}

// TestLateStatements: what reaches the database after its deadline writes nothing, and says so.
func TestLateStatements(t *testing.T) {
	t.Parallel()
	direct := newBench(t, variant{})
	p := newPauser(t, direct)
	o := join(t, p.bench, time.Minute)
	held, fresh := entry("held"), entry("fresh")
	c, more := claimOne(t, o, held, ledger.Run), claimOne(t, o, entry("more"), ledger.Run)
	past := time.Now().Add(-time.Second)
	for _, s := range []postgres.Statement{
		postgres.ClaimStatement(o, []ledger.Entry{fresh}, past),
		postgres.FreshStatement(o, []ledger.Entry{fresh}, past),
		postgres.SettleStatement(o, []ledger.Settlement{{Ticket: c.Ticket, Kind: ledger.Succeed}}, past),
		postgres.SucceedStatement(o, []ledger.Settlement{{Ticket: c.Ticket, Kind: ledger.Succeed}}, past),
		postgres.SucceedStatement(o, successes([]ledger.Claim{c, more}), past),
		postgres.SettleStatement(o, []ledger.Settlement{failed(held, c)}, past),
	} {
		direct.exec(t, s.SQL, s.Args...)
	}
	if _, err := direct.Get(t.Context(), fresh.Key); !errors.Is(err, ledger.ErrNotFound) {
		t.Fatalf("a late claim wrote: %v", err)
	}
	if r, err := direct.Get(t.Context(), held.Key); err != nil || r.State != ledger.Pending || len(r.Archived) > 0 {
		t.Fatalf("a late settle wrote: %+v, %v", r, err)
	}
	// And through the contract: the database gets to the statement when the caller has given up.
	own := ledger.Unwrap(o)
	p.shut(t)
	var err error
	for _, limit := range []time.Duration{200 * time.Millisecond, 2 * time.Second, 20 * time.Second} {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		_, err = own.Settle(ctx, []ledger.Settlement{{Ticket: c.Ticket, Kind: ledger.Succeed}})
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ledger.Unknown(err) {
			break
		} // else the deadline had passed before the statement was sent
	}
	if !ledger.Unknown(err) {
		t.Fatalf("settle: %v", err)
	}
	p.open(t)
	claimOne(t, own, held, ledger.Run) // mine still: the late settle changed nothing
}

// TestPitfall113_NothingWritten: an owner that was declared dead wakes up and claims: it is told, and writes no row that
// nobody could take over once its own row is swept.
func TestPitfall113_NothingWritten(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	o := join(t, b, time.Minute)
	claimOne(t, o, entry("before"), ledger.Run)
	if err := b.store().Declare(t.Context(), o.ID()); err != nil {
		t.Fatal(err)
	}
	for range 2 { // dead, then swept
		if _, err := o.Claim(t.Context(), []ledger.Entry{entry("after")}); !ledger.IsLost(err) {
			t.Fatalf("claim: %v", err)
		}
		if _, err := b.Get(t.Context(), entry("after").Key); !errors.Is(err, ledger.ErrNotFound) {
			t.Fatalf("a dead owner wrote: %v", err)
		}
		b.exec(t, "DELETE FROM ackledger.owner")
	}
}

// TestPitfall86_NobodyWaits: a worker frozen between fence and commit made every batch that touched its row wait as long
// as locks are waited for.
func TestPitfall86_NobodyWaits(t *testing.T) {
	const never = 30 * time.Second
	b := newBench(t, variant{cfg: &postgres.Config{LockWait: never}})
	o, peer := join(t, b, time.Minute), join(t, b, time.Minute)
	var entries []ledger.Entry
	for i := range 50 {
		entries = append(entries, entry(fmt.Sprint(i)))
	}
	claims, err := o.Claim(t.Context(), entries)
	if err != nil {
		t.Fatal(err)
	}
	unlock, err := b.store().Lock(t.Context(), entries[20].Key) // its fence is written, its commit is not
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	begun := time.Now()
	if _, err := peer.Claim(t.Context(), entries); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took > never/2 {
		t.Fatalf("a batch of claims waited %s", took)
	}
	var settlements []ledger.Settlement
	for _, c := range claims {
		settlements = append(settlements, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed})
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := o.Settle(t.Context(), settlements); err != nil {
			t.Error(err)
		}
	})
	poll(t, "the others are settled", func() bool {
		return b.number(t, "SELECT count(*) FROM ackledger.message WHERE state = 2") == len(entries)-1
	})
	if took := time.Since(begun); took > never/2 {
		t.Fatalf("a batch of settles waited %s", took)
	}
	unlock()
	wg.Wait()
}
