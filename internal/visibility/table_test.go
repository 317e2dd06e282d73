package visibility

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// limit is how long SQS hides a message in all, less what requests take.
const limit = 12*time.Hour - 10*time.Second

// clocked is a table with a time of its own.
type clocked struct {
	*testing.T
	*Table
	now time.Duration
}

func newClocked(t *testing.T, fifo bool) *clocked {
	return &clocked{t, New(60*time.Second, limit, fifo), time.Hour}
}

func (c *clocked) take(id, handle string) *Hold {
	c.Helper()
	h := &Hold{ID: id, Handle: handle, Group: "g"}
	if c.Receive(h, c.now, c.now) == ArrivedDead {
		c.Fatalf("message %s is refused", id)
	}
	return c.holds[id]
}

// planned shows the plan as text: "id=seconds" in order, "id!" for what has lapsed, "|" between batches.
func (c *clocked) planned(live bool) (text string, batches [][]Change) {
	batches, lapsed := c.Plan(c.now, live, 8)
	for i, batch := range batches {
		if i > 0 {
			text += "| "
		}
		for _, ch := range batch {
			text += fmt.Sprintf("%s=%d ", ch.Hold.ID, ch.Seconds)
		}
	}
	for _, h := range lapsed {
		text += h.ID + "! "
	}
	return text, batches
}

// want checks the plan, and returns its batch; empty if there is none.
func (c *clocked) want(live bool, want string) []Change {
	c.Helper()
	got, batches := c.planned(live)
	if got != want {
		c.Errorf("plan %q, want %q", got, want)
	}
	return slices.Concat(batches...)
}

// answer ends all changes of a batch in the same way.
func (c *clocked) answer(batch []Change, o Outcome) (drops []*Hold) {
	outcomes := make([]Outcome, len(batch))
	for i := range outcomes {
		outcomes[i] = o
	}
	return c.Changed(batch, outcomes, c.now, c.now)
}

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

func TestACopyBringsANewHandle(t *testing.T) {
	c := newClocked(t, false)
	h := c.take("a", "1")
	c.now += 50 * time.Second
	if again := c.take("a", "2"); again != h || h.Handle != "2" || len(c.holds) != 1 {
		t.Errorf("a copy in hand became another message")
	}
	c.want(true, "") // its visibility began anew
	c.Ack(h)
	first := c.TakeDeletes()
	c.take("a", "3") // while the delete is under way
	c.Deleted(first[0])
	second := c.TakeDeletes()
	if len(first) != 1 || first[0].Handle != "2" || len(second) != 1 || second[0].Handle != "3" {
		t.Errorf("deletes %v and %v, want one by each handle", first, second)
	}
	c.Deleted(second[0])
	if len(c.holds) != 0 || c.pending != 0 {
		t.Errorf("%d messages and %d deletes are left", len(c.holds), c.pending)
	}
}

// The engine has been told to let go of what has lapsed, or is about to be: a copy must not be let go of with it.
func TestACopyOfALapsedMessageIsTakenInAnew(t *testing.T) {
	c := newClocked(t, false)
	h := c.take("a", "1")
	c.now += time.Minute
	c.want(true, "a! ")
	copied := c.take("a", "2")
	if ok, _ := c.Start(h, c.now); ok || copied == h {
		t.Error("the message may start as it was")
	}
	if ok, _ := c.Start(copied, c.now); !ok {
		t.Error("a message with a good handle may not start")
	}
}

// A group is let go of while one of its messages is on its way to the engine, which so does not know it yet: it ran before
// those that were let go of.
func TestAMessageThatTheEngineDidNotHaveYetDoesNotOvertakeItsGroup(t *testing.T) {
	c := newClocked(t, true)
	c.take("a", "1")
	late := c.take("b", "1")
	c.now += 25 * time.Second
	c.holds["b"].until = c.now + time.Minute // it alone was extended
	changes := c.want(true, "a=60 ")
	if drops := c.answer(changes, Refused); len(drops) != 2 {
		t.Fatalf("the engine is to let go of %d, want both", len(drops))
	}
	if ok, _ := c.Start(late, c.now); ok {
		t.Error("it may start while its handle is good")
	}
	first, second := c.take("a", "2"), c.take("b", "2")
	if ok, drops := c.Start(late, c.now); ok || len(drops) != 0 {
		t.Errorf("it may start: %v; the engine is to let go of %d that came later", ok, len(drops))
	}
	for _, h := range []*Hold{first, second} {
		if ok, _ := c.Start(h, c.now); !ok {
			t.Errorf("%s: the copy may not start", h.ID)
		}
	}
}

