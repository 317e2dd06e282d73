package sqs

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go/middleware"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/sqs/sqstest"
)

func TestMessagesAreHandledOnceAndDeleted(t *testing.T) {
	s, b := newSite(t, "", 100), newBook()
	bodies := numbers("m", 250)
	s.send(bodies...)
	r := s.start(b.handle, nil)
	s.empty()
	r.end()
	b.once(t, bodies)
	s.noDead()
}

func TestAGroupKeepsItsOrder(t *testing.T) {
	s, b := newSite(t, ".fifo", 100), newBook()
	var bodies []string
	for _, g := range []string{"a:", "b:", "c:"} {
		bodies = append(bodies, numbers(g, 40)...)
	}
	s.send(bodies...)
	r := s.start(b.handle, nil)
	s.empty()
	r.end()
	b.once(t, bodies)
	b.inOrder(t)
	s.noDead()
}

func TestAGroupKeepsItsOrderOverRestarts(t *testing.T) {
	s, b := newSite(t, ".fifo", 100), newBook()
	var bodies []string
	for _, g := range []string{"a:", "b:", "c:", "d:"} {
		bodies = append(bodies, numbers(g, 30)...)
	}
	s.send(bodies...)
	handle := func(ctx context.Context, m *consumer.Message) error {
		select { // the work; what is cut short by the drain does not count
		case <-time.After(5 * time.Millisecond):
			return b.handle(ctx, m)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for b.len() < len(bodies) {
		c := quick()
		c.VisibilityTimeout, c.WaitTime = 30*time.Second, time.Second
		r := s.start(handle, c)
		before := b.len()
		eventually(t, "some are handled", func() bool { return b.len() >= min(before+25, len(bodies)) })
		r.end()
	}
	b.once(t, bodies)
	b.inOrder(t)
	s.noDead()
}

func TestAWorkerRunsOnce(t *testing.T) {
	s := newSite(t, "", 100)
	r := s.start(nothing, nil)
	eventually(t, "the worker is ready", func() bool { return r.Health().Ready })
	if err := r.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "runs once") {
		t.Errorf("a second Run: %v", err)
	}
	r.end()
}

func TestStoppedBeforeItBegan(t *testing.T) {
	s := newSite(t, "", 100)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.worker(nothing, nil).Run(ctx); err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestPauseKeepsWhatIsInHandHidden(t *testing.T) {
	s, g := newSite(t, "", 100), newGate()
	s.send("running")
	w := s.worker(g.handle, steady())
	w.Pause()
	r := runWorker(t, w)
	always(t, 300*time.Millisecond, "a paused worker takes nothing", func() bool { return s.srv.Counts(s.name).Visible == 1 })
	w.Resume()
	eventually(t, "it runs", func() bool { return g.len() == 1 })
	w.Pause()
	if w.Health().Ready {
		t.Error("a paused worker is ready")
	}
	r.pollsNoMore()
	s.send("later")
	always(t, outlasts, "one is hidden, one is left alone", func() bool {
		q := s.srv.Counts(s.name)
		return q.InFlight == 1 && q.Visible == 1
	})
	g.release()
	w.Resume()
	s.empty()
	r.end()
	g.book.once(t, []string{"running", "later"})
}

func TestAnOverlongBackoffGoesBackHidden(t *testing.T) {
	s, b := newSite(t, "", 100), newBook()
	s.send("m")
	c := quick()
	c.NoParking = true
	r := s.start(func(_ context.Context, m *consumer.Message) error {
		b.add(m)
		return consumer.RetryAfter(errors.New("not today"), 20*time.Minute)
	}, c)
	eventually(t, "it is handed back", func() bool { return slices.Contains(s.visibilities(), 1200) })
	eventually(t, "the worker has nothing in hand", func() bool { _, all := r.table.lanes(); return all == 0 })
	r.end()
	if q := s.srv.Queue(s.name); q.InFlight != 1 || time.Until(q.Messages[0].Due) < 19*time.Minute || b.count("m") != 1 {
		t.Errorf("%+v after %d runs, want it hidden for 20 minutes after one", q, b.count("m"))
	}
}

// The limit of 12 hours, made short: a message that waits goes back before SQS takes it, one that runs goes on under its
// claim, and is deleted by the handle of its next delivery.
func TestHeldForTheLongestTime(t *testing.T) {
	s, g := newSite(t, "", 100), newGate()
	c := quick()
	c.Limiter = consumer.NewLimiter(1)
	s.send("m000", "m001")
	w := s.worker(g.handle, c)
	w.limit = 4 * time.Second
	r := runWorker(t, w)
	eventually(t, "both were delivered a second time", func() bool {
		all := s.srv.Queue(s.name).Messages
		return len(all) == 2 && all[0].Receives > 1 && all[1].Receives > 1
	})
	if g.len() != 1 {
		t.Errorf("%d handlers were begun, want 1", g.len())
	}
	g.release()
	s.empty()
	r.end()
	g.book.once(t, []string{"m000", "m001"})
}

func TestOutageOfSQSUnderLongHandlers(t *testing.T) {
	s, g := newSite(t, "", 100), newGate()
	bodies := numbers("m", 8)
	s.send(bodies...)
	r := s.start(g.handle, nil)
	eventually(t, "all handlers run", func() bool { return g.len() == len(bodies) })
	remove := s.srv.Inject(sqstest.Fault{Status: 500, Times: -1})
	eventually(t, "all visibility is over", func() bool { return s.srv.Counts(s.name).Visible == len(bodies) })
	g.release()
	remove()
	s.empty()
	r.end()
	g.book.once(t, bodies)
}

func TestADeafHandlerIsNamedAndItsMessageStaysHidden(t *testing.T) {
	s, entered, leave := newSite(t, "", 100), make(chan struct{}), make(chan struct{})
	c := quick()
	c.Drain, c.VisibilityTimeout, c.WaitTime = 300*time.Millisecond, 30*time.Second, time.Second
	ids := s.send("deaf")
	r := s.start(func(context.Context, *consumer.Message) error { close(entered); <-leave; return nil }, c)
	<-entered
	r.stop()
	if err := r.wait(); err == nil || !strings.Contains(err.Error(), ids[0]) {
		t.Errorf("Run: %v, want an error that names message %s", err, ids[0])
	}
	if q := s.srv.Counts(s.name); q.InFlight != 1 {
		t.Errorf("%+v: the message was made visible while its handler runs", q)
	}
	close(leave)
}

// The checksum of one body in an answer is wrong, or credentials cannot be read for once: the client's own errors are of no
// kind that is known, and each ended the worker, and with it all others of the process.
func TestAnErrorOfTheClientsOwnIsTriedAgain(t *testing.T) {
	s := newSite(t, "", 50)
	var failures atomic.Int64
	failures.Store(3)
	s.client = s.srv.Client(func(o *sqs.Options) {
		o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
			return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("broken",
				func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
					if _, receives := in.Parameters.(*sqs.ReceiveMessageInput); receives && failures.Add(-1) >= 0 {
						return middleware.InitializeOutput{}, middleware.Metadata{}, errors.New("the checksum of a body is wrong")
					}
					return next.HandleInitialize(ctx, in)
				}), middleware.Before)
		})
	})
	b := newBook()
	r := s.start(b.handle, nil)
	bodies := numbers("", 5)
	s.send(bodies...)
	eventually(t, "all are handled", func() bool { return b.len() == 5 })
	s.empty()
	r.end()
	b.once(t, bodies)
}

// A KeyFunc that ended its goroutine (a helper called t.FailNow) ended the one that polls: nothing was consumed any more,
// and Health was fine.
func TestKeyFuncThatEndsItsGoroutine(t *testing.T) {
	s, b := newSite(t, "", 100), newBook()
	c := quick()
	c.KeyFunc = func(m *consumer.Message) (string, error) {
		if string(m.Body) == "bad" {
			runtime.Goexit()
		}
		return m.ID, nil
	}
	bad, before, after := s.send("bad")[0], numbers("before", 20), numbers("after", 20)
	s.send(before...)
	r := s.start(b.handle, c)
	s.empty()
	s.send(after...)
	s.empty()
	r.end()
	b.once(t, append(before, after...))
	rec := s.record(r.Worker, bad)
	if rec.State != ledger.Failed || rec.Archived[0].Kind != ledger.KindInvalid || string(rec.Archived[0].Body) != "bad" {
		t.Errorf("its row: %+v", rec)
	}
}
