package spillsql_test

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	_ "modernc.org/sqlite"

	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/idempotency/spillsql"
	"github.com/ackledger/ackledger/ledger/memory"
)

// An answer of a megabyte is more than the ledger keeps, and is given again all the same.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		panic(err)
	}
	db.SetMaxOpenConns(1) // of a database in memory there is one
	spill, err := spillsql.New(db, "spilled")
	if err == nil {
		err = spill.Create(ctx)
	}
	if err != nil {
		panic(err)
	}
	runner, err := idempotency.New(memory.New(), idempotency.Options{Spill: spill})
	if err != nil {
		panic(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx) }() // until the process ends
	for !runner.Health().Ready {
		time.Sleep(time.Millisecond)
	}
	for range 2 {
		out, err := runner.Do(ctx, idempotency.Request{Scope: "reports", Key: "2026-11"}, func(context.Context) (idempotency.Result, error) {
			return idempotency.Result{Body: make([]byte, 1<<20)}, nil
		})
		fmt.Println(len(out.Result.Body), out.Replayed, err)
	}
	removed, err := spill.Sweep(ctx) // once a minute
	fmt.Println(removed, err)

	stop()
	fmt.Println(<-ended, db.Close())
	// Output:
	// 1048576 false <nil>
	// 1048576 true <nil>
	// 0 <nil>
	// <nil> <nil>
}
