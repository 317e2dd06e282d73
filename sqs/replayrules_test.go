package sqs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/replay"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
)

var (
	throttled = &smithy.GenericAPIError{Code: "RequestThrottled", Message: "slower"}
	hopeless  = &smithy.GenericAPIError{Code: "AccessDenied", Message: "never"}
	stale     = &smithy.GenericAPIError{Code: "ReceiptHandleIsInvalid", Message: "of old"}
)

// scripted answers as a test says, and counts.
type scripted struct {
	ReplayAPI
	receive    func(n int) ([]types.Message, error)
	delete     func(n int, in *sqs.DeleteMessageBatchInput) (*sqs.DeleteMessageBatchOutput, error)
	attributes map[string]string
	broken     error // of attributes
	n, asked   int
}

func (a *scripted) ReceiveMessage(context.Context, *sqs.ReceiveMessageInput, ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error) {
	a.n++
	messages, err := a.receive(a.n)
	return &sqs.ReceiveMessageOutput{Messages: messages}, err
}

func (a *scripted) DeleteMessageBatch(_ context.Context, in *sqs.DeleteMessageBatchInput, _ ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error) {
	a.n++
	return a.delete(a.n, in)
}

func (a *scripted) GetQueueAttributes(context.Context, *sqs.GetQueueAttributesInput, ...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error) {
	a.asked++
	return &sqs.GetQueueAttributesOutput{Attributes: a.attributes}, a.broken
}

func (a *scripted) GetQueueUrl(_ context.Context, in *sqs.GetQueueUrlInput, _ ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error) {
	return &sqs.GetQueueUrlOutput{QueueUrl: aws.String("https://sqs/" + aws.ToString(in.QueueName))}, nil
}

func depthOf(visible, hidden int) map[string]string {
	return map[string]string{
		"ApproximateNumberOfMessages": strconv.Itoa(visible), "ApproximateNumberOfMessagesNotVisible": strconv.Itoa(hidden),
	}
}

// TestReplayVisibility: whole seconds from one to twelve hours, and half a minute if nothing is said.
func TestReplayVisibility(t *testing.T) {
	for given, want := range map[time.Duration]time.Duration{
		0: replayHide, time.Second: time.Second, maxVisibility: maxVisibility, time.Second - 1: 0, maxVisibility + time.Second: 0,
		1500 * time.Millisecond: 0, -time.Second: 0,
	} {
		s, err := NewReplaySource(&scripted{}, "https://sqs/dead", given)
		if (err == nil) != (want != 0) || err == nil && s.hide != want {
			t.Errorf("%s: %+v, %v, want %s", given, s, err, want)
		}
	}
}

// TestReplayPollsSoOften: a poll that fails is repeated five times in a row at most, and one that never will succeed is not.
func TestReplayPollsSoOften(t *testing.T) {
	for name, c := range map[string]struct {
		fails func(n int) error
		calls int
		want  error
	}{
		"throttled": {func(int) error { return throttled }, replayTries, throttled},
		"refused":   {func(int) error { return hopeless }, 1, hopeless},
		"of old":    {func(int) error { return stale }, 1, stale},
		"four times, and once more after an answer": {func(n int) error {
			if n < replayTries || n == replayTries+1 {
				return throttled
			}
			return nil
		}, replayTries + 1 + 2*replayPollers - 1, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			api := &scripted{receive: func(n int) ([]types.Message, error) { return nil, c.fails(n) }}
			s := &ReplaySource{client: api, url: "https://sqs/dead", hide: replayHide, seen: map[string]*inHand{}}
			err := s.poll(t.Context(), nil)
			if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) || api.n != c.calls {
				t.Errorf("%s: %v after %d polls, want %v after %d", name, err, api.n, c.want, c.calls)
			}
		})
	}
}

// hopelessQueue is a queue that refuses whoever asks, also several at once.
type hopelessQueue struct{ scripted }

func (*hopelessQueue) ReceiveMessage(context.Context, *sqs.ReceiveMessageInput, ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error) {
	return nil, hopeless
}

