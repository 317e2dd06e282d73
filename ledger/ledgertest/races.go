package ledgertest

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// raceCases let goroutines race. What several of them may not both get is counted.
var raceCases = []testCase{
	{"Race_ClaimsAndSettles", raceClaimsSettles},
	{"Race_BeatAndDeclare", raceBeatDeclare},
	{"Race_TakersOfALeftOwner", func(e *env) { raceTakers(e, e.leave, 10) }},
}

// claimLocked is row 2: a row that another transaction holds locked is Busy, and nobody waits for it.
func claimLocked(e *env) {
	a, b := e.owner(), e.owner()
	all := e.entries(3)
	held := e.want(a, all[1], ledger.Run)
	e.leave(a)
	unlock, err := e.Lock(e.ctx, all[1].Key)
	if err != nil {
		e.Fatalf("lock: %v", err)
	}
	unlock = sync.OnceFunc(unlock)
	defer unlock()
	claims := e.claimAll(b, all)
	for i, want := range []ledger.Answer{ledger.Run, ledger.Busy, ledger.Run} {
		if claims[i].Answer != want {
			e.Fatalf("claim %d: %v, want %v", i, claims[i].Answer, want)
		}
	}
	if claims[1].Suspect || claims[1].Wait != 0 {
		e.Fatalf("busy: %+v, want nothing known", claims[1])
	}
	unlock()
	e.eventually("the row is unlocked", func() bool { return e.claim(b, all[1]).Answer == ledger.Run })
	e.lost(a, succeed(held))
}

// settleLocked: a batch that meets a locked row settles the others at once, and asks for that row alone.
func settleLocked(e *env) {
	o := e.owner()
	all := e.entries(3)
	var settlements []ledger.Settlement
	for _, c := range e.claimAll(o, all) {
		settlements = append(settlements, succeed(c))
	}
	unlock, err := e.Lock(e.ctx, all[1].Key)
	if err != nil {
		e.Fatalf("lock: %v", err)
	}
	unlock = sync.OnceFunc(unlock)
	defer unlock()
	var errs []error
	var whole error
	var wg sync.WaitGroup
	wg.Go(func() { errs, whole = o.Settle(e.ctx, settlements) })
	e.eventually("the others are settled", func() bool {
		return e.record(all[0]).State == ledger.Succeeded && e.record(all[2]).State == ledger.Succeeded
	})
	if r := e.record(all[1]); r.State != ledger.Pending && !e.Ranged { // an InTx in a range keeps no settlement waiting
		e.Fatalf("row: %s", summary(r))
	}
	unlock()
	wg.Wait()
	if whole != nil && !ledger.Unknown(whole) {
		e.Fatalf("settle: %v", whole)
	}
	for _, err := range errs {
		if err != nil {
			e.Fatalf("settle: %v", err)
		}
	}
	for _, s := range settlements { // repeated, as after an unknown answer
		e.holds(o, s)
	}
}

