package sqstest_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/ackledger/ackledger/sqs/sqstest"
)

const arn = "arn:aws:sqs:us-east-1:000000000000:"

func redrive(dead string, max int) string {
	return `{"deadLetterTargetArn":"` + arn + dead + `","maxReceiveCount":` + strconv.Itoa(max) + `}`
}

func TestRedriveToDeadLetterQueue(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	dead := b.queue("dead")
	url := b.queue("q", "RedrivePolicy", redrive("dead", 2))
	sent := b.send(url, "x")
	sentAt := strconv.FormatInt(b.clock.Now().UnixMilli(), 10)
	var last types.Message
	for range 2 {
		last = b.receiveOne(url)
		b.clock.Advance(30 * time.Second)
	}
	b.same("not before the third receive", b.srv.Queue("dead").Depth(), 0)
	b.same("third receive", len(b.receive(url)), 0)
	m := b.receiveOne(dead)
	b.same("id stays", m.MessageId, *sent.MessageId)
	b.same("sent time stays", m.Attributes["SentTimestamp"], sentAt)
	b.same("count goes on", m.Attributes["ApproximateReceiveCount"], "3")
	b.same("source", m.Attributes["DeadLetterQueueSourceArn"], arn+"q")
	b.must(b.delete(url, last)) // an old handle of the source queue does no harm
	b.same("still there", b.srv.Queue("dead").Depth(), 1)

	out, err := b.client.ListDeadLetterSourceQueues(t.Context(), &sqs.ListDeadLetterSourceQueuesInput{QueueUrl: &dead})
	b.must(err)
	b.same("sources", out.QueueUrls, []string{url})
}

// A dead-letter queue with a redrive policy of its own counts its own receives.
func TestRedriveInAChain(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	b.queue("deadest")
	dead := b.queue("dead", "RedrivePolicy", redrive("deadest", 2))
	url := b.queue("q", "RedrivePolicy", redrive("dead", 2))
	b.send(url, "x")
	for _, queue := range []string{url, url, url, dead, dead, dead} {
		b.receive(queue)
		b.clock.Advance(30 * time.Second)
	}
	m := b.srv.Queue("deadest").Messages
	b.same("arrived after two receives in each", len(m), 1)
	b.same("receives in all", m[0].Receives, 4)
}

// Retention in a standard dead-letter queue counts from the first send.
func TestRedriveRetentionCountsFromTheOriginalSend(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	dead := b.queue("dead", "MessageRetentionPeriod", "100")
	url := b.queue("q", "RedrivePolicy", redrive("dead", 1), "VisibilityTimeout", "60")
	b.send(url, "x")
	b.receiveOne(url)
	b.clock.Advance(60 * time.Second)
	b.receive(url)
	b.same("moved", b.srv.Queue("dead").Depth(), 1)
	b.clock.Advance(40 * time.Second)
	b.same("gone after 100 s in all", len(b.receive(dead)), 0)
}

// On a FIFO queue the move sets SentTimestamp anew, retention counts afresh, and
// the deduplication id becomes the message's id.
func TestRedriveOfFIFOResetsTheTime(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	dead := b.queue("dead.fifo", "MessageRetentionPeriod", "100")
	url := b.queue("q.fifo", "RedrivePolicy", redrive("dead.fifo", 1), "VisibilityTimeout", "60")
	sent := b.send(url, "x", inGroup("g", "d"))
	old := b.receiveOne(url)
	b.clock.Advance(60 * time.Second)
	b.receive(url)
	b.code(b.delete(url, old), "InvalidParameterValue") // its handle has expired
	b.clock.Advance(99 * time.Second)
	m := b.receiveOne(dead)
	b.same("id stays", m.MessageId, *sent.MessageId)
	b.same("sent anew", m.Attributes["SentTimestamp"], strconv.FormatInt(b.clock.Now().Add(-99*time.Second).UnixMilli(), 10))
	b.same("deduplication id", m.Attributes["MessageDeduplicationId"], *sent.MessageId)
	b.same("group stays", m.Attributes["MessageGroupId"], "g")
}

func TestRedrivePolicyIsChecked(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	b.queue("closed", "RedriveAllowPolicy", `{"redrivePermission":"denyAll"}`)
	b.queue("picky", "RedriveAllowPolicy", `{"redrivePermission":"byQueue","sourceQueueArns":["`+arn+`friend"]}`)
	b.queue("dead.fifo")
	b.queue("friend", "RedrivePolicy", redrive("picky", 3))
	for policy, code := range map[string]string{
		redrive("missing", 3):   "InvalidParameterValue",
		redrive("closed", 3):    "InvalidParameterValue",
		redrive("picky", 3):     "InvalidParameterValue",
		redrive("dead.fifo", 3): "InvalidParameterValue",
		redrive("friend", 0):    "InvalidAttributeValue",
		redrive("friend", 1001): "InvalidAttributeValue",
		`{`:                     "InvalidAttributeValue",
		`{"maxReceiveCount":3}`: "InvalidAttributeValue",
	} {
		_, err := b.client.CreateQueue(t.Context(), &sqs.CreateQueueInput{
			QueueName: aws.String("q"), Attributes: map[string]string{"RedrivePolicy": policy},
		})
		b.code(err, code)
	}
}

