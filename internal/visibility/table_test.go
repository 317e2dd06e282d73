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

// A message of a FIFO group that is to stay hidden for a while comes again before that is done, with those behind it, because they all
// lapsed without our knowledge: it is offered anew, as they are, and what was to be done with the old copy is not.
func TestPitfall145_HandedBackAndReceivedAgain(t *testing.T) {
	c := newClocked(t, true)
	first, second := c.take("1", "a"), c.take("2", "b")
	c.HandBack(first, 10*time.Second, c.now)
	c.HandBack(second, 0, c.now)
	for _, h := range []*Hold{{ID: "1", Handle: "c", Group: "g"}, {ID: "2", Handle: "d", Group: "g"}} {
		if got := c.Receive(h, c.now, c.now); got != ArrivedNew {
			t.Errorf("message %s arrives as %d", h.ID, got)
		}
	}
	c.want(true, "")
	c.now += 21 * time.Second
	c.want(true, "2=60 1=60 ")
}
