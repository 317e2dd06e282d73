package sqs

import (
	"context"
	"encoding/binary"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/visibility"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/replay"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// quickDelete answers deletes at once, and notes when they came.
type quickDelete struct {
	API
	mu    sync.Mutex
	sizes []int
	came  []time.Time
}

func (q *quickDelete) DeleteMessageBatch(_ context.Context, in *sqs.DeleteMessageBatchInput, _ ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sizes, q.came = append(q.sizes, len(in.Entries)), append(q.came, time.Now())
	out := &sqs.DeleteMessageBatchOutput{}
	for _, e := range in.Entries {
		out.Successful = append(out.Successful, types.DeleteMessageBatchResultEntry{Id: e.Id})
	}
	return out, nil
}

// A full request of deletes goes at once, a smaller one waits a moment for more.
func TestFullRequestOfDeletesGoesAtOnce(t *testing.T) {
	for n, wait := range map[int]time.Duration{maxBatch: 0, maxBatch - 1: deleteLinger} {
		synctest.Test(t, func(t *testing.T) {
			api := &quickDelete{}
			w := &Worker{client: api, base: t.Context(), table: newTable(30*time.Second, maxVisibility, false)}
			for i := range n {
				h := newHold(raw(strconv.Itoa(i), "h"), false)
				w.table.use(func(v *visibility.Table) {
					v.Receive(&h.Hold, 0, 0)
					v.Ack(&h.Hold)
				})
			}
			began := time.Now()
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				time.Sleep(time.Second)
				cancel()
			}()
			w.deleteLoop(ctx)
			if len(api.sizes) != 1 || api.sizes[0] != n || api.came[0].Sub(began) != wait {
				t.Errorf("%d deletes: requests of %v at %v, want one after %s", n, api.sizes, api.came, wait)
			}
		})
	}
}

// Without anything to ask for the loop waits before it looks again; after polls that failed one is opened, and not as many as before.
func TestPollsAreFewAfterAFailure(t *testing.T) {
	p, now := newPoller(8, 1000), time.Now()
	if n, wait := p.ask(situation{}, 1<<30, now); n != 0 || wait != lookAgain {
		t.Errorf("without a free handler: %d, again after %s", n, wait)
	}
	wide := situation{slots: 1000, room: 1000}
	for range 4 {
		n, _ := p.ask(wide, 1<<30, now)
		p.answered(n, n, 10_000)
	}
	n, _ := p.ask(wide, 1<<30, now)
	p.failed(n, now)
	now = now.Add(time.Minute)
	open := 0
	for n := 1; n > 0; {
		if n, _ = p.ask(wide, 1<<30, now); n > 0 {
			open++
		}
	}
	if open != 1 {
		t.Errorf("%d polls after one that failed, want 1", open)
	}
}

// A queue that does not say how long it keeps messages may keep them for as long as SQS does.
func TestDeadLetterQueueThatSaysNothing(t *testing.T) {
	q := &DeadLetterQueue{client: quiet{}, url: "https://sqs/dead"}
	if keeps, err := q.Retention(t.Context()); err != nil || keeps != maxRetention {
		t.Errorf("%s, %v, want %s", keeps, err, maxRetention)
	}
}

// quiet has no attributes.
type quiet struct{ DeadLetterAPI }

func (quiet) GetQueueAttributes(context.Context, *sqs.GetQueueAttributesInput, ...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error) {
	return &sqs.GetQueueAttributesOutput{}, nil
}

// The longest id that the ledger takes is that of a copy; a longer one is none of ours.
func TestCopyOfTheLongestID(t *testing.T) {
	for n, counts := range map[int]bool{ledger.MaxID: true, ledger.MaxID + 1: false} {
		stamp := consumer.NewStamp("source", strings.Repeat("x", n), []byte("body"))
		m := &types.Message{MessageAttributes: map[string]types.MessageAttributeValue{consumer.StampName: {StringValue: aws.String(stamp.String())}}}
		d := &consumer.DeadLetter{Message: consumer.Message{Source: "source", Body: []byte("body")}}
		if s := stampOf(m, d); (s != nil) != counts {
			t.Errorf("an id of %d bytes: %+v", n, s)
		}
	}
}

// endless is a queue that has a new message for each poll.
type endless struct {
	ReplayAPI
	n atomic.Int64
}

func (e *endless) ReceiveMessage(context.Context, *sqs.ReceiveMessageInput, ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error) {
	return &sqs.ReceiveMessageOutput{Messages: []types.Message{raw("new "+strconv.FormatInt(e.n.Add(1), 10), "h")}}, nil
}

func (e *endless) GetQueueAttributes(context.Context, *sqs.GetQueueAttributesInput, ...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error) {
	return &sqs.GetQueueAttributesOutput{}, nil
}