func (b *bench) startMove(source, destination string, rate int32) (*sqs.StartMessageMoveTaskOutput, error) {
	in := &sqs.StartMessageMoveTaskInput{SourceArn: aws.String(arn + source)}
	if destination != "" {
		in.DestinationArn = aws.String(arn + destination)
	}
	if rate != 0 {
		in.MaxNumberOfMessagesPerSecond = &rate
	}
	return b.client.StartMessageMoveTask(b.Context(), in)
}

func (b *bench) moves(source string) []types.ListMessageMoveTasksResultEntry {
	b.Helper()
	out, err := b.client.ListMessageMoveTasks(b.Context(), &sqs.ListMessageMoveTasksInput{
		SourceArn: aws.String(arn + source), MaxResults: aws.Int32(10),
	})
	b.must(err)
	return out.Results
}

// killed sends n messages through q into its dead-letter queue.
func (b *bench) killed(url string, n int, fifo bool) (ids []string) {
	for i := range n {
		var options []func(*sqs.SendMessageInput)
		if fifo {
			options = append(options, inGroup(strconv.Itoa(i), strconv.Itoa(i)))
		}
		ids = append(ids, *b.send(url, strconv.Itoa(i), options...).MessageId)
	}
	for range 2 {
		b.receive(url)
		b.clock.Advance(30 * time.Second)
	}
	return ids
}

func TestMoveTaskGivesNewIdentity(t *testing.T) {
	for _, suffix := range []string{"", ".fifo"} {
		t.Run("q"+suffix, func(t *testing.T) {
			b := setUp(t, sqstest.Options{})
			b.queue("dead" + suffix)
			url := b.queue("q"+suffix, "RedrivePolicy", redrive("dead"+suffix, 1))
			ids := b.killed(url, 2, suffix != "")
			b.same("dead", b.srv.Queue("dead"+suffix).Depth(), 2)
			_, err := b.startMove("dead"+suffix, "", 0)
			b.must(err)
			got := b.receive(url)
			b.same("back at the source, oldest first", bodies(got), []string{"0", "1"})
			for i, m := range got {
				if *m.MessageId == ids[i] {
					t.Errorf("message %d kept its id %s", i, ids[i])
				}
				b.same("count", m.Attributes["ApproximateReceiveCount"], "1")
				b.same("sent anew", m.Attributes["SentTimestamp"], strconv.FormatInt(b.clock.Now().UnixMilli(), 10))
			}
			task := b.moves("dead" + suffix)[0]
			b.same("status", task.Status, "COMPLETED")
			b.same("moved", task.ApproximateNumberOfMessagesMoved, 2)
			b.same("a finished task has no handle", task.TaskHandle, "")
		})
	}
}

func TestMoveTaskAtARate(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	b.queue("dead")
	b.queue("other")
	url := b.queue("q", "RedrivePolicy", redrive("dead", 1))
	b.killed(url, 5, false)
	task, err := b.startMove("dead", "other", 2)
	b.must(err)
	b.same("in the first second", b.srv.Queue("other").Depth(), 2)
	_, err = b.startMove("dead", "", 0)
	b.code(err, "InvalidParameterValue") // one at a time
	b.clock.Advance(time.Second)
	b.same("in the second", b.srv.Queue("other").Depth(), 4)
	running := b.moves("dead")[0]
	b.same("handle", running.TaskHandle, *task.TaskHandle)
	b.same("to move", *running.ApproximateNumberOfMessagesToMove, 5)
	cancelled, err := b.client.CancelMessageMoveTask(t.Context(), &sqs.CancelMessageMoveTaskInput{TaskHandle: task.TaskHandle})
	b.must(err)
	b.same("moved", cancelled.ApproximateNumberOfMessagesMoved, 4)
	b.clock.Advance(time.Minute)
	b.same("stays", b.srv.Queue("dead").Depth(), 1)
	b.same("status", b.moves("dead")[0].Status, "CANCELLED")
	_, err = b.client.CancelMessageMoveTask(t.Context(), &sqs.CancelMessageMoveTaskInput{TaskHandle: task.TaskHandle})
	b.code(err, "ResourceNotFoundException")
}

func TestMoveTaskRefusals(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	dead := b.queue("dead")
	b.queue("dead.fifo")
	b.queue("q", "RedrivePolicy", redrive("dead", 1))
	for _, c := range []struct{ source, destination, code string }{
		{"missing", "", "ResourceNotFoundException"},
		{"q", "", "InvalidParameterValue"}, // nobody's dead-letter queue
		{"dead", "missing", "ResourceNotFoundException"},
		{"dead", "dead.fifo", "InvalidParameterValue"},
		{"dead", "dead", "InvalidParameterValue"},
	} {
		_, err := b.startMove(c.source, c.destination, 0)
		b.code(err, c.code)
	}
	_, err := b.startMove("dead", "", 501)
	b.code(err, "InvalidParameterValue")
	b.send(dead, "sent here by hand, so it has no source")
	_, err = b.startMove("dead", "", 0)
	b.must(err)
	b.same("status", b.moves("dead")[0].Status, "FAILED")
	b.same("reason", b.moves("dead")[0].FailureReason, "CouldNotDetermineMessageSource")
	b.same("nothing lost", b.srv.Queue("dead").Depth(), 1)
}
