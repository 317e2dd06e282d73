package flow

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ackledger/ackledger/ledger"
)

// The worker is stopped exactly while a pause holds of all, of a scope that is its own, or of one of which something came since, or was in
// hand when the pause began.
func TestOrderAgainstItsTwin(t *testing.T) {
	names := []string{"", "home", "a", "b", "c"}
	for seed := range uint64(500) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		o := order{home: []string{"home"}}
		var hold []ledger.Pause
		hit := map[string]bool{} // paused scopes that are the worker's
		stopped := false
		for range 100 {
			if rnd.IntN(2) == 0 {
				scope := names[1+rnd.IntN(4)]
				turned := o.meet(scope)
				if slices.ContainsFunc(hold, func(p ledger.Pause) bool { return p.Scope == scope }) {
					hit[scope] = true
				}
				if want := !stopped && len(hit) > 0; turned != want {
					t.Fatalf("seed %d: %q came: %t, want %t", seed, scope, turned, want)
				}
			} else {
				hold = nil
				inHand := map[string]bool{}
				for i, scope := range names { // sorted
					if rnd.IntN(4) == 0 {
						hold = append(hold, ledger.Pause{Scope: scope, By: ledger.By{Actor: "x"}})
					}
					if i > 0 && rnd.IntN(4) == 0 {
						inHand[scope] = true
					}
				}
				were := hit
				hit = map[string]bool{}
				for _, p := range hold {
					if p.Scope == "" || p.Scope == "home" || inHand[p.Scope] || were[p.Scope] {
						hit[p.Scope] = true
					}
				}
				o.said(hold, inHand)
			}
			stopped = len(hit) > 0
			if o.stops != stopped || stopped != (o.by.By.Actor != "") || stopped && !hit[o.by.Scope] {
				t.Fatalf("seed %d: %+v, want %t of %v", seed, o, stopped, hit)
			}
		}
	}
}

// A pause gives back what is ours and does not run, uncounted, and lets nothing begin; what runs goes on. Afterwards all goes on.
func TestOrderStopsAndGoesOn(t *testing.T) {
	f := readied(Config{}, 1, 1, 1)
	f.cost = 1
	d := f.newDispatch(0, f.takeReady(0))
	hold := []ledger.Pause{{By: ledger.By{Actor: "x"}}}
	f.Ordered(5, hold)
	c := commands(f)
	if len(c.News) != 1 || c.News[0].What != Stopped || c.News[0].Pause != hold[0] || len(c.Recall) != 1 {
		t.Fatalf("%+v", c)
	}
	f.Recalled(d, 1)
	for f.settleQ.len() > 0 {
		if s := f.settleQ.pop(); s.Kind != ledger.Release || s.More != nil {
			t.Errorf("given back as %+v", s)
		}
	}
	if d.Items[0].phase != running || d.Items[1].phase != settling || d.Items[2].phase != settling {
		t.Errorf("phases %d, %d, %d", d.Items[0].phase, d.Items[1].phase, d.Items[2].phase)
	}
	if by, stops, since := f.Order(); f.MayStart() || f.MayWork() || !f.Well() || !stops || by != hold[0] || since != 5 {
		t.Errorf("%+v, %t since %d", by, stops, since)
	}
	f.Ordered(6, hold) // each beat says it again
	f.Ordered(7, nil)
	if c := commands(f); !f.MayStart() || !c.Improved || len(c.News) != 1 || c.News[0].What != WentOn || c.News[0].After != 2 {
		t.Errorf("%+v", c)
	}
}
