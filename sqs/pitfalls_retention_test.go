package sqs

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/sqs/sqstest"
)

// jumper is a clock that runs as time does and can be moved ahead while no worker runs, of the server and the ledger.
type jumper struct{ ahead atomic.Int64 }

func (j *jumper) Now() time.Time { return time.Now().Add(time.Duration(j.ahead.Load())) }

func (j *jumper) AfterFunc(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }

func (j *jumper) jump(d time.Duration) { j.ahead.Add(int64(d)) }

// jumpTo moves ahead to the next time that the day is so old.
func (j *jumper) jumpTo(ofDay time.Duration) {
	now := j.Now().UTC()
	j.jump((ofDay - now.Sub(now.Truncate(day)) + day) % day)
}

// newJumpingSite is a site whose server and ledger have a clock that can be moved.
func newJumpingSite(t *testing.T, kind string, maxReceives int) (*site, *jumper) {
	t.Helper()
	clock := &jumper{}
	s := newSite(t, kind, maxReceives, func(o *sqstest.Options) { o.Clock = clock })
	s.ledger = memory.New(memory.WithClock(clock.Now))
	return s, clock
}

// undeleted runs a worker that handles what there is, and whose deletes all fail.
func (s *site) undeleted(b *book, bodies ...string) {
	s.t.Helper()
	mend := s.srv.Inject(sqstest.Fault{Action: "DeleteMessageBatch", Code: "InternalFailure", Times: -1})
	r := s.start(b.handle, steady())
	eventually(s.t, "all are handled", func() bool { return b.len() == len(bodies) })
	r.end()
	mend()
	b.once(s.t, bodies)
}

// Tables a day: a message that was redelivered after midnight was new again. Here two workers get it on the next day, and
// acknowledge it.
func TestPitfall15_NextDay(t *testing.T) {
	s, clock := newJumpingSite(t, "", 100)
	clock.jumpTo(day - time.Second)
	b := newBook()
	ids := s.send("m")
	s.undeleted(b, "m")
	clock.jumpTo(time.Second) // the next day
	if r, err := s.ledger.Sweep(t.Context(), ledger.MaintainConfig{}); err != nil || r.Messages+r.Archives != 0 {
		t.Fatalf("sweep: %+v, %v", r, err)
	}
	first, second := s.start(b.handle, nil), s.start(b.handle, nil)
	s.empty()
	first.end()
	second.end()
	b.once(t, []string{"m"})
	if r := s.record(first.Worker, ids[0]); r.State != ledger.Succeeded || r.Token != 1 {
		t.Errorf("row: %+v", r)
	}
}

// SQS moves a FIFO message to its dead-letter queue and gives it a new SentTimestamp, from which its retention there
// counts: its row must be the same, and must live as long as both retentions together.
func TestPitfall90_SentTimestampReset(t *testing.T) {
	s, clock := newJumpingSite(t, ".fifo", 1)
	b := newBook()
	ids := s.send("g:m")
	s.undeleted(b, "g:m")
	sent := s.srv.Queue(s.name).Messages[0].Sent
	clock.jump(4*day - time.Minute) // the retention of the queue is nearly over
	quiet := s.start(b.handle, nil)
	eventually(t, "SQS dead-letters the message", func() bool { return s.srv.Counts("dead-"+s.name).Depth() == 1 })
	quiet.end()
	moved := s.srv.Queue("dead-" + s.name).Messages[0]
	if moved.ID != ids[0] || moved.Sent.Sub(sent) < 3*day {
		t.Fatalf("moved as %s, sent %s, was %s, sent %s", moved.ID, moved.Sent, ids[0], sent)
	}
	clock.jump(4*day - time.Minute) // and that of the dead-letter queue, which began anew
	if n := s.srv.Counts("dead-" + s.name).Depth(); n != 1 {
		t.Fatalf("%d messages in the dead-letter queue", n)
	}
	if r, err := s.ledger.Sweep(t.Context(), ledger.MaintainConfig{}); err != nil || r.Messages+r.Archives != 0 {
		t.Fatalf("sweep: %+v, %v", r, err)
	}
	stamp := consumer.NewStamp(s.arn(s.name), moved.ID, []byte("g:m")) // it is put back
	_, err := s.client.SendMessage(t.Context(), &sqs.SendMessageInput{
		QueueUrl: &s.url, MessageBody: aws.String("g:m"), MessageGroupId: aws.String("g"), MessageDeduplicationId: aws.String("again"),
		MessageAttributes: map[string]types.MessageAttributeValue{
			consumer.StampName: {DataType: aws.String("String"), StringValue: aws.String(stamp.String())},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	last := s.start(b.handle, nil)
	s.empty()
	last.end()
	b.once(t, []string{"g:m"})
	if r := s.record(last.Worker, ids[0]); r.State != ledger.Succeeded || r.Token != 1 || !r.Expiry.Equal(r.At.Add(8*day)) {
		t.Errorf("row: %+v", r)
	}
	clock.jump(2 * time.Hour)
	if r, err := s.ledger.Sweep(t.Context(), ledger.MaintainConfig{}); err != nil || r.Messages != 1 {
		t.Errorf("sweep when nothing can bring it back: %+v, %v", r, err)
	}
}

// The window that a worker starts with covers what the broker may still deliver, or it does not start.
func TestAWindowBelowTheRetentionIsRefused(t *testing.T) {
	s, c := newSite(t, "", 100), quick()
	c.Window = 8*day - time.Second
	if err := s.worker(nothing, c).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "Config.Window: must be at least 192h0m0s") {
		t.Errorf("Run: %v", err)
	}
	c = quick()
	c.Keep = 8*day - time.Second
	if err := s.worker(nothing, c).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "Config.Keep: must be at least the window of 192h0m0s") {
		t.Errorf("Run: %v", err)
	}
}
