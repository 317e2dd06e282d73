package sqs

import (
	"strconv"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/visibility"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// A message of a standard queue becomes the engine's item in two allocations, its bytes and what is noted of it; the
// engine has up to 4 for a message (see TestAllocationsOfAMessage there), and these come out of them. What AWS's SDK
// makes of an answer is not counted.
func TestAllocationsOfAMessageFromSQS(t *testing.T) {
	const n, most = 100, 2 // from the second time on, when the table's map has grown
	w, err := NewWorker(awssqs.New(awssqs.Options{}), "url", memory.New(), consumer.HandlerFunc(nothing), quick())
	if err != nil {
		t.Fatal(err)
	}
	w.queue, w.table = &queue{arn: "arn", scope: "tests/arn"}, newTable(time.Minute, visibilityLimit, false)
	raws := make([]types.Message, n)
	for i := range raws {
		raws[i] = types.Message{
			MessageId: aws.String("message-" + strconv.Itoa(i)), ReceiptHandle: aws.String("handle"), Body: aws.String("a body"),
			Attributes: map[string]string{"SentTimestamp": "1750000000000", "ApproximateReceiveCount": "1"},
		}
	}
	got := testing.AllocsPerRun(20, func() {
		for i := range raws {
			h := newHold(raws[i], false)
			w.table.use(func(v *visibility.Table) { v.Receive(&h.Hold, w.table.now(), w.table.now()) })
			if it := w.prepare(h); string(it.Delivery) != *raws[i].MessageId || string(it.Msg.Body) != "a body" {
				t.Fatalf("delivery %q, body %q", it.Delivery, it.Msg.Body)
			}
			w.table.use(func(v *visibility.Table) { v.Forget(&h.Hold) })
		}
	}) / n
	if got > most {
		t.Errorf("%.2f allocations a message, at most %v", got, most)
	}
	t.Logf("%.2f allocations a message", got)
}
