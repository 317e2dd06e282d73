package services_test

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/internal/services"
)

// A server of one's own, whose crash the test decides on.
func ExampleStartPostgres() {
	ctx := context.Background()
	server, err := services.StartPostgres(ctx, services.PostgresOptions{Conf: map[string]string{"work_mem": "1MB"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	if err := server.Kill(); err != nil {
		fmt.Println(err)
	}
	if err := server.Start(ctx); err != nil { // the same port, the same data
		fmt.Println(err)
	}
	conn, err := pgx.Connect(ctx, server.URL())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close(ctx)
	var memory string
	if err := conn.QueryRow(ctx, "SHOW work_mem").Scan(&memory); err != nil {
		fmt.Println(err)
	}
	fmt.Println(memory)
	// Output: 1MB
}
