package cases

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"golang.org/x/sync/errgroup"

	"github.com/ackledger/ackledger/bench/internal/suite"
	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/sqs"
	"github.com/ackledger/ackledger/sqs/sqstest"
)

// sqsBroker gives a client of some SQS server, whose calls take their time only after slow was called.
type sqsBroker func(ctx context.Context, r *suite.Run) (client *awssqs.Client, slow func(), err error)

const (
	pollers   = 10  // sqs.DefaultMaxPollers
	sqsInHand = 100 // what they hold at most: ten messages each
)

func sqsCases() []suite.Case {
	var out []suite.Case
	for _, s := range []struct {
		group  string
		note   string
		broker sqsBroker
		n      suite.Size
	}{
		{"sqs, ElasticMQ", "", elasticMQ, suite.Size{Full: 20_000, Quick: 1000}},
		{"sqs, sqstest 0 ms", "server in the same process; ", stub(0), suite.Size{Full: 50_000, Quick: 8000}},
		{"sqs, sqstest 20 ms", "server in the same process, each call delayed by 20 ms; ", stub(20 * time.Millisecond), suite.Size{Full: 20_000, Quick: 1500}},
	} {
		out = append(out,
			suite.Case{Group: s.group, Name: "bare loop", N: s.n, Note: s.note + "10 loops of ReceiveMessage (10), then DeleteMessageBatch", Run: sqsBare(s.broker, false)},
			suite.Case{Group: s.group, Name: "bare loop, deletes apart", N: s.n, Note: s.note + "10 loops of ReceiveMessage (10), and 10 of DeleteMessageBatch", Run: sqsBare(s.broker, true)},
			suite.Case{Group: s.group, Name: "ours, memory", N: s.n, Note: s.note + "default settings, no-op handler",
				Run: sqsOurs(s.broker, func(context.Context, *suite.Run) (ledger.Ledger, error) { return memory.New(), nil })},
			suite.Case{Group: s.group, Name: "ours, rows", N: s.n, Note: s.note + "PostgreSQL ledger, default settings, no-op handler",
				Run: sqsOurs(s.broker, func(ctx context.Context, r *suite.Run) (ledger.Ledger, error) { return freshRows(ctx, r, 1) })},
		)
	}
	return append(out, suite.Case{Group: "sqs, sqstest 0 ms", Name: "ours, ledger alone", N: suite.Size{Full: 50_000, Quick: 8000},
		Note: fmt.Sprintf("PostgreSQL, %d callers: what 10 pollers hold", sqsInHand), Run: ledgerAlone})
}

// ledgerAlone is what the ledger costs without a broker.
func ledgerAlone(ctx context.Context, r *suite.Run) (suite.Result, error) {
	l, err := freshRows(ctx, r, 1)
	if err != nil {
		return nil, err
	}
	return joined(ctx, l, func(o ledger.Owner) (suite.Result, error) { return callers(ctx, o, sqsInHand, r.N) })
}

// elasticMQ starts ElasticMQ, or takes the server that the environment names, once.
func elasticMQ(ctx context.Context, r *suite.Run) (*awssqs.Client, func(), error) {
	endpoint, err := suite.Once(r.All, "ElasticMQ", func() (string, func() error, error) {
		if named := os.Getenv(services.EnvSQS); named != "" {
			r.All.Note("SQS", "the server named in "+services.EnvSQS)
			return named, nil, nil
		}
		server, err := services.StartElasticMQ(ctx)
		if err != nil {
			return "", nil, err
		}
		r.All.Note("SQS", "ElasticMQ, of the version in internal/services/elasticmq/pom.xml")
		return server.Endpoint(), server.Close, nil
	})
	if err != nil {
		return nil, nil, err
	}
	if endpoint == "aws" {
		return nil, nil, fmt.Errorf("%s=aws: the benchmark does not run on AWS", services.EnvSQS)
	}
	client := newSQSClient(endpoint)
	_, err = suite.Once(r.All, "warm ElasticMQ", func() (struct{}, func() error, error) { return struct{}{}, nil, warm(ctx, r, client) })
	return client, func() {}, err
}

// warmest is how often warm runs the bare loop at most.
const warmest = 10

// warm runs the bare loop until it gets no faster: a server in Java compiles what it is asked again and again, and what is
// measured first would else be measured slowest, three times slower than what comes last.
func warm(ctx context.Context, r *suite.Run, client *awssqs.Client) error {
	loop := sqsBare(func(context.Context, *suite.Run) (*awssqs.Client, func(), error) { return client, func() {}, nil }, false)
	best := 0.0
	for runs, still := 0, 0; runs < warmest && still < 2; runs++ {
		res, err := loop(ctx, r)
		if err != nil {
			return err
		}
		if rate := res[suite.Rate]; rate > 1.1*best {
			best, still = rate, 0
		} else {
			still++
		}
	}
	return nil
}

