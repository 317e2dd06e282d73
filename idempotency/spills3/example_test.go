package spills3_test

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/idempotency/spills3"
	"github.com/ackledger/ackledger/ledger/memory"
)

// A runner whose large answers lie in a bucket for two days. In a program the aws.Config is config.LoadDefaultConfig's, and the ledger
// PostgreSQL's.
func Example() {
	client := s3.NewFromConfig(aws.Config{Region: "eu-central-1"})
	spill, err := spills3.New(client, spills3.Config{Bucket: "answers", Prefix: "spilled/", Days: 2})
	if err != nil {
		panic(err)
	}
	runner, err := idempotency.New(memory.New(), idempotency.Options{Spill: spill})
	if err != nil {
		panic(err)
	}
	_ = runner // runner.Run and runner.Do, as without a spill
}