// A group lapses, and is received again before the engine has let go of it. Its head was taken for the old one and let go
// of, and what comes behind it ran first.
func TestAGroupThatLapsedIsTakenInAnewAsAWhole(t *testing.T) {
	c := newClocked(t, true)
	old := []*Hold{c.take("a", "1"), c.take("b", "1"), c.take("c", "1")}
	c.now += 58 * time.Second
	c.holds["c"].until = c.now + time.Minute // it alone was extended
	_, drops := c.Plan(c.now, true, 8)
	if len(drops) != 3 {
		t.Errorf("the engine is to let go of %d, want all 3", len(drops))
	}
	for i, id := range []string{"a", "b", "c"} {
		if h := c.take(id, "2"); h == old[i] || h.dropped {
			t.Errorf("%s: the copy is let go of with what has lapsed", id)
		}
	}
}

func TestADeleteWaitsForTheExtension(t *testing.T) {
	c := newClocked(t, false)
	h := c.take("a", "1")
	c.now += 25 * time.Second
	changes := c.want(true, "a=60 ")
	c.Ack(h)
	if d := c.TakeDeletes(); len(d) != 0 {
		t.Error("the delete does not wait for the extension that is under way")
	}
	c.answer(changes, Changed)
	if d := c.TakeDeletes(); len(d) != 1 {
		t.Error("the delete is forgotten")
	}
	c.now += 25 * time.Second
	c.want(true, "") // no extension beside the delete
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

func TestLanesCountGroups(t *testing.T) {
	fifo, standard := newClocked(t, true), newClocked(t, false)
	for i := range 3 {
		fifo.take(fmt.Sprint(i), "1")
		standard.take(fmt.Sprint(i), "1")
	}
	f, _ := fifo.Lanes()
	s, _ := standard.Lanes()
	if f != 1 || s != 3 {
		t.Errorf("%d and %d lanes, want 1 group and 3 messages", f, s)
	}
	for _, h := range fifo.holds {
		fifo.Ack(h)
	}
	if f, all := fifo.Lanes(); f != 0 || all != 3 {
		t.Errorf("%d lanes and %d in hand, want 0 and 3", f, all)
	}
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

// TestACopyOfWhatIsDeleted: a message that is delivered again before its delete went through is deleted by its new handle.
func TestACopyOfWhatIsDeleted(t *testing.T) {
	t.Parallel()
	c := newClocked(t, false)
	c.Ack(c.take("a", "1"))
	batch := c.TakeDeletes()
	c.DeleteFailed(batch[0], false)
	c.take("a", "2")
	if batch = c.TakeDeletes(); len(batch) != 1 || batch[0].Handle != "2" {
		t.Errorf("deletes %+v, want one by the new handle", batch)
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

// An old copy that was let go of leaves nothing behind.
func TestAnOldCopyLeavesTheTable(t *testing.T) {
	t.Parallel()
	c := newClocked(t, true)
	old := c.take("a", "1")
	c.now += time.Minute
	c.want(true, "a! ")
	copied := c.take("a", "2")
	if c.oldest != copied || c.newest != copied || copied.prev != nil || copied.next != nil {
		t.Error("the old copy is still in the order of receives")
	}
	c.Ack(old)
	c.Forget(copied)
	if lanes, all := c.Lanes(); lanes != 0 || all != 0 || c.oldest != nil || c.newest != nil {
		t.Errorf("%d lanes and %d messages are left", lanes, all)
	}
}
