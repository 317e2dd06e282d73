package main

import (
	"context"
	"errors"
	"testing"
	"time"

	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/sqs"
)

// show prints the child key that the handler saw: of a message that failed, of its copy under another MessageId, and after
// fresh keys. What Kafka's handlers saw, TestKafka looks at.
func TestShowPrintsTheHandlersChildKey(t *testing.T) {
	t.Parallel()
	onSites(t, func(t *testing.T, s *site) {
		body := "order"
		sent, err := s.srv.Client().SendMessage(t.Context(), &awssqs.SendMessageInput{QueueUrl: &s.url, MessageBody: &body})
		if err != nil {
			t.Fatal(err)
		}
		id := *sent.MessageId
		shows := func(when, want string) {
			t.Helper()
			all := jsonLines[shown](t, s.run("show", id, "--step", "charge", "--json"))
			if len(all) != 1 || all[0].Child["charge"] != want {
				t.Errorf("%s: %+v, and the handler saw %s", when, all, want)
			}
		}
		broken := consumer.Terminal(errors.New("no such SKU"))
		first := s.work(broken)
		shows("failed", first)
		s.report("--source", "archive", "--to", "source", "--yes")
		if copied := s.work(broken); copied != first {
			t.Errorf("the copy's child key is %s, was %s", copied, first)
		}
		s.report("--source", "archive", "--to", "source", "--yes", "--fresh-keys")
		fresh := s.work(nil)
		if fresh == first {
			t.Errorf("the child key stayed %s", fresh)
		}
		shows("fresh", fresh)
	})
}

// work runs a worker for the one message of the queue, and says which child key its handler saw.
func (s *site) work(answer error) (key string) {
	s.Helper()
	ctx, stop := context.WithCancel(s.Context())
	defer stop()
	w, err := sqs.NewWorker(s.srv.Client(), s.url, s.Ledger, consumer.HandlerFunc(func(ctx context.Context, _ *consumer.Message) error {
		defer stop()
		key = consumer.ChildKey(ctx, "charge")
		return answer
	}), &sqs.Config{Options: consumer.Options{Name: "shipping"}, WaitTime: time.Second})
	if err != nil {
		s.Fatal(err)
	}
	if err := w.Run(ctx); err != nil {
		s.Fatal(err)
	}
	return key
}
