package sqs

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/visibility"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/sqs/sqstest"
)

// receives returns how often the queue's messages were received: the most of them.
func (s *site) receives() int {
	most := 0
	for _, m := range s.srv.Queue(s.name).Messages {
		most = max(most, m.Receives)
	}
	return most
}

// A handler ignores that its time is over; its message is given back meanwhile, and runs twice at once.
func TestPitfall35_TimedOutButStillRunning(t *testing.T) {
	s, solo := newSite(t, "", 100), &soloist{}
	c := steady()
	c.HandlerTimeout = 100 * time.Millisecond
	runs := newBook()
	s.send("deaf")
	r := s.start(func(_ context.Context, m *consumer.Message) error {
		solo.enter()
		defer solo.leave()
		runs.add(m)
		if m.Attempt > 1 {
			return nil
		}
		time.Sleep(outlasts) // a handler that is deaf to its context, for longer than its visibility
		if n := s.receives(); n != 1 {
			t.Errorf("received %d times while its handler ran, want once", n)
		}
		return errors.New("too late")
	}, c)
	s.empty()
	r.end()
	if solo.most.Load() != 1 || runs.count("deaf") != 2 {
		t.Errorf("%d handlers at once, %d runs: want 1 and 2", solo.most.Load(), runs.count("deaf"))
	}
}

// events is a client that notes when visibility changes and deletes begin and end.
type events struct {
	API
	mu   sync.Mutex
	list []string
}

func (e *events) note(what string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, what)
}

func (e *events) has(what string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Contains(e.list, what)
}

func (e *events) ChangeMessageVisibilityBatch(ctx context.Context, in *awssqs.ChangeMessageVisibilityBatchInput, o ...func(*awssqs.Options)) (*awssqs.ChangeMessageVisibilityBatchOutput, error) {
	e.note("extension begins")
	defer e.note("extension ends")
	return e.API.ChangeMessageVisibilityBatch(ctx, in, o...)
}

func (e *events) DeleteMessageBatch(ctx context.Context, in *awssqs.DeleteMessageBatchInput, o ...func(*awssqs.Options)) (*awssqs.DeleteMessageBatchOutput, error) {
	e.note("delete begins")
	return e.API.DeleteMessageBatch(ctx, in, o...)
}

// An extension that is under way when the message is deleted arrives after the delete: an error at best.
func TestPitfall36_ExtensionAfterTheDelete(t *testing.T) {
	s := newSite(t, "", 100)
	e := &events{API: s.client}
	s.srv.Inject(sqstest.Fault{Action: "ChangeMessageVisibilityBatch", Delay: 700 * time.Millisecond, Times: -1})
	s.send("m")
	w, err := NewWorker(e, s.url, s.ledger, consumer.HandlerFunc(func(context.Context, *consumer.Message) error {
		eventually(t, "an extension is under way", func() bool { return e.has("extension begins") })
		return nil
	}), steady())
	if err != nil {
		t.Fatal(err)
	}
	r := runWorker(t, w)
	s.empty()
	r.end()
	e.mu.Lock()
	defer e.mu.Unlock()
	if want := []string{"extension begins", "extension ends", "delete begins"}; !slices.Equal(e.list, want) {
		t.Errorf("%q, want %q", e.list, want)
	}
}

// TestExtensionThatIsNotAnsweredIsSentAgain: a call that hangs takes the place of the next one no longer than the visibility
// stands.
func TestExtensionThatIsNotAnsweredIsSentAgain(t *testing.T) {
	s, g := newSite(t, "", 100), newGate()
	s.srv.Inject(sqstest.Fault{Action: "ChangeMessageVisibilityBatch", Delay: 2 * outlasts, Times: 1})
	s.send("m")
	r := s.start(g.handle, steady())
	eventually(t, "the handler runs", func() bool { return g.len() == 1 })
	always(t, outlasts, "the message stays hidden", func() bool { return s.receives() == 1 && s.srv.Counts(s.name).InFlight == 1 })
	g.release()
	s.empty()
	r.end()
}

// The head of a group fails; those behind it are skipped, held, and forgotten by whoever extends visibility.
func TestPitfall37_SiblingsBehindAFailureStayHidden(t *testing.T) {
	s, b := newSite(t, ".fifo", 100), newBook()
	bodies := numbers("a:", 5)
	s.send(bodies...)
	r := s.start(func(ctx context.Context, m *consumer.Message) error {
		if m.Attempt == 1 && string(m.Body) == bodies[0] {
			return consumer.RetryAfter(errors.New("not yet"), outlasts)
		}
		if n := s.receives(); n != 1 {
			t.Errorf("%s: a message of the group was received %d times, want once", m.Body, n)
		}
		return b.handle(ctx, m)
	}, steady())
	s.empty()
	r.end()
	b.once(t, bodies)
	b.inOrder(t)
}

