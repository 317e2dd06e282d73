package cases

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"golang.org/x/sync/errgroup"

	"github.com/ackledger/ackledger/bench/internal/suite"
	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/sqs"
)

const (
	tenantGroup = "tenants, 10 messages/s each"
	tenantWork  = 20 * time.Millisecond
	tenantRound = 100 * time.Millisecond // in each of which each quiet tenant sends one
	quiet       = 9
	noisyOf     = 100 // times the load of a quiet one
)

// tenantCases time the messages of 9 tenants, from when they were due until they are handled, beside a tenth with a hundred times the load
// of one of them, which is more than the handlers can do.
func tenantCases() []suite.Case {
	n := suite.Size{Full: 1800, Quick: 450, Smoke: 27}
	const note = "sqstest 0 ms, in the same process, memory ledger; 16 handlers that take 20 ms; of 9 tenants together"
	return []suite.Case{
		{Group: tenantGroup, Name: "alone", Main: suite.P99, N: n, Note: note, Run: tenants(0, 8)},
		{Group: tenantGroup, Name: "beside 1,000/s of another, FairShare 8", Main: suite.P99, N: n, Note: note, Run: tenants(noisyOf, 8)},
		{Group: tenantGroup, Name: "beside 1,000/s of another", Main: suite.P99, N: n, Note: note + "; no FairShare", Run: tenants(noisyOf, 0)},
	}
}

// sentOf is the body of a message: whose it is, and when it was due.
func sentOf(m *consumer.Message) (tenant string, due time.Time, err error) {
	tenant, text, _ := strings.Cut(string(m.Body), " ")
	at, err := strconv.ParseInt(text, 10, 64)
	return tenant, time.Unix(0, at), err
}

// arrivals are how long n messages took from when they were due. It is safe for concurrent use.
type arrivals struct {
	n   int
	all chan struct{} // closed with the last one

	mu   sync.Mutex
	took []time.Duration
}

func (a *arrivals) came(due time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.took = append(a.took, time.Since(due)); len(a.took) == a.n {
		close(a.all)
	}
}

func (a *arrivals) result() suite.Result {
	a.mu.Lock()
	defer a.mu.Unlock()
	return suite.Result{suite.P50: suite.Quantile(a.took, 0.5) / ms, suite.P99: suite.Quantile(a.took, 0.99) / ms}
}

func tenants(noisy, share int) func(context.Context, *suite.Run) (suite.Result, error) {
	return func(ctx context.Context, r *suite.Run) (suite.Result, error) {
		client, url, err := stubQueue(ctx, r)
		if err != nil {
			return nil, err
		}
		times := &arrivals{n: r.N, all: make(chan struct{})}
		handler := consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
			tenant, due, err := sentOf(m)
			if err != nil {
				return consumer.Terminal(err)
			}
			time.Sleep(tenantWork)
			if tenant == "noisy" {
				return nil
			}
			times.came(due)
			return nil
		})
		w, err := sqs.NewWorker(client, url, memory.New(), handler, &sqs.Config{Options: consumer.Options{Name: "bench", FairShare: share, Drain: time.Second}})
		if err != nil {
			return nil, err
		}
		running, stop := context.WithCancel(ctx)
		defer stop()
		ended := make(chan error, 1)
		go func() { ended <- w.Run(running) }()
		err = sendTenants(ctx, client, url, r.N/quiet, noisy)
		select {
		case <-times.all:
		case e := <-ended:
			err = errors.Join(err, e, errors.New("the worker has ended before it had all"))
		case <-ctx.Done():
			err = errors.Join(err, ctx.Err())
		}
		stop()
		return times.result(), err
	}
}

// sendTenants sends so many rounds of one message of each quiet tenant, and beside them, in batches of 10 as well, so many times the
// messages of one of them.
func sendTenants(ctx context.Context, client *awssqs.Client, url string, rounds, noisy int) error {
	g, ctx := errgroup.WithContext(ctx)
	var names []string
	for q := range quiet {
		names = append(names, "quiet-"+strconv.Itoa(q))
	}
	g.Go(func() error { return sendEvery(ctx, client, url, rounds, tenantRound, names...) })
	if noisy > 0 {
		g.Go(func() error { return sendLoad(ctx, client, url, rounds, noisy) })
	}
	return g.Wait()
}

// sendLoad sends, in batches of 10, so many times the messages of a quiet tenant in so many rounds.
func sendLoad(ctx context.Context, client *awssqs.Client, url string, rounds, times int) error {
	return sendEvery(ctx, client, url, rounds*times/10, tenantRound*10/time.Duration(times), slices.Repeat([]string{"noisy"}, 10)...)
}

// sendEvery sends a message of each name n times, at equal intervals.
func sendEvery(ctx context.Context, client *awssqs.Client, url string, n int, every time.Duration, names ...string) error {
	begin := time.Now()
	for i := range n {
		due := begin.Add(time.Duration(i) * every)
		select {
		case <-time.After(time.Until(due)):
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := sendDue(ctx, client, url, due, names); err != nil {
			return err
		}
	}
	return nil
}

func sendDue(ctx context.Context, client *awssqs.Client, url string, due time.Time, names []string) error {
	in := &awssqs.SendMessageBatchInput{QueueUrl: &url}
	for i, name := range names {
		in.Entries = append(in.Entries, types.SendMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), MessageGroupId: &name,
			MessageBody: aws.String(fmt.Sprintf("%s %d", name, due.UnixNano()))})
	}
	out, err := client.SendMessageBatch(ctx, in)
	if err == nil && len(out.Failed) > 0 {
		err = fmt.Errorf("send: %s", aws.ToString(out.Failed[0].Message))
	}
	return err
}
