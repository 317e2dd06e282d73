package local

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/ackledger/ackledger/sqs/sqstest"
)

// SQS is an SQS client, of AWS or of a server in this process.
type SQS struct {
	Client *awssqs.Client
	server *sqstest.Server // nil: a real one
}

// OpenSQS returns a client of AWS (or of what the environment names: AWS_ENDPOINT_URL, AWS_REGION, credentials) if real
// is set, else of a server in this process.
func OpenSQS(ctx context.Context, real bool) (*SQS, error) {
	if real {
		cfg, err := config.LoadDefaultConfig(ctx)
		if err != nil {
			return nil, err
		}
		return &SQS{Client: awssqs.NewFromConfig(cfg)}, nil
	}
	server, err := sqstest.New(nil)
	if err != nil {
		return nil, err
	}
	return &SQS{Client: server.Client(), server: server}, nil
}

// Real says that the queues are not in this process.
func (s *SQS) Real() bool { return s.server == nil }

// Close ends the server in this process.
func (s *SQS) Close() {
	if s.server != nil {
		s.server.Close()
	}
}

// Queue returns url if it is not empty. Else it makes a queue of that name in this process, FIFO if the name says so,
// beside a dead-letter queue, and sends the messages to it.
func (s *SQS) Queue(ctx context.Context, url, name string, messages ...*awssqs.SendMessageInput) (string, error) {
	if s.server == nil || url != "" {
		return url, nil
	}
	base, fifo := strings.CutSuffix(name, ".fifo")
	dlq := base + "-dlq"
	if fifo {
		dlq += ".fifo"
	}
	if _, err := s.server.CreateQueue(dlq, nil); err != nil {
		return "", err
	}
	url, err := s.server.CreateQueue(name, map[string]string{
		"RedrivePolicy": fmt.Sprintf(`{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:%s","maxReceiveCount":100}`, dlq),
	})
	if err != nil {
		return "", err
	}
	for _, m := range messages {
		m.QueueUrl = &url
		if _, err := s.Client.SendMessage(ctx, m); err != nil {
			return "", err
		}
	}
	return url, nil
}

// StopWhenEmpty calls stop once every queue in this process is empty; with a real server it does nothing.
func (s *SQS) StopWhenEmpty(ctx context.Context, stop func()) {
	if s.server != nil {
		go poll(ctx, stop, s.empty)
	}
}

// empty says whether every queue in this process is empty.
func (s *SQS) empty(context.Context) bool {
	for _, name := range s.server.Queues() {
		if s.server.Counts(name).Depth() > 0 {
			return false
		}
	}
	return true
}

// poll calls stop once finished says so.
func poll(ctx context.Context, stop func(), finished func(context.Context) bool) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for !finished(ctx) {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
	stop()
}