// The extension of a message's visibility hangs on the context of the poll, or of Run, and ends with it while the
// handler is being drained.
func TestPitfall38_ExtensionGoesOnInTheDrain(t *testing.T) {
	s, g := newSite(t, "", 100), newGate()
	c := steady()
	c.Drain = 20 * time.Second
	s.send("m")
	r := s.start(g.handle, c)
	eventually(t, "the handler runs", func() bool { return g.len() == 1 })
	r.stop()
	always(t, outlasts, "the message stays hidden", func() bool { return s.srv.Counts(s.name).InFlight == 1 })
	if n := s.receives(); n != 1 {
		t.Errorf("received %d times, want once", n)
	}
	g.release()
	if err := r.wait(); err != nil {
		t.Errorf("Run: %v", err)
	}
	if n := s.srv.Counts(s.name).Depth(); n != 0 {
		t.Errorf("%d messages are left", n)
	}
}

// A copy of a message whose handler is slow is received elsewhere, handed back, received again, until its receive count
// sends the message to the dead-letter queue.
func TestPitfall42_CopiesOfASlowMessageAreHeld(t *testing.T) {
	s, g := newSite(t, "", 3), newGate()
	s.send("slow")
	first := s.start(g.handle, steady())
	eventually(t, "the handler runs", func() bool { return g.len() == 1 })
	first.Pause() // so that the copy goes elsewhere
	first.pollsNoMore()
	other := s.start(g.handle, steady())
	eventually(t, "the other worker polls", func() bool { return other.Health().Ready && s.srv.Counts(s.name).Polls > 0 })
	eventually(t, "the other worker has the copy", func() bool {
		if s.receives() == 1 && s.srv.Counts(s.name).Visible == 0 { // else it would take away what the other one has just got
			s.srv.ExpireVisibility(s.name)
		}
		_, all := other.table.lanes()
		return all == 1
	})
	held := s.receives()
	always(t, outlasts, "the copy is held", func() bool { return s.receives() == held })
	g.release()
	s.empty()
	s.noDead()
	first.end()
	other.end()
	if n := g.count("slow"); n != 1 {
		t.Errorf("handled %d times, want once", n)
	}
}

// A handler of one hour, a lease of a minute and copies that arrive elsewhere (all of it 10 to 450 times faster): the receive
// count must not reach the queue's maxReceiveCount of 3.
func TestPitfall93_LongHandlerAndCopiesElsewhere(t *testing.T) {
	s, g := newSite(t, "", 3), newGate()
	s.send("long")
	workers := []*running{s.start(g.handle, steady()), s.start(g.handle, steady()), s.start(g.handle, steady())}
	eventually(t, "the handler runs", func() bool { return g.len() == 1 })
	s.srv.ExpireVisibility(s.name) // the broker delivers a copy, once
	always(t, outlasts, "it stays below the queue's limit", func() bool { return s.receives() < 3 })
	g.release()
	s.empty()
	s.noDead()
	for _, w := range workers {
		w.end()
	}
	if n := g.count("long"); n != 1 {
		t.Errorf("handled %d times, want once", n)
	}
}

