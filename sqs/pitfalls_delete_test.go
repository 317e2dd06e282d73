package sqs

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/sqs/sqstest"
)

// raw is a message as SQS delivers it.
func raw(id, handle string) types.Message {
	return types.Message{MessageId: &id, ReceiptHandle: &handle, Body: aws.String("body of " + id)}
}

// shifted is a server's clock that is wrong by a set time.
type shifted struct{ by atomic.Int64 }

func (c *shifted) shift(d time.Duration) { c.by.Store(int64(d)) }
func (c *shifted) Now() time.Time        { return time.Now().Add(time.Duration(c.by.Load())) }
func (c *shifted) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}

func (s *site) set(attributes map[string]string) {
	s.t.Helper()
	_, err := s.client.SetQueueAttributes(s.t.Context(), &awssqs.SetQueueAttributesInput{QueueUrl: &s.url, Attributes: attributes})
	if err != nil {
		s.t.Fatal(err)
	}
}

// A worker is told to stop; the delete of what its handlers finish from then on is sent on the cancelled context.
func TestPitfall33_DeletesAtShutdown(t *testing.T) {
	s, g := newSite(t, "", 100), newGate()
	bodies := numbers("m", 8)
	s.send(bodies...)
	r := s.start(g.handle, nil)
	eventually(t, "all handlers run", func() bool { return g.len() == len(bodies) })
	r.stop()
	g.release()
	if err := r.wait(); err != nil {
		t.Fatalf("Run: %v", err)
	}
	if n := s.srv.Counts(s.name).Depth(); n != 0 {
		t.Errorf("%d messages are left in the queue", n)
	}
	g.book.once(t, bodies)
}

// The delete of a message fails for good after its handler succeeded. It must not be run again, nor be made visible.
func TestPitfall34_DeleteFailsAfterSuccess(t *testing.T) {
	s, b := newSite(t, "", 100), newBook()
	s.srv.Inject(sqstest.Fault{
		Action: "DeleteMessageBatch", Code: sqstest.CodeExpired, Entries: func(int, string) bool { return true },
	})
	s.send("m")
	r := s.start(b.handle, nil)
	s.empty()
	r.end()
	b.once(t, []string{"m"})
	if slices.Contains(s.visibilities(), 0) {
		t.Error("the message was made visible")
	}
	deletes := s.seen("DeleteMessageBatch")
	if len(deletes) != 2 || deletes[0].Entries[0].ReceiptHandle == deletes[1].Entries[0].ReceiptHandle {
		t.Errorf("deletes %+v, want the first one refused and the redelivery deleted by its own handle", deletes)
	}
}

// The answer to a batch of deletes is 200 and names entries that failed. All are taken for deleted, or all are sent again.
func TestPitfall39_OnlyFailedEntriesAreRetried(t *testing.T) {
	s, g := newSite(t, "", 100), newGate()
	c := quick()
	c.VisibilityTimeout, c.WaitTime = 30*time.Second, time.Second
	s.srv.Inject(sqstest.Fault{
		Action: "DeleteMessageBatch", Code: sqstest.CodeInternal, Entries: func(i int, _ string) bool { return i%2 == 0 },
	})
	bodies := numbers("m", 10)
	s.send(bodies...)
	r := s.start(g.handle, c)
	eventually(t, "all handlers run", func() bool { return g.len() == len(bodies) })
	g.release()
	s.empty()
	r.end()
	g.book.once(t, bodies)
	first := map[string]string{} // code of the first delete of each message
	for _, call := range s.seen("DeleteMessageBatch") {
		for _, e := range call.Entries {
			code, again := first[e.ReceiptHandle]
			if again && code == "" {
				t.Errorf("message %s was deleted twice", e.MessageID)
			}
			first[e.ReceiptHandle] = e.Code
		}
	}
}

// One answer holds the same message twice, under two handles. Two entries of one batch with one id are refused whole, and
// the older handle deletes nothing.
func TestPitfall40_TheSameMessageTwiceInOneReceive(t *testing.T) {
	s, g := newSite(t, "", 100), newGate()
	c := quick()
	c.VisibilityTimeout, c.WaitTime = 30*time.Second, time.Second
	s.srv.Inject(sqstest.Fault{Action: "ReceiveMessage", Duplicate: true, Times: 5})
	bodies := numbers("m", 10)
	s.send(bodies...)
	r := s.start(g.handle, c)
	eventually(t, "all handlers run", func() bool { return g.len() == len(bodies) })
	if n := r.eng.Load().Held; n != len(bodies) {
		t.Errorf("%d messages are held, want each of %d once", n, len(bodies))
	}
	g.release()
	s.empty()
	r.end()
	g.book.once(t, bodies)
	deletes := map[string]int{}
	for _, call := range s.seen("DeleteMessageBatch") {
		for _, e := range call.Entries {
			deletes[e.ReceiptHandle]++
		}
		if call.Code != "" {
			t.Errorf("a batch was refused: %s", call.Code)
		}
	}
	if len(deletes) != len(bodies) {
		t.Errorf("%d handles were deleted by, want the newest of each of %d messages", len(deletes), len(bodies))
	}
}

