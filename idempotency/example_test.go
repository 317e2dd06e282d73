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

// A charge that is asked for twice is made once, and both callers get its receipt.
func ExampleDo() {
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

	type receipt struct {
		Charge string
		Cents  int
	}
	for range 2 {
		paid, err := idempotency.Do(ctx, runner, idempotency.Request{Scope: "charges", Key: "order-1"}, func(context.Context) (receipt, error) {
			fmt.Println("charging")
			return receipt{Charge: "ch_7", Cents: 4200}, nil
		})
		fmt.Println(paid.Charge, paid.Cents, err)
	}

	stop()
	fmt.Println(<-ended)
	// Output:
	// charging
	// ch_7 4200 <nil>
	// ch_7 4200 <nil>
	// <nil>
}

// What was answered is looked up by an operator's program, here within the request's window; beyond it, for Options.Audit.
func ExampleRunner_Audit() {
	l := memory.New()
	runner, err := idempotency.New(l, idempotency.Options{Window: time.Hour, Audit: 30 * 24 * time.Hour})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx) }()
	for !runner.Health().Ready {
		time.Sleep(time.Millisecond)
	}
	q := idempotency.Request{Scope: "payments", Caller: "shop 7", Key: "8f14e45f"}
	_, err = runner.Do(ctx, q, func(context.Context) (idempotency.Result, error) {
		return idempotency.Result{Status: 201, MediaType: "application/json", Body: []byte(`{"paid":true}`)}, nil
	})
	stop()
	fmt.Println(err, <-ended)

	operator, err := idempotency.New(l, idempotency.Options{}) // it need not run; with the runner's Cipher and Spill, if it has any
	if err != nil {
		panic(err)
	}
	answers, err := operator.Audit(context.Background(), q)
	for _, a := range answers {
		fmt.Println(a.State, a.Result.Status, a.Result.MediaType, string(a.Result.Body), a.Expiry.Sub(a.At))
	}
	fmt.Println(err)
	// Output:
	// <nil> <nil>
	// succeeded 201 application/json {"paid":true} 1h0m0s
	// <nil>
}
