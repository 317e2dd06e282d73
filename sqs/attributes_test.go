package sqs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/sqs/sqstest"
)

const day = 24 * time.Hour

func TestRunRefusesAtOnce(t *testing.T) {
	denied := sqstest.Fault{Action: "GetQueueAttributes", Code: "AccessDeniedException", Message: "not authorized", Times: -1}
	for _, tt := range []struct {
		name   string
		want   []string
		change func(*site, *Config)
	}{
		{"unknown queue", []string{"nowhere", "does not exist"}, func(s *site, _ *Config) { s.url += "-nowhere" }},
		{"access denied", []string{"AccessDenied", "not authorized"}, func(s *site, _ *Config) { s.srv.Inject(denied) }},
		{"login refused", []string{"InvalidClientTokenId"}, func(s *site, _ *Config) {
			s.srv.Inject(sqstest.Fault{Code: "InvalidClientTokenId", Status: 403, Times: -1})
		}},
		{"short window", []string{"Config.Window: must be at least 192h0m0s", "is 1h0m0s", "AllowShortWindow"},
			func(_ *site, c *Config) { c.Window = time.Hour }},
		{"target that says the longest time", []string{"may keep messages for ever", "AllowShortWindow"},
			func(_ *site, c *Config) { c.DeadLetter = place{keeps: math.MaxInt64} }},
		{"target that keeps for ever", []string{"may keep messages for ever", "AllowShortWindow"},
			func(_ *site, c *Config) { c.DeadLetter, c.Window = place{err: consumer.ErrUnbounded}, 100*day }},
		{"short keep", []string{"Config.Keep: must be at least the window of 192h0m0s, is 24h0m0s"},
			func(_ *site, c *Config) { c.Keep = day }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, c := newSite(t, "", 100), quick()
			tt.change(s, c)
			err := s.worker(nothing, c).Run(t.Context())
			if err == nil {
				t.Fatal("Run accepts it")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q, want %q in it", err, want)
				}
			}
		})
	}
}

func TestRunWaitsForWhatHeals(t *testing.T) {
	s, b := newSite(t, "", 100), newBook()
	remove := s.srv.Inject(sqstest.Fault{Action: "GetQueueAttributes", Status: 503, Times: -1})
	s.send("m")
	r := s.start(b.handle, nil)
	eventually(t, "Health says why", func() bool {
		h := r.Health()
		return !h.Ready && h.Alive && strings.Contains(h.LastError, "read the queue")
	})
	before := s.srv.Calls("GetQueueAttributes")
	always(t, time.Second, "few requests are sent", func() bool { return s.srv.Calls("GetQueueAttributes")-before < 12 })
	remove()
	s.empty()
	r.end()
	b.once(t, []string{"m"})
}

func TestARefusedDeleteEndsRun(t *testing.T) {
	s, b := newSite(t, "", 100), newBook()
	s.srv.Inject(sqstest.Fault{Action: "DeleteMessageBatch", Code: "AccessDeniedException", Times: -1})
	s.send("m")
	r := s.start(b.handle, nil)
	if err := r.wait(); err == nil || !strings.Contains(err.Error(), "delete: ") || !strings.Contains(err.Error(), "AccessDenied") {
		t.Errorf("Run: %v, want that deletes are refused", err)
	}
	b.once(t, []string{"m"})
}

func TestADeletedQueueEndsRun(t *testing.T) {
	s := newSite(t, "", 100)
	r := s.start(nothing, nil)
	eventually(t, "the worker is ready", func() bool { return r.Health().Ready })
	s.delete()
	if err := r.wait(); err == nil || !strings.Contains(err.Error(), "receive: ") {
		t.Errorf("Run: %v, want that the queue is gone", err)
	}
}