// TestReplayEndsWithItsError: what ends a poll ends the letters, and so does a run that is cancelled.
func TestReplayEndsWithItsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &ReplaySource{client: &hopelessQueue{}, url: "https://sqs/dead", hide: replayHide}
		var got error
		for _, err := range s.Letters(t.Context(), &ledger.Filter{}) {
			got = err
		}
		if !errors.Is(got, hopeless) {
			t.Errorf("%v, want %v", got, hopeless)
		}
		reason := errors.New("the deploy")
		over, cancel := context.WithCancelCause(t.Context())
		cancel(reason)
		if err := s.poll(over, nil); !errors.Is(err, reason) {
			t.Errorf("cancelled: %v, want %v", err, reason)
		}
		if err := (turn{before: make(chan struct{}), done: make(chan struct{})}).hand(over, nil, nil); !errors.Is(err, reason) {
			t.Errorf("cancelled behind another: %v, want %v", err, reason)
		}
		if err := (turn{done: make(chan struct{})}).hand(over, []*replay.Letter{{}}, nil); !errors.Is(err, reason) {
			t.Errorf("cancelled before the first: %v, want %v", err, reason)
		}
	})
}

// TestReplaySaysWhatItCouldNotSee: what the queue counts beside what is left, and what is the next run's. The queue is asked again
// only while it may still count what was deleted.
func TestReplaySaysWhatItCouldNotSee(t *testing.T) {
	for name, c := range map[string]struct {
		api                  scripted
		removed, kept, young int
		asked                int
		unread               int64
		warnings             []string
	}{
		"nothing":                       {api: scripted{attributes: depthOf(0, 0)}, asked: 1},
		"what is left":                  {api: scripted{attributes: depthOf(1, 2)}, removed: 1, kept: 3, asked: 1},
		"others, and nothing deleted":   {api: scripted{attributes: depthOf(3, 4)}, kept: 1, asked: 1, unread: 6, warnings: []string{"about 6 more"}},
		"others, and something deleted": {api: scripted{attributes: depthOf(1, 1)}, removed: 1, asked: countTries, unread: 2, warnings: []string{"about 2 more"}},
		"young ones":                    {api: scripted{attributes: depthOf(2, 0)}, young: 2, asked: 1, warnings: []string{"2 messages came"}},
		"it does not say":               {api: scripted{broken: throttled}, removed: 1, asked: 1, warnings: []string{"is not known"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &ReplaySource{client: &c.api, url: "https://sqs/dead", removed: c.removed, kept: c.kept, young: c.young}
			began := time.Now()
			s.look(t.Context())
			if took := time.Since(began); c.api.asked != c.asked || took != time.Duration(c.asked-1)*time.Second || s.Unread() != c.unread {
				t.Errorf("%s: asked %d times in %s, %d are unread; want %d, %d", name, c.api.asked, took, s.Unread(), c.asked, c.unread)
			}
			if got := s.Warnings(); !slices.EqualFunc(got, c.warnings, strings.Contains) {
				t.Errorf("%s: %q, want %q", name, got, c.warnings)
			}
		})
	}
}

