package examples_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackledger/ackledger/examples/internal/local"
	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/sqs/sqstest"
)

// expected are the lines that each example prints by itself. Those of concurrent handlers come in any order.
var expected = map[string]struct {
	lines  []string
	sorted bool
}{
	"sqs-worker": {lines: []string{
		"handling order 1", "handled order 1", "handling order 2", "handled order 2", "handling order 3", "handled order 3", "drained",
	}},
	"kafka-worker": {lines: []string{
		"handling order 1 at orders-0-0", "handled order 1", "handling order 2 at orders-0-1", "handled order 2",
		"handling order 3 at orders-0-2", "handled order 3", "drained",
	}},
	"share-worker": {sorted: true, lines: []string{"drained", "handled order 1", "handled order 2", "handled order 3"}},
	"exactly-once": {lines: []string{
		"attempt 1 at order-1: the process is in trouble", "attempt 2 at order-1: <nil>", "charges of order-1: 1",
	}},
	"child-keys": {lines: []string{
		"charge: 4200 cents", "attempt 1: the payment service's answer was lost",
		"charge: this key is known, nothing is charged again", "attempt 2: <nil>", "requests: 2 charges: 1",
	}},
	"steps": {lines: []string{
		"charging order-1", "shipping order-1 paid with charge-of-order-1", "notifying: parcel-of-order-1 is on its way",
		"attempt 4 did all of order-1",
	}},
	"outbox": {lines: []string{
		"attempt 1: charged and published: false", "attempt 2: charged and published: true", "shipping order-1",
	}},
	"cron": {sorted: true, lines: []string{
		"host 1: report 1", "host 1: report 2", "host 1: report 3", "host 2: report 1", "host 2: report 2", "host 2: report 3",
		"making a report", "making a report", "making a report",
	}},
	"task-queue": {lines: []string{
		"task-1, delivery 1: charging 4200 cents", "task-1, delivery 1: charge 1",
		"task-2, delivery 1: charging 250 cents", "task-2, delivery 1: charge 2",
		"task-1, delivery 2: charge 1",
	}},
	"fifo": {lines: []string{
		"alice: reserve, (charge declined), (charge declined), charge, ship", "bob: reserve, charge, ship",
	}},
	"batch":        {lines: []string{"archived: order-4: 0 cents", "stored: 5 orders, 5615 cents"}},
	"business-key": {lines: []string{"charging order-1 100", "charging order-2 250", "received: 3 handled: 2"}},
	"dead-letter": {lines: []string{
		"handled order 1", `dead letter: exhausted after 3 attempts: no such price list: {"id":"2"}`, "handled order 2", "drained",
	}},
	"parked": {lines: []string{
		"order 1, attempt 1: the bank is closed", "the queue is empty, the ledger has 1", "order 1, attempt 2: charged", "drained",
	}},
	"many-queues": {sorted: true, lines: []string{
		"drained", "handled order 1", "handled order 2", "handled refund 1", "handled shipment 1", "handled shipment 2",
	}},
	"metrics": {lines: []string{
		"listening on http://HOST/metrics", `ackledger_dead_letters_total kind="terminal" 1`,
		`ackledger_ledger_messages state="failed" 1`, `ackledger_ledger_messages state="pending" 0`,
		`ackledger_ledger_messages state="succeeded" 3`, "ackledger_retries_total 1", "drained",
	}},
	"adaptive": {lines: []string{"charged: 500 orders; more than two at once: true", "drained"}},
	"health-metrics": {lines: []string{
		"listening on http://HOST", "/livez 200 OK", "/readyz 200 OK",
		"/metrics ackledger_claims_total 3", "/metrics ackledger_handler_duration_seconds_count 3", "drained",
	}},
}

func TestEachExampleRunsByItself(t *testing.T) {
	for name, want := range expected {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := start(t, nil, binary(t, name)).end()
			for i := range got {
				got[i] = regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(got[i], "HOST")
			}
			if want.sorted {
				slices.Sort(got)
			}
			if !slices.Equal(got, want.lines) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want.lines, "\n"))
			}
		})
	}
}

func TestEveryExampleHasACase(t *testing.T) {
	folders, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range folders {
		if _, ok := expected[f.Name()]; f.IsDir() && !ok && !slices.Contains([]string{"internal", "demo", "replay"}, f.Name()) {
			t.Errorf("examples/%s is not run by any test", f.Name())
		}
	}
}

