package replay_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/kafka"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/replay"
	"github.com/ackledger/ackledger/sqs"
	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A run with fresh keys that is killed between the renewal and the send: the same call goes on with the rest.
func TestFreshKeysKilledBeforeTheSend(t *testing.T) {
	t.Parallel()
	fresh := func(c *replay.Config) { c.FreshKeys = true }
	t.Run("queue", func(t *testing.T) {
		t.Parallel()
		q, bodies := newQueues(t, false), numbered(1)
		q.fail(bodies)
		q.replay(q.fromQueue(), &cutTarget{Target: q.toSource()}, fresh)
		q.server.ExpireVisibility(q.names[1])
		report := q.replay(q.fromQueue(), q.toSource(), fresh)
		t.Logf("source %d, dlq %d", q.server.Counts(q.names[0]).Depth(), q.server.Counts(q.names[1]).Depth())
		if report.Replayed != 1 {
			t.Errorf("%+v", report)
		}
		q.worker()
		eventually(t, "it is handled", func() bool { return q.book.count() == 1 })
	})
	t.Run("topic", func(t *testing.T) {
		t.Parallel()
		s, bodies := newTopics(t), numbered(1)
		s.fail(s.records(bodies))
		s.replay(s.fromTopic(), &cutTarget{Target: s.toSource()}, fresh)
		if report := s.replay(s.fromTopic(), s.toSource()); report.Replayed != 1 {
			t.Errorf("%+v", report)
		}
	})
}

// staleDate is a transport whose answers name a time that is a little old, as servers do that make it once for many answers.
type staleDate struct{}

func (staleDate) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil {
		resp.Header.Set("Date", time.Now().Add(-2*time.Second).UTC().Format(http.TimeFormat))
	}
	return resp, err
}

// A queue whose answers named a time of a second ago had its youngest dead letters left to the next run.
func TestLettersOfTheLastSecond(t *testing.T) {
	t.Parallel()
	q := newQueues(t, false)
	q.fail(numbered(5))
	client := awssqs.New(q.client.Options(), func(o *awssqs.Options) { o.HTTPClient = &http.Client{Transport: staleDate{}} })
	src, err := sqs.NewReplaySource(client, q.dlq, 0)
	if err != nil {
		t.Fatal(err)
	}
	if report := q.replay(src, q.toSource()); report.Replayed != 5 {
		t.Errorf("%+v", report)
	}
}

// FIFO order holds in a run that is slower than the visibility.
func TestFifoOrderOfASlowRun(t *testing.T) {
	t.Parallel()
	q := newQueues(t, true)
	bodies := numbered(20)
	q.book.breakAll()
	for _, body := range bodies {
		q.send(q.source, awssqs.SendMessageInput{MessageBody: &body, MessageGroupId: aws.String("g"), MessageDeduplicationId: aws.String(rand.Text())})
	}
	stop := q.worker()
	eventually(t, "all are dead letters", func() bool {
		return q.server.Counts(q.names[1]).Depth() == len(bodies) && q.server.Counts(q.names[0]).Depth() == 0
	})
	stop()
	q.book.mend()
	src, err := sqs.NewReplaySource(q.client, q.dlq, 4*time.Second) // of a run of 6 s
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	h := consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
		got = append(got, string(m.Body))
		time.Sleep(300 * time.Millisecond)
		return nil
	})
	q.replay(src, inPlace(t, "shop", h))
	if strings.Join(got, " ") != strings.Join(bodies, " ") {
		t.Errorf("order:\n%s", strings.Join(got, "\n"))
	}
}

// onlyLong leaves to the long run what waits for longer than the reader of a topic does.
func onlyLong(t *testing.T) {
	if os.Getenv("ACKLEDGER_LONG") == "" {
		t.Skip("waits for half a minute: make test-long runs it")
	}
}

// slowTarget takes everything, and pauses once.
type slowTarget struct {
	sent, at int
	pause    time.Duration
}

func (*slowTarget) String() string                            { return "slow" }
func (*slowTarget) Begin(context.Context, replay.Begin) error { return nil }
func (*slowTarget) Accept(*replay.Letter) error               { return nil }
func (*slowTarget) Most() int                                 { return 1 }
func (*slowTarget) End(context.Context) error                 { return nil }
func (s *slowTarget) Send(_ context.Context, l []*replay.Letter) []replay.Result {
	out := make([]replay.Result, len(l))
	for i := range out {
		if s.sent++; s.sent == s.at {
			time.Sleep(s.pause)
		}
		out[i].Outcome = replay.Sent
	}
	return out
}

