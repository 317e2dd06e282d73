package replay_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/kafka"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/replay"
	"github.com/ackledger/ackledger/sqs"
	"github.com/twmb/franz-go/pkg/kgo"
)

// failed fails n messages in a ledger, without any broker: of one scope, in three groups.
func failed(t *testing.T, l *memory.Ledger, n int, change ...func(i int, a *ledger.Archive)) {
	t.Helper()
	owner, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		body := fmt.Appendf(nil, "order %04d", i)
		a := &ledger.Archive{
			Key:  ledger.Key{Scope: replay.Scope(arn, "shop"), ID: fmt.Appendf(nil, "id-%d", i)},
			Kind: ledger.KindExhausted, Body: body, Source: arn, Group: fmt.Sprintf("group-%d", i%3), Keep: time.Hour,
			Fingerprint: ledger.BodyFingerprint(body), Delivery: fmt.Appendf(nil, "id-%d", i),
			Errors: []ledger.AttemptError{{Attempt: 1, Kind: ledger.KindError, Error: fmt.Sprintf("error %d", i%2)}},
		}
		for _, f := range change {
			f(i, a)
		}
		claims, err := owner.Claim(t.Context(), []ledger.Entry{{Key: a.Key, Fingerprint: a.Fingerprint, Delivery: a.Delivery, Window: time.Hour}})
		if err != nil || claims[0].Answer != ledger.Run {
			t.Fatalf("%+v, %v", claims, err)
		}
		errs, err := owner.Settle(t.Context(), []ledger.Settlement{{Ticket: claims[0].Ticket, Kind: ledger.Fail, Dead: a}})
		if err != nil || errs[0] != nil {
			t.Fatal(err, errs)
		}
	}
	if err := owner.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
}

const arn = "arn:aws:sqs:us-east-1:000000000000:orders"

func TestConfig(t *testing.T) {
	l, nop := memory.New(), inPlace(t, "shop", &book{})
	for name, c := range map[string]struct {
		change func(*replay.Config)
		want   string
	}{
		"nobody":       {func(c *replay.Config) { c.By = ledger.By{} }, "By.Actor"},
		"rate":         {func(c *replay.Config) { c.Rate = math.NaN() }, "Config.Rate: must be 0, or 0.001 to 1e+06, is NaN"},
		"concurrency":  {func(c *replay.Config) { c.Concurrency = 257 }, "Config.Concurrency: must be 1 to 256, is 257"},
		"stop after":   {func(c *replay.Config) { c.StopAfter = -1 }, "Config.StopAfter: must be 1 to 10000, is -1"},
		"interval":     {func(c *replay.Config) { c.Interval = 1 }, "Config.Interval"},
		"redacted":     {func(c *replay.Config) { c.Filter.Redact = func(*ledger.Archive) {} }, "Config.Filter.Redact"},
		"body":         {func(c *replay.Config) { c.Body = []byte("x") }, "Config.Body"},
		"mend nothing": {func(c *replay.Config) { c.Mend = true }, "Config.Filter.IDs must name exactly 1 message, names 0"},
		"filter":       {func(c *replay.Config) { c.Filter.Limit = -1 }, "Filter.Limit"},
		"no scope":     {func(c *replay.Config) { c.Filter.Scope = "sqs:nobody" }, `the ledger has no scope "sqs:nobody"`},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := replay.Config{By: by}
			c.change(&cfg)
			report, err := replay.Run(t.Context(), l, replay.Archive(l), nop, cfg)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") || report.Read != 0 {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	if _, err := replay.InPlace(nil, nil); err == nil {
		t.Error("no handler is taken")
	}
	if _, err := replay.InPlace(&book{}, &replay.InPlaceOptions{}); err == nil || !strings.Contains(err.Error(), "InPlaceOptions.Name") {
		t.Errorf("no name: %v", err)
	}
	if _, err := replay.Run(t.Context(), nil, nil, nil, replay.Config{}); err == nil {
		t.Error("nothing is taken")
	}
}