// Whoever stops in the middle of a replay receives no more: what is received is hidden from everybody for a while.
func TestReplayThatIsLeftReceivesNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &endless{}
		s := &ReplaySource{client: api, url: "https://sqs/dead", hide: replayHide}
		for _, err := range s.Letters(t.Context(), &ledger.Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		if n := api.n.Load(); n > 2*replayPollers {
			t.Errorf("received %d times", n)
		}
	})
}

// A run remembers what it leaves, up to a bound; beyond it the run ends, and says why.
func TestReplayRemembersNoMore(t *testing.T) {
	t.Parallel()
	seen := make(map[string]*inHand, maxSeen+1)
	for i := range maxSeen {
		seen[string(binary.NativeEndian.AppendUint32(nil, uint32(i)))] = nil
	}
	s := &ReplaySource{client: &endless{}, url: "https://sqs/dead", hide: replayHide, seen: seen}
	if err := s.poll(t.Context(), nil); err == nil || !strings.Contains(err.Error(), strconv.Itoa(maxSeen)) {
		t.Errorf("%v", err)
	}
}

// A queue is looked for in the account that its ARN names; in the client's own if it names none.
func TestReplayLooksInTheAccountOfTheARN(t *testing.T) {
	for account, want := range map[string]*string{"": nil, "123": aws.String("123")} {
		api := &owned{scripted: scripted{attributes: map[string]string{"QueueArn": "arn:aws:sqs:r:" + account + ":q"}}}
		target := &ReplayTarget{client: api}
		if _, err := target.ask(t.Context(), "arn:aws:sqs:r:"+account+":q"); err != nil || aws.ToString(api.account) != account || (api.account == nil) != (want == nil) {
			t.Errorf("account %q: asked for %v, %v", account, api.account, err)
		}
	}
}

type owned struct {
	scripted
	account *string
}

func (o *owned) GetQueueUrl(_ context.Context, in *sqs.GetQueueUrlInput, _ ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error) {
	o.account = in.QueueOwnerAWSAccountId
	return &sqs.GetQueueUrlOutput{QueueUrl: aws.String("https://sqs/q")}, nil
}

// refusing refuses the entries with one body, each by itself and for good.
type refusing struct {
	ReplayAPI
	body string
	sent []string
}

func (r *refusing) SendMessageBatch(_ context.Context, in *sqs.SendMessageBatchInput, _ ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error) {
	out := &sqs.SendMessageBatchOutput{}
	for _, e := range in.Entries {
		if body := aws.ToString(e.MessageBody); body == r.body {
			out.Failed = append(out.Failed, types.BatchResultErrorEntry{Id: e.Id, Code: aws.String("InvalidMessageContents"), SenderFault: true})
		} else {
			out.Successful, r.sent = append(out.Successful, types.SendMessageBatchResultEntry{Id: e.Id}), append(r.sent, body)
		}
	}
	return out, nil
}

// What is refused by itself holds back the next ones of its group, and nothing else: no message of a queue without groups.
func TestReplayHoldsBackTheGroupAlone(t *testing.T) {
	for suffix, want := range map[string]int{"": 2 * maxBatch, ".fifo": 2*maxBatch + 1 - 3} {
		api := &refusing{body: "a 0"}
		arn := "arn:aws:sqs:r:1:q" + suffix
		target := &ReplayTarget{client: api, homes: map[string]func() (home, error){arn: func() (home, error) { return home{url: "https://sqs/q" + suffix}, nil }}}
		var letters []*replay.Letter
		for i := range 2*maxBatch + 1 {
			l := &replay.Letter{}
			l.Message.Source, l.Message.Body, l.Message.ID, l.Message.Group = arn, []byte("b "+strconv.Itoa(i)), strconv.Itoa(i), "b"+strconv.Itoa(i)
			if i%maxBatch == 0 {
				l.Message.Body, l.Message.Group = []byte("a "+strconv.Itoa(i)), "a"
			}
			letters = append(letters, l)
		}
		behind := 0
		for i, r := range target.Send(t.Context(), letters) {
			if r.Reason == replay.Behind {
				behind++
			}
			if i == 0 && r.Err == nil {
				t.Errorf("%q: what is refused counts as sent: %+v", suffix, r)
			}
		}
		if len(api.sent) != want || behind != 2*maxBatch-want {
			t.Errorf("%q: %d are sent, %d wait behind, want %d and %d: %q", suffix, len(api.sent), behind, want, 2*maxBatch-want, api.sent)
		}
	}
}

// A worker that ends twice says so.
func TestWorkerEndsOnce(t *testing.T) {
	s := newSite(t, "", 100)
	w := s.worker(nothing, nil)
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(t.Context()))
	defer cancel(nil)
	w.stop, w.base = cancel, context.WithoutCancel(t.Context())
	if err := w.begin(ctx); err != nil {
		t.Fatal(err)
	}
	if err := w.closeEngine(); err != nil {
		t.Fatal(err)
	}
	if err := w.closeEngine(); err == nil || !strings.HasPrefix(err.Error(), "sqs: ") {
		t.Errorf("the second time: %v", err)
	}
}
