package replay_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/ackledger/ackledger/internal/services"
)

// What people do themselves: the console's redrive (a move task), and receiving and sending by hand, with the stamp and
// without one. Messages with a stamp meet their rows; one without is a new message, and runs as such.
func TestByHand(t *testing.T) {
	t.Parallel()
	const amount = 40
	d, endpoint, name := newDatabase(t), services.ElasticMQ(t), services.Name(t)
	client := sqsClient(endpoint)
	dead := queue(t, client, name+"_dead", nil)
	arn := attribute(t, client, dead, types.QueueAttributeNameQueueArn)
	source := queue(t, client, name, map[string]string{"RedrivePolicy": fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":"100"}`, arn)})
	var buggy atomic.Bool
	buggy.Store(true)
	runQueue(t, d, client, source, dead, handler(buggy.Load))
	send(t, client, source, amount)
	eventually(t, func() string { return holds(t, client, dead, amount) })
	eventually(t, func() string { return holds(t, client, source, 0) })
	buggy.Store(false)

	unstamped := byHand(t, client, dead, source)
	eventually(t, func() string { return holds(t, client, dead, amount-2) })
	destination := attribute(t, client, source, types.QueueAttributeNameQueueArn)
	if _, err := client.StartMessageMoveTask(t.Context(), &awssqs.StartMessageMoveTaskInput{SourceArn: &arn, DestinationArn: &destination}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string { return d.effects(amount) })
	eventually(t, func() string { return holds(t, client, source, 0) })
	// All is known to have succeeded but what was sent without its stamp: to the ledger that one still failed, and it would
	// be done again by a replay, as the documentation says.
	if n := d.count(`SELECT count(*) FROM ackledger.message`); n != amount+1 {
		t.Errorf("%d rows, want one for each of %d messages, and one more for %q", n, amount, unstamped)
	}
	if wrong := d.failed(1); wrong != "" {
		t.Error(wrong)
	}
}

// byHand receives two dead letters, sends both to the source, one of them without its attributes, and deletes both. It
// returns the body of that one.
func byHand(t *testing.T, client *awssqs.Client, dead, source string) string {
	t.Helper()
	unstamped := ""
	for moved := 0; moved < 2; {
		out, err := client.ReceiveMessage(t.Context(), &awssqs.ReceiveMessageInput{
			QueueUrl: &dead, MaxNumberOfMessages: 1, VisibilityTimeout: 60, MessageAttributeNames: []string{"All"},
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range out.Messages {
			in := &awssqs.SendMessageInput{QueueUrl: &source, MessageBody: m.Body, MessageAttributes: m.MessageAttributes}
			if moved == 0 {
				in.MessageAttributes, unstamped = nil, aws.ToString(m.Body)
			}
			if _, err := client.SendMessage(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			if _, err := client.DeleteMessage(t.Context(), &awssqs.DeleteMessageInput{QueueUrl: &dead, ReceiptHandle: m.ReceiptHandle}); err != nil {
				t.Fatal(err)
			}
			moved++
		}
	}
	return unstamped
}
