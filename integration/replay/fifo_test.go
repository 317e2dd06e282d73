package replay_test

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/ackledger/ackledger/internal/services"
)

// A FIFO storm has so many groups, of so many messages each.
const (
	groups   = 20
	perGroup = 15
)

// TestGroupStorm replays a FIFO queue's dead letters under fire: each effect is there once, and those of a group are in the
// order in which its messages were sent.
func TestGroupStorm(t *testing.T) {
	t.Parallel()
	f, d, endpoint, name := storms(), newDatabase(t), services.ElasticMQ(t), services.Name(t)
	client := sqsClient(endpoint)
	dead := queue(t, client, name+"_dead.fifo", map[string]string{"FifoQueue": "true"})
	source := queue(t, client, name+".fifo", map[string]string{"FifoQueue": "true"})
	var buggy atomic.Bool
	buggy.Store(true)
	runQueue(t, d, client, source, dead, handler(buggy.Load))
	sendGroups(t, client, source)
	eventually(t, func() string { return holdsAll(t, client, dead, groups*perGroup) })
	eventually(t, func() string { return holds(t, client, source, 0) })
	buggy.Store(false)

	o := orders{Database: d.url, Endpoint: endpoint, Queue: source, Dead: dead, Consumer: "shop", Rate: f.speed / 4}
	storm(t, f.kills/2, func(int) orders { return o })
	o.Rate = 0
	eventually(t, func() string { // what a killed one had received is hidden for a while
		if wrong := start(t, o).outcome(); wrong != "" {
			return wrong
		}
		return holds(t, client, dead, 0)
	})
	eventually(t, func() string { return d.effects(groups * perGroup) })
	eventually(t, func() string { return holds(t, client, source, 0) })
	d.expect(groups * perGroup)
	if n := d.count(`SELECT count(*) FROM (SELECT body, lag(body) OVER (PARTITION BY left(body, 8) ORDER BY seq) AS before FROM effect) e WHERE before > body`); n > 0 {
		t.Errorf("%d effects came before one of an earlier message of their group", n)
	}
}

// sendGroups sends the messages of all groups, each with its place in its group.
func sendGroups(t *testing.T, client *awssqs.Client, url string) {
	t.Helper()
	for place := range perGroup {
		for g := 0; g < groups; g += 10 {
			in := &awssqs.SendMessageBatchInput{QueueUrl: &url}
			for i := g; i < min(g+10, groups); i++ {
				body := fmt.Sprintf("group-%02d-message-%04d", i, place)
				in.Entries = append(in.Entries, types.SendMessageBatchRequestEntry{
					Id: aws.String(strconv.Itoa(i)), MessageBody: &body, MessageGroupId: aws.String(body[:8]), MessageDeduplicationId: aws.String(body),
				})
			}
			if out, err := client.SendMessageBatch(t.Context(), in); err != nil || len(out.Failed) > 0 {
				t.Fatalf("send: %v, %+v", err, out)
			}
		}
	}
}