func TestFilters(t *testing.T) {
	l := memory.New()
	failed(t, l, 30, func(i int, a *ledger.Archive) {
		if i%10 == 0 {
			a.Kind, a.Headers = ledger.KindTerminal, []ledger.Header{{Name: "tenant", Value: []byte("a")}}
		}
	})
	for name, c := range map[string]struct {
		f    ledger.Filter
		want int64
	}{
		"all":    {ledger.Filter{}, 30},
		"kind":   {ledger.Filter{Kinds: []ledger.FailureKind{ledger.KindTerminal}}, 3},
		"error":  {ledger.Filter{Error: "error 1"}, 15},
		"header": {ledger.Filter{HeaderName: "tenant", HeaderValue: "a"}, 3},
		"group":  {ledger.Filter{Group: "group-2"}, 10},
		"ids":    {ledger.Filter{IDs: [][]byte{[]byte("id-1"), []byte("id-2")}}, 2},
		"future": {ledger.Filter{From: time.Now().Add(time.Hour)}, 0},
		"past":   {ledger.Filter{To: time.Now().Add(time.Hour)}, 30},
		"count":  {ledger.Filter{Limit: 7}, 7},
	} {
		t.Run(name, func(t *testing.T) {
			f := c.f
			report := replayAll(t, l, replay.Archive(l), inPlace(t, "shop", &book{}), func(c *replay.Config) {
				c.DryRun, c.Filter = true, f
			})
			if report.Replayed != c.want {
				t.Errorf("%+v", report)
			}
		})
	}
}

// The same filters hold for a queue, whose messages say themselves what failed.
func TestFiltersOfAQueue(t *testing.T) {
	t.Parallel()
	q, bodies := newQueues(t, false), numbered(5)
	q.fail(bodies)
	for _, f := range []ledger.Filter{{Kinds: []ledger.FailureKind{ledger.KindExhausted}}, {Error: "no such"}, {To: time.Now().Add(-time.Hour)}} {
		if report := q.replay(q.fromQueue(), q.toSource(), func(c *replay.Config) { c.Filter = f }); report.Read != 0 {
			t.Errorf("%+v: %+v", f, report)
		}
		q.server.ExpireVisibility(q.names[1])
	}
	f := ledger.Filter{Kinds: []ledger.FailureKind{ledger.KindTerminal}, Error: "the bug", From: time.Now().Add(-time.Hour), Limit: 2}
	report := q.replay(q.fromQueue(), q.toSource(), func(c *replay.Config) { c.Filter = f })
	if report.Replayed != 2 || report.Stopped == "" || q.server.Counts(q.names[0]).Depth() != 2 || q.server.Counts(q.names[1]).Depth() != 3 {
		t.Errorf("%+v", report)
	}
}

// A run ends at the n-th error, and nothing overtakes what failed before it in its group.
func TestStopAfter(t *testing.T) {
	l, b := memory.New(), &book{}
	failed(t, l, 30)
	b.breaks(func(m *consumer.Message) error {
		if m.Group == "group-1" {
			return errors.New("still broken")
		}
		return nil
	})
	report := replayAll(t, l, replay.Archive(l), inPlace(t, "shop", b))
	if report.Replayed != 20 || report.Failed != 1 || report.Left != 9 || report.Complete() {
		t.Errorf("%+v", report)
	}
	b.breaks(func(*consumer.Message) error { return consumer.Terminal(errors.New("all broken")) })
	failed(t, l, 30, func(i int, a *ledger.Archive) { a.Key.ID = fmt.Appendf(nil, "more-%d", i); a.Delivery = a.Key.ID })
	report, err := replay.Run(t.Context(), l, replay.Archive(l), inPlace(t, "shop", b), replay.Config{By: by, StopAfter: 3, Concurrency: 1})
	if !errors.Is(err, replay.ErrStopped) || report.Failed != 3 || !strings.Contains(err.Error(), "all broken") {
		t.Errorf("%v, %+v", err, report)
	}
}

// A cancelled run ends between two messages, says how to go on, and the next one does.
func TestCancel(t *testing.T) {
	l, b := memory.New(), &book{}
	failed(t, l, 200)
	ctx, cancel := context.WithCancel(t.Context())
	b.breaks(func(*consumer.Message) error {
		if len(b.done) == 50 {
			cancel()
		}
		return nil
	})
	report, err := replay.Run(ctx, l, replay.Archive(l), inPlace(t, "shop", b), replay.Config{By: by})
	if !errors.Is(err, replay.ErrStopped) || !errors.Is(err, context.Canceled) || !strings.Contains(report.Stopped, "run it again") {
		t.Errorf("%v, %+v", err, report)
	}
	if report.Replayed < 50 || report.Replayed > 60 {
		t.Errorf("%+v", report)
	}
	if again := replayAll(t, l, replay.Archive(l), inPlace(t, "shop", b)); again.Replayed+again.Succeeded != 200 || !again.Complete() {
		t.Errorf("%+v", again)
	}
	b.eachOnce(t, numbered(200))
}

