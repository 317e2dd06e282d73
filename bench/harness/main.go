// Command harness is an adapter to the public harness hardbyte/postgresql-job-queue-benchmarking, and runs the shapes of its
// cells by itself where the harness is not at hand. With SCENARIO in the environment it is the adapter: a process that
// prints lines of JSON until SIGTERM. Without, it starts servers and adapters, disturbs them, and prints a table.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"
)

func main() {
	if scenario := os.Getenv("SCENARIO"); scenario != "" {
		end(serve(scenario))
	}
	only := flag.String("run", "", "run only the cells whose name matches this regular `expression`")
	phase := flag.Duration("phase", 6*time.Second, "how long baseline, stress and recovery last each")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	end(drive(ctx, *only, *phase))
}

func end(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "harness:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// drive runs cells one after the other and prints a table of them.
func drive(ctx context.Context, only string, phase time.Duration) error {
	chosen, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	brokers, stop, err := startKafka(ctx)
	if err != nil {
		return err
	}
	fmt.Print(head)
	for _, c := range cells() {
		if !chosen.MatchString(c.name) {
			continue
		}
		o, err := c.run(ctx, brokers, phase)
		if err != nil {
			_ = stop() // what went wrong first says more
			return fmt.Errorf("%s: %w", c.name, err)
		}
		fmt.Println(o.row(c))
	}
	return stop()
}
