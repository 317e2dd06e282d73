package engine_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// target is where dead letters go in tests.
type target struct {
	mu    sync.Mutex
	got   []*consumer.DeadLetter
	at    []time.Time // of the calls
	do    func(ctx context.Context, n int, d *consumer.DeadLetter) error
	calls int
}

func (d *target) Publish(ctx context.Context, l *consumer.DeadLetter) error {
	d.mu.Lock()
	d.calls++
	n := d.calls
	d.at = append(d.at, time.Now())
	d.mu.Unlock()
	if d.do != nil {
		if err := d.do(ctx, n, l); err != nil {
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.got = append(d.got, l)
	return nil
}

func (d *target) Source(context.Context) (string, error) { return "", nil }

func (d *target) letters() []*consumer.DeadLetter {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.got)
}

func (d *target) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls
}

// forwarding are options of a worker that dead-letters a message at its first failure.
func forwarding(to consumer.DeadLetterer) consumer.Options {
	o := options()
	o.Attempts, o.DeadLetter = 1, to
	return o
}

func boom(context.Context, *consumer.Message) error { return errBoom }

func TestDeadLetterIsPublishedThenSettledThenAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		it := item("one", "")
		var b *broker
		to := &target{}
		to.do = func(_ context.Context, _ int, d *consumer.DeadLetter) error {
			if r := state(t, l, it); r.State != ledger.Pending || len(r.Archived) != 0 {
				t.Errorf("settled before it is published: %+v", r)
			}
			if _, finished := b.verdict(t, it); finished {
				t.Error("acknowledged before it is published")
			}
			return nil
		}
		e, b2 := begin(t, l, forwarding(to), boom, func(c *engine.Config) { c.Group = "billing" })
		b = b2
		it.Msg.Headers = []consumer.Header{{Name: "h", Value: []byte("v")}, {Name: "h"}}
		it.Msg.Key, it.Msg.Group, it.Msg.Topic, it.Msg.Partition, it.Msg.Offset = []byte("key"), "group", "topic", 3, 4
		it.Original = func(*engine.Item) engine.Content {
			return engine.Content{Key: []byte("key"), Body: []byte("body of one"), Headers: []ledger.Header{{Name: "h", Value: []byte("v")}, {Name: "h"}}}
		}
		e.Offer([]*engine.Item{it})
		pass(time.Second)
		b.wantAcked(t, it)
		got, r := to.letters(), state(t, l, it)
		if len(got) != 1 || r.State != ledger.Failed || len(r.Archived) != 1 || !r.Archived[0].Sent {
			t.Fatalf("%d letters, row %+v", len(got), r)
		}
		d := got[0]
		if m := d.Message; m.ID != "one" || m.Source != "source" || string(m.Body) != "body of one" || string(m.Key) != "key" ||
			m.Group != "group" || m.Topic != "topic" || m.Partition != 3 || m.Offset != 4 || m.Attempt != 1 || len(m.Headers) != 2 || m.Headers[1].Value != nil {
			t.Errorf("message %+v", m)
		}
		if d.Kind != ledger.KindExhausted || d.Class != ledger.KindError || d.Error != "boom" || d.Consumer != "tests" ||
			string(d.Delivery) != "delivery one" || d.FailedAt.IsZero() {
			t.Errorf("%+v", d)
		}
		want := consumer.Stamp{Source: "source", ID: "one", Fingerprint: it.Fingerprint, Token: 1, Group: "billing"}
		if *d.Stamp != want {
			t.Errorf("stamp %+v, want %+v", d.Stamp, want)
		}
		end(t, e)
	})
}

// The dead-letter topic is gone or forbidden for good: after its tries the message is archived, marked unsent, and
// everything goes on. From then on one try is enough, until the target is back.
func TestPitfall108_TargetIsGoneForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, back := memory.New(), false
		to := &target{do: func(context.Context, int, *consumer.DeadLetter) error {
			if back {
				return nil
			}
			return errors.New("UNKNOWN_TOPIC_OR_PARTITION")
		}}
		o := forwarding(to)
		o.DeadLetterTries = 4
		e, b := begin(t, l, o, func(_ context.Context, m *consumer.Message) error {
			if strings.HasPrefix(m.ID, "good") {
				return nil
			}
			return errBoom
		})
		first, good := item("bad1", "p"), item("good", "p")
		e.Offer([]*engine.Item{first, good})
		pass(time.Minute)
		b.wantAcked(t, first, good)
		if rec := state(t, l, first); rec.State != ledger.Failed || len(rec.Archived) != 1 || rec.Archived[0].Sent || to.count() != 4 {
			t.Errorf("row %+v after %d tries", rec, to.count())
		}
		if took := to.at[3].Sub(to.at[0]); took < 700*time.Millisecond || took > 1500*time.Millisecond {
			t.Errorf("the tries took %s", took)
		}
		second := item("bad2", "")
		e.Offer([]*engine.Item{second})
		pass(time.Minute)
		if h := e.Health(); to.count() != 5 || state(t, l, second).Archived[0].Sent || !h.Ready || !h.Alive || len(h.Stalled) > 0 {
			t.Errorf("%d tries, health %+v", to.count(), h)
		}
		back = true
		third := item("bad3", "")
		e.Offer([]*engine.Item{third})
		pass(time.Minute)
		b.wantAcked(t, second, third)
		if to.count() != 6 || !state(t, l, third).Archived[0].Sent {
			t.Errorf("%d tries, row %+v", to.count(), state(t, l, third))
		}
		end(t, e)
	})
}

