package visibility

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestVisibilityIsExtendedEveryThird(t *testing.T) {
	c := newClocked(t, false)
	c.take("a", "1")
	c.want(true, "")
	c.now += 19 * time.Second
	c.want(true, "")
	c.now += 2 * time.Second
	changes := c.want(true, "a=60 ")
	c.want(true, "") // one call at a time
	c.answer(changes, Changed)
	c.now += 19 * time.Second
	c.want(true, "")
	c.now += 2 * time.Second
	c.want(true, "a=60 ")
}

func TestAnExtensionThatFailsIsRepeatedUntilTheHandleIsStale(t *testing.T) {
	c := newClocked(t, false)
	c.take("a", "1")
	tries := 0
	for range 60 {
		c.now += time.Second
		batches, lapsed := c.Plan(c.now, true, 8)
		for _, batch := range batches {
			tries++
			c.answer(batch, Failed)
		}
		if len(lapsed) > 0 {
			break
		}
	}
	if tries < 5 || tries > 10 {
		t.Errorf("%d tries, want 5 to 10", tries)
	}
	if h := c.holds["a"]; !h.lapsed {
		t.Error("the handle counts as good at the end")
	}
	c.want(true, "")
}

func TestNothingIsExtendedWithoutTheLease(t *testing.T) {
	c := newClocked(t, false)
	held, done := c.take("held", "1"), c.take("done", "2")
	c.Ack(done)
	c.TakeDeletes()
	c.DeleteFailed(Deletion{done, "2"}, false)
	c.now += 30 * time.Second
	c.want(false, "done=60 ")
	c.now += 30 * time.Second
	c.want(false, "held! ")
	if ok, _ := c.Start(held, c.now); ok {
		t.Error("a lapsed message may start")
	}
}

func TestARefusedExtensionLapsesOnce(t *testing.T) {
	c := newClocked(t, false)
	c.take("a", "1")
	c.now += 25 * time.Second
	changes := c.want(true, "a=60 ")
	if len(c.answer(changes, Refused)) != 1 {
		t.Error("the engine is not told")
	}
	c.now += time.Minute
	c.want(true, "")
}

func TestTwelveHoursAreTheLimit(t *testing.T) {
	c := newClocked(t, false)
	c.take("a", "1")
	began, last := c.now, c.now
	for {
		c.now += 5 * time.Second
		batches, lapsed := c.Plan(c.now, true, 8)
		for _, batch := range batches {
			last = c.now + time.Duration(batch[0].Seconds)*time.Second
			c.answer(batch, Changed)
		}
		if len(lapsed) > 0 {
			break
		}
	}
	if d := last - began; d > limit || d < limit-20*time.Second {
		t.Errorf("hidden for %s in all, want nearly %s", d, limit)
	}
	if d := c.now - began; d > last-began {
		t.Errorf("let go of after %s, later than its visibility ended", d)
	}
}

func TestWhatIsHandedBack(t *testing.T) {
	for _, tt := range []struct {
		name     string
		again    time.Duration
		after    time.Duration
		draining bool
		over     bool
		want     string
		left     int
	}{
		{name: "at once, running on", left: 0},
		{name: "later, running on", again: 20 * time.Minute, want: "a=1200 ", left: 1},
		{name: "fractions are rounded up", again: time.Millisecond, want: "a=1 ", left: 1},
		{name: "later than SQS can hide it", again: 12 * time.Hour, want: "a=43190 ", left: 1},
		{name: "at once, own polls open", draining: true, left: 1},
		{name: "at once, own polls over", draining: true, over: true, want: "a=0 ", left: 1},
		{name: "stale handle", after: 56 * time.Second, draining: true, over: true, left: 0},
		{name: "stale handle, later", again: time.Hour, after: 56 * time.Second, left: 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newClocked(t, false)
			h := c.take("a", "1")
			if tt.draining {
				c.Drain()
			}
			if tt.over {
				c.PollsOver()
			}
			if plans := c.HandBack(h, tt.again, c.now+tt.after); plans != (tt.left == 1) || len(c.holds) != tt.left {
				t.Errorf("%d in hand, want %d; there is a change to plan: %v", len(c.holds), tt.left, plans)
			}
			if batch := c.want(true, tt.want); len(batch) > 0 {
				c.answer(batch, Changed)
				if len(c.holds) != 0 {
					t.Error("what was handed back is still in hand")
				}
			}
		})
	}
}

// Its visibility ends by itself: a handler may still have it.
func TestWhatIsForgottenIsNotHandedBack(t *testing.T) {
	c := newClocked(t, false)
	h := c.take("a", "1")
	c.Drain()
	c.PollsOver()
	c.Forget(h)
	if c.want(true, ""); len(c.holds) != 0 {
		t.Error("it is still in hand")
	}
}

