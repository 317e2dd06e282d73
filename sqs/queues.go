package sqs

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// What workers, replays and dead-letter queues ask of a queue alike.

// describer tells a queue's attributes.
type describer interface {
	GetQueueAttributes(context.Context, *sqs.GetQueueAttributesInput, ...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error)
}

// finder finds a queue by its name.
type finder interface {
	GetQueueUrl(context.Context, *sqs.GetQueueUrlInput, ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error)
}

// attributesOf asks for attributes of a queue.
func attributesOf(ctx context.Context, client describer, url string, names ...types.QueueAttributeName) (*sqs.GetQueueAttributesOutput, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: names})
}

// urlOf finds a queue by its name, and the account if that is not empty.
func urlOf(ctx context.Context, client finder, account, name string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	in := &sqs.GetQueueUrlInput{QueueName: &name}
	if account != "" {
		in.QueueOwnerAWSAccountId = &account
	}
	out, err := client.GetQueueUrl(ctx, in)
	if err != nil {
		return "", err
	}
	return aws.ToString(out.QueueUrl), nil
}