// Told of real servers, an example goes on until SIGTERM, and drains.
func TestEachExampleWorksOnServersOfOnesOwnUntilSIGTERM(t *testing.T) {
	for name := range expected {
		if name == "cron" || name == "task-queue" { // they have no broker
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			queues := sqstest.Start(t, nil)
			suffix := ""
			if name == "fifo" {
				suffix = ".fifo"
			}
			args := []string{"-queue-url", createQueue(t, queues, "orders"+suffix)}
			cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders", "shipments"))
			if err != nil {
				t.Fatal(err)
			}
			defer cluster.Close()
			brokers := strings.Join(cluster.ListenAddrs(), ",")
			switch name {
			case "kafka-worker":
				args = []string{"-brokers", brokers}
			case "outbox":
				args = []string{"-orders-url", args[1], "-shipments-url", createQueue(t, queues, "shipments")}
			case "share-worker":
				setShareGroup(t, cluster.ListenAddrs(), "payments")
				args = []string{"-brokers", brokers}
			case "many-queues":
				args = []string{"-orders-url", args[1], "-refunds-url", createQueue(t, queues, "refunds"), "-brokers", brokers}
			}
			dir := t.TempDir()
			for start := range 2 { // the second start finds what the first one has left
				polls := queues.Calls("ReceiveMessage")
				p := startIn(t, dir, realSQS(queues), binary(t, name), args...)
				p.logs = true
				switch name {
				case "share-worker":
					id := strconv.Itoa(start)
					produceOrder(t, cluster.ListenAddrs(), "orders", id)
					p.waitLine("handled order " + id)
				case "kafka-worker":
					if _, err := cluster.WaitGroupStable(t.Context(), "payments", 1); err != nil {
						t.Fatal(err)
					}
				default:
					waitUntil(t, "a poll", func() bool { return queues.Calls("ReceiveMessage") > polls })
				}
				p.signal()
				p.end()
				if !strings.Contains(p.stderr.String(), `"consumer":"`) {
					t.Errorf("its worker logs nothing: %s", &p.stderr)
				}
				if _, err := os.Stat(filepath.Join(dir, local.Kept)); err != nil {
					t.Errorf("the ledger of a real broker's messages is gone: what failed would be lost: %v", err)
				}
			}
		})
	}
}

func waitUntil(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("no %s within %s", what, patience)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// setShareGroup sets a group up as docs/share-groups.md says.
func setShareGroup(t *testing.T, brokers []string, group string) {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	err = services.SetShareGroup(t.Context(), c, group, map[string]string{
		"share.delivery.count.limit": "10", "share.isolation.level": "read_committed", "share.auto.offset.reset": "earliest",
		"share.record.lock.duration.ms": "30000",
	})
	if err != nil {
		t.Fatal(err)
	}
}

// worker starts sqs-worker or kafka-worker with one order that takes a while, and waits until it is in hand.
func worker(t *testing.T, name, work string) *program {
	t.Helper()
	var p *program
	if name == "sqs-worker" {
		queues := sqstest.Start(t, nil)
		url := createQueue(t, queues, "orders")
		sendOrder(t, queues.Client(), url, "1")
		p = start(t, realSQS(queues), binary(t, name), "-work", work, "-queue-url", url)
	} else {
		cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cluster.Close)
		produceOrder(t, cluster.ListenAddrs(), "orders", "1")
		p = start(t, nil, binary(t, name), "-work", work, "-brokers", strings.Join(cluster.ListenAddrs(), ","))
	}
	p.logs = true
	p.waitLine("handling order 1")
	return p
}

func TestSIGTERMLetsTheHandlerEnd(t *testing.T) {
	for _, name := range []string{"sqs-worker", "kafka-worker"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := worker(t, name, "1s")
			p.signal()
			if got := p.end(); !slices.Equal(got[1:], []string{"handled order 1", "drained"}) {
				t.Errorf("after SIGTERM: %q", got)
			}
		})
	}
}

func TestASecondSIGTERMEndsAtOnce(t *testing.T) {
	for _, name := range []string{"sqs-worker", "kafka-worker"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := worker(t, name, "1m")
			p.signal()
			began, again := time.Now(), time.NewTicker(20*time.Millisecond)
			defer again.Stop()
			for running := true; running; { // the program needs a moment to see the first one
				select {
				case <-p.ended:
					running = false
				case <-again.C:
					_ = p.cmd.Process.Signal(syscall.SIGTERM) // an error: it has just ended
				}
			}
			exit, ok := errors.AsType[*exec.ExitError](p.err)
			if !ok || !exit.Sys().(syscall.WaitStatus).Signaled() {
				t.Errorf("ended with %v, want by the signal", p.err)
			}
			if took := time.Since(began); took > 10*time.Second { // the drain would take 25 s
				t.Errorf("ended after %s", took)
			}
		})
	}
}

func TestExactlyOnceOnPostgres(t *testing.T) {
	t.Parallel()
	db := services.Postgres(t)
	got := start(t, nil, binary(t, "exactly-once"), "-postgres", db.URL).end()
	if want := expected["exactly-once"].lines; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The demo proves by itself what it claims: its exit code says whether it is so.
func TestTheDemoRunsTwiceInARow(t *testing.T) {
	t.Parallel()
	for range 2 {
		got := start(t, nil, binary(t, "demo"), "-orders", "400", "-kills", "2").end()
		text := strings.Join(got, "\n")
		for _, want := range []string{"SIGKILL 2 of 2", "400 of 400", "each of 800 orders is in it once"} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
	}
}
