package dynamodbtest

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// AWS is the endpoint that stands for an account.
const AWS = "aws"

// Connect returns a client of an endpoint, such as "http://127.0.0.1:8000", that looks at no signature; of [AWS], one by the default
// configuration. options come last.
func Connect(ctx context.Context, endpoint string, options ...func(*dynamodb.Options)) (*dynamodb.Client, error) {
	if endpoint == AWS {
		c, err := config.LoadDefaultConfig(ctx)
		if err != nil {
			return nil, err
		}
		return dynamodb.NewFromConfig(c, options...), nil
	}
	return dynamodb.New(dynamodb.Options{
		BaseEndpoint: &endpoint, Region: "us-east-1",
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
		}),
	}, options...), nil
}
