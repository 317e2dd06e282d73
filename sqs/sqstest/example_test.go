package sqstest_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/ackledger/ackledger/sqs/sqstest"
)

// A message that is received and not deleted comes back after its visibility
// timeout; the clock is the test's own.
func Example() {
	clock := sqstest.NewManualClock(time.Time{})
	srv, err := sqstest.New(&sqstest.Options{Clock: clock}) // in a test: sqstest.Start(t, ...)
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	ctx, client := context.Background(), srv.Client()
	queue, err := srv.CreateQueue("orders", map[string]string{"VisibilityTimeout": "30"})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &queue, MessageBody: aws.String("order 1")}); err != nil {
		log.Fatal(err)
	}
	for range 2 {
		out, err := client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &queue})
		if err != nil {
			log.Fatal(err)
		}
		for _, m := range out.Messages {
			fmt.Println("received", *m.Body)
		}
		clock.Advance(30 * time.Second)
	}
	fmt.Println("receives:", srv.Queue("orders").Messages[0].Receives)
	// Output:
	// received order 1
	// received order 1
	// receives: 2
}

// The answer of a send is lost after the message was stored.
func ExampleServer_Inject() {
	srv, err := sqstest.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	queue, err := srv.CreateQueue("orders", nil)
	if err != nil {
		log.Fatal(err)
	}
	client := srv.Client(func(o *sqs.Options) { o.Retryer = aws.NopRetryer{} })
	srv.Inject(sqstest.Fault{Action: "SendMessage", Drop: true})
	_, err = client.SendMessage(context.Background(), &sqs.SendMessageInput{QueueUrl: &queue, MessageBody: aws.String("order 1")})
	fmt.Println("error:", err != nil, "stored:", srv.Queue("orders").Depth())
	// Output:
	// error: true stored: 1
}
