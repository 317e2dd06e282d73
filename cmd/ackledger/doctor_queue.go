package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/backoff"
	"github.com/ackledger/ackledger/ledger"
)

// maxAttempts is that of Options.Attempts.
const maxAttempts = 1000

// spareReceives is what maxReceiveCount should leave beside attempts and crashes, for redeliveries that are nobody's fault.
const spareReceives = 10

func (d *doctor) visitQueues(ctx context.Context, op ledger.Operator, behind time.Duration, f *findings) {
	if len(d.queues) == 0 {
		return
	}
	client, err := d.cloud.client(ctx)
	if err != nil {
		f.add(unknown, "queues", err.Error(), "name a region and credentials as for the AWS command line")
		return
	}
	visitEndpoint(client, f)
	for _, q := range d.queues {
		d.visitQueue(ctx, client, op, q, behind, f)
	}
}

func (d *doctor) visitQueue(ctx context.Context, client *sqs.Client, op ledger.Operator, queue string, behind time.Duration, f *findings) {
	attributes, err := describeQueue(ctx, client, queue)
	if err != nil {
		f.add(problem, "queue "+queue, err.Error(), "check its name, the region, and sqs:GetQueueUrl and sqs:GetQueueAttributes")
		return
	}
	name := "queue " + nameOf(attributes["QueueArn"], queue)
	retention := secondsOf(attributes, "MessageRetentionPeriod")
	if whole := (backoff.Policy{Base: consumer.DefaultBackoffBase, Max: consumer.DefaultBackoffMax}).Whole(d.attempts); retention < whole {
		f.add(warning, name, fmt.Sprintf("it keeps messages for %s, and with the default backoff %d attempts take up to %s: SQS may delete a message "+
			"before its handler has had them all", short(retention), d.attempts, short(whole)), "raise the queue's MessageRetentionPeriod")
	}
	var policy struct {
		Target string      `json:"deadLetterTargetArn"`
		Max    json.Number `json:"maxReceiveCount"`
	}
	text := attributes["RedrivePolicy"]
	if text == "" {
		f.add(warning, name, "it has no redrive policy: a message that kills its receiver each time comes for ever",
			fmt.Sprintf("give it a dead-letter queue, with maxReceiveCount %d", d.receives()))
		d.visitWindow(ctx, op, "sqs:"+attributes["QueueArn"]+"/", name, retention+behind, windowOf, f)
		return
	}
	if err := json.Unmarshal([]byte(text), &policy); err != nil {
		f.add(unknown, name, "its redrive policy cannot be read: "+err.Error(), "set it anew")
		return
	}
	if n, err := policy.Max.Int64(); err == nil && n < int64(d.receives()) {
		f.add(warning, name, fmt.Sprintf("its maxReceiveCount is %d: SQS may dead-letter a message before its handler has had %d attempts", n, d.attempts),
			fmt.Sprintf("set maxReceiveCount to %d (attempts, %d crashes, %d to spare)", d.receives(), ledger.CrashLimit, spareReceives))
	} else {
		f.add(good, name, fmt.Sprintf("maxReceiveCount %s leaves room for %d attempts", policy.Max, d.attempts), "")
	}
	dead, ok := d.visitDeadLetterQueue(ctx, client, name, policy.Target, retention, f)
	if ok {
		d.visitWindow(ctx, op, "sqs:"+attributes["QueueArn"]+"/", name, retention+max(dead, behind), windowOf, f)
	}
}

// receives is what maxReceiveCount should be at least.
func (d *doctor) receives() int { return d.attempts + ledger.CrashLimit + spareReceives }

func (d *doctor) visitDeadLetterQueue(ctx context.Context, client *sqs.Client, name, arn string, source time.Duration, f *findings) (time.Duration, bool) {
	attributes, err := describeQueue(ctx, client, arn)
	if err != nil {
		f.add(problem, name, "its dead-letter queue: "+err.Error(), "make the queue, or mend the redrive policy; check sqs:GetQueueUrl and sqs:GetQueueAttributes on it")
		return 0, false
	}
	retention := secondsOf(attributes, "MessageRetentionPeriod")
	if retention < source {
		f.add(warning, name, fmt.Sprintf("its dead-letter queue keeps messages for %s, the queue for %s: on a standard queue the age counts from the first send, "+
			"so a dead letter may be gone at once", short(retention), short(source)), "set the dead-letter queue's MessageRetentionPeriod to 14 days")
	} else {
		f.add(good, name, "its dead-letter queue keeps messages for "+short(retention), "")
	}
	if n, err := strconv.Atoi(attributes["ApproximateNumberOfMessages"]); err == nil && n > 0 {
		f.add(good, name, fmt.Sprintf("about %s dead letters wait in %s", count(int64(n)), nameOf(arn, arn)), "")
	}
	return retention, true
}

func secondsOf(attributes map[string]string, name string) time.Duration {
	n, _ := strconv.Atoi(attributes[name]) // SQS's own numbers; what a compatible service leaves out counts as nothing
	return time.Duration(n) * time.Second
}

// nameOf is the last part of an ARN.
func nameOf(arn, or string) string {
	if i := strings.LastIndexByte(arn, ':'); i >= 0 {
		return arn[i+1:]
	}
	return or
}
