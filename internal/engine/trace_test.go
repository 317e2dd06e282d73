package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// tracer keeps a book of the spans that were started.
type tracer struct {
	noop.TracerProvider
	mu    sync.Mutex
	spans []*bookedSpan
}

type bookedSpan struct {
	noop.Span
	of     *tracer
	links  []string // trace ids
	errors []string
	ends   int
}

func (p *tracer) Tracer(string, ...trace.TracerOption) trace.Tracer { return starter{of: p} }

type starter struct {
	noop.Tracer
	of *tracer
}

func (t starter) Start(ctx context.Context, _ string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	p := t.of
	s := &bookedSpan{of: p}
	config := trace.NewSpanStartConfig(options...)
	for _, l := range config.Links() {
		s.links = append(s.links, l.SpanContext.TraceID().String())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spans = append(p.spans, s)
	return ctx, s
}

func (s *bookedSpan) IsRecording() bool { return true }

func (s *bookedSpan) RecordError(err error, _ ...trace.EventOption) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.errors = append(s.errors, err.Error())
}

func (s *bookedSpan) End(...trace.SpanEndOption) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.ends++
}

// A batch has one span, with a link to the one that each of its messages names; it ends once, however the handler ends,
// and an error that cannot even be printed does no harm.
func TestBatchSpanLinksToItsMessages(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(batch []*consumer.Message) []error
		want  string // in the span's error; empty: none
		spans int
	}{
		"success":           {func([]*consumer.Message) []error { return nil }, "", 1},
		"error":             {func(b []*consumer.Message) []error { return each(b, consumer.Terminal(errBoom)) }, "boom", 1},
		"panic":             {func([]*consumer.Message) []error { panic("ouch") }, "ouch", 9},
		"error that panics": {func(b []*consumer.Message) []error { return each(b, (*brokenError)(nil)) }, "nil pointer", 9},
		"another length":    {func(b []*consumer.Message) []error { return make([]error, len(b)+1) }, "8 messages", 9},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, h := &tracer{}, &batches{}
				h.f = func(_ context.Context, batch []*consumer.Message) []error {
					if len(batch) > 1 {
						return c.spoil(batch)
					}
					return nil
				}
				o := oneByOne()
				o.TracerProvider = p
				e, b := beginBatch(t, memory.New(), o, 8, h)
				in := items(8, noLane)
				var want []string
				for i, it := range in {
					id := fmt.Sprintf("%032x", i+1)
					value := "00-" + id + "-00f067aa0ba902b7-01"
					if i == 2 {
						value = "no trace"
					} else {
						want = append(want, id)
					}
					it.Msg.Headers = []ledger.Header{{Name: "traceparent", Value: []byte(value)}}
				}
				e.Offer(in)
				pass(time.Second)
				b.wantAcked(t, in...)
				first := p.spans[0]
				if fmt.Sprint(first.links) != fmt.Sprint(want) || len(p.spans) != c.spans {
					t.Errorf("%d spans, links %v", len(p.spans), first.links)
				}
				if got := strings.Join(first.errors, "\n"); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
					t.Errorf("errors %q", got)
				}
				for i, s := range p.spans {
					if s.ends != 1 {
						t.Errorf("span %d ended %d times", i, s.ends)
					}
				}
				end(t, e)
			})
		})
	}
}