// However the target misbehaves, the message ends in the archive, and the handlers go on at full width meanwhile.
func TestTargetsThatMisbehave(t *testing.T) {
	for name, c := range map[string]struct {
		do    func(ctx context.Context, gone <-chan struct{}, n int) error
		tries int
		sent  bool
	}{
		"panics":        {func(context.Context, <-chan struct{}, int) error { panic("ouch") }, 3, false},
		"ends itself":   {func(context.Context, <-chan struct{}, int) error { runtime.Goexit(); return nil }, 3, false},
		"nil error":     {func(context.Context, <-chan struct{}, int) error { return (*nilError)(nil) }, 3, false},
		"hangs":         {func(ctx context.Context, _ <-chan struct{}, _ int) error { <-ctx.Done(); return ctx.Err() }, 3, false},
		"is deaf":       {func(_ context.Context, gone <-chan struct{}, _ int) error { <-gone; return errBoom }, 3, false},
		"refuses it":    {func(context.Context, <-chan struct{}, int) error { return consumer.Terminal(errBoom) }, 1, false},
		"works at last": {func(_ context.Context, _ <-chan struct{}, n int) error { return map[bool]error{true: errBoom}[n < 3] }, 3, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := memory.New()
				to := &target{do: func(ctx context.Context, n int, _ *consumer.DeadLetter) error {
					return c.do(ctx, t.Context().Done(), n)
				}}
				o := forwarding(to)
				o.DeadLetterTries, o.DeadLetterTimeout = 3, 2*time.Second
				e, b := begin(t, l, o, func(_ context.Context, m *consumer.Message) error {
					if m.ID == "one" {
						return errBoom
					}
					return nil
				})
				one, others := item("one", ""), items(100, noLane)
				e.Offer([]*engine.Item{one})
				e.Offer(others)
				pass(10 * time.Millisecond)
				b.wantAcked(t, others...)
				pass(time.Minute)
				b.wantAcked(t, one)
				if rec := state(t, l, one); rec.State != ledger.Failed || rec.Archived[0].Sent != c.sent || to.count() != c.tries {
					t.Errorf("row %+v after %d tries", rec, to.count())
				}
				end(t, e)
			})
		})
	}
}

// A target whose calls never return keeps a bounded number of goroutines, and no message for long.
func TestDeafTargetIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		to := &target{do: func(context.Context, int, *consumer.DeadLetter) error { <-t.Context().Done(); return errBoom }}
		o := forwarding(to)
		o.DeadLetterTries, o.DeadLetterTimeout, o.Breaker.Off = 1, time.Second, true
		e, b := begin(t, l, o, boom)
		in := items(200, noLane)
		e.Offer(in)
		pass(time.Minute)
		b.wantAcked(t, in...)
		if to.count() > 16 {
			t.Errorf("%d calls under way", to.count())
		}
		end(t, e)
	})
}

// A drain with a target that is away ends in time, and settles what has failed.
func TestDrainIsBoundedWhileTheTargetIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		to := &target{do: func(ctx context.Context, _ int, _ *consumer.DeadLetter) error { <-ctx.Done(); return ctx.Err() }}
		o := forwarding(to)
		o.DeadLetterTries, o.DeadLetterTimeout = 100, time.Minute
		e, b := begin(t, l, o, boom)
		in := items(50, noLane)
		e.Offer(in)
		pass(time.Second)
		if load := e.Load(); load.Waiting != len(in) || load.Queued != 0 || load.Idle(o.Concurrency) != o.Concurrency {
			t.Errorf("handlers are not free: %+v", load)
		}
		began := time.Now()
		end(t, e)
		if took := time.Since(began); took >= o.Drain {
			t.Errorf("the drain took %s of %s", took, o.Drain)
		}
		b.wantAcked(t, in...)
		for _, it := range in {
			if rec := state(t, l, it); rec.State != ledger.Failed || rec.Archived[0].Sent {
				t.Fatalf("row %+v", rec)
			}
		}
	})
}