// A slow target does not end the reading of a topic.
func TestTopicIsReadToItsEndBySlowRuns(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	s := newTopics(t)
	const n = 1500
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = &kgo.Record{Topic: s.dlq, Partition: 0, Key: []byte("k"), Value: fmt.Appendf(nil, "order %d", i)}
		if err := kafka.StampRecord(records[i], "cluster/orders", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	s.produce(records...)
	report := s.replay(s.fromTopic(), &slowTarget{at: 998, pause: 32 * time.Second}, func(c *replay.Config) {
		c.Concurrency, c.Unknown, c.Consumer = 1, true, "shop"
	})
	if report.Replayed != n {
		t.Errorf("complete: %v, replayed %d of %d", report.Complete(), report.Replayed, n)
	}
}

// A mended body that the target does not take changes nothing, and another one can be tried.
func TestMendedBodyThatTheTargetDoesNotTake(t *testing.T) {
	t.Parallel()
	q := newQueues(t, false)
	q.fail([]string{"order: 1O cents"})
	mend := func(body string) func(*replay.Config) {
		return func(c *replay.Config) {
			for d, err := range q.ledger.DeadLetters(t.Context(), ledger.Filter{}) {
				if err != nil {
					t.Error(err)
					return
				}
				c.Filter.IDs = [][]byte{d.Key.ID}
			}
			c.Mend, c.Body = true, []byte(body)
		}
	}
	for _, body := range []string{"", "\x00", strings.Repeat("x", 1<<20)} {
		if report := q.replay(replay.Archive(q.ledger), q.toSource(), mend(body)); report.Refused != 1 {
			t.Errorf("%.10q: %+v", body, report)
		}
	}
	if report := q.replay(replay.Archive(q.ledger), q.toSource(), mend("order: 10 cents")); report.Replayed != 1 {
		t.Fatalf("%+v", report)
	}
	q.worker()
	eventually(t, "it is handled", func() bool { return q.book.count() == 1 })
	q.book.eachOnce(t, []string{"order: 10 cents"})
}

// Of a group, nothing overtakes what another replay in place has in hands.
func TestTwoReplaysInPlaceKeepAGroupsOrder(t *testing.T) {
	t.Parallel()
	l, b, begun, goOn := memory.New(), &book{}, make(chan struct{}), make(chan struct{})
	failed(t, l, 9)
	first := consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
		if m.ID == "id-0" {
			close(begun)
			<-goOn
		}
		return b.Handle(ctx, m)
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = replay.Run(t.Context(), l, replay.Archive(l), inPlace(t, "shop", first), replay.Config{By: by, Concurrency: 1})
	}()
	<-begun
	replayAll(t, l, replay.Archive(l), inPlace(t, "shop", b))
	for _, body := range b.bodies() {
		if body == "order 0003" || body == "order 0006" {
			t.Errorf("%q overtook order 0000, which is of its group", body)
		}
	}
	close(goOn)
	<-ended
	b.eachOnce(t, numbered(9))
}

// A broker that says nothing for a while is no end of the topic.
func TestSilentBrokerIsNoEnd(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "dead"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	r := &kgo.Record{Topic: "dead", Value: []byte("order")}
	if err := kafka.StampRecord(r, "cluster/orders", "1"); err != nil {
		t.Fatal(err)
	}
	if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
		t.Fatal(err)
	}
	cluster.ControlKey(1, func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		return nil, errors.New("the connection is cut"), true
	})
	src, err := kafka.NewReplaySource([]kgo.Opt{kgo.SeedBrokers(cluster.ListenAddrs()...)}, "dead")
	if err != nil {
		t.Fatal(err)
	}
	report, err := replay.Run(t.Context(), memory.New(), src, &slowTarget{}, replay.Config{By: by, Unknown: true, Consumer: "shop"})
	if err == nil && report.Complete() {
		t.Errorf("complete, with no error: %s", report.Text())
	}
	t.Log(err)
}

// The dead letter of a message whose body was mended since is no mismatch: nothing sends the bad body again.
func TestDeadLetterOfAMendedBody(t *testing.T) {
	t.Parallel()
	q := newQueues(t, false)
	q.fail([]string{"order: 1O cents"})
	mend := func(c *replay.Config) {
		for d, err := range q.ledger.DeadLetters(t.Context(), ledger.Filter{}) {
			if err != nil {
				t.Error(err)
				return
			}
			c.Filter.IDs = [][]byte{d.Key.ID}
		}
		c.Mend, c.Body = true, []byte("order: 10 cents")
	}
	mismatched := func(c *replay.Config) { c.Mismatched = true }
	q.replay(q.fromQueue(), &cutTarget{Target: q.toSource()}, mend)
	q.server.ExpireVisibility(q.names[1])
	if report := q.replay(q.fromQueue(), q.toSource(), mismatched); report.Left != 1 || q.server.Counts(q.names[0]).Depth() != 0 {
		t.Errorf("the mended one is not sent yet: %+v", report)
	}
	q.server.ExpireVisibility(q.names[1])
	if report := q.replay(q.fromQueue(), &cutTarget{Target: q.toSource(), left: 0}, mend); report.Failed != 1 {
		t.Errorf("the same call does not go on: %+v", report)
	}
	q.replay(replay.Archive(q.ledger), q.toSource())
	q.worker()
	eventually(t, "it is handled", func() bool { return q.book.count() >= 1 && q.server.Counts(q.names[0]).Depth() == 0 })
	q.server.ExpireVisibility(q.names[1])
	if report := q.replay(q.fromQueue(), q.toSource(), mismatched); report.Succeeded != 1 || !report.Complete() {
		t.Errorf("%+v", report)
	}
	time.Sleep(time.Second)
	q.book.eachOnce(t, []string{"order: 10 cents"})
}