// newSQSClient makes the client of all rows, bare ones and ours: with the SDK's own, a loop that lost an answer stood still.
func newSQSClient(endpoint string) *awssqs.Client {
	return awssqs.New(awssqs.Options{BaseEndpoint: &endpoint, Region: "us-east-1", HTTPClient: sqstest.HTTPClient(),
		Credentials: credentials.NewStaticCredentialsProvider("bench", "bench", "")})
}

// stub is sqstest with a delay in each call.
func stub(delay time.Duration) sqsBroker {
	return func(_ context.Context, r *suite.Run) (*awssqs.Client, func(), error) {
		server, err := sqstest.New(nil)
		if err != nil {
			return nil, nil, err
		}
		r.Cleanup(func() error { server.Close(); return nil })
		return server.Client(), func() {
			if delay > 0 {
				server.Inject(sqstest.Fault{Times: -1, Delay: delay})
			}
		}, nil
	}
}

// emptyQueue makes a queue for one run.
func emptyQueue(ctx context.Context, r *suite.Run, client *awssqs.Client) (string, error) {
	made, err := client.CreateQueue(ctx, &awssqs.CreateQueueInput{QueueName: aws.String("bench-" + newName()),
		Attributes: map[string]string{"VisibilityTimeout": "300"}})
	if err != nil {
		return "", err
	}
	r.Cleanup(func() error {
		_, err := client.DeleteQueue(context.Background(), &awssqs.DeleteQueueInput{QueueUrl: made.QueueUrl})
		return err
	})
	return *made.QueueUrl, nil
}

// stubQueue is an empty queue of a server in the same process.
func stubQueue(ctx context.Context, r *suite.Run) (client *awssqs.Client, url string, err error) {
	if client, _, err = stub(0)(ctx, r); err == nil {
		url, err = emptyQueue(ctx, r, client)
	}
	return client, url, err
}

// newQueue makes a queue with n messages of 200 B, deleted after the run.
func newQueue(ctx context.Context, r *suite.Run, client *awssqs.Client) (string, error) {
	url, err := emptyQueue(ctx, r, client)
	if err != nil {
		return "", err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for from := 0; from < r.N; from += 10 {
		g.Go(func() error {
			in := &awssqs.SendMessageBatchInput{QueueUrl: &url}
			for i := from; i < min(from+10, r.N); i++ {
				body := fmt.Sprintf(`{"order":%d,"x":"`, i)
				body += strings.Repeat("x", bodySize-2-len(body)) + `"}`
				in.Entries = append(in.Entries, types.SendMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), MessageBody: &body})
			}
			out, err := client.SendMessageBatch(ctx, in)
			if err == nil && len(out.Failed) > 0 {
				err = fmt.Errorf("send: %s", aws.ToString(out.Failed[0].Message))
			}
			return err
		})
	}
	return url, g.Wait()
}

// meter is the client of all rows: the clock runs from the first receive until n messages are deleted.
type meter struct {
	sqs.API
	left  atomic.Int64
	first atomic.Int64
	took  time.Duration
	done  chan struct{}
}

func newMeter(client sqs.API, n int) *meter {
	m := &meter{API: client, done: make(chan struct{})}
	m.left.Store(int64(n))
	return m
}

// ReceiveMessage implements sqs.API.
func (m *meter) ReceiveMessage(ctx context.Context, in *awssqs.ReceiveMessageInput, o ...func(*awssqs.Options)) (*awssqs.ReceiveMessageOutput, error) {
	m.first.CompareAndSwap(0, time.Now().UnixNano())
	return m.API.ReceiveMessage(ctx, in, o...)
}

// DeleteMessageBatch implements sqs.API.
func (m *meter) DeleteMessageBatch(ctx context.Context, in *awssqs.DeleteMessageBatchInput, o ...func(*awssqs.Options)) (*awssqs.DeleteMessageBatchOutput, error) {
	out, err := m.API.DeleteMessageBatch(ctx, in, o...)
	if err == nil && len(out.Successful) > 0 {
		n := int64(len(out.Successful))
		if left := m.left.Add(-n); left <= 0 && left > -n {
			m.took = time.Duration(time.Now().UnixNano() - m.first.Load())
			close(m.done)
		}
	}
	return out, err
}

