package sim

import "testing"

// Worlds of workers that share limits: none is broken, whatever goes wrong, and all comes to its end.
func TestWorldsOfLimits(t *testing.T) {
	t.Parallel()
	permits, kills := 0, 0
	for seed := range uint64(100) {
		c := Drawn(seed)
		if c.Callers > 0 {
			continue
		}
		c.Watched, c.Workers, c.Limit = false, 2+int(seed%2), 1+int(seed%3)
		r, err := Run(c)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		permits, kills = permits+r.Permits, kills+r.Kills
	}
	if permits < 1000 || kills < 100 {
		t.Errorf("%d permits, %d kills: too little happened", permits, kills)
	}
}

// A limit that is not kept is told.
func TestBrokenLimitIsTold(t *testing.T) {
	areTold(t, map[string]func(x *broken){limitKept: func(x *broken) {
		x.w.cfg.Limit, x.w.cfg.Watched, x.w.cfg.Callers = 1, false, 0
		for _, r := range x.part().records {
			x.d = r.delivery
			x.d.first = true
			x.begins(0, 1)
		}
	}})
}
