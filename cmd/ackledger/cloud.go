package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/spf13/cobra"
)

// cloud is how to reach a service of AWS, SQS or a ledger's DynamoDB: what the AWS SDK finds by itself (environment, ~/.aws, the machine's role), and these flags.
type cloud struct{ profile, region, endpoint string }

func (c *cloud) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&c.profile, "profile", "", "AWS: the profile for queues and topics (default: AWS_PROFILE)")
	flags.StringVar(&c.region, "region", "", "AWS: the region of queues and topics (default: AWS_REGION, or the profile's)")
	flags.StringVar(&c.endpoint, "endpoint-url", "", "AWS: the endpoint of SQS (default: AWS_ENDPOINT_URL_SQS, or AWS's own)")
}

// load reads AWS's settings.
func (c *cloud) load(ctx context.Context) (aws.Config, error) {
	var opts []func(*config.LoadOptions) error
	if c.profile != "" {
		opts = append(opts, config.WithSharedConfigProfile(c.profile))
	}
	if c.region != "" {
		opts = append(opts, config.WithRegion(c.region))
	}
	loaded, err := config.LoadDefaultConfig(ctx, opts...)
	if err != nil {
		return aws.Config{}, fmt.Errorf("AWS's settings: %w", err)
	}
	return loaded, nil
}

func (c *cloud) client(ctx context.Context) (*sqs.Client, error) {
	loaded, err := c.load(ctx)
	if err != nil {
		return nil, err
	}
	if loaded.Region == "" {
		return nil, usage("--region is missing (or AWS_REGION, or a region in the profile)")
	}
	return sqs.NewFromConfig(loaded, func(o *sqs.Options) {
		if c.endpoint != "" {
			o.BaseEndpoint = &c.endpoint
		}
	}), nil
}

// tables is a client of DynamoDB.
func (c *cloud) tables(ctx context.Context) (*dynamodb.Client, error) {
	loaded, err := c.load(ctx)
	if err != nil {
		return nil, err
	}
	if loaded.Region == "" {
		return nil, usage("--%sregion is missing for --ledger %sTABLE (or AWS_REGION, or a region in the profile)", ledgerFlag, dynamoPrefix)
	}
	return dynamodb.NewFromConfig(loaded, func(o *dynamodb.Options) {
		if c.endpoint != "" {
			o.BaseEndpoint = &c.endpoint
		}
	}), nil
}

// queue finds a queue, and makes a client for it.
func (c *cloud) queue(ctx context.Context, name string) (client *sqs.Client, url string, err error) {
	if client, err = c.client(ctx); err == nil {
		url, err = queueURL(ctx, client, name)
	}
	return client, url, err
}

// queueURL finds a queue by its URL, its ARN or its name. SQS finds names in the client's region only, where another queue may
// have that of an ARN.
func queueURL(ctx context.Context, client *sqs.Client, queue string) (string, error) {
	if strings.Contains(queue, "://") {
		return queue, nil
	}
	in := &sqs.GetQueueUrlInput{QueueName: &queue}
	parts := strings.Split(queue, ":")
	isARN := len(parts) == 6 && parts[0] == "arn"
	if isARN {
		in.QueueName, in.QueueOwnerAWSAccountId = &parts[5], &parts[4]
	}
	out, err := client.GetQueueUrl(ctx, in)
	if err != nil {
		return "", queueError(queue, err)
	}
	url := aws.ToString(out.QueueUrl)
	if !isARN {
		return url, nil
	}
	attributes, err := queueAttributes(ctx, client, url)
	if is := attributes[string(types.QueueAttributeNameQueueArn)]; err == nil && is != queue {
		err = fmt.Errorf("there is no queue %s in this region, where its name is that of %s: check --region", queue, is)
	}
	return url, err
}

// queueAttributes are a queue's settings, by name.
func queueAttributes(ctx context.Context, client *sqs.Client, url string) (map[string]string, error) {
	out, err := client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: &url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	})
	if err != nil {
		return nil, queueError(url, err)
	}
	return out.Attributes, nil
}

// describeQueue finds a queue's settings by what queueURL takes.
func describeQueue(ctx context.Context, client *sqs.Client, queue string) (map[string]string, error) {
	url, err := queueURL(ctx, client, queue)
	if err != nil {
		return nil, err
	}
	return queueAttributes(ctx, client, url)
}

func queueError(queue string, err error) error {
	if _, ok := errors.AsType[*types.QueueDoesNotExist](err); ok {
		return fmt.Errorf("there is no queue %s", queue)
	}
	return fmt.Errorf("queue %s: %w", queue, err)
}