func TestAGroupIsHandedBackNewestFirst(t *testing.T) {
	c := newClocked(t, true)
	c.Drain()
	c.PollsOver()
	for i := range 12 {
		c.HandBack(c.take(fmt.Sprintf("m%02d", i), "1"), 0, c.now)
	}
	first := c.want(true, "m11=0 m10=0 m09=0 m08=0 m07=0 m06=0 m05=0 m04=0 m03=0 m02=0 ")
	c.want(true, "") // one request after the other
	c.answer(first, Changed)
	c.want(true, "m01=0 m00=0 ")
}

// A group is received once more, and the table has its head no more: the others came before the new copy of the head.
func TestPitfall147_HandedBackAsItCameLast(t *testing.T) {
	c := newClocked(t, true)
	c.Forget(c.take("a", "1"))
	c.take("b", "1")
	c.take("c", "1")
	a, b, newest := c.take("a", "2"), c.take("b", "2"), c.take("c", "2")
	c.Drain()
	c.PollsOver()
	for _, h := range []*Hold{a, newest, b} {
		c.HandBack(h, 0, c.now)
	}
	c.want(true, "c=0 b=0 a=0 ")
}

// TestWhatIsHandedBackLapses: a message that is being handed back leaves the table when its visibility is over, but not before the
// call about it has ended.
func TestWhatIsHandedBackLapses(t *testing.T) {
	t.Parallel()
	for _, calling := range []bool{false, true} {
		c := newClocked(t, false)
		h := c.take("a", "1")
		c.HandBack(h, 10*time.Second, c.now)
		var changes []Change
		if calling {
			changes = c.want(true, "a=10 ")
		}
		c.now += time.Minute
		c.want(true, "") // the engine has let go of it already
		if _, there := c.holds["a"]; there != calling {
			t.Errorf("with a call under way %v: it is in the table: %v", calling, there)
		}
		if calling {
			c.answer(changes, Failed)
		}
		if len(c.holds) > 0 {
			t.Errorf("with a call under way %v: it stays in the table", calling)
		}
	}
}

// TestWhatIsHandedBackGoesFirst: others wait for it, while an extension has time.
func TestWhatIsHandedBackGoesFirst(t *testing.T) {
	t.Parallel()
	c := newClocked(t, false)
	for i := range 20 {
		h := c.take(fmt.Sprint("m", i), "1")
		if i%2 == 0 {
			c.HandBack(h, 50*time.Second, c.now)
		}
	}
	c.now += 21 * time.Second
	batches, _ := c.Plan(c.now, true, 8)
	changes := slices.Concat(batches...)
	for i, ch := range changes {
		if ch.Back != (i < 10) {
			t.Fatalf("change %d of %d hands back: %v", i, len(changes), ch.Back)
		}
	}
	if len(changes) != 20 {
		t.Errorf("%d changes, want 20", len(changes))
	}
}

// A hand-back that may have happened is not repeated: others may have the message by now, whose visibility would be ended. One that
// did not happen is.
func TestWhatMayBeHandedBackIsNotHandedBackAgain(t *testing.T) {
	t.Parallel()
	for outcome, want := range map[Outcome]string{Unknown: "", Failed: "a=0 "} {
		c := newClocked(t, false)
		c.Drain()
		c.PollsOver()
		c.HandBack(c.take("a", "1"), 0, c.now)
		c.answer(c.want(true, "a=0 "), outcome)
		c.now += 5 * time.Second
		c.want(true, want)
	}
}

// What is to come again later, but can be hidden for less than a second more, meets no poll of its own.
func TestWhatCannotBeHiddenAnyMoreIsNotHandedBack(t *testing.T) {
	t.Parallel()
	c := &clocked{t, New(10*time.Second, 9500*time.Millisecond, false), 0}
	h := c.take("a", "1")
	c.now = 8600 * time.Millisecond
	c.HandBack(h, time.Minute, c.now)
	c.want(true, "")
	c.PollsOver()
	c.want(true, "a=0 ")
}

// An extension whose answer is not known leaves the visibility as it was: it is repeated, and until then nothing else is known.
func TestAnUnknownExtensionIsRepeated(t *testing.T) {
	t.Parallel()
	c := newClocked(t, false)
	h := c.take("a", "1")
	c.now += 25 * time.Second
	c.answer(c.want(true, "a=60 "), Unknown)
	c.now += 28 * time.Second
	if ok, _ := c.Start(h, c.now); !ok {
		t.Error("it may not start while its handle is good")
	}
	c.want(true, "a=60 ")
}