// sqsBare receives and deletes until nothing is left, with as many receivers as ours. Each deletes what it has received
// before it receives again, or, apart, hands it to one of as many deleters.
func sqsBare(broker sqsBroker, apart bool) func(context.Context, *suite.Run) (suite.Result, error) {
	return func(ctx context.Context, r *suite.Run) (suite.Result, error) {
		client, slow, err := broker(ctx, r)
		if err != nil {
			return nil, err
		}
		url, err := newQueue(ctx, r, client)
		if err != nil {
			return nil, err
		}
		slow()
		m := newMeter(client, r.N)
		receivers, ctx := errgroup.WithContext(ctx)
		deleters, ctx := errgroup.WithContext(ctx)
		deleters.SetLimit(pollers)
		for range pollers {
			receivers.Go(func() error {
				for idle := 0; m.left.Load() > 0; idle++ {
					got, err := receive(ctx, m, url)
					if err != nil {
						return err
					}
					if len(got) > 0 {
						idle = 0
					}
					if idle == patience {
						return m.stands(ctx, url)
					}
					if !apart {
						if err := remove(ctx, m, url, got); err != nil {
							return err
						}
						continue
					}
					deleters.Go(func() error { return remove(ctx, m, url, got) })
				}
				return nil
			})
		}
		if err := errors.Join(receivers.Wait(), deleters.Wait()); err != nil {
			return nil, err
		}
		return suite.Throughput(r.N, m.took), nil
	}
}

// patience is how many empty receives of a second each are taken for the end of all hope: a receive whose answer was lost
// on its way leaves its messages invisible for five minutes.
const patience = 30

// stands says what is left of a queue that gives nothing out any more.
func (m *meter) stands(ctx context.Context, url string) error {
	out, err := m.GetQueueAttributes(ctx, &awssqs.GetQueueAttributesInput{QueueUrl: &url,
		AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll}})
	if err != nil {
		return err
	}
	return fmt.Errorf("%d messages are not deleted, and none comes: %s visible, %s in flight", m.left.Load(),
		out.Attributes[string(types.QueueAttributeNameApproximateNumberOfMessages)],
		out.Attributes[string(types.QueueAttributeNameApproximateNumberOfMessagesNotVisible)])
}

func receive(ctx context.Context, client sqs.API, url string) ([]types.Message, error) {
	got, err := client.ReceiveMessage(ctx, &awssqs.ReceiveMessageInput{QueueUrl: &url, MaxNumberOfMessages: 10, WaitTimeSeconds: 1,
		MessageAttributeNames: []string{"All"}, MessageSystemAttributeNames: []types.MessageSystemAttributeName{"All"}})
	if err != nil {
		return nil, err
	}
	return got.Messages, nil
}

func remove(ctx context.Context, client sqs.API, url string, messages []types.Message) error {
	if len(messages) == 0 {
		return nil
	}
	in := &awssqs.DeleteMessageBatchInput{QueueUrl: &url}
	for i, msg := range messages {
		in.Entries = append(in.Entries, types.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: msg.ReceiptHandle})
	}
	out, err := client.DeleteMessageBatch(ctx, in)
	if err == nil && len(out.Failed) > 0 {
		err = fmt.Errorf("delete: %s", aws.ToString(out.Failed[0].Message))
	}
	return err
}

func sqsOurs(broker sqsBroker, open func(context.Context, *suite.Run) (ledger.Ledger, error)) func(context.Context, *suite.Run) (suite.Result, error) {
	return func(ctx context.Context, r *suite.Run) (suite.Result, error) {
		l, err := open(ctx, r)
		if err != nil {
			return nil, err
		}
		client, slow, err := broker(ctx, r)
		if err != nil {
			return nil, err
		}
		url, err := newQueue(ctx, r, client)
		if err != nil {
			return nil, err
		}
		slow()
		m := newMeter(client, r.N)
		w, err := sqs.NewWorker(m, url, l, consumer.HandlerFunc(noop), &sqs.Config{Options: consumer.Options{Name: "bench"}, WaitTime: time.Second})
		if err != nil {
			return nil, err
		}
		running, stop := context.WithCancel(ctx)
		defer stop()
		go func() {
			select {
			case <-m.done:
			case <-running.Done():
			}
			stop()
		}()
		if err := w.Run(running); err != nil {
			return nil, err
		}
		if left := m.left.Load(); left > 0 {
			return nil, errors.Join(fmt.Errorf("%d of %d messages were not deleted", left, r.N), ctx.Err())
		}
		return suite.Throughput(r.N, m.took), nil
	}
}
