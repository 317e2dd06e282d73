package adaptive_test

import (
	"math"
	"testing"
	"time"

	"github.com/ackledger/ackledger/internal/adaptive"
	"pgregory.net/rapid"
)

// begun is a call of the property tests that has begun.
type begun struct {
	mark uint32
	at   time.Duration
}

// Whatever calls come to, the limit stays within its bounds, nothing starts in a rest alone, and no rest is long.
func TestStaysWithinItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := adaptive.Config{Min: rapid.IntRange(1, 20).Draw(t, "min"), Conns: rapid.IntRange(0, 30).Draw(t, "conns")}
		cfg.Max = cfg.Min + rapid.IntRange(0, 80).Draw(t, "room")
		l := adaptive.New(cfg)
		now, running := time.Duration(0), []begun(nil)
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			now += time.Duration(rapid.IntRange(0, 200).Draw(t, "ms")) * time.Millisecond
			l.Wake(now)
			for len(running) < l.Allows() {
				running = append(running, begun{l.Began(now), now})
			}
			if len(running) > 0 && rapid.Bool().Draw(t, "ends") {
				at := rapid.IntRange(0, len(running)-1).Draw(t, "which")
				s := adaptive.Sample{Took: now - running[at].at, Calls: rapid.IntRange(0, 3).Draw(t, "calls")}
				s.Failed = rapid.IntRange(0, s.Calls).Draw(t, "failed")
				s.InTx = rapid.IntRange(0, s.Calls-s.Failed).Draw(t, "inTx")
				l.Ended(now, running[at].mark, s)
				running = append(running[:at], running[at+1:]...)
			} else {
				l.Press(rapid.Float64().Draw(t, "pressure"))
			}
			until, rests := l.Rests()
			switch n := l.Allows(); {
			case l.Now() < cfg.Min || l.Now() > cfg.Max:
				t.Fatalf("the limit is %d, must be %d to %d", l.Now(), cfg.Min, cfg.Max)
			case rests && (n != 0 || until-now > 5*time.Second || !l.Fails() && until > now):
				t.Fatalf("%d may run, in a rest of %s", n, until-now)
			case !rests && (n < cfg.Min || n > l.Now()):
				t.Fatalf("%d may run, of a limit of %d", n, l.Now())
			}
		}
	})
}

// drive has so many handlers run calls of a latency for a while, or as many as are allowed if those are less.
func drive(l *adaptive.Limit, now, lasts time.Duration, handlers int, s adaptive.Sample) time.Duration {
	for end := now + lasts; now < end; {
		l.Wake(now)
		marks := make([]uint32, min(handlers, l.Allows()))
		for i := range marks {
			marks[i] = l.Began(now)
		}
		now += max(s.Took, time.Millisecond)
		for _, mark := range marks {
			l.Ended(now, mark, s)
		}
	}
	return now
}

var well = adaptive.Sample{Took: 10 * time.Millisecond, Calls: 1}

// A limit that is not used does not grow: of more handlers nobody knows anything.
func TestDoesNotGrowUnused(t *testing.T) {
	for _, least := range []int{2, 3, 7, 10} {
		l := adaptive.New(adaptive.Config{Min: least, Max: 40})
		now := drive(l, 0, 10*time.Second, (least+1)/2, well)
		if l.Now() != least {
			t.Fatalf("half of %d handlers have work, and the limit is %d", least, l.Now())
		}
		if drive(l, now, 10*time.Second, 40, well); l.Now() != 40 {
			t.Fatalf("all handlers have work, and the limit is %d of 40", l.Now())
		}
	}
}

var bad = adaptive.Sample{Took: 10 * time.Millisecond, Calls: 1, Failed: 1}

// What fails for whatever reason is laid to the load for an hour, and no longer: then such calls are as others, and lessen nothing.
func TestFailuresAreExcusedForAnHour(t *testing.T) {
	l := adaptive.New(adaptive.Config{Min: 1, Max: 100})
	now := drive(l, 0, 10*time.Second, 100, well)
	now = drive(l, now, time.Minute, 100, bad)
	if !l.Fails() || now >= l.Excused() || l.Now() != 1 {
		t.Fatalf("after a minute of failures: fails %v, excused until %s at %s, the limit is %d", l.Fails(), l.Excused(), now, l.Now())
	}
	now = drive(l, now, time.Hour, 100, bad)
	if !l.Fails() || now < l.Excused() || l.Now() != 100 {
		t.Fatalf("after an hour of failures: fails %v, excused until %s at %s, the limit is %d", l.Fails(), l.Excused(), now, l.Now())
	}
	now = drive(l, now, 30*time.Second, 100, well)
	if l.Fails() || l.Excused() != 0 || l.Now() != 100 {
		t.Fatalf("after 30 s of success: fails %v, excused until %s, the limit is %d", l.Fails(), l.Excused(), l.Now())
	}
	if now = drive(l, now, time.Minute, 100, bad); now < l.Excused() {
		t.Fatalf("half a minute of success excuses a minute of failures, until %s", l.Excused()-now)
	}
}