func TestRate(t *testing.T) {
	l, b := memory.New(), &book{}
	failed(t, l, 20)
	began := time.Now()
	replayAll(t, l, replay.Archive(l), inPlace(t, "shop", b), func(c *replay.Config) { c.Rate = 20 })
	if took := time.Since(began); took < 700*time.Millisecond {
		t.Errorf("20 at 20 a second took %s", took)
	}
	b.eachOnce(t, numbered(20))
}

// Fresh keys are on request: the generation grows, so child keys change.
func TestFreshKeys(t *testing.T) {
	l := memory.New()
	failed(t, l, 2)
	keys := map[string]bool{}
	h := consumer.HandlerFunc(func(ctx context.Context, _ *consumer.Message) error {
		keys[consumer.ChildKey(ctx, "charge")] = true
		return errors.New("once more")
	})
	one := func(c *replay.Config) { c.Concurrency, c.Filter.IDs = 1, [][]byte{[]byte("id-0")} }
	replayAll(t, l, replay.Archive(l), inPlace(t, "shop", h), one, func(c *replay.Config) { c.FreshKeys = true })
	if want := consumer.DeriveChildKey(ledger.Key{Scope: replay.Scope(arn, "shop"), ID: []byte("id-0")}.Sum(), "charge", 1); len(keys) != 1 || !keys[want] {
		t.Errorf("%v", keys)
	}
	if a := audits(t, l); a[ledger.ActionRenew] != 1 || a[ledger.ActionReplay] != 1 {
		t.Errorf("audit: %v", a)
	}
	// It is pending now: nothing to renew.
	eventually(t, "it is due", func() bool {
		report := replayAll(t, l, replay.Archive(l), inPlace(t, "shop", h), one, func(c *replay.Config) { c.FreshKeys, c.DryRun = true, true })
		return report.Refused == 1
	})
}