// The broker is about to forget the message: the archive does not wait for the target.
func TestPublishingEndsBeforeTheBrokerForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		to := &target{do: func(context.Context, int, *consumer.DeadLetter) error { return errBoom }}
		o := forwarding(to)
		o.DeadLetterTries = 100
		e, b := begin(t, l, o, boom)
		it := item("one", "")
		it.Deadline = time.Now().Add(3 * time.Second)
		e.Offer([]*engine.Item{it})
		pass(3*time.Second + 100*time.Millisecond)
		b.wantAcked(t, it)
		if rec := state(t, l, it); rec.State != ledger.Failed || rec.Archived[0].Sent || to.count() < 2 {
			t.Errorf("row %+v after %d tries", rec, to.count())
		}
		end(t, e)
	})
}

// What cannot be told to be the message that has its id is published without a stamp of it.
func TestMismatchIsPublishedWithoutAStamp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, to := memory.New(), &target{}
		e, b := begin(t, l, forwarding(to), func(context.Context, *consumer.Message) error { return nil })
		first, other := item("one", ""), item("one", "")
		e.Offer([]*engine.Item{first})
		pass(time.Second)
		other.Fingerprint, other.Delivery = ledger.BodyFingerprint([]byte("forged")), []byte("delivery two")
		other.Original = func(*engine.Item) engine.Content {
			return engine.Content{Body: []byte("forged"), Headers: []ledger.Header{{Name: consumer.StampName, Value: []byte("s")}, {Name: "a"}}}
		}
		e.Offer([]*engine.Item{other})
		pass(time.Second)
		b.wantAcked(t, first, other)
		got := to.letters()
		if len(got) != 1 || got[0].Stamp != nil || got[0].Kind != ledger.KindMismatch || len(got[0].Message.Headers) != 1 || string(got[0].Message.Body) != "forged" {
			t.Fatalf("%+v", got)
		}
		rec := state(t, l, first)
		if rec.State != ledger.Succeeded || len(rec.Archived) != 1 || rec.Archived[0].Sent { // it was archived before
			t.Errorf("row %+v", rec)
		}
		end(t, e)
	})
}

// Two records with one business key, both fail: each is published and archived once, under one stamp, and redeliveries of
// either are acknowledged.
func TestPitfall104_OneBusinessKeyTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, to := memory.New(), &target{}
		e, b := begin(t, l, forwarding(to), boom)
		for round := range 3 {
			for _, delivery := range []string{"first", "second"} {
				it := item("key", "")
				it.Delivery = []byte(delivery)
				e.Offer([]*engine.Item{it})
				pass(time.Minute)
				b.wantAcked(t, it)
				if rec := state(t, l, it); round > 0 && len(rec.Archived) != 2 {
					t.Errorf("%d archived", len(rec.Archived))
				}
			}
		}
		got := to.letters()
		if len(got) != 2 || got[0].Stamp.ID != got[1].Stamp.ID || got[0].Stamp.Token >= got[1].Stamp.Token {
			t.Errorf("%d letters: %+v", len(got), got)
		}
		end(t, e)
	})
}

func TestCheckTarget(t *testing.T) {
	o := consumer.Options{DeadLetterTimeout: time.Second}
	if warning, err := engine.CheckTarget(t.Context(), &o, "a"); warning != "" || err != nil {
		t.Errorf("none: %q, %v", warning, err)
	}
	for name, c := range map[string]struct {
		to   named
		warn string
		err  string
	}{
		"another":     {named{name: "b"}, "", ""},
		"the source":  {named{name: "a"}, "", "must not be the source itself, is a"},
		"unreachable": {named{err: errBoom}, "dead letters may not arrive", ""},
		"panics":      {named{panics: true}, "panicked: ouch", ""},
	} {
		o.DeadLetter = c.to
		warning, err := engine.CheckTarget(t.Context(), &o, "x", "a")
		if !strings.Contains(warning, c.warn) || (warning == "") != (c.warn == "") || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %q, %v", name, warning, err)
		}
	}
}

type named struct {
	name   string
	err    error
	panics bool
}

func (n named) Publish(context.Context, *consumer.DeadLetter) error { return nil }

func (n named) Source(context.Context) (string, error) {
	if n.panics {
		panic("ouch")
	}
	return n.name, n.err
}