// Outages with little between them are excused for an hour together, and that once more for each hour without.
func TestOutagesTogetherAreExcusedForAnHour(t *testing.T) {
	l := adaptive.New(adaptive.Config{Min: 1, Max: 20})
	now, excused, calm := time.Duration(0), time.Duration(0), time.Duration(0)
	for range 20 {
		from := now
		now = drive(l, now, 10*time.Second, 20, well)
		calm += now - from
		for end := now + 10*time.Minute; now < end; {
			from, was := now, now < l.Excused()
			if now = drive(l, now, time.Second, 20, bad); was {
				excused += now - from
			}
		}
	}
	if excused < 50*time.Minute || excused > time.Hour+calm+time.Minute {
		t.Errorf("of 20 outages of ten minutes %s are excused", excused)
	}
	if now = drive(l, now, time.Hour, 20, well); l.Excused() != 0 {
		t.Error("an hour of success is no end")
	}
	if now = drive(l, now, 50*time.Minute, 20, bad); now >= l.Excused() {
		t.Error("after an hour of success 50 minutes of failures are not excused")
	}
}

// An outage after which nobody had work says nothing of one a day later.
func TestOutageBeforeIdleTime(t *testing.T) {
	l := adaptive.New(adaptive.Config{Min: 1, Max: 20})
	now := drive(l, 0, time.Minute, 20, bad)
	now += 24 * time.Hour
	if now = drive(l, now, time.Minute, 20, bad); now >= l.Excused() {
		t.Error("the outage of the day before has used up the hour")
	}
}

// Where work is rare no window is full. What goes well ends an overload all the same.
func TestRareCallsEndAnOverload(t *testing.T) {
	l := adaptive.New(adaptive.Config{Min: 1, Max: 20})
	now := drive(l, 0, time.Minute, 20, bad)
	for range 3 {
		now = drive(l, now+20*time.Second, 10*time.Millisecond, 1, well)
	}
	if l.Fails() || l.Excused() != 0 {
		t.Error("three calls went well in a minute, and most fail")
	}
}

// Handlers that commit transactions are as many as the pool has connections at most; others need none.
func TestNoMoreTransactionsThanConnections(t *testing.T) {
	for name, c := range map[string]struct {
		inTx, conns, want int
	}{"transactions": {1, 8, 8}, "none": {0, 8, 100}, "no pool": {1, 0, 100}, "a pool below the least": {1, 2, 4}} {
		l := adaptive.New(adaptive.Config{Min: 4, Max: 100, Conns: c.conns})
		s := well
		s.InTx = c.inTx
		if drive(l, 0, 20*time.Second, 200, s); l.Now() != c.want {
			t.Errorf("%s: the limit is %d, want %d", name, l.Now(), c.want)
		}
	}
}

// Pressure halves the limit in a second at its most, and up to 0.8 says nothing. What is no number says nothing either.
func TestPressure(t *testing.T) {
	for _, c := range []struct {
		pressure float64
		want     int
	}{{1, 50}, {2, 50}, {0.9, 75}, {0.8, 100}, {0, 100}, {-1, 100}, {math.NaN(), 100}, {math.Inf(1), 50}, {math.Inf(-1), 100}} {
		l := adaptive.New(adaptive.Config{Min: 1, Max: 100})
		now := drive(l, 0, 20*time.Second, 200, well)
		if l.Press(c.pressure); l.Now() != c.want {
			t.Errorf("a pressure of %v makes a limit of 100 one of %d, want %d", c.pressure, l.Now(), c.want)
		}
		if drive(l, now, 20*time.Second, 200, well); c.pressure > 0.8 && l.Now() > c.want {
			t.Errorf("at a pressure of %v the limit grows from %d to %d", c.pressure, c.want, l.Now())
		}
		if l.Press(0); c.pressure > 0.8 {
			if drive(l, now+20*time.Second, 20*time.Second, 200, well); l.Now() != 100 {
				t.Errorf("without pressure the limit stays at %d", l.Now())
			}
		}
	}
}
