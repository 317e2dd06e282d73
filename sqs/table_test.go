package sqs

import (
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/ackledger/ackledger/internal/engine"
)

// clocked is a table with a time of its own.
type clocked struct {
	*testing.T
	*table
	now time.Time
}

func newClocked(t *testing.T, fifo bool) *clocked {
	return &clocked{t, newTable(60*time.Second, visibilityLimit, fifo), time.Now()}
}

func (c *clocked) take(id, handle string) *hold {
	c.Helper()
	m := raw(id, handle)
	m.Attributes = map[string]string{string(types.MessageSystemAttributeNameMessageGroupId): "g"}
	h, is := c.receiveOne(m, c.now, c.now)
	if is == arrivedDead {
		c.Fatalf("message %s is refused", id)
	}
	return h
}

// planned shows the plan as text: "id=seconds" in order, "id!" for what has lapsed.
func (c *clocked) planned(live bool) (text string, changes []change) {
	changes, lapsed := c.plan(c.now, live, 80)
	for _, ch := range changes {
		text += fmt.Sprintf("%s=%d ", ch.h.id, ch.seconds)
	}
	for _, h := range lapsed {
		text += h.id + "! "
	}
	return text, changes
}

func (c *clocked) want(live bool, want string) []change {
	c.Helper()
	got, changes := c.planned(live)
	if got != want {
		c.Errorf("plan %q, want %q", got, want)
	}
	return changes
}

func TestVisibilityIsExtendedEveryThird(t *testing.T) {
	c := newClocked(t, false)
	c.take("a", "1")
	c.want(true, "")
	c.now = c.now.Add(19 * time.Second)
	c.want(true, "")
	c.now = c.now.Add(2 * time.Second)
	changes := c.want(true, "a=60 ")
	c.want(true, "") // one call at a time
	c.changed(changes[0], changed, c.now, c.now)
	c.now = c.now.Add(19 * time.Second)
	c.want(true, "")
	c.now = c.now.Add(2 * time.Second)
	c.want(true, "a=60 ")
}

