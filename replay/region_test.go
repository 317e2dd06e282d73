package replay_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/replay"
	"github.com/ackledger/ackledger/sqs"
	"github.com/ackledger/ackledger/sqs/sqstest"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
)

// region is a transport to a region of another name. It notes what was asked for.
type region struct {
	mu    sync.Mutex
	asked map[string]int // by action
}

func (r *region) RoundTrip(q *http.Request) (*http.Response, error) {
	r.mu.Lock()
	r.asked[strings.TrimPrefix(q.Header.Get("X-Amz-Target"), "AmazonSQS.")]++
	r.mu.Unlock()
	resp, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(bytes.ReplaceAll(body, []byte(":us-east-1:"), []byte(":eu-west-1:"))))
	return resp, err
}

func (r *region) count(action string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked[action]
}

// Dead letters of one region, replayed with a client of another: a queue there had the name of theirs, and got them.
func TestQueueOfAnotherRegion(t *testing.T) {
	t.Parallel()
	eu, us, bodies := newQueues(t, false), newQueues(t, false), numbered(20)
	there := &region{asked: map[string]int{}}
	eu.client = awssqs.New(eu.client.Options(), func(o *awssqs.Options) { o.HTTPClient = &http.Client{Transport: there} })
	eu.fail(bodies)
	home := func(q *queues) replay.Target {
		target, err := sqs.NewReplayTarget(q.client)
		if err != nil {
			t.Fatal(err)
		}
		return target
	}
	dry := func(c *replay.Config) { c.DryRun, c.By = true, ledger.By{} }
	none := func(what string, report replay.Report) {
		t.Helper()
		if report.Replayed != 0 || report.Refused != 20 || us.server.Counts(us.names[0]).Depth() != 0 || eu.server.Counts(eu.names[1]).Depth() != 20 {
			t.Errorf("%s: %+v", what, report)
		}
	}
	none("dry", eu.replay(replay.Archive(eu.ledger), home(us), dry))
	report := eu.replay(replay.Archive(eu.ledger), home(us))
	none("archive", report)
	if why := fmt.Sprint(report.Samples); !strings.Contains(why, eu.arn(eu.names[0])) || !strings.Contains(why, us.arn(us.names[0])) {
		t.Errorf("refused because %q", why)
	}
	none("queue", eu.replay(eu.fromQueue(), home(us)))
	eu.server.ExpireVisibility(eu.names[1])
	if _, err := us.client.DeleteQueue(t.Context(), &awssqs.DeleteQueueInput{QueueUrl: &us.source}); err != nil {
		t.Fatal(err)
	}
	none("no such queue", eu.replay(replay.Archive(eu.ledger), home(us), dry))

	before := there.count("GetQueueUrl")
	if report := eu.replay(replay.Archive(eu.ledger), home(eu), dry); report.Replayed != 20 || there.count("GetQueueUrl") != before+1 {
		t.Errorf("dry run to its own region: %+v, asked %d times", report, there.count("GetQueueUrl")-before)
	}
	eu.server.Inject(sqstest.Fault{Action: "GetQueueUrl", Status: http.StatusServiceUnavailable, Times: 4}) // the SDK asks three times
	if report := eu.replay(eu.fromQueue(), home(eu)); report.Replayed != 20 || !report.Complete() {
		t.Errorf("to its own region: %+v", report)
	}
	eu.worker()
	eventually(t, "all are handled", func() bool { return eu.book.count() == 20 && eu.server.Counts(eu.names[0]).Depth() == 0 })
	eu.book.eachOnce(t, bodies)
}