func TestWindowIsTheRetentionOfBothQueues(t *testing.T) {
	for _, tt := range []struct {
		name    string
		change  func(*site, *Config)
		want    time.Duration
		warning string
	}{
		{"both", func(*site, *Config) {}, 8 * day, ""},
		{"dead-letter queue unreadable", func(s *site, _ *Config) {
			s.srv.Inject(sqstest.Fault{Action: "GetQueueUrl", Code: "AccessDeniedException", Times: -1})
		}, 18 * day, "cannot be read, its retention counts as 336h0m0s"},
		{"no redrive policy", func(s *site, _ *Config) { s.set(map[string]string{"RedrivePolicy": ""}) }, 4 * day, unredriven},
		{"a target that keeps for longer", func(s *site, c *Config) { c.DeadLetter = s.target(10 * day) }, 14 * day, ""},
		{"a target that keeps for less", func(s *site, c *Config) { c.DeadLetter = s.target(day) }, 8 * day, ""},
		{"a target that does not answer", func(s *site, c *Config) {
			c.DeadLetter, _ = NewDeadLetterQueue(s.client, s.url+"-nowhere")
		}, 18 * day, "dead letters may not arrive"},
		{"a target of another kind", func(_ *site, c *Config) { c.DeadLetter = place{keeps: 30 * day} }, 34 * day, ""},
		{"one that fails at first", func(_ *site, c *Config) { c.DeadLetter = &hesitant{place: place{keeps: 30 * day}} }, 34 * day, ""},
		{"one that fails", func(_ *site, c *Config) { c.DeadLetter = place{err: errors.New("not now")} }, 8 * day, "is not known"},
		{"one that keeps for ever, accepted", func(_ *site, c *Config) {
			c.DeadLetter, c.Window, c.AllowShortWindow = place{err: consumer.ErrUnbounded}, 100*day, true
		}, 100 * day, "Config.Window is 2400h0m0s, but consumer: Options.DeadLetter: may keep messages for ever"},
		{"longer", func(_ *site, c *Config) { c.Window = 100 * day }, 100 * day, ""},
		{"shorter, accepted", func(_ *site, c *Config) { c.Window, c.AllowShortWindow = time.Hour, true }, time.Hour,
			"Config.Window is 1h0m0s, but a message may come for 192h0m0s"},
		{"kept for less than the attempts take", func(s *site, c *Config) {
			c.BackoffBase, c.BackoffMax = 12*time.Hour, 12*time.Hour // nine of them: 108 hours
		}, 8 * day, "waits between 10 attempts take up to 108h0m0s"},
		{"few receives", func(s *site, c *Config) {
			s.set(map[string]string{"RedrivePolicy": fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":"3"}`, s.arn("dead-"+s.name))})
		}, 8 * day, "maxReceiveCount should be at least 25"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, c := newSite(t, "", 100), quick()
			tt.change(s, c)
			r := s.start(nothing, c)
			eventually(t, "the worker is ready", func() bool { return r.Health().Ready })
			warnings := r.Health().Warnings
			found := slices.ContainsFunc(warnings, func(w string) bool { return strings.Contains(w, tt.warning) })
			if tt.warning == "" && len(warnings) > 0 || tt.warning != "" && !found {
				t.Errorf("warnings %q, want %q", warnings, tt.warning)
			}
			r.end()
			if r.queue.window != tt.want || r.set.Window != tt.want {
				t.Errorf("window %s, want %s", r.queue.window, tt.want)
			}
		})
	}
}

// A worker whose name was changed knows nothing of what was done under the old one. The ledger does, and Health says so.
func TestRenamedWorker(t *testing.T) {
	s := newSite(t, "", 100)
	start := func(name string) *running {
		c := quick()
		c.Name = name
		return s.start(nothing, c)
	}
	s.send("one")
	old := start("old")
	s.empty()
	old.end()
	if _, err := s.ledger.Sweep(t.Context(), ledger.MaintainConfig{}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, warning string }{{"new", `under the name "old" too, and Config.Name is "new"`}, {"old", ""}} {
		r := start(tt.name)
		eventually(t, "the worker is ready", func() bool { return r.Health().Ready })
		if got := strings.Join(r.Health().Warnings, "; "); !strings.Contains(got, tt.warning) || tt.warning == "" && got != "" {
			t.Errorf("%s: warnings %q, want %q", tt.name, got, tt.warning)
		}
		r.end()
	}
}

// place is where dead letters go that no worker consumes.
type place struct {
	keeps time.Duration
	err   error
}

func (p place) Publish(context.Context, *consumer.DeadLetter) error { return nil }
func (p place) Source(context.Context) (string, error)              { return "", nil }
func (p place) Retention(context.Context) (time.Duration, error)    { return p.keeps, p.err }

// hesitant answers the second time.
type hesitant struct {
	place
	asked int
}

func (h *hesitant) Retention(context.Context) (time.Duration, error) {
	if h.asked++; h.asked < 2 {
		return 0, errors.New("not now")
	}
	return h.keeps, nil
}

// target is a queue for dead letters beside the one of the redrive policy.
func (s *site) target(keeps time.Duration) *DeadLetterQueue {
	s.t.Helper()
	url := s.create("kept-"+s.name, map[string]string{"MessageRetentionPeriod": strconv.Itoa(int(keeps / time.Second))})
	q, err := NewDeadLetterQueue(s.client, url)
	if err != nil {
		s.t.Fatal(err)
	}
	return q
}

func TestQueueAttributesOfOtherServices(t *testing.T) {
	q, err := parseQueue(map[string]string{"QueueArn": "arn:aws:sqs:elasticmq:000000000000:orders.fifo"})
	if err != nil || !q.fifo || q.retention != 14*day || q.maxBytes != 1<<20 || len(q.warnings) != 1 {
		t.Errorf("%+v, %v", q, err)
	}
	for _, attributes := range []map[string]string{
		{}, {"QueueArn": "orders"}, {"QueueArn": "arn:aws:sqs:r:1:q", "RedrivePolicy": "{"},
		{"QueueArn": "arn:aws:sqs:r:1:q", "RedrivePolicy": `{"deadLetterTargetArn":"arn","maxReceiveCount":"many"}`},
	} {
		if q, err := parseQueue(attributes); err == nil {
			t.Errorf("%v: %+v, want an error", attributes, q)
		}
	}
}

func TestScopesNeverMeet(t *testing.T) {
	seen := map[string]bool{}
	for _, arn := range []string{"arn:aws:sqs:r:1:q", "arn:aws:sqs:r:1:q2", "arn:aws:sqs:r:2:q"} {
		for _, name := range []string{"n", "n/n", "2/n", "arn:aws:sqs:r:1:q/n"} {
			s := scopeOf(arn, name)
			if seen[s] {
				t.Errorf("%s and %s share the scope %s", arn, name, s)
			}
			seen[s] = true
		}
	}
}

func TestDeadlineLeavesAMargin(t *testing.T) {
	sent := time.Now()
	for retention, want := range map[time.Duration]time.Duration{time.Minute: 54 * time.Second, 4 * day: 4*day - 5*time.Minute} {
		if got := (&queue{retention: retention}).deadline(sent).Sub(sent); got != want {
			t.Errorf("retention %s: deadline after %s, want %s", retention, got, want)
		}
	}
	if d := (&queue{retention: day}).deadline(time.Time{}); !d.IsZero() {
		t.Errorf("a message without a timestamp has the deadline %s", d)
	}
}