// TestReplayIsOver: when polls bring nothing new and nothing is in hand; in a FIFO queue, not while messages may come into sight
// behind those that are left.
func TestReplayIsOver(t *testing.T) {
	const quiet = 2 * replayPollers
	for name, c := range map[string]struct {
		s     *ReplaySource
		since time.Duration // the last letter
		fifo  bool
		count map[string]string
		over  bool
		asked int
	}{
		"quiet":                       {s: &ReplaySource{quiet: quiet}, over: true},
		"not quiet yet":               {s: &ReplaySource{quiet: quiet - 1}},
		"one in hand":                 {s: &ReplaySource{quiet: quiet, open: 1}},
		"nothing is left":             {s: &ReplaySource{quiet: quiet, removed: 1}, fifo: true, over: true},
		"nothing is gone":             {s: &ReplaySource{quiet: quiet, kept: 1}, fifo: true, over: true},
		"no groups":                   {s: &ReplaySource{quiet: quiet, removed: 1, kept: 1}, over: true},
		"groups, and more is counted": {s: &ReplaySource{quiet: quiet, removed: 1, kept: 1, young: 1}, fifo: true, count: depthOf(1, 2), asked: 1},
		"groups, and all is seen":     {s: &ReplaySource{quiet: quiet, removed: 1, kept: 1, young: 1}, fifo: true, count: depthOf(0, 2), over: true, asked: 1},
		"groups, for so long":         {s: &ReplaySource{quiet: quiet, removed: 1, kept: 1}, since: replayHide + 2*time.Second, fifo: true, over: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			api := &scripted{attributes: c.count}
			s := c.s
			s.client, s.url, s.hide, s.last = api, "https://sqs/dead", replayHide, time.Now().Add(-c.since)
			if c.fifo {
				s.url += ".fifo"
			}
			if over := s.over(t.Context()); over != c.over || api.asked != c.asked {
				t.Errorf("%s: over %v, asked %d times, want %v, %d", name, over, api.asked, c.over, c.asked)
			}
		})
	}
}

// TestReplayTakesInTurns: what is new waits for what was received before it, and what came again is no news.
func TestReplayTakesInTurns(t *testing.T) {
	message := func(id string) types.Message {
		return types.Message{MessageId: &id, ReceiptHandle: aws.String("handle of " + id), Body: &id}
	}
	s := &ReplaySource{url: "https://sqs/dead", seen: map[string]*inHand{}, began: time.Now()}
	_, _, first, err := s.take([]types.Message{message("a")})
	if err != nil || first.before != nil || first.done == nil || s.quiet != 0 {
		t.Fatalf("the first: %+v, %d quiet, %v", first, s.quiet, err)
	}
	for n := range 2 {
		fresh, again, none, err := s.take([]types.Message{message("a")})
		if err != nil || len(fresh)+len(again) != 0 || none.done != nil || s.quiet != n+1 {
			t.Fatalf("the same: %d new, %d again, %+v, %d quiet, %v", len(fresh), len(again), none, s.quiet, err)
		}
	}
	_, _, second, err := s.take([]types.Message{message("b")})
	if err != nil || second.before != first.done || s.quiet != 0 || time.Since(s.last) > time.Minute {
		t.Errorf("the second: %+v, %d quiet, %v, want it behind the first", second, s.quiet, err)
	}
	if s.open != 2 || len(s.seen) != 2 {
		t.Errorf("%d are open, %d seen, want 2", s.open, len(s.seen))
	}
}

