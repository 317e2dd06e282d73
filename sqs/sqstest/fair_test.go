package sqstest_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/ackledger/ackledger/sqs/sqstest"
)

// sendOf sends n messages of a tenant of a standard queue; their body is its name.
func (b *bench) sendOf(url, tenant string, n int) {
	b.Helper()
	for range n {
		b.send(url, tenant, inGroup(tenant, ""))
	}
}

// receiveN receives n messages, and returns how many each body had.
func (b *bench) receiveN(url string, n int) (got []types.Message, counts map[string]int) {
	b.Helper()
	counts = map[string]int{}
	for len(got) < n {
		some := b.receive(url, func(in *sqs.ReceiveMessageInput) { in.MaxNumberOfMessages = int32(min(10, n-len(got))) })
		if len(some) == 0 {
			b.Fatalf("received %d messages, want %d", len(got), n)
		}
		for _, m := range some {
			counts[*m.Body]++
		}
		got = append(got, some...)
	}
	return got, counts
}

// background is twelve tenants with one message in flight each: no share of what is in flight or of time is theirs.
func (b *bench) background(url string) {
	b.Helper()
	for i := range 12 {
		b.sendOf(url, "t"+strconv.Itoa(i), 1)
	}
	b.receiveN(url, 12)
}

// A tenant with 30 messages in flight, and more than a tenth of all, comes behind all others; with 29 it does not.
func TestNoisyByInFlight(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	url := b.queue("q", "VisibilityTimeout", "3600")
	b.background(url)
	b.sendOf(url, "noisy", 40)
	b.receiveN(url, 29)
	b.sendOf(url, "quiet", 5)
	b.same("at 29", b.srv.Fair("q").Noisy, []string{})
	_, counts := b.receiveN(url, 1)
	b.same("in the order sent", counts, map[string]int{"noisy": 1})
	b.same("at 30", b.srv.Fair("q").Noisy, []string{"noisy"})
	state := b.srv.Fair("q")
	b.same("of quiet ones", []int{state.VisibleInQuiet, state.NotVisibleInQuiet, state.DelayedInQuiet}, []int{5, 12, 0})
	_, counts = b.receiveN(url, 5)
	b.same("quiet first", counts, map[string]int{"quiet": 5})
	_, counts = b.receiveN(url, 10) // nothing of it is held back where nobody else waits
	b.same("then the noisy", counts, map[string]int{"noisy": 10})
	b.same("without backlog", b.srv.Fair("q").Noisy, []string{})
}

// A share of in-flight messages that is not above a tenth makes nobody noisy, however many they are.
func TestNotNoisyAmongMany(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	url := b.queue("q", "VisibilityTimeout", "3600")
	for range 10 {
		for i := range 30 {
			b.sendOf(url, "t"+strconv.Itoa(i), 1)
		}
	}
	b.receiveN(url, 300)
	b.sendOf(url, "t0", 30)
	b.receiveN(url, 21) // 31 of 321
	b.sendOf(url, "other", 1)
	_, counts := b.receiveN(url, 1)
	b.same("in the order sent", counts, map[string]int{"t0": 1})
}

// Of two noisy tenants the one with fewer messages in flight comes first.
func TestFewestInFlightFirst(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	url := b.queue("q", "VisibilityTimeout", "3600")
	b.sendOf(url, "more", 40)
	b.receiveN(url, 40)
	b.sendOf(url, "less", 30)
	b.receiveN(url, 30)
	b.sendOf(url, "more", 12)
	b.sendOf(url, "less", 12)
	b.same("noisy", b.srv.Fair("q").Noisy, []string{"less", "more"})
	_, counts := b.receiveN(url, 10)
	b.same("fewest first", counts, map[string]int{"less": 10})
	_, counts = b.receiveN(url, 2)
	b.same("then in turn", counts, map[string]int{"less": 1, "more": 1})
}

// A message that its consumer gives back for later counts as in flight until then: only deleting it, or ending its visibility, ends
// that.
func TestGivenBackForLaterIsInFlight(t *testing.T) {
	for _, c := range []struct {
		how   string
		after func(*bench, string, types.Message) error
		noisy string
	}{
		{"held", func(*bench, string, types.Message) error { return nil }, "[slow]"},
		{"given back for later", func(b *bench, url string, m types.Message) error { return b.change(url, m, 600) }, "[slow]"},
		{"deleted", func(b *bench, url string, m types.Message) error { return b.delete(url, m) }, "[]"},
	} {
		t.Run(c.how, func(t *testing.T) {
			b := setUp(t, sqstest.Options{})
			url := b.queue("q", "VisibilityTimeout", "3600")
			b.background(url)
			b.sendOf(url, "slow", 30)
			got, _ := b.receiveN(url, 30)
			for _, m := range got {
				b.must(c.after(b, url, m))
			}
			b.sendOf(url, "slow", 1)
			if noisy := format(b.srv.Fair("q").Noisy); noisy != c.noisy {
				t.Errorf("noisy: %s, want %s", noisy, c.noisy)
			}
		})
	}
}

// A tenant with few messages is noisy when they take most of the consumers' time, and quiet again once others have taken more.
func TestNoisyByTime(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	url := b.queue("q", "VisibilityTimeout", "3600")
	run := func(tenants []string, took time.Duration) {
		for _, tenant := range tenants {
			b.sendOf(url, tenant, 1)
		}
		got, _ := b.receiveN(url, len(tenants))
		b.clock.Advance(took)
		for _, m := range got {
			b.must(b.delete(url, m))
		}
	}
	var many []string
	for i := range 20 {
		many = append(many, "t"+strconv.Itoa(i))
	}
	run(many, time.Second)
	run([]string{"slow"}, 10*time.Second)
	b.sendOf(url, "slow", 1)
	b.sendOf(url, "t1", 1)
	b.same("noisy", b.srv.Fair("q").Noisy, []string{"slow"})
	_, counts := b.receiveN(url, 1)
	b.same("first", counts, map[string]int{"t1": 1})
	for range 10 {
		run(many[2:], 10*time.Second) // the slow one waits behind these
	}
	b.same("after others", b.srv.Fair("q").Noisy, []string{})
}

// A tenant of whom nothing was sent for 5 minutes is not noisy any more.
func TestQuietAfterFiveMinutes(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	url := b.queue("q", "VisibilityTimeout", "3600")
	b.sendOf(url, "noisy", 50)
	b.receiveN(url, 40)
	b.clock.Advance(5*time.Minute - time.Millisecond)
	b.same("before", b.srv.Fair("q").Noisy, []string{"noisy"})
	b.clock.Advance(time.Millisecond)
	b.same("after", b.srv.Fair("q").Noisy, []string{})
	b.same("oldest", b.srv.Fair("q").OldestInQuiet, 5*time.Minute)
}

// Messages without a group are nobody's: never noisy, and in the order in which they came.
func TestWithoutGroupIsQuiet(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	url := b.queue("q", "VisibilityTimeout", "3600")
	for range 50 {
		b.send(url, "nobody")
	}
	b.receiveN(url, 40)
	b.same("noisy", b.srv.Fair("q").Noisy, []string{})
	b.same("of a FIFO queue", b.srv.Fair("none").Noisy, []string{})
}
