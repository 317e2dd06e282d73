package replay_test

import (
	"crypto/rand"
	"fmt"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// Of a FIFO group, nothing overtakes a message that the target cannot take: it has ten attributes of its own, and no room for
// the stamp. Other groups go on.
func TestNothingOvertakesWhatIsRefused(t *testing.T) {
	t.Parallel()
	q := newQueues(t, true)
	q.book.breakAll()
	full := map[string]types.MessageAttributeValue{}
	for i := range 10 {
		full[fmt.Sprintf("own%d", i)] = types.MessageAttributeValue{DataType: aws.String("String"), StringValue: aws.String("x")}
	}
	for _, m := range []struct {
		group, body string
		attributes  map[string]types.MessageAttributeValue
	}{{"g", "step 0", nil}, {"g", "step 1", full}, {"g", "step 2", nil}, {"h", "other", nil}, {"g", "step 3", nil}} {
		q.send(q.source, awssqs.SendMessageInput{
			MessageBody: &m.body, MessageAttributes: m.attributes, MessageGroupId: &m.group, MessageDeduplicationId: aws.String(rand.Text()),
		})
	}
	stop := q.worker()
	eventually(t, "all are dead letters", func() bool { return q.server.Counts(q.names[1]).Depth() == 5 })
	stop()
	q.book.mend()

	report := q.replay(q.fromQueue(), q.toSource())
	if report.Replayed != 2 || report.Refused != 1 || report.Left != 2 {
		t.Errorf("%+v", report)
	}
	stop = q.worker()
	eventually(t, "what was sent is handled", func() bool { return q.server.Counts(q.names[0]).Depth() == 0 })
	stop()
	eventually(t, "the rest is visible again", func() bool { return q.server.Counts(q.names[1]).InFlight == 0 })
	if report := q.replay(q.fromQueue(), inPlace(t, "shop", q.book)); report.Replayed != 3 {
		t.Errorf("in place: %+v", report)
	}
	steps := slices.DeleteFunc(q.book.bodies(), func(body string) bool { return body == "other" })
	if want := []string{"step 0", "step 1", "step 2", "step 3"}; !slices.Equal(steps, want) {
		t.Errorf("handled: %v", steps)
	}
}
