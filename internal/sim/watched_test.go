package sim

import (
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger/driver"
)

// Worlds of all kinds keep their promises without a clock of the ledger's, too. In all together owners are declared dead, claims arrive
// when their owners' leases are over, and answers come then.
func TestWatchedWorlds(t *testing.T) {
	t.Parallel()
	var all Report
	for seed := range uint64(60) {
		c := Drawn(seed)
		c.Watched, c.Moods[mishap], c.Moods[callLate] = true, 20, 4
		r, err := Run(c)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		all.Declared, all.Late, all.Thrown = all.Declared+r.Declared, all.Late+r.Late, all.Thrown+r.Thrown
	}
	if all.Declared < 60 || all.Late < 10 || all.Thrown == 0 {
		t.Errorf("too little happened: %d owners were declared dead, %d claims came late, %d answers did", all.Declared, all.Late, all.Thrown)
	}
	t.Logf("%d owners were declared dead, %d claims came late, %d answers did", all.Declared, all.Late, all.Thrown)
}

// Without any of its conditions a promise breaks. Two of them decide seldom: their worlds begin where they soon do.
func TestWatchedWorldsNeedTheirConditions(t *testing.T) {
	t.Parallel()
	for without := range conditions {
		var broken *Broken
		first := [conditions]uint64{sameBeat: 1300, logAnswer: 1100}[without]
		for seed := first; seed < first+1000 && broken == nil; seed++ {
			c := Drawn(seed)
			c.Watched, c.Moods[callLate] = true, 20
			w := newWorld(c)
			w.off[without] = true
			w.run()
			if broken = w.broken; broken != nil {
				t.Logf("without condition %d, in world %d: %s", without, seed, broken.Promise)
			}
		}
		if broken == nil {
			t.Errorf("nothing breaks without condition %d", without)
		}
	}
}

// A clock that runs fast counts a lease in less time, and reads more.
func TestClocksAreWrong(t *testing.T) {
	t.Parallel()
	for _, drift := range []int64{-driver.ClockDrift, 0, driver.ClockDrift} {
		c := clock{drift: drift}
		if off := c.reads(c.lasts()) - lease; off < -2 || off > 2 {
			t.Errorf("%d ppm: it reads %s after a lease by itself", drift, lease+off)
		}
		if want := lease - lease/1000*time.Duration(drift)/1000; (c.lasts() - want).Abs() > lease/100_000 {
			t.Errorf("%d ppm: a lease lasts %s, not %s", drift, c.lasts(), want)
		}
	}
}
