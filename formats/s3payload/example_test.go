package s3payload_test

import (
	"context"
	"io"
	"os"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/formats/s3payload"
)

// A handler of videos, which are streamed into a file. In a program the aws.Config is config.LoadDefaultConfig's.
func Example() {
	client := s3.NewFromConfig(aws.Config{Region: "eu-central-1"})
	store, err := s3payload.New(client, s3payload.Config{Buckets: []string{"payloads"}})
	if err != nil {
		panic(err)
	}
	handler := store.Handler(func(_ context.Context, _ *consumer.Message, body io.Reader) error {
		_, err := io.Copy(os.Stdout, body)
		return err
	})
	// A short message has its body in itself, and needs no S3.
	if err := handler.Handle(context.Background(), &consumer.Message{ID: "m1", Body: []byte("a short video")}); err != nil {
		panic(err)
	}
	// Output: a short video
}

// Bodies in memory, for those who ask for it: here up to a megabyte.
func ExampleStore_Bytes() {
	store, err := s3payload.New(s3.NewFromConfig(aws.Config{Region: "eu-central-1"}), s3payload.Config{Buckets: []string{"payloads"}})
	if err != nil {
		panic(err)
	}
	handler := consumer.Chain(consumer.JSON(func(_ context.Context, order struct{ ID string }) error {
		_, err := os.Stdout.WriteString("order " + order.ID)
		return err
	}), store.Bytes(1<<20))
	if err := handler.Handle(context.Background(), &consumer.Message{ID: "m1", Body: []byte(`{"id":"a"}`)}); err != nil {
		panic(err)
	}
	// Output: order a
}
