package sqstest_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/ackledger/ackledger/sqs/sqstest"
)

type polled struct {
	messages []types.Message
	err      error
}

// poll starts a long poll and waits until the server holds it.
func (b *bench) poll(ctx context.Context, name, url string, seconds int32) <-chan polled {
	b.Helper()
	before := b.srv.Counts(name).Polls
	done := b.pollOf(ctx, url, seconds)
	b.until("a long poll", func() bool { return b.srv.Counts(name).Polls == before+1 })
	return done
}

// pollOf begins a poll, and does not wait until it waits.
func (b *bench) pollOf(ctx context.Context, url string, seconds int32) <-chan polled {
	b.Helper()
	done := make(chan polled, 1)
	go func() {
		out, err := b.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
			QueueUrl: &url, MaxNumberOfMessages: 10, WaitTimeSeconds: seconds,
		})
		if err != nil {
			done <- polled{err: err}
			return
		}
		done <- polled{messages: out.Messages}
	}()
	return done
}

func (b *bench) answer(poll <-chan polled) polled {
	b.Helper()
	select {
	case p := <-poll:
		return p
	case <-time.After(10 * time.Second):
		b.Fatal("the long poll did not end within 10 s")
		return polled{}
	}
}

func TestLongPollEndsEmptyAfterItsTime(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	url := b.queue("q", "ReceiveMessageWaitTimeSeconds", "20")
	p := b.poll(t.Context(), "q", url, 0) // 0 is not sent: the queue's own setting
	b.clock.Advance(19 * time.Second)
	select {
	case early := <-p:
		t.Fatalf("ended after 19 of 20 s: %+v", early)
	default:
	}
	b.clock.Advance(time.Second)
	got := b.answer(p)
	b.must(got.err)
	b.same("messages", len(got.messages), 0)
	b.until("no poll", func() bool { return b.srv.Queue("q").Polls == 0 })
}

func TestLongPollWakesUp(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	dead := b.queue("dead")
	url := b.queue("q", "RedrivePolicy", redrive("dead", 1), "VisibilityTimeout", "10")
	wants := func(name, url, why string, then func()) types.Message {
		t.Helper()
		p := b.poll(t.Context(), name, url, 20)
		then()
		got := b.answer(p)
		b.must(got.err)
		if len(got.messages) != 1 {
			t.Fatalf("%s: %d messages", why, len(got.messages))
		}
		return got.messages[0]
	}
	m := wants("q", url, "a send", func() { b.send(url, "x") })
	b.must(b.delete(url, m))
	wants("q", url, "a delay that ends", func() {
		b.send(url, "x", func(in *sqs.SendMessageInput) { in.DelaySeconds = 5 })
		b.clock.Advance(5 * time.Second)
	})
	wants("dead", dead, "a dead letter", func() {
		b.clock.Advance(10 * time.Second)
		b.receive(url)
	})
	b.clock.Advance(30 * time.Second)
	wants("q", url, "a move task", func() {
		_, err := b.startMove("dead", "", 0)
		b.must(err)
	})
	b.queue("q.fifo")
	fifo := b.srv.URL + "/000000000000/q.fifo"
	b.send(fifo, "1", inGroup("g", "1"))
	first := b.receiveOne(fifo)
	b.send(fifo, "2", inGroup("g", "2"))
	second := wants("q.fifo", fifo, "a delete that frees the group", func() { b.must(b.delete(fifo, first)) })
	wants("q.fifo", fifo, "visibility 0", func() { b.must(b.change(fifo, second, 0)) })
}

// A receive whose visibility ends before a waiting poll does wakes that poll in
// time.
func TestLongPollSeesShorterVisibilityOfAnother(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	url := b.queue("q")
	p := b.poll(t.Context(), "q", url, 20)
	q := b.poll(t.Context(), "q", url, 20)
	b.send(url, "x") // one of the two gets it
	var rest <-chan polled
	var first polled
	select {
	case first = <-p:
		rest = q
	case first = <-q:
		rest = p
	}
	b.must(first.err)
	b.must(b.change(url, first.messages[0], 3))
	b.clock.Advance(3 * time.Second)
	b.same("the other one", len(b.answer(rest).messages), 1)
}

// jumpingClock moves on by itself between the first reading of it and the setting of an alarm.
type jumpingClock struct {
	*sqstest.ManualClock
	jump sync.Once
}

func (c *jumpingClock) AfterFunc(d time.Duration, f func()) func() bool {
	c.jump.Do(func() { c.Advance(d) })
	return c.ManualClock.AfterFunc(d, f)
}

// A long poll ends in time although the clock is moved while the poll begins to wait.
func TestLongPollWhileTheClockMoves(t *testing.T) {
	t.Parallel()
	srv := sqstest.Start(t, &sqstest.Options{Clock: &jumpingClock{ManualClock: sqstest.NewManualClock(time.Time{})}})
	b := &bench{T: t, srv: srv, client: srv.Client()}
	url := b.queue("q")
	b.same("what it got", len(b.answer(b.pollOf(t.Context(), url, 20)).messages), 0)
}

// A worker that cancels its open poll at shutdown: the service does not notice,
// and the next message disappears into that poll for a visibility timeout.
func TestCancelledPollTakesMessagesWithIt(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	url := b.queue("q")
	ctx, cancel := context.WithCancel(t.Context())
	p := b.poll(ctx, "q", url, 20)
	cancel()
	if got := b.answer(p); got.err == nil {
		t.Fatalf("a cancelled poll answered %v", bodies(got.messages))
	}
	b.send(url, "x")
	b.until("the orphan takes it", func() bool { return b.srv.Queue("q").InFlight == 1 })
	b.same("nobody else gets it", len(b.receive(url)), 0)
	b.clock.Advance(30 * time.Second)
	b.same("until its visibility ends", len(b.receive(url)), 1)
}

func TestPollOfADeletedQueueAndOfAClosedServer(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	url, other := b.queue("q"), b.queue("other")
	p := b.poll(t.Context(), "q", url, 20)
	_, err := b.client.DeleteQueue(t.Context(), &sqs.DeleteQueueInput{QueueUrl: &url})
	b.must(err)
	b.code(b.answer(p).err, "AWS.SimpleQueueService.NonExistentQueue")
	p = b.poll(t.Context(), "other", other, 20)
	b.srv.Close()
	if got := b.answer(p); got.err == nil {
		t.Fatal("a poll of a closed server succeeded")
	}
	b.srv.Close()
}

func TestRealClock(t *testing.T) {
	t.Parallel()
	srv := sqstest.Start(t, nil)
	client := srv.Client()
	url, err := srv.CreateQueue("q", nil)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	out, err := client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &url, WaitTimeSeconds: 1})
	if err != nil || len(out.Messages) != 0 {
		t.Fatalf("got %v, %v", out, err)
	}
	if took := time.Since(begin); took < 900*time.Millisecond || took > 10*time.Second {
		t.Fatalf("a poll of 1 s took %v", took)
	}
	if _, err := client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x")}); err != nil {
		t.Fatal(err)
	}
}
