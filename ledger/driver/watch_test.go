package driver_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ackledger/ackledger/ledger/driver"
)

// clock is a machine's: its monotonic clock runs at a rate, and its wall clock is stepped. Nothing reads the wall clock.
type clock struct{ drift int64 }

func drawClock(t *rapid.T, name string) clock {
	return clock{rapid.SampledFrom([]int64{-driver.ClockDrift, 0, driver.ClockDrift, rapid.Int64Range(-driver.ClockDrift, driver.ClockDrift).Draw(t, name)}).
		Draw(t, name+" is off by ppm")}
}

// read is the monotonic clock at a true time.
func (c clock) read(at time.Duration) time.Duration {
	const million = 1_000_000
	return at + at/million*time.Duration(c.drift) + at%million*time.Duration(c.drift)/million
}

// cluster is one owner and those who watch it. Its time is true.
type cluster struct {
	now      time.Duration
	lease    time.Duration
	owner    clock
	until    time.Duration // by its own clock the owner believes that its lease runs until then
	beat     uint64
	live     bool
	watchers []*watcher
}

// watcher is a process that watches. What it has read, and whom it wants to declare dead, may be under way for long.
type watcher struct {
	clock
	watch    driver.Watch
	read     []uint64
	declares []driver.Sighting
}

func drawCluster(t *rapid.T) *cluster {
	lease := rapid.SampledFrom([]time.Duration{10 * time.Millisecond, time.Second, 30 * time.Second, time.Hour, 24 * time.Hour}).Draw(t, "lease")
	c := &cluster{now: time.Duration(rapid.Int64Range(0, 1e18).Draw(t, "began")), lease: lease, owner: drawClock(t, "owner"), live: true}
	for range rapid.IntRange(1, 3).Draw(t, "watchers") {
		c.watchers = append(c.watchers, &watcher{clock: drawClock(t, "watcher")})
	}
	c.until = c.owner.read(c.now) + lease
	return c
}

// pass lets time go by, at times nearly a lease, or more: whoever does nothing meanwhile was frozen.
func (c *cluster) pass(t *rapid.T) {
	part := rapid.SampledFrom([]int64{0, 1, 1000, 30_000, 99_000, 99_800, 100_000, 100_200, 100_500, 500_000}).Draw(t, "part of a lease, of 100,000")
	c.now += c.lease / 100_000 * time.Duration(part)
	c.now += time.Duration(rapid.Int64Range(0, int64(2*driver.WatchFloor)).Draw(t, "and some more"))
}

// beats is the owner's beat: it is sent now, may arrive much later, and its answer later yet, or never. While it is under way others go on.
func (c *cluster) beats(t *rapid.T) {
	sent := c.owner.read(c.now)
	if sent >= c.until {
		return // its lease is over, and it asks nothing
	}
	c.others(t)
	if !c.live {
		return
	}
	c.beat++
	c.others(t)
	if rapid.Bool().Draw(t, "the answer comes") {
		c.until = max(c.until, sent+c.lease)
	}
}

func (c *cluster) others(t *rapid.T) {
	for range rapid.IntRange(0, 3).Draw(t, "meanwhile") {
		c.step(t)
	}
}

// step is one of a watcher: it reads, it has the answer, its declaration arrives. Between any two time passes.
func (c *cluster) step(t *rapid.T) {
	w := rapid.SampledFrom(c.watchers).Draw(t, "by")
	switch rapid.IntRange(0, 3).Draw(t, "step") {
	case 0:
		c.pass(t)
	case 1:
		w.read = append(w.read, c.beat)
	case 2:
		if n := len(w.read); n > 0 {
			now := w.clock.read(c.now)
			w.watch.Note(driver.Sighting{Owner: 1, Beat: w.read[n-1], Lease: c.lease}, now)
			w.read, w.declares = nil, append(w.declares, w.watch.Overdue(now)...)
		}
	case 3:
		if n := len(w.declares); n > 0 {
			c.declared(t, w.declares[0])
			w.declares = w.declares[1:]
		}
	}
}

// declared is the arrival of a declaration.
func (c *cluster) declared(t *rapid.T, s driver.Sighting) {
	if s.Beat != c.beat || !c.live {
		return
	}
	c.live = false
	if left := c.until - c.owner.read(c.now); left > 0 {
		t.Fatalf("an owner is declared dead that believes that its lease runs for another %s", left)
	}
}

// Whatever beats and sightings do, late, lost or frozen between any two steps, and however the clocks run within the assumption.
func TestWatchDeclaresNobodyWhoBelieves(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			if rapid.IntRange(0, 3).Draw(t, "the owner") == 0 {
				c.beats(t)
			} else {
				c.step(t)
			}
		}
	})
}

// The worst case is exact: a slow owner's beat is read by a fast watcher at the moment at which it was sent.
func TestWatchWaitsAsLongAsClocksAsk(t *testing.T) {
	t.Parallel()
	slow := clock{-driver.ClockDrift}
	for _, lease := range []time.Duration{time.Millisecond, time.Second, 30 * time.Second, time.Hour, 10_000 * time.Hour} {
		var w driver.Watch
		s := driver.Sighting{Owner: 7, Beat: 3, Lease: lease}
		wait := w.Note(s, 0)
		at := (wait - driver.WatchFloor) / 1001 * 1000 // when the fast clock has counted so much
		if left := lease - slow.read(at); left.Abs() > 5*time.Microsecond {
			t.Errorf("lease %s: but for the floor it is overdue after %s, when its owner believes for another %s", lease, at, left)
		}
		if most := lease + lease/400 + driver.WatchFloor; wait > most {
			t.Errorf("lease %s: it waits for %s, more than %s", lease, wait, most)
		}
		if left := w.Note(s, wait-1); left != 1 || len(w.Overdue(wait-1)) > 0 {
			t.Errorf("lease %s: a moment before, %s is left, overdue are %v", lease, left, w.Overdue(wait-1))
		}
		if left := w.Note(s, wait); left != 0 || !slices.Equal(w.Overdue(wait), []driver.Sighting{s}) {
			t.Errorf("lease %s: %s is left, overdue are %v", lease, left, w.Overdue(wait))
		}
	}
}

// Each beat is waited for anew: also one that was read out of order, and that of an owner with another lease.
func TestWatchBeginsAnewWithEachBeat(t *testing.T) {
	t.Parallel()
	var w driver.Watch
	wait := w.Note(driver.Sighting{Owner: 1, Beat: 5, Lease: time.Second}, 0)
	for i, s := range []driver.Sighting{
		{Owner: 1, Beat: 6, Lease: time.Second}, {Owner: 1, Beat: 5, Lease: time.Second}, {Owner: 1, Beat: 5, Lease: 2 * time.Second},
	} {
		now := time.Duration(i+1) * wait
		if left := w.Note(s, now); left < time.Second {
			t.Errorf("%+v: %s is left", s, left)
		}
	}
}

// Whoever is gone is forgotten: a watch has no more owners than there are.
func TestWatchIsBounded(t *testing.T) {
	t.Parallel()
	var w driver.Watch
	for id := range driver.OwnerID(1000) {
		w.Note(driver.Sighting{Owner: id, Beat: 1, Lease: time.Second}, 0)
		w.Keep(func(o driver.OwnerID) bool { return o > id-10 })
	}
	all := w.Overdue(time.Hour)
	if len(all) != 10 || all[0].Owner != 990 || !slices.IsSortedFunc(all, func(a, b driver.Sighting) int { return int(a.Owner - b.Owner) }) {
		t.Errorf("%d owners are left: %v", len(all), all)
	}
}
