package chaos_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ackledger/ackledger/integration/chaos/plan"
)

// deafArm is an arm whose first process has handlers that ignore the end of their context, for up to longest, and are
// deaf now.
func deafArm(t *testing.T, kind string, longest time.Duration) (a *arm, first *member) {
	t.Helper()
	const n, deaf = 8, 3 // fewer may run at once than there are messages
	a = lonelyArm(t, kind, "postgres")
	body := func(i int) string { return fmt.Sprintf("%s %09d", plan.Fine, i) }
	if err := a.send(t.Context(), n, body); err != nil {
		t.Fatal(err)
	}
	a.crew.orders.Deaf, a.crew.orders.DeafFor = 1000, longest
	first = a.crew.start("", 0)
	a.crew.orders.Deaf = 0
	eventually(t, 2*time.Minute, func() string {
		if got := first.page.Get(plan.Deafs); got < deaf {
			return fmt.Sprintf("%d handlers are deaf, want %d", got, deaf)
		}
		return ""
	})
	return a, first
}

// A worker whose handlers do not hear that they are to end leaves all the same when its drain's time is up, and says what
// it has left; another one does that, at once.
func TestDeafHandlersDoNotHoldTheShutdown(t *testing.T) {
	needLong(t, "`make test` has TestPitfall61 and the drain's tests")
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			scenario(t, "handlers that hear of nothing do not hold the shutdown, "+kind)
			const bound = 45 * time.Second // of a drain of 8 s, on a busy machine; the handlers need an hour
			a, first := deafArm(t, kind, 8*time.Hour)
			began := time.Now()
			code := a.crew.dismiss(first)
			if took := time.Since(began); took > bound {
				t.Errorf("the worker took %s to leave, want at most %s", took, bound)
			}
			if log := a.crew.tailOf(first, 3000); code != 1 || !strings.Contains(log, "drain: must end within") {
				t.Errorf("the worker ended with %d, want 1 and what it has left in hand; it logged\n%s", code, log)
			}
			a.crew.start("", 0)
			eventually(t, 2*time.Minute, a.progress)
			eventually(t, time.Minute, a.left)
			a.crew.dismissAll()
			a.verify()
		})
	}
}

// A worker freezes, loses its lease, and wakes up; its handlers do not hear of it, and have their effects: the fence
// refuses those, since another worker has done their messages.
func TestDeafHandlersAreFenced(t *testing.T) {
	needLong(t, "`make test` has TestPitfall35 and TestPitfall85")
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			scenario(t, "handlers that hear of nothing are fenced after a frozen lease, "+kind)
			a, first := deafArm(t, kind, 40*time.Second)
			if err := first.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			frozen := first.page.Get(plan.Running)
			before := first.page.Get(plan.Succeeded)
			a.crew.start("", 0)
			eventually(t, 2*time.Minute, a.progress)
			if err := first.cmd.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			eventually(t, 2*time.Minute, a.idle)
			if after := first.page.Get(plan.Succeeded); frozen == 0 || after != before {
				t.Errorf("%d handlers froze; effects of their process: %d before, %d after", frozen, before, after)
			}
			eventually(t, time.Minute, a.left)
			a.crew.dismissAll()
			a.verify()
		})
	}
}
