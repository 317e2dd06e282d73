package locks

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// clocked is a table with a time, for records locked for 30 s.
type clocked struct {
	*Table
	t   *testing.T
	now time.Duration
}

func newClocked(t *testing.T, limit int32) *clocked {
	t.Parallel()
	return &clocked{Table: New(limit), t: t}
}

func (c *clocked) record(id string, count int32) *Hold {
	return &Hold{ID: id, Place: "p", Handle: fmt.Sprint(id, count), Count: count, Until: c.now + 30*time.Second, Span: 30 * time.Second}
}

func (c *clocked) take(id string, count int32, want Arrival) *Hold {
	c.t.Helper()
	h := c.record(id, count)
	if got := c.Receive(h, c.now); got != want {
		c.t.Fatalf("%s arrives as %d, want %d", id, got, want)
	}
	return h
}

// want compares a plan: the ids of each batch, then what lapsed behind "!".
func (c *clocked) want(live bool, want string) [][]*Hold {
	c.t.Helper()
	batches, drops := c.Plan(c.now, live)
	if got := ids(batches, drops); got != want {
		c.t.Fatalf("at %s the plan is %q, want %q", c.now, got, want)
	}
	return batches
}

func ids(batches [][]*Hold, drops []*Hold) string {
	var parts []string
	for _, b := range batches {
		text := ""
		for _, h := range b {
			text += h.ID
		}
		parts = append(parts, text)
	}
	for _, h := range drops {
		parts = append(parts, "!"+h.ID)
	}
	return strings.Join(parts, " ")
}

func (c *clocked) answer(batch []*Hold, o Outcome) (accepts, drops []*Hold) {
	return c.Renewed(batch, map[string]Outcome{"p": o}, c.now, c.now)
}

func TestLocksAreRenewedEveryThird(t *testing.T) {
	c := newClocked(t, 0)
	c.take("a", 1, ArrivedNew)
	c.want(true, "")
	for range 360 { // an hour
		c.now += 10 * time.Second
		c.answer(c.want(true, "a")[0], Renewed)
		c.want(true, "")
	}
}

func TestARenewalIsRepeatedUntilTheLockIsOver(t *testing.T) {
	c, tries := newClocked(t, 0), 0
	h := c.take("a", 1, ArrivedNew)
	for !h.lapsed {
		c.now += time.Second
		batches, _ := c.Plan(c.now, true)
		for _, b := range batches {
			tries++
			c.answer(b, Unknown)
		}
	}
	if tries < 4 || tries > 8 || c.now != 27*time.Second {
		t.Errorf("%d tries until %s", tries, c.now)
	}
	if c.Start(h, c.now) || c.Ack(h) {
		t.Error("something begins with a lock that is over")
	}
}

func TestNothingIsRenewedWithoutTheLeaseButTheReserved(t *testing.T) {
	c := newClocked(t, 5)
	c.take("a", 3, ArrivedNew)
	c.take("b", 4, ArrivedNew)
	c.take("c", 5, ArrivedNew)
	c.now += 10 * time.Second
	c.answer(c.want(false, "bc")[0], Renewed)
	c.now += 17 * time.Second
	c.want(false, "bc !a")
}

// One record whose lock is over does not cost the others of its partition theirs.
func TestPitfall237_OneRefusalIsOfOneRecord(t *testing.T) {
	c := newClocked(t, 0)
	c.take("a", 1, ArrivedNew)
	c.take("b", 1, ArrivedNew)
	c.take("c", 1, ArrivedNew)
	c.now += 10 * time.Second
	if _, drops := c.answer(c.want(true, "abc")[0], Refused); len(drops) > 0 {
		t.Errorf("%s is let go of", ids(nil, drops))
	}
	batches := c.want(true, "a b c")
	c.answer(batches[0], Renewed)
	if _, drops := c.answer(batches[1], Refused); ids(nil, drops) != "!b" {
		t.Errorf("%q is let go of", ids(nil, drops))
	}
	c.answer(batches[2], Renewed)
	c.now += 10 * time.Second
	c.want(true, "ac")
}

