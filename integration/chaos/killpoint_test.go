package chaos_test

import (
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ackledger/ackledger/integration/chaos/plan"
	"github.com/ackledger/ackledger/integration/services"
	"github.com/ackledger/ackledger/internal/killpoint"
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

// stores are the durable ones.
var stores = []string{"postgres", "sqlite"}

// killed counts the processes that died at a step.
var killed atomic.Int64

// A worker is killed with SIGKILL at each step of a message's way, and another one takes over: nothing is lost, each
// effect is there once, each dead letter once in the archive. In `make test` workers and stores take turns, so that each
// step is hit once; the long run takes all.
func TestKilledAtEachStep(t *testing.T) {
	services.NeedServers(t)
	for k, kind := range kinds {
		for s, step := range killpoint.Steps {
			for d, store := range stores {
				if !long() && ((k+s)%3 != 0 || (k+s+d)%2 == 1) {
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

func killedAt(t *testing.T, kind, store string, step killpoint.Step) {
	const n = 60
	passage := 1
	if step == killpoint.BeforeEffect || step == killpoint.AfterEffect {
		passage = n / 3
	}
	a := lonelyArm(t, kind, store)
	body := func(i int) string {
		if i%10 == 9 {
			return fmt.Sprintf("%s %09d", plan.Bad, i)
		}
		return fmt.Sprintf("%s %09d", plan.Fine, i)
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
	if kind == "sqs" {
		b = newQueue(t, services.Name(t), services.ElasticMQ(t), false)
	} else {
		b = newLog(t, services.Name(t), services.Kafka(t))
	}
	return newArm(t, "k", d, b, plan.Orders{Rows: kind == "kafka rows", Lease: time.Second, Window: 6 * time.Second})
}