// A duplicate that the ledger knows is skipped, and left in the queue until it is dead-lettered.
func TestPitfall41_KnownDuplicatesAreDeleted(t *testing.T) {
	s, b := newSite(t, "", 3), newBook()
	remove := s.srv.Inject(sqstest.Fault{Action: "DeleteMessageBatch", Status: 503, Times: -1})
	bodies := numbers("m", 20)
	s.send(bodies...)
	first := s.start(b.handle, nil)
	eventually(t, "all are handled", func() bool { return b.len() == len(bodies) })
	first.end()
	remove()
	second := s.start(b.handle, nil)
	s.empty()
	second.end()
	s.noDead()
	b.once(t, bodies)
}

// A worker stops while deletes wait for a batch to fill.
func TestPitfall45_QueuedDeletesAreFlushed(t *testing.T) {
	s, g := newSite(t, "", 100), newGate()
	bodies := numbers("m", 13)
	s.send(bodies...)
	r := s.start(g.handle, nil)
	eventually(t, "all handlers run", func() bool { return g.len() == len(bodies) })
	r.stop()
	r.pollsNoMore()
	g.release() // nothing but the deletes is left to wait for
	if err := r.wait(); err != nil {
		t.Errorf("Run: %v", err)
	}
	if n := s.srv.Counts(s.name).Depth(); n != 0 {
		t.Errorf("%d messages are left in the queue", n)
	}
}

// An archive limit below the queue's largest message is refused when Run starts. When the queue's is raised later, a
// message that the archive cannot hold is not acknowledged.
func TestPitfall92_ArchiveBelowTheLargestMessage(t *testing.T) {
	s := newSite(t, "", 100)
	s.ledger = memory.New(memory.WithLimits(ledger.Limits{Result: 1024, Archive: 4096, Errors: 1024}))
	fail := func(context.Context, *consumer.Message) error { return consumer.Terminal(errors.New("bad")) }
	if err := s.worker(fail, nil).Run(t.Context()); err == nil {
		t.Fatal("an archive limit of 4096 bytes is accepted for messages of 1 MiB")
	} else {
		t.Log(err)
	}
	s.set(map[string]string{"MaximumMessageSize": "2048"})
	r := s.start(fail, nil)
	eventually(t, "the worker is ready", func() bool { return r.Health().Ready })
	s.set(map[string]string{"MaximumMessageSize": "1048576"})
	s.send("small")
	eventually(t, "the small one is archived and deleted", func() bool { return s.srv.Counts(s.name).Depth() == 0 })
	large := make([]byte, 10_000)
	for i := range large {
		large[i] = 'x'
	}
	s.send(string(large))
	eventually(t, "the large one is in hand", func() bool { return s.srv.Counts(s.name).InFlight == 1 })
	always(t, time.Second, "the large one is kept", func() bool { return s.srv.Counts(s.name).Depth() == 1 })
	r.end()
	if n := s.srv.Counts(s.name).Depth(); n != 1 {
		t.Errorf("%d messages are left, want the one that could not be archived", n)
	}
}

// Two deploys and an outage of the database, each of which cuts a long handler short: none is an attempt or a crash.
func TestPitfall110_DeploysAndAnOutageCountNothing(t *testing.T) {
	s, g := newSite(t, "", 100), newGate()
	attempts := make(chan int, 100)
	handle := func(ctx context.Context, m *consumer.Message) error {
		attempts <- m.Attempt
		return g.handle(ctx, m)
	}
	next := func() {
		t.Helper()
		select {
		case n := <-attempts:
			if n != 1 {
				t.Errorf("attempt %d, want 1", n)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("the handler was not run again")
		}
	}
	c := func() *Config {
		c := quick()
		c.Drain = 200 * time.Millisecond
		return c
	}
	ids := s.send("long")
	for range 2 {
		r := s.start(handle, c())
		next()
		r.stop() // the drain's time is shorter than the handler, which may heed its context in time or not
		if err := r.wait(); err != nil && !strings.Contains(err.Error(), "drain: ") {
			t.Errorf("Run: %v", err)
		}
	}
	r := s.start(handle, c())
	next()
	s.ledger.FailBefore(func(context.Context, memory.Op) error { return errors.New("the database is down") })
	eventually(t, "the worker has lost its lease", func() bool { return !r.eng.Live() })
	s.ledger.FailBefore(nil)
	next()
	g.release()
	s.empty()
	r.end()
	if row := s.record(r.Worker, ids[0]); row.State != ledger.Succeeded || row.Attempts != 0 || row.Crashes != 0 {
		t.Errorf("%v after %d attempts and %d crashes, want success and none", row.State, row.Attempts, row.Crashes)
	}
}
