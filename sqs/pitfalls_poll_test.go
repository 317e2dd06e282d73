package sqs

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/visibility"
	"github.com/ackledger/ackledger/sqs/sqstest"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// A worker cancels its long poll at shutdown; the service does not notice, hands a message to the dead connection, and
// it is hidden from everybody for its visibility timeout.
func TestPitfall31_CancelledPollOrphansMessages(t *testing.T) {
	s, b := newSite(t, "", 100), newBook()
	c := quick()
	c.VisibilityTimeout, c.WaitTime = 60*time.Second, 2*time.Second
	r := s.start(b.handle, c)
	eventually(t, "a poll is open", func() bool { return s.srv.Counts(s.name).Polls == 1 })
	r.stop()
	s.send("late")
	if err := r.wait(); err != nil {
		t.Fatalf("Run: %v", err)
	}
	if q := s.srv.Counts(s.name); q.Visible+b.len() != 1 || q.InFlight != 0 || q.Polls != 0 {
		t.Errorf("handled %d, the queue has %+v: want the message in sight and no poll", b.len(), q)
	}
}

// What was not started is handed back at shutdown while a poll of the same worker is still open, and comes straight back.
func TestPitfall32_ReleasedIntoTheOwnPoll(t *testing.T) {
	s, g := newSite(t, "", 100), newGate()
	c := quick()
	c.VisibilityTimeout, c.WaitTime, c.Limiter = 60*time.Second, 2*time.Second, consumer.NewLimiter(1)
	s.send(numbers("m", 5)...)
	r := s.start(g.handle, c)
	eventually(t, "one runs, four wait, and a poll is open", func() bool {
		q := s.srv.Counts(s.name)
		return g.len() == 1 && q.InFlight == 5 && q.Polls > 0
	})
	r.stop()
	eventually(t, "the four are in sight", func() bool { return s.srv.Counts(s.name).Visible == 4 })
	if q := s.srv.Counts(s.name); q.Polls != 0 {
		t.Errorf("messages were handed back while %d polls were open", q.Polls)
	}
	g.release()
	if err := r.wait(); err != nil {
		t.Errorf("Run: %v", err)
	}
	for _, m := range s.srv.Queue(s.name).Messages {
		if m.Receives != 1 || m.State != "visible" {
			t.Errorf("message %s: %s after %d receives, want visible after 1", m.Body, m.State, m.Receives)
		}
	}
}

// A message that cannot be read or keyed keeps its handler slot; after enough of them the worker stands still.
func TestPitfall43_BadMessagesLeakNoSlots(t *testing.T) {
	s, g := newSite(t, "", 100), newGate()
	c := quick()
	c.Concurrency, c.Breaker.Off = 4, true
	c.KeyFunc = func(m *consumer.Message) (string, error) {
		if m.Body[0] == 'k' {
			return "", errors.New("no key")
		}
		return m.ID, nil
	}
	good := consumer.JSON(func(ctx context.Context, _ struct{}) error { return g.handle(ctx, consumer.MessageFrom(ctx)) })
	for _, prefix := range []string{"keyless", "not JSON"} {
		s.send(numbers(prefix, 500)...)
	}
	r := s.start(good.Handle, c)
	s.empty()
	s.send("{}", "{ }", "{  }", "{   }")
	eventually(t, "all four handlers run at once", func() bool { return g.len() == 4 })
	g.release()
	s.empty()
	r.end()
}

// A loop that polls, handles and polls again stands still behind one message that takes long.
func TestPitfall44_OneLongHandlerStallsNobody(t *testing.T) {
	for _, kind := range []string{"", ".fifo"} {
		t.Run("queue"+kind, func(t *testing.T) {
			s, g, b := newSite(t, kind, 100), newGate(), newBook()
			c := quick()
			c.Concurrency = 2
			s.send(numbers("slow:", 10)...)
			r := s.start(func(ctx context.Context, m *consumer.Message) error {
				if string(m.Body) == "slow:000" {
					return g.handle(ctx, m)
				}
				return b.handle(ctx, m)
			}, c)
			eventually(t, "the long one runs", func() bool { return g.len() == 1 })
			bodies := numbers("quick:", 100)
			s.send(bodies...)
			eventually(t, "the others are done", func() bool {
				done := 0
				for _, body := range bodies {
					done += b.count(body)
				}
				return done == len(bodies)
			})
			g.release()
			s.empty()
			r.end()
		})
	}
}