// A FIFO handle expires under a running handler: what waits behind it in its group must not be run on, the rest must.
func TestPitfall46_ExpiredHandleStopsItsGroupOnly(t *testing.T) {
	t.Run("all of the group", func(t *testing.T) {
		expiredUnderTheHead(t, func(s *site, _ string) { s.srv.ExpireVisibility(s.name) })
	})
	t.Run("the head alone", func(t *testing.T) {
		expiredUnderTheHead(t, func(s *site, head string) {
			_, err := s.client.ChangeMessageVisibility(t.Context(), &awssqs.ChangeMessageVisibilityInput{
				QueueUrl: &s.url, ReceiptHandle: aws.String(s.handleOf(head)), VisibilityTimeout: 0,
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	})
}

// handleOf is the handle by which a message is extended.
func (s *site) handleOf(id string) (handle string) {
	eventually(s.t, "it is extended", func() bool {
		for _, c := range s.seen("ChangeMessageVisibilityBatch") {
			for _, e := range c.Entries {
				if e.MessageID == id {
					handle = e.ReceiptHandle
				}
			}
		}
		return handle != ""
	})
	return handle
}

// expiredUnderTheHead lets handles expire while the head of a group is in its handler.
func expiredUnderTheHead(t *testing.T, expire func(s *site, head string)) {
	s, g, b := newSite(t, ".fifo", 100), newGate(), newBook()
	c := quick()
	c.VisibilityTimeout = 4 * time.Second
	a := numbers("a:", 4)
	ids := s.send(a...)
	r := s.start(func(ctx context.Context, m *consumer.Message) error {
		b.add(m)
		if string(m.Body) == a[0] {
			return g.handle(ctx, m)
		}
		return nil
	}, c)
	eventually(t, "the head runs", func() bool { return g.len() == 1 })
	remove := s.srv.Inject(sqstest.Fault{Action: "ReceiveMessage", Code: sqstest.CodeInternal, Times: -1})
	eventually(t, "no poll is open", func() bool { return s.srv.Counts(s.name).Polls == 0 })
	expire(s, ids[0])
	eventually(t, "the group is let go of", func() bool { _, all := r.table.lanes(); return all == 1 })
	remove()
	others := numbers("b:", 20)
	s.send(others...)
	eventually(t, "another group goes on", func() bool { return b.count(others[19]) == 1 })
	for _, body := range a[1:] {
		if b.count(body) > 0 {
			t.Errorf("%s ran before the head of its group was done", body)
		}
	}
	g.release()
	s.empty()
	r.end()
	b.once(t, append(a, others...))
	b.inOrder(t)
}

// Messages wait for a handler for longer than their visibility, which cannot be extended meanwhile. They are in other
// hands by now, and must not be run.
func TestPitfall47_PrefetchedOnADeadHandle(t *testing.T) {
	s, g := newSite(t, "", 100), newGate()
	c := quick()
	c.Limiter = consumer.NewLimiter(1)
	s.send(numbers("m", 5)...)
	r := s.start(g.handle, c)
	eventually(t, "one runs, four wait", func() bool { return g.len() == 1 && s.srv.Counts(s.name).InFlight == 5 })
	s.srv.Inject(sqstest.Fault{Action: "ChangeMessageVisibilityBatch", Code: sqstest.CodeInternal, Times: -1})
	blocked := s.srv.Inject(sqstest.Fault{Action: "ReceiveMessage", Code: sqstest.CodeInternal, Times: -1})
	eventually(t, "all five are in sight again", func() bool { return s.srv.Counts(s.name).Visible == 5 })
	g.release()
	s.empty1(t, r)
	if g.len() != 1 {
		t.Errorf("%d messages were run, want the first alone", g.len())
	}
	blocked()
	s.empty()
	r.end()
	g.book.once(t, numbers("m", 5))
}

// empty1 waits until the worker has nothing in hand.
func (s *site) empty1(t *testing.T, r *running) {
	t.Helper()
	eventually(t, "the worker has nothing in hand", func() bool { _, all := r.table.lanes(); return all == 0 })
}

// The keeper itself may have been frozen: the check right before the start is local.
func TestPitfall47_TheLastCheckIsLocal(t *testing.T) {
	tab := visibility.New(60*time.Second, visibilityLimit, false)
	h := &visibility.Hold{ID: "a", Handle: "handle"}
	is := tab.Receive(h, 0, time.Second)
	if ok, _ := tab.Start(h, 50*time.Second); is != visibility.ArrivedNew || !ok {
		t.Fatal("a good handle is refused")
	}
	if ok, _ := tab.Start(h, 60*time.Second); ok {
		t.Error("a message was started when its visibility was over")
	}
	if is := tab.Receive(&visibility.Hold{ID: "b", Handle: "handle"}, 0, time.Minute); is != visibility.ArrivedDead {
		t.Error("a message that was a minute under way was taken in")
	}
}

// The head of a group fails and fails, in a queue with a maxReceiveCount of 3: handing its siblings back each time would
// send them to the dead-letter queue unhandled.
func TestPitfall87_FailingHeadOfAGroup(t *testing.T) {
	s, b := newSite(t, ".fifo", 3), newBook()
	bodies := numbers("a:", 6)
	s.send(bodies...)
	r := s.start(func(ctx context.Context, m *consumer.Message) error {
		if string(m.Body) == bodies[0] && m.Attempt < 10 {
			return consumer.RetryAfter(errors.New("not yet"), outlasts/9)
		}
		return b.handle(ctx, m)
	}, steady())
	s.empty()
	s.noDead()
	r.end()
	b.once(t, bodies)
	b.inOrder(t)
}

// An hour before the broker forgets a message it fails for the first time, with a backoff that is longer than that. (All
// of it 900 times faster.) It is archived before it is gone.
func TestPitfall88_FailsShortlyBeforeItIsForgotten(t *testing.T) {
	clock := &shifted{}
	s := newSite(t, "", 100, func(o *sqstest.Options) { o.Clock = clock })
	s.set(map[string]string{"MessageRetentionPeriod": "60"})
	clock.shift(-50 * time.Second)
	ids := s.send("old")
	clock.shift(0)
	c := quick()
	c.NoParking = true
	r := s.start(func(context.Context, *consumer.Message) error {
		return consumer.RetryAfter(errors.New("not yet"), 10*time.Second)
	}, c)
	s.empty()
	r.end()
	row := s.record(r.Worker, ids[0])
	if row.State != ledger.Failed || len(row.Archived) != 1 || row.Archived[0].Kind != ledger.KindDeadline {
		t.Errorf("row %v with archive %v, want it failed, archived for the deadline", row.State, row.Archived)
	}
}