// claimOneLock stands for row 2 where it cannot occur: a claim during others' calls has an answer that is not Busy.
func claimOneLock(e *env) {
	var wg sync.WaitGroup
	for i := range 8 {
		o := e.owner()
		wg.Go(func() {
			m := e.entry(number(i))
			for range 20 {
				c, err := o.Claim(e.ctx, []ledger.Entry{m})
				if err != nil || c[0].Answer != ledger.Run {
					e.Errorf("claim: %+v, %v", c, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// raceTakers lets twenty owners race for one stale row, again and again.
func raceTakers(e *env, end func(ledger.Owner), rounds int) {
	takers := make([]ledger.Owner, 20)
	for i := range takers {
		takers[i] = e.owner()
	}
	for round := range e.rounds(rounds) {
		m := e.entry(number(round))
		stale := e.owner()
		e.want(stale, m, ledger.Run)
		end(stale)
		won := make([]ledger.Claim, len(takers))
		start := make(chan struct{})
		var wg sync.WaitGroup
		for i, o := range takers {
			wg.Go(func() {
				<-start
				claims, err := o.Claim(e.ctx, []ledger.Entry{m})
				if err != nil {
					e.Errorf("claim: %v", err)
					return
				}
				won[i] = claims[0]
			})
		}
		close(start)
		wg.Wait()
		winners := 0
		for i, c := range won {
			switch c.Answer {
			case ledger.Run:
				winners++
				e.holds(takers[i], succeed(c))
			case ledger.Busy:
			default:
				e.Fatalf("round %d: %+v", round, c)
			}
		}
		if r := e.record(m); winners != 1 || r.Token != 2 || r.State != ledger.Succeeded {
			e.Fatalf("round %d: %d winners; row: %s", round, winners, summary(r))
		}
	}
}

// raceClaimsSettles lets four owners claim, settle and release the same few messages in batches, until all succeeded.
func raceClaimsSettles(e *env) {
	const messages, workers = 60, 4
	all := e.entries(messages)
	var succeeded [messages]atomic.Int32
	var holders [messages]atomic.Int32
	var wg sync.WaitGroup
	for w := range workers {
		o := e.owner()
		wg.Go(func() {
			chance := rand.New(rand.NewPCG(uint64(w), 7))
			for done := 0; done < messages && e.ctx.Err() == nil && !e.Failed(); {
				done = raceOnce(e, o, all, chance, succeeded[:], holders[:])
			}
		})
	}
	wg.Wait()
	for i := range all {
		r := e.record(all[i])
		if n := succeeded[i].Load(); n != 1 || r.State != ledger.Succeeded {
			e.Fatalf("message %d succeeded %d times; row: %s", i, n, summary(r))
		}
	}
}

// raceOnce is one round of a worker; it returns how many messages it was told to be done.
func raceOnce(e *env, o ledger.Owner, all []ledger.Entry, chance *rand.Rand, succeeded, holders []atomic.Int32) int {
	order := chance.Perm(len(all))
	batch := make([]ledger.Entry, len(all))
	for i, at := range order {
		batch[i] = all[at]
	}
	claims, err := o.Claim(e.ctx, batch)
	if err != nil {
		e.Errorf("claim: %v", err)
		return 0
	}
	var settlements []ledger.Settlement
	var which []int
	done := 0
	for i, c := range claims {
		switch c.Answer {
		case ledger.Done:
			done++
		case ledger.Run:
			if holders[order[i]].Add(1) != 1 {
				e.Errorf("message %d has two live owners", order[i])
			}
			s := succeed(c)
			if chance.IntN(2) == 0 {
				s = release(c)
			}
			settlements, which = append(settlements, s), append(which, order[i])
		}
	}
	for _, at := range which {
		holders[at].Add(-1)
	}
	errs, err := o.Settle(e.ctx, settlements)
	if err != nil {
		e.Errorf("settle: %v", err)
		return 0
	}
	for i, s := range settlements {
		if errs[i] != nil {
			e.Errorf("settle: %v", errs[i])
		} else if s.Kind == ledger.Succeed {
			succeeded[which[i]].Add(1)
		}
	}
	return done
}

// raceBeatDeclare: a beat and a declaration of one owner at once; whoever comes second sees what the first one did, and
// an owner that was sealed never beats again.
func raceBeatDeclare(e *env) {
	for range e.rounds(15) {
		o := e.owner()
		var sealed atomic.Bool
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for range 20 {
					before := sealed.Load()
					_, err := o.Beat(e.ctx)
					if before && !ledger.IsLost(err) {
						e.Errorf("beat after the declaration: %v", err)
					}
					if err != nil && !ledger.IsLost(err) {
						e.Errorf("beat: %v", err)
					}
				}
			})
		}
		wg.Go(func() {
			if err := e.Declare(e.ctx, o.ID()); err != nil {
				e.Errorf("declare: %v", err)
			}
			sealed.Store(true)
		})
		wg.Wait()
	}
}

// raceBatches runs calls on overlapping batches at once, and fails when they do not come to an end.
func raceBatches(e *env, batches [][]ledger.Entry, rounds int) {
	owners := make([]ledger.Owner, len(batches))
	for i := range owners {
		owners[i] = e.owner()
	}
	deadline := time.Now().Add(patience)
	var wg sync.WaitGroup
	for i, batch := range batches {
		wg.Go(func() {
			for range e.rounds(rounds) {
				claims, err := owners[i].Claim(e.ctx, batch)
				if err != nil {
					e.Errorf("claim of %d: %v", len(batch), err)
					return
				}
				var settlements []ledger.Settlement
				for _, c := range claims {
					if c.Answer == ledger.Run {
						settlements = append(settlements, release(c))
					}
				}
				slices.Reverse(settlements)
				errs, err := owners[i].Settle(e.ctx, settlements)
				if err = firstError(errs, err); err != nil {
					e.Errorf("settle of %d: %v", len(settlements), err)
					return
				}
			}
		})
	}
	wg.Wait()
	if time.Now().After(deadline) {
		e.Errorf("batches on the same keys took more than %s: they wait for each other", patience)
	}
}

func firstError(errs []error, err error) error {
	if err != nil {
		return err
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