func TestWhatWasRefusedIsRenewedByHalves(t *testing.T) {
	c := newClocked(t, 0)
	for _, id := range strings.Split("abcdefg", "") {
		c.take(id, 1, ArrivedNew)
	}
	c.now += 10 * time.Second
	c.answer(c.want(true, "abcdefg")[0], Refused)
	for _, b := range c.want(true, "abc def g") {
		c.answer(b, Refused)
	}
	c.want(true, "a b c d e f")
}

// Among a thousand it is found in few requests: each may wait for a fetch.
func TestOneRefusalIsFoundByHalves(t *testing.T) {
	c := newClocked(t, 0)
	for i := range 1000 {
		c.take(fmt.Sprint(i), 1, ArrivedNew)
	}
	c.now += 10 * time.Second
	requests, over := 0, 0
	for c.now < 20*time.Second {
		batches, _ := c.Plan(c.now, true)
		for _, b := range batches {
			requests++
			o := Renewed
			if slices.ContainsFunc(b, func(h *Hold) bool { return h.ID == "617" }) {
				o = Refused
			}
			_, drops := c.answer(b, o)
			over += len(drops)
		}
		c.now += time.Second
	}
	if requests > 30 || over != 1 {
		t.Errorf("%d requests, %d are let go of", requests, over)
	}
}

// The client may never send a second renewal after one that was not answered: the answer to others of the partition is not its own.
func TestAnUnansweredRenewalIsRepeatedAlone(t *testing.T) {
	c := newClocked(t, 0)
	c.take("a", 1, ArrivedNew)
	c.now += 10 * time.Second
	c.answer(c.want(true, "a")[0], Unknown)
	c.take("b", 1, ArrivedNew)
	c.now += 10 * time.Second
	c.answer(c.want(true, "b a")[0], Renewed)
	c.now += 7 * time.Second
	c.want(true, "!a")
}

// Nobody else has what the broker delivers no more: it is decided, whether its lock is over or not.
func TestPitfall236_TheLastOneIsNotLetGoOf(t *testing.T) {
	c := newClocked(t, 5)
	h := c.take("a", 5, ArrivedNew)
	c.now += 31 * time.Second
	c.want(true, "")
	if !c.Start(h, c.now) || ids(nil, c.Lost()) != "!a" {
		t.Errorf("lost: %s", ids(nil, c.Lost()))
	}
	if c.Ack(h) || len(c.Lost()) > 0 {
		t.Error("it is accepted by a lock that is over, or lost")
	}
	late := c.record("b", 5)
	c.now += time.Hour
	if c.Receive(late, c.now) != ArrivedNew {
		t.Error("it comes too late")
	}
	if c.LetGo(late); ids(nil, c.Lost()) != "!b" {
		t.Errorf("lost: %s", ids(nil, c.Lost()))
	}
}

// A record that waits for a retry has lost its lock so often that its next delivery is for the archive.
func TestPitfall236_HeldForARetry(t *testing.T) {
	c := newClocked(t, 5)
	old := c.take("a", 3, ArrivedNew)
	h := c.take("a", 4, ArrivedNew)
	c.want(true, "!a")
	if c.LetGo(old); c.Start(old, c.now) || !c.Start(h, c.now) || !c.Ack(h) || c.Held() != 0 {
		t.Error("the newest delivery is not the one that counts")
	}
}

// The lock was over, and the record comes again before anybody has noticed: its newest delivery is accepted, once.
func TestARecordThatComesAgainIsAcceptedByItsNewestDelivery(t *testing.T) {
	c := newClocked(t, 0)
	h := c.take("a", 1, ArrivedNew)
	c.now += 12 * time.Second
	batch := c.want(true, "a")[0]
	c.take("a", 2, ArrivedAgain)
	if _, drops := c.answer(batch, Refused); len(drops) > 0 {
		t.Error("the refusal was of the delivery before")
	}
	if !c.Ack(h) || h.Handle != "a2" || c.Held() != 0 {
		t.Errorf("accepted by %v", h.Handle)
	}
}

// The lock was over while its renewal was under way, and the record has come again: what is decided of it is accepted.
func TestWhatIsDecidedAndComesAgainIsAccepted(t *testing.T) {
	c := newClocked(t, 0)
	h := c.take("a", 1, ArrivedNew)
	c.now += 12 * time.Second
	batch := c.want(true, "a")[0]
	c.Ack(h)
	c.now += 16 * time.Second
	c.want(true, "")
	c.take("a", 2, ArrivedAgain)
	if accepts, _ := c.answer(batch, Unknown); ids(nil, accepts) != "!a" || h.Handle != "a2" {
		t.Errorf("accepted: %q by %v", ids(nil, accepts), h.Handle)
	}
}

