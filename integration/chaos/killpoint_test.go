package chaos_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ackledger/ackledger/integration/chaos/plan"
	"github.com/ackledger/ackledger/internal/killpoint"
	"github.com/ackledger/ackledger/internal/services"
)

// long says that this is `make test-long` or `make chaos`.
func long() bool { return os.Getenv("ACKLEDGER_LONG") != "" || os.Getenv(durationVariable) != "" }

// needLong leaves a test to the long run.
func needLong(t *testing.T, why string) {
	t.Helper()
	services.NeedServers(t)
	if !long() {
		t.Skip("in the long run: " + why)
	}
}

// kinds are the workers whose steps differ.
var kinds = []string{"sqs", "kafka rows", "kafka ranges"}

// killKinds are the workers that are killed at each step: those, and a FIFO queue, the new group protocol, and batch handlers,
// whose effects are of a whole batch.
var killKinds = append(slices.Clone(kinds), "fifo", "sqs batch", "kafka rows batch", "kafka ranges batch", "kafka rows 848", "kafka ranges 848")

// stores are the durable ones.
var stores = []string{"postgres", "sqlite"}

// killed counts the processes that died at a step.
var killed atomic.Int64

// A worker is killed with SIGKILL at each step of a message's way, and another one takes over: nothing is lost, each
// effect is there once, each dead letter once in the archive; a plain effect is there, and more than once only if it was in hand
// at the kill. In `make test` workers and stores take turns, so that
// each step is hit once or twice; the long run takes all.
func TestKilledAtEachStep(t *testing.T) {
	services.NeedServers(t)
	for k, kind := range killKinds {
		for s, step := range killpoint.Steps {
			for d, store := range stores {
				if !long() && (slow(kind) || (k+s)%5 != 0 || (s+d)%2 == 1) {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%s", kind, store, step), func(t *testing.T) {
					t.Parallel()
					killedAt(t, kind, store, step)
				})
			}
		}
	}
}

// slow says that it takes long until a dead process' partitions are another's: the broker's bound for the new group protocol,
// 45 s if nobody sets it.
func slow(kind string) bool { return strings.HasSuffix(kind, "848") }

func killedAt(t *testing.T, kind, store string, step killpoint.Step) {
	const n = 60
	a := lonelyArm(t, kind, store)
	passage := 1
	if step == killpoint.BeforeEffect || step == killpoint.AfterEffect {
		if passage = n / 3; a.crew.orders.Batch {
			passage = 2
		}
	}
	body := func(i int) string {
		switch {
		case i%10 == 9 && i >= n/2:
			return plan.Of(plan.Bad, i)
		case i >= n/3 && i%4 != 2: // one after the other, so that batches are of one class, too
			return plan.Of(plan.Plain, i)
		}
		return plan.Of(plan.Fine, i)
	}
	if err := a.send(t.Context(), n, body); err != nil {
		t.Fatal(err)
	}
	first := a.crew.start(step, passage)
	select {
	case <-first.done:
	case <-time.After(time.Minute):
		t.Fatalf("the process did not come by its step; it logged\n%s", a.crew.tailOf(first, 3000))
	}
	if s, ok := first.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || s.Signal() != syscall.SIGKILL {
		t.Fatalf("the process ended with %s, not by SIGKILL:\n%s", first.cmd.ProcessState, a.crew.tailOf(first, 3000))
	}
	killed.Add(1)
	a.crew.start("", 0)
	eventually(t, 2*time.Minute, a.progress)
	eventually(t, time.Minute, a.left)
	a.crew.dismissAll()
	a.verify()
}

// lonelyArm is an arm on servers that it shares with other tests, without faults but those that its test makes.
func lonelyArm(t *testing.T, kind, store string) *arm {
	t.Helper()
	var d *database
	if store == "sqlite" {
		d = newSQLite(t, t.TempDir())
	} else {
		d = newPostgres(t, services.Postgres(t).URL)
	}
	var b broker
	if kind == "fifo" || strings.HasPrefix(kind, "sqs") {
		b = newQueue(t, services.Name(t), services.ElasticMQ(t), kind == "fifo")
	} else {
		b = newLog(t, services.Name(t), services.Kafka(t))
	}
	return newArm(t, "k", d, b, plan.Orders{
		Rows: strings.HasPrefix(kind, "kafka rows"), KIP848: strings.HasSuffix(kind, "848"), Batch: strings.HasSuffix(kind, "batch"),
		Lease: time.Second, Window: 6 * time.Second,
	})
}