func TestAnExtensionThatFailsIsRepeatedUntilTheHandleIsStale(t *testing.T) {
	c := newClocked(t, false)
	c.take("a", "1")
	tries := 0
	for range 60 {
		c.now = c.now.Add(time.Second)
		changes, lapsed := c.plan(c.now, true, 80)
		for _, ch := range changes {
			tries++
			c.changed(ch, failed, c.now, c.now)
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
	c.ack(done)
	c.takeDeletes()
	c.deleteFailed(deletion{done, "2"}, false)
	c.now = c.now.Add(30 * time.Second)
	c.want(false, "done=60 ")
	c.now = c.now.Add(30 * time.Second)
	c.want(false, "held! ")
	if ok, _ := c.start(held, c.now); ok {
		t.Error("a lapsed message may start")
	}
}

func TestARefusedExtensionLapsesOnce(t *testing.T) {
	c := newClocked(t, false)
	c.take("a", "1")
	c.now = c.now.Add(25 * time.Second)
	changes := c.want(true, "a=60 ")
	if len(c.changed(changes[0], refused, c.now, c.now)) != 1 {
		t.Error("the engine is not told")
	}
	c.now = c.now.Add(time.Minute)
	c.want(true, "")
}

func TestTwelveHoursAreTheLimit(t *testing.T) {
	c := newClocked(t, false)
	c.take("a", "1")
	began, last := c.now, c.now
	for {
		c.now = c.now.Add(5 * time.Second)
		changes, lapsed := c.plan(c.now, true, 80)
		for _, ch := range changes {
			last = c.now.Add(time.Duration(ch.seconds) * time.Second)
			c.changed(ch, changed, c.now, c.now)
		}
		if len(lapsed) > 0 {
			break
		}
	}
	if d := last.Sub(began); d > visibilityLimit || d < visibilityLimit-20*time.Second {
		t.Errorf("hidden for %s in all, want nearly %s", d, visibilityLimit)
	}
	if d := c.now.Sub(began); d > last.Sub(began) {
		t.Errorf("let go of after %s, later than its visibility ended", d)
	}
}

func TestACopyBringsANewHandle(t *testing.T) {
	c := newClocked(t, false)
	h := c.take("a", "1")
	c.now = c.now.Add(50 * time.Second)
	if again := c.take("a", "2"); again != h || h.handle != "2" || len(c.holds) != 1 {
		t.Errorf("a copy in hand became another message")
	}
	c.want(true, "") // its visibility began anew
	c.ack(h)
	first := c.takeDeletes()
	c.take("a", "3") // while the delete is under way
	c.deleted(first[0])
	second := c.takeDeletes()
	if len(first) != 1 || first[0].handle != "2" || len(second) != 1 || second[0].handle != "3" {
		t.Errorf("deletes %v and %v, want one by each handle", first, second)
	}
	c.deleted(second[0])
	if len(c.holds) != 0 || c.pending != 0 {
		t.Errorf("%d messages and %d deletes are left", len(c.holds), c.pending)
	}
}

// The engine has been told to let go of what has lapsed, or is about to be: a copy must not be let go of with it.
func TestACopyOfALapsedMessageIsTakenInAnew(t *testing.T) {
	c := newClocked(t, false)
	h := c.take("a", "1")
	c.now = c.now.Add(time.Minute)
	c.want(true, "a! ")
	copied := c.take("a", "2")
	if ok, _ := c.start(h, c.now); ok || copied == h {
		t.Error("the message may start as it was")
	}
	if ok, _ := c.start(copied, c.now); !ok {
		t.Error("a message with a good handle may not start")
	}
}

// A group is let go of while one of its messages is on its way to the engine, which so does not know it yet: it ran before
// those that were let go of.
func TestAMessageThatTheEngineDidNotHaveYetDoesNotOvertakeItsGroup(t *testing.T) {
	c := newClocked(t, true)
	c.take("a", "1")
	late := c.take("b", "1")
	c.now = c.now.Add(25 * time.Second)
	c.holds["b"].until = c.now.Add(time.Minute) // it alone was extended
	changes := c.want(true, "a=60 ")
	if drops := c.changed(changes[0], refused, c.now, c.now); len(drops) != 2 {
		t.Fatalf("the engine is to let go of %d, want both", len(drops))
	}
	if ok, _ := c.start(late, c.now); ok {
		t.Error("it may start while its handle is good")
	}
	first, second := c.take("a", "2"), c.take("b", "2")
	if ok, drops := c.start(late, c.now); ok || len(drops) != 0 {
		t.Errorf("it may start: %v; the engine is to let go of %d that came later", ok, len(drops))
	}
	for _, h := range []*hold{first, second} {
		if ok, _ := c.start(h, c.now); !ok {
			t.Errorf("%s: the copy may not start", h.id)
		}
	}
}

// A group lapses, and is received again before the engine has let go of it. Its head was taken for the old one and let go
// of, and what comes behind it ran first.
func TestAGroupThatLapsedIsTakenInAnewAsAWhole(t *testing.T) {
	c := newClocked(t, true)
	old := []*hold{c.take("a", "1"), c.take("b", "1"), c.take("c", "1")}
	c.now = c.now.Add(58 * time.Second)
	c.holds["c"].until = c.now.Add(time.Minute) // it alone was extended
	_, drops := c.plan(c.now, true, 80)
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
	c.now = c.now.Add(25 * time.Second)
	changes := c.want(true, "a=60 ")
	c.ack(h)
	if d := c.takeDeletes(); len(d) != 0 {
		t.Error("the delete does not wait for the extension that is under way")
	}
	c.changed(changes[0], changed, c.now, c.now)
	if d := c.takeDeletes(); len(d) != 1 {
		t.Error("the delete is forgotten")
	}
	c.now = c.now.Add(25 * time.Second)
	c.want(true, "") // no extension beside the delete
}

func TestWhatIsHandedBack(t *testing.T) {
	for _, tt := range []struct {
		name     string
		verdict  engine.Verdict
		after    time.Duration
		draining bool
		over     bool
		want     string
		left     int
	}{
		{name: "at once, running on", verdict: engine.Verdict{}, left: 0},
		{name: "later, running on", verdict: engine.Verdict{Again: 20 * time.Minute}, want: "a=1200 ", left: 1},
		{name: "fractions are rounded up", verdict: engine.Verdict{Again: time.Millisecond}, want: "a=1 ", left: 1},
		{name: "later than SQS can hide it", verdict: engine.Verdict{Again: 12 * time.Hour}, want: "a=43190 ", left: 1},
		{name: "at once, own polls open", verdict: engine.Verdict{}, draining: true, left: 1},
		{name: "at once, own polls over", verdict: engine.Verdict{}, draining: true, over: true, want: "a=0 ", left: 1},
		{name: "still in a handler", verdict: engine.Verdict{Held: true}, draining: true, over: true, left: 0},
		{name: "stale handle", verdict: engine.Verdict{}, after: 56 * time.Second, draining: true, over: true, left: 0},
		{name: "stale handle, later", verdict: engine.Verdict{Again: time.Hour}, after: 56 * time.Second, left: 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newClocked(t, false)
			h := c.take("a", "1")
			if tt.draining {
				c.drain()
			}
			if tt.over {
				c.over()
			}
			c.letGo(h, tt.verdict, c.now.Add(tt.after))
			if len(c.holds) != tt.left {
				t.Errorf("%d in hand, want %d", len(c.holds), tt.left)
			}
			for _, ch := range c.want(true, tt.want) {
				c.changed(ch, changed, c.now, c.now)
				if len(c.holds) != 0 {
					t.Error("what was handed back is still in hand")
				}
			}
		})
	}
}

func TestAGroupIsHandedBackNewestFirst(t *testing.T) {
	c := newClocked(t, true)
	c.drain()
	c.over()
	for i := range 12 {
		c.letGo(c.take(fmt.Sprintf("m%02d", i), "1"), engine.Verdict{}, c.now)
	}
	first := c.want(true, "m11=0 m10=0 m09=0 m08=0 m07=0 m06=0 m05=0 m04=0 m03=0 m02=0 ")
	c.want(true, "") // one call after the other
	for _, ch := range first {
		c.changed(ch, changed, c.now, c.now)
	}
	c.returned()
	c.want(true, "m01=0 m00=0 ")
}

func TestLanesCountGroups(t *testing.T) {
	fifo, standard := newClocked(t, true), newClocked(t, false)
	for i := range 3 {
		fifo.take(fmt.Sprint(i), "1")
		standard.take(fmt.Sprint(i), "1")
	}
	f, _ := fifo.lanes()
	s, _ := standard.lanes()
	if f != 1 || s != 3 {
		t.Errorf("%d and %d lanes, want 1 group and 3 messages", f, s)
	}
	for _, h := range fifo.holds {
		fifo.ack(h)
	}
	if f, all := fifo.lanes(); f != 0 || all != 3 {
		t.Errorf("%d lanes and %d in hand, want 0 and 3", f, all)
	}
}