// A mended body is a new generation with its own fingerprint; the old one's copies are known as old.
func TestMendedBody(t *testing.T) {
	t.Parallel()
	q := newQueues(t, false)
	q.fail([]string{"order: 1O cents", "another"})
	id := ""
	for d, err := range q.ledger.DeadLetters(t.Context(), ledger.Filter{Body: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if string(d.Body) == "order: 1O cents" {
			id = string(d.Key.ID)
		}
	}
	report := q.replay(replay.Archive(q.ledger), q.toSource(), func(c *replay.Config) {
		c.Filter.IDs, c.Mend, c.Body = [][]byte{[]byte(id)}, true, []byte("order: 10 cents")
	})
	if report.Replayed != 1 {
		t.Fatalf("%+v", report)
	}
	if s := q.status(id); s.State != ledger.Failed || s.Generation != 1 || !s.Fingerprint.Agrees(ledger.BodyFingerprint([]byte("order: 10 cents"))) {
		t.Errorf("%+v", s)
	}
	q.worker()
	eventually(t, "it is handled", func() bool { return q.book.count() == 1 && q.server.Counts(q.names[0]).Depth() == 0 })
	q.book.eachOnce(t, []string{"order: 10 cents"})
	if report = q.replay(replay.Archive(q.ledger), q.toSource()); report.Replayed != 1 || report.Succeeded+report.Superseded != 2 {
		t.Errorf("%+v", report)
	}
	eventually(t, "both are handled", func() bool { return q.book.count() == 2 })
	q.book.eachOnce(t, []string{"order: 10 cents", "another"})
}

// cipher is none that keeps a secret.
type cipher struct{}

func (cipher) Seal(_ context.Context, p []byte) ([]byte, error) {
	return append([]byte("sealed "), p...), nil
}
func (cipher) Open(_ context.Context, p []byte) ([]byte, error) {
	return bytes.TrimPrefix(p, []byte("sealed ")), nil
}

// What is sealed is opened before it is replayed; without the cipher it is refused, never sent as it is.
func TestSealedArchive(t *testing.T) {
	l, b := memory.New(), &book{}
	failed(t, l, 3, func(_ int, a *ledger.Archive) {
		if err := a.Seal(t.Context(), cipher{}); err != nil {
			t.Fatal(err)
		}
	})
	if report := replayAll(t, l, replay.Archive(l), inPlace(t, "shop", b)); report.Refused != 3 || b.count() != 0 {
		t.Errorf("%+v", report)
	}
	report := replayAll(t, l, replay.Archive(l), inPlace(t, "shop", b), func(c *replay.Config) { c.Filter.Cipher = cipher{} })
	if report.Replayed != 3 {
		t.Errorf("%+v", report)
	}
	b.eachOnce(t, numbered(3))
}

// A handler gets the failures of its own consumer and sources, and no others.
func TestInPlaceIsForItsOwn(t *testing.T) {
	l := memory.New()
	failed(t, l, 2)
	for name, o := range map[string]replay.InPlaceOptions{
		"another consumer": {Options: options("billing", nil)},
		"another source":   {Options: options("shop", nil), Sources: []string{"cluster/topic"}},
	} {
		b := &book{}
		dst, err := replay.InPlace(b, &o)
		if err != nil {
			t.Fatal(err)
		}
		if report := replayAll(t, l, replay.Archive(l), dst); report.Refused != 2 || b.count() != 0 {
			t.Errorf("%s: %+v", name, report)
		}
	}
}

// A mistake at three in the morning is one clear line, and changes nothing.
func TestMistakes(t *testing.T) {
	t.Parallel()
	q, s := newQueues(t, false), newTopics(t)
	q.fail([]string{"order 1"})
	s.fail(s.records([]string{"order 1"}))
	self, err := sqs.NewReplayTarget(q.client, q.dlq)
	if err != nil {
		t.Fatal(err)
	}
	selfTopic, err := kafka.NewReplayTarget(s.client, &kafka.ReplayTargetOptions{Topics: []string{s.dlq}})
	if err != nil {
		t.Fatal(err)
	}
	noQueue, err := sqs.NewReplaySource(q.client, q.dlq+"-nobody", 0)
	if err != nil {
		t.Fatal(err)
	}
	noTopic, err := kafka.NewReplaySource([]kgo.Opt{s.seeds}, "nobody")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		src  replay.Source
		dst  replay.Target
		op   ledger.Operator
		want string
	}{
		"queue to itself": {q.fromQueue(), self, q.ledger, "must not be the dead-letter queue itself"},
		"topic to itself": {s.fromTopic(), selfTopic, s.ledger, "must not be the dead-letter topic itself"},
		"no queue":        {noQueue, q.toSource(), q.ledger, "orders-dead-nobody"},
		"no topic":        {noTopic, s.toSource(), s.ledger, `dead-letter topic "nobody"`},
	} {
		report, err := replay.Run(t.Context(), c.op, c.src, c.dst, replay.Config{By: by})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") || report.Read != 0 {
			t.Errorf("%s: %v, %+v", name, err, report)
		}
	}
	// Another ledger knows nothing of it: the messages may have succeeded long ago.
	for _, src := range []replay.Source{q.fromQueue(), s.fromTopic()} {
		report, err := replay.Run(t.Context(), memory.New(), src, q.toSource(), replay.Config{By: by})
		if err != nil || report.Refused != 1 || report.Replayed != 0 {
			t.Errorf("%v, %+v", err, report)
		}
	}
	if q.server.Counts(q.names[1]).Depth() != 1 || q.server.Counts(q.names[0]).Depth() != 0 || s.depth(s.source) != 1 {
		t.Error("something was sent or removed")
	}
}

func TestReport(t *testing.T) {
	l, b := memory.New(), &book{}
	failed(t, l, 5)
	b.breaks(func(m *consumer.Message) error {
		if m.ID == "id-3" {
			return consumer.Terminal(errors.New("no such customer"))
		}
		return nil
	})
	var seen []replay.Progress
	report := replayAll(t, l, replay.Archive(l), inPlace(t, "shop", b), func(c *replay.Config) {
		c.Progress = func(p replay.Progress) { seen = append(seen, p) }
	})
	text := report.Text()
	for _, want := range []string{"the ledger's archive to the handler of \"shop\": 5 dead letters in ", "4 replayed", "1 failed", "failed id-3: no such customer"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "order 0003") {
		t.Errorf("a body is in\n%s", text)
	}
	encoded, err := json.Marshal(report)
	var back replay.Report
	if err == nil {
		err = json.Unmarshal(encoded, &back)
	}
	if err != nil || back.Replayed != 4 || back.Failed != 1 || len(back.Samples) != 1 {
		t.Errorf("%s, %v", encoded, err)
	}
	if last := seen[len(seen)-1]; last.Report.Read != 5 || last.Total != 5 || last.Rate <= 0 {
		t.Errorf("%+v", last)
	}
}
