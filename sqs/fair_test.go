package sqs

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
)

// sendOf sends messages of one tenant of a standard queue.
func (s *site) sendOf(tenant string, bodies ...string) {
	s.t.Helper()
	for i := range bodies {
		in := &sqs.SendMessageInput{QueueUrl: &s.url, MessageBody: &bodies[i], MessageGroupId: aws.String(tenant)}
		if _, err := s.client.SendMessage(s.t.Context(), in); err != nil {
			s.t.Fatal(err)
		}
	}
}

// With a share a tenant of any load leaves handlers free for the others, though none of its own ends: with tenants that a function
// names, and with SQS's own.
func TestFairShare(t *testing.T) {
	for name, by := range map[string]func(*consumer.Message) string{
		"by body":         func(m *consumer.Message) string { return strings.TrimRight(string(m.Body), "0123456789") },
		"by MessageGroup": nil,
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, "", 5)
			g, quiet, c := newGate(), newBook(), steady()
			c.Concurrency, c.FairShare, c.FairBy = 4, 2, by
			s.sendOf("noisy", numbers("noisy", 40)...)
			run := s.start(func(ctx context.Context, m *consumer.Message) error {
				if strings.HasPrefix(string(m.Body), "quiet") {
					return quiet.handle(ctx, m)
				}
				return g.handle(ctx, m)
			}, c)
			eventually(t, "the noisy one has its share", func() bool { return g.len() == 2 })
			s.sendOf("quiet", numbers("quiet", 20)...)
			eventually(t, "the others have run", func() bool { return quiet.len() == 20 })
			if n := g.len(); n != 2 {
				t.Errorf("%d of the noisy one run, want 2", n)
			}
			g.release()
			s.empty()
			run.end()
			quiet.once(t, numbers("quiet", 20))
			g.book.once(t, numbers("noisy", 40))
		})
	}
}

// What waits here for a retry is in flight to SQS: a tenant of whom 30 messages wait is noisy by its rules, though none of them takes a
// handler, and what comes of it is received behind all others. Nothing but a delete ends that. So a tenant's retries wait in the ledger.
func TestWaitingIsInFlight(t *testing.T) {
	for _, c := range []struct {
		when         string
		waiting      int
		parks, noisy bool
	}{{"29 wait here", 29, false, false}, {"30 wait here", 30, false, true}, {"30 wait in the ledger", 30, true, false}} {
		t.Run(c.when, func(t *testing.T) {
			s := newSite(t, "", 100)
			b, busy, set := newBook(), newGate(), steady()
			set.NoParking, set.Concurrency, set.FairShare = !c.parks, 4, 2
			s.sendOf("busy", numbers("busy", 600)...) // that others use most of the queue is what makes a share of it small
			run := s.start(func(ctx context.Context, m *consumer.Message) error {
				if m.Group == "busy" {
					return busy.handle(ctx, m)
				}
				b.add(m)
				return consumer.RetryAfter(errors.New("away"), 50*time.Second) // less than ParkAfter
			}, set)
			s.sendOf("failing", numbers("failing", c.waiting)...)
			here := c.waiting
			if c.parks {
				here = 0
			}
			eventually(t, "all have failed", func() bool { return b.len() == c.waiting })
			busy.release()
			eventually(t, "all wait", func() bool {
				return run.eng.Load() == engine.Load{Held: here, Waiting: here} && s.srv.Queue(s.name).Depth() == here
			})
			run.Pause()
			run.pollsNoMore()
			s.sendOf("failing", "next")
			if noisy := s.srv.Fair(s.name).Noisy; slices.Contains(noisy, "failing") != c.noisy {
				t.Errorf("noisy: %q, want failing among them: %t", noisy, c.noisy)
			}
		})
	}
}

// A FairBy that panics keeps no message from its handler: it is nobody's, and the log says so.
func TestFairByPanics(t *testing.T) {
	s := newSite(t, "", 5)
	b, c := newBook(), quick()
	core, logs := observer.New(zap.WarnLevel)
	c.Logger, c.FairShare = zap.New(core), 1
	c.FairBy = func(m *consumer.Message) string { panic("no tenant in " + string(m.Body)) }
	s.send(numbers("m", 10)...)
	run := s.start(b.handle, c)
	s.empty()
	run.end()
	b.once(t, numbers("m", 10))
	if said := logs.FilterMessageSnippet("FairBy has failed").All(); len(said) != 1 {
		t.Errorf("%d warnings", len(said))
	}
}
