package idempotency_test

import (
	"context"
	"fmt"
	"time"

	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/ledger/memory"
)

// A job that is started twice runs once. In production the ledger is postgres.Open's, and every process has a runner.
func ExampleRunner_Do() {
	runner, err := idempotency.New(memory.New(), idempotency.Options{})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx) }() // until the process ends
	for !runner.Health().Ready {
		time.Sleep(time.Millisecond)
	}

	bill := func(context.Context) (idempotency.Result, error) {
		fmt.Println("the bills of November are sent")
		return idempotency.Result{Body: []byte("40 bills")}, nil
	}
	for range 2 {
		out, err := runner.Do(ctx, idempotency.Request{Scope: "billing", Key: "2026-11"}, bill)
		fmt.Println(string(out.Result.Body), out.Replayed, err)
	}

	stop()
	fmt.Println(<-ended)
	// Output:
	// the bills of November are sent
	// 40 bills false <nil>
	// 40 bills true <nil>
	// <nil>
}