// A backlog of 1,000 messages after an idle time: a worker that waits out its long polls, or has one poll open, is slow.
func TestPitfall50_IdleWaitSlowsNoFullQueue(t *testing.T) {
	s, b := newSite(t, "", 100), newBook()
	c := quick()
	c.VisibilityTimeout, c.WaitTime, c.Concurrency = 30*time.Second, 3*time.Second, 32
	r := s.start(b.handle, c)
	eventually(t, "a poll is open", func() bool { return s.srv.Counts(s.name).Polls == 1 })
	before := s.srv.Calls("ReceiveMessage")
	always(t, 300*time.Millisecond, "one poll is enough for an empty queue", func() bool {
		return s.srv.Calls("ReceiveMessage") == before
	})
	s.srv.Inject(sqstest.Fault{Action: "ReceiveMessage", Delay: 300 * time.Millisecond, Times: -1}) // far away
	bodies := numbers("m", 1000)
	s.send(bodies...)
	began := time.Now()
	eventually(t, "all are done", func() bool { return b.len() == len(bodies) })
	if d := time.Since(began); d > 20*time.Second {
		t.Errorf("took %s: 100 polls of 0.3 s each, one after the other, take 30 s", d)
	}
	s.empty()
	r.end()
	b.once(t, bodies)
}

// Every request fails for a while. The SDK's bucket of retry tokens runs empty, and then a loop without a backoff of its
// own asks as fast as it can.
func TestPitfall49_ThrottledToTheFull(t *testing.T) {
	for name, fault := range map[string]sqstest.Fault{
		"throttling": {Code: sqstest.CodeThrottled}, "server errors": {Status: 503}, "too many in flight": {Code: sqstest.CodeOverLimit},
	} {
		t.Run(name, func(t *testing.T) {
			s, g := newSite(t, "", 100), newGate()
			c := quick()
			c.VisibilityTimeout = 4 * time.Second
			s.send("before")
			r := s.start(g.handle, c)
			eventually(t, "the first one runs", func() bool { return g.len() == 1 })
			fault.Times = -1
			remove := s.srv.Inject(fault)
			g.release()
			total := func() int {
				return s.srv.Calls("ReceiveMessage") + s.srv.Calls("DeleteMessageBatch") + s.srv.Calls("ChangeMessageVisibilityBatch")
			}
			eventually(t, "a poll fails", func() bool {
				return len(s.seen("ReceiveMessage")) > 1 && r.Health().LastError != "" || name == "too many in flight"
			})
			before := total()
			always(t, 2*time.Second, "few requests are sent", func() bool { return total()-before < 30 })
			if name != "too many in flight" {
				eventually(t, "the worker is not ready", func() bool { return !r.Health().Ready })
			}
			remove()
			_ = s.send("after")
			eventually(t, "work goes on", func() bool { return g.count("after") == 1 })
			s.empty()
			eventually(t, "the worker is ready", func() bool { return r.Health().Ready })
			r.end()
			g.book.once(t, []string{"before", "after"})
		})
	}
}

// At most one handler at a time has a message, whatever the broker does.
type soloist struct{ now, most atomic.Int32 }

func (s *soloist) enter() { s.most.Store(max(s.most.Load(), s.now.Add(1))) }
func (s *soloist) leave() { s.now.Add(-1) }

// A hand-back is repeated if it was not done. When its answer is lost, others may have the message, whose visibility the old handle
// would end.
func TestPitfall144_HandBackThatMayBeDone(t *testing.T) {
	for name, tt := range map[string]struct {
		fault sqstest.Fault
		want  int
	}{
		"throttled":   {sqstest.Fault{Code: sqstest.CodeThrottled}, 1},
		"answer lost": {sqstest.Fault{Drop: true}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, "", 100)
			w := s.begun(nil)
			s.send("m")
			out, err := s.client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &s.url})
			if err != nil || len(out.Messages) != 1 {
				t.Fatalf("%v, %v", out, err)
			}
			h := w.receive(out.Messages, w.table.now())[0]
			w.table.use(func(v *visibility.Table) {
				v.Drain()
				v.PollsOver()
				v.HandBack(&h.Hold, 0, w.table.now())
			})
			tt.fault.Action, tt.fault.Times = "ChangeMessageVisibilityBatch", -1
			s.srv.Inject(tt.fault)
			for range 2 {
				for _, batch := range w.plan(changeCalls) {
					w.change(batch)
				}
			}
			if _, returns := w.table.waiting(); returns != tt.want {
				t.Errorf("%d are to be handed back again, want %d", returns, tt.want)
			}
		})
	}
}