// What may not start is let go of: when it comes again meanwhile, it is new.
func TestWhatMayNotStartIsLetGoOf(t *testing.T) {
	c := newClocked(t, 0)
	old := c.take("a", 1, ArrivedNew)
	c.now += 28 * time.Second
	if c.Start(old, c.now) || !c.Dropped(old) {
		t.Error("it starts, or the engine need not let go of it")
	}
	h := c.take("a", 2, ArrivedNew)
	if c.LetGo(old); c.Dropped(h) || !c.Ack(h) {
		t.Error("the new delivery went with the old one")
	}
}

// What the engine was told to let go of, and comes again, is a new item.
func TestADroppedRecordThatComesAgainIsNew(t *testing.T) {
	c := newClocked(t, 0)
	old := c.take("a", 1, ArrivedNew)
	c.now += 28 * time.Second
	c.want(true, "!a")
	h := c.take("a", 2, ArrivedNew)
	if c.Ack(old) {
		t.Error("the old delivery is accepted")
	}
	if !c.Start(h, c.now) || !c.Ack(h) {
		t.Error("the new one is not")
	}
}

// A decision waits for the end of a renewal: the broker refuses the second of two requests about one record.
func TestPitfall238_AcceptedAfterTheRenewal(t *testing.T) {
	c := newClocked(t, 0)
	h := c.take("a", 1, ArrivedNew)
	c.now += 10 * time.Second
	batch := c.want(true, "a")[0]
	if c.Ack(h) || c.Deciding() != 1 {
		t.Error("accepted while its renewal is under way")
	}
	if accepts, _ := c.answer(batch, Unknown); ids(nil, accepts) != "!a" || c.Deciding() != 0 {
		t.Errorf("accepted then: %q", ids(nil, accepts))
	}
}

func TestBufferedRecordsAreRenewedUntilTheyArePolled(t *testing.T) {
	c := newClocked(t, 3)
	h := c.record("a", 3)
	c.Buffer(h)
	c.now += 10 * time.Second
	c.want(true, "")
	batches := c.PlanBuffered(c.now)
	c.answer(batches[0], Renewed)
	c.now += 25 * time.Second
	if c.Receive(h, c.now) != ArrivedNew || c.Held() != 1 {
		t.Error("it does not arrive")
	}
	late := c.record("b", 1)
	c.Buffer(late)
	c.now += 28 * time.Second
	c.PlanBuffered(c.now)
	if c.Receive(late, c.now) != ArrivedLate || c.oldest != h || c.newest != h {
		t.Error("what lapsed in the buffer is taken in")
	}
}

// What is released comes to a fetch of our own as long as there is one; what comes no more is not released.
func TestReleasesWaitForTheEndOfPolls(t *testing.T) {
	c := newClocked(t, 5)
	a, b, run := c.take("a", 1, ArrivedNew), c.take("b", 5, ArrivedNew), c.take("c", 1, ArrivedNew)
	c.Drain()
	c.LetGo(a)
	if c.LetGo(b); c.Returning() != 2 {
		t.Errorf("%d are returning", c.Returning())
	}
	if got := c.Releases(); len(got) > 0 {
		t.Errorf("released: %s", ids(nil, got))
	}
	c.PollsOver()
	if got := c.Releases(); ids(nil, got) != "!a" || len(c.Releases()) > 0 {
		t.Errorf("released: %s", ids(nil, got))
	}
	if got := c.Lost(); ids(nil, got) != "!b" || !c.Ack(run) {
		t.Errorf("lost: %s", ids(nil, got))
	}
}

func TestWithoutALimitNoDeliveryIsTheLast(t *testing.T) {
	c := newClocked(t, 0)
	if h := c.record("a", 100); c.Last(h) || c.Reserved(h) {
		t.Error("it is")
	}
	if c.SetLimit(100); !c.Last(c.record("a", 100)) || !c.Reserved(c.record("a", 99)) || c.Reserved(c.record("a", 98)) {
		t.Error("which are the last two?")
	}
}