// TestReplayForgetsWhatIsDeleted: and remembers what is not, so that it is deleted when it comes again.
func TestReplayForgetsWhatIsDeleted(t *testing.T) {
	refuse := func(code string, entries ...int) *sqs.DeleteMessageBatchOutput {
		out := &sqs.DeleteMessageBatchOutput{}
		for _, i := range entries {
			out.Failed = append(out.Failed, types.BatchResultErrorEntry{Id: aws.String(strconv.Itoa(i)), Code: &code})
		}
		return out
	}
	for name, c := range map[string]struct {
		answer func(n int, in *sqs.DeleteMessageBatchInput) (*sqs.DeleteMessageBatchOutput, error)
		calls  int
		kept   []string
		fails  bool
	}{
		"all": {func(int, *sqs.DeleteMessageBatchInput) (*sqs.DeleteMessageBatchOutput, error) { return refuse(""), nil }, 1, nil, false},
		"one handle is old": {func(int, *sqs.DeleteMessageBatchInput) (*sqs.DeleteMessageBatchOutput, error) {
			return refuse("ReceiptHandleIsInvalid", 1), nil
		}, 1, []string{"1"}, false},
		"one at the second try": {func(n int, in *sqs.DeleteMessageBatchInput) (*sqs.DeleteMessageBatchOutput, error) {
			if n == 1 {
				return refuse("InternalError", 2), nil
			}
			if len(in.Entries) != 1 || aws.ToString(in.Entries[0].ReceiptHandle) != "handle 2" {
				return nil, hopeless
			}
			return refuse(""), nil
		}, 2, nil, false},
		"one never": {func(_ int, in *sqs.DeleteMessageBatchInput) (*sqs.DeleteMessageBatchOutput, error) {
			return refuse("InternalError", len(in.Entries)-1), nil
		}, replayTries, []string{"2"}, true},
		"throttled":   {func(int, *sqs.DeleteMessageBatchInput) (*sqs.DeleteMessageBatchOutput, error) { return nil, throttled }, replayTries, []string{"0", "1", "2"}, true},
		"refused":     {func(int, *sqs.DeleteMessageBatchInput) (*sqs.DeleteMessageBatchOutput, error) { return nil, hopeless }, 1, []string{"0", "1", "2"}, true},
		"all are old": {func(int, *sqs.DeleteMessageBatchInput) (*sqs.DeleteMessageBatchOutput, error) { return nil, stale }, 1, []string{"0", "1", "2"}, true},
		"not of these": {func(int, *sqs.DeleteMessageBatchInput) (*sqs.DeleteMessageBatchOutput, error) {
			return refuse("InternalError", 3, -1), nil
		}, 1, nil, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			api := &scripted{delete: c.answer}
			s := &ReplaySource{client: api, url: "https://sqs/dead", seen: map[string]*inHand{}, open: 3}
			var letters []*replay.Letter
			for i := range 3 {
				r := &inHand{id: strconv.Itoa(i), handle: fmt.Sprint("handle ", i)}
				s.seen[r.id] = r
				letters = append(letters, &replay.Letter{Origin: r})
			}
			err := s.Done(t.Context(), letters)
			var kept []string
			for id, r := range s.seen {
				if kept = append(kept, id); !r.done {
					t.Errorf("%s: %s is not done", name, id)
				}
			}
			slices.Sort(kept)
			if (err != nil) != c.fails || api.n != c.calls || !slices.Equal(kept, c.kept) || s.open != 0 || s.removed != 3 {
				t.Errorf("%s: %v after %d calls, remembered %v, want %v", name, err, api.n, kept, c.kept)
			}
		})
	}
}

// TestReplayTargetKnowsItsQueues: a queue is the target's own if it is given, or if its redrive policy names the dead letters'.
func TestReplayTargetKnowsItsQueues(t *testing.T) {
	const dead, source = "arn:aws:sqs:us-east-1:000000000000:dead", "arn:aws:sqs:us-east-1:000000000000:source"
	policy := func(arn string) map[string]string {
		return map[string]string{"QueueArn": source, "RedrivePolicy": `{"deadLetterTargetArn":"` + arn + `","maxReceiveCount":3}`}
	}
	for name, c := range map[string]struct {
		dead       string
		attributes map[string]string
		own        bool
	}{
		"its policy names it":      {dead, policy(dead), true},
		"it names another":         {dead, policy(source), false},
		"it has none":              {dead, map[string]string{"QueueArn": source}, false},
		"the letters have no name": {"", policy(""), false},
	} {
		target, err := NewReplayTarget(&scripted{attributes: c.attributes})
		if err != nil {
			t.Fatal(err)
		}
		if err := target.Begin(t.Context(), replay.Begin{Source: c.dead}); err != nil {
			t.Fatal(err)
		}
		if q, err := target.resolve(source); err != nil || q.own != c.own || q.url != "https://sqs/source" {
			t.Errorf("%s: %+v, %v, want it its own: %v", name, q, err, c.own)
		}
		if got := target.String(); got != "the source queues" || target.Most() != maxBatch {
			t.Errorf("%q takes %d at once", got, target.Most())
		}
	}

	api := &scripted{attributes: map[string]string{"QueueArn": dead}}
	target, err := NewReplayTarget(api)
	if err == nil {
		err = target.Begin(t.Context(), replay.Begin{Source: dead})
	}
	if err != nil {
		t.Fatal(err)
	}
	l := &replay.Letter{Vouched: true}
	l.Message.Source = dead
	if err := target.Accept(l); err == nil || !strings.Contains(err.Error(), "dead-letter queue itself") {
		t.Errorf("from the dead letters themselves: %v", err)
	}
	given, err := NewReplayTarget(api, "https://sqs/a", "https://sqs/b")
	if err != nil || given.String() != "https://sqs/a, https://sqs/b" {
		t.Errorf("%q, %v", given, err)
	}
	if err := given.Begin(t.Context(), replay.Begin{Source: dead}); err == nil {
		t.Error("it sends to the dead letters themselves")
	}
	api.broken = hopeless
	if err := given.Begin(t.Context(), replay.Begin{Source: source}); !errors.Is(err, hopeless) {
		t.Errorf("a queue that cannot be read: %v", err)
	}
}

