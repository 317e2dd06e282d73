package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/ackledger/ackledger/ledger/sqlite"
)

func main() {
	if config, ok := os.LookupEnv(workerVariable); ok {
		exit(runWorker(config))
		return
	}
	orders := flag.Int("orders", 5000, "orders for each broker, 1 to 100,000")
	kills := flag.Int("kills", 4, "how often the worker is killed with SIGKILL, 0 to 20")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exit(runDemo(ctx, *orders, *kills, os.Getenv("WEB") != ""))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func runDemo(ctx context.Context, orders, kills int, inBrowser bool) (err error) {
	if orders < 1 || orders > 100_000 {
		return fmt.Errorf("-orders: must be 1 to 100,000, is %d", orders)
	}
	if kills < 0 || kills > 20 {
		return fmt.Errorf("-kills: must be 0 to 20, is %d", kills)
	}
	dir, err := os.MkdirTemp("", "ackledger-demo-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "ledger.db")
	l, err := sqlite.Open(ctx, path, nil)
	if err != nil {
		return err
	}
	defer l.Close()
	db, err := openCharges(ctx, path)
	if err != nil {
		return err
	}
	defer db.Close()
	b, err := startBrokers()
	if err != nil {
		return err
	}
	defer b.close()

	if inBrowser {
		shown, failed := startPage(ctx, l)
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, shown.close()) }()
		fmt.Printf("the page: %s\n", shown.url)
	}
	began := time.Now()
	p := newPipeline(b, db, path, orders, kills, os.Stdout)
	fmt.Printf("%d orders to an SQS queue, %d to a Kafka topic; the worker will be killed %d times\n", orders, orders, kills)
	runErr := p.run(ctx)
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	err = errors.Join(runErr, p.report(context.WithoutCancel(ctx), l, os.Stdout, time.Since(began)))
	if inBrowser && err == nil {
		fmt.Println("\nThe page stays until Ctrl-C.")
		<-ctx.Done()
	}
	return err
}

// report prints the table and the proof. The error says what is wrong with the records.
func (p *pipeline) report(ctx context.Context, l getter, out *os.File, took time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	problems := []error{p.garbage}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out)
	fmt.Fprintln(table, "broker\tsent\tdeliveries seen\thandler runs\tduplicates answered\tretries\tfailed\tcharged exactly once\t")
	for _, broker := range []string{"sqs", "kafka"} {
		sent, seen := p.plans[broker], p.counts[broker]
		orders, bad := wanted(sent)
		charges, err := countCharges(ctx, p.db, broker)
		problems = append(problems, err)
		v := audit(orders, charges)
		failed, err := auditArchive(ctx, l, p.scopes[broker], bad)
		problems = append(problems, err)
		if !v.ok() {
			problems = append(problems, fmt.Errorf("%s: %d orders are missing, %d charged more than once, %d charged that nobody sent",
				broker, v.missing, v.twice, v.unknown))
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d of %d\t\n", broker, len(sent), seen[delivered], seen[ran], seen[answered],
			seen[declined], failed, v.once, len(orders))
	}
	if err := errors.Join(append(problems, table.Flush())...); err != nil {
		return err
	}
	fmt.Fprintln(out, "\nA delivery that a killed worker had in hand counts as seen, although it neither ran nor was answered: it came again.")
	_, err := fmt.Fprintf(out, "The table of charges has no unique constraint: each of %d orders is in it once, none is missing (%.0f s).\n",
		p.total, took.Seconds())
	return err
}