// TestReplayRequestsFit: a request takes as many bytes as SQS does, and ten messages; one alone goes whatever its size.
func TestReplayRequestsFit(t *testing.T) {
	of := func(sizes ...int) (list []*copied) {
		for _, size := range sizes {
			list = append(list, &copied{size: size, in: &sqs.SendMessageInput{QueueUrl: aws.String("https://sqs/source")}})
		}
		return list
	}
	for name, c := range map[string]struct {
		sizes []int
		want  int
	}{
		"all that fits": {[]int{maxMessage / 2, maxMessage / 2}, 2}, "a byte too much": {[]int{maxMessage / 2, maxMessage/2 + 1}, 1},
		"one too large": {[]int{maxMessage + 1, 1}, 1}, "ten": {make([]int, 11), maxBatch},
	} {
		list := of(c.sizes...)
		batch, rest := pick(list)
		if len(batch) != c.want || batch[0] != list[0] || len(batch)+len(rest) != len(c.sizes) {
			t.Errorf("%s: %d go, %d wait, want %d", name, len(batch), len(rest), c.want)
		}
	}
}

// TestDeadLetterQueueSays: its URL, its retention, and SQS's longest where that is not known.
func TestDeadLetterQueueSays(t *testing.T) {
	s := newSite(t, "", 100)
	q, err := NewDeadLetterQueue(s.client, s.url)
	if err != nil || q.String() != s.url {
		t.Fatalf("%v, %v", q, err)
	}
	kept, err := q.Retention(t.Context())
	if err != nil || kept != 4*24*time.Hour {
		t.Errorf("retention %s, %v, want SQS's default of four days", kept, err)
	}
	gone, err := NewDeadLetterQueue(s.client, s.url+"-gone")
	if err != nil {
		t.Fatal(err)
	}
	if kept, err := gone.Retention(t.Context()); err != nil || kept != maxRetention {
		t.Errorf("retention of none: %s, %v, want %s", kept, err, maxRetention)
	}
}

// TestNamesOfGroups: what SQS takes as a group's name is one, and nothing else.
func TestNamesOfGroups(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "!": true, "~": true, "": false, " ": false, "a b": false, "\x7f": false, "\x1f": false, "é": false,
		strings.Repeat("x", maxGroup): true, strings.Repeat("x", maxGroup+1): false,
	} {
		if got := isGroup(name); got != want {
			t.Errorf("%.20q: %v, want %v", name, got, want)
		}
	}
}

// TestLongestScope: a queue's ARN and the consumer's name fit into a scope, to the byte.
func TestLongestScope(t *testing.T) {
	s := newSite(t, "", 100)
	w := s.worker(nothing, nil)
	q, err := w.readQueue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	room := ledger.MaxScope - len(scopeOf("", w.set.Name))
	for n, accepted := range map[int]bool{room: true, room + 1: false} {
		q.arn = strings.Repeat("a", n)
		if err := w.adopt(q); (err == nil) != accepted {
			t.Errorf("an ARN of %d bytes: %v, want it accepted: %v", n, err, accepted)
		}
	}
}
