package plan_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ackledger/ackledger/integration/chaos/plan"
)

// What becomes of a message follows from the seed and its number alone.
func ExampleBody() {
	for n := range 3 {
		fmt.Println(plan.Body(1, n), plan.Group(n))
	}
	// Output:
	// fine 000000000 group-0
	// fine 000000001 group-1
	// fine 000000002 group-2
}

func TestDrawsEveryClassAndFault(t *testing.T) {
	const n = 100_000
	classes, faults := map[plan.Class]int{}, map[plan.Fault]int{}
	for i := range n {
		classes[plan.ClassOf(7, i)]++
		f, _ := plan.Draw(7, []byte(plan.Body(7, i)), 1+i%plan.LastFault)
		faults[f]++
		if f, _ := plan.Draw(7, []byte(plan.Body(7, i)), plan.LastFault+1); f != plan.NoFault {
			t.Fatalf("message %d fails at attempt %d", i, plan.LastFault+1)
		}
	}
	for c, want := range map[plan.Class]int{plan.Poison: 40, plan.Failing: 100, plan.Bad: 500, plan.Plain: 20_000, plan.Fine: 79_360} {
		if got := classes[c]; got < want/2 || got > want*2 {
			t.Errorf("%d of %d messages are %s, want about %d", got, n, c, want)
		}
	}
	deaf := 0
	for i := range n {
		const longest = 8 * time.Second
		d := plan.Deafness(7, []byte(plan.Body(7, i)), 1, 10, longest)
		if d != 0 && (d < longest/8 || d > longest) {
			t.Fatalf("message %d is deaf for %s, want %s to %s", i, d, longest/8, longest)
		}
		if d != 0 {
			deaf++
		}
	}
	if deaf < n/200 || deaf > n/50 {
		t.Errorf("%d of %d handlers are deaf, want about %d", deaf, n, n/100)
	}
	calls := 0
	for i := range n {
		if body := []byte(plan.Body(7, i)); plan.HasCalls(7, body) {
			if calls++; !plan.Parse(body).Succeeds() {
				t.Fatalf("message %q has outside calls", body)
			}
		}
	}
	if calls < n/10 || calls > n/6 {
		t.Errorf("%d of %d messages have outside calls, want about %d", calls, n, n/8)
	}
	for f := plan.NoFault; f <= plan.AfterEffect; f++ {
		if faults[f] == 0 {
			t.Errorf("fault %d is never drawn", f)
		}
	}
}

func TestPageOutlivesItsWriter(t *testing.T) {
	path := t.TempDir() + "/page"
	a, err := plan.OpenPage(path)
	if err != nil {
		t.Fatal(err)
	}
	a.Add(plan.Begun, 3)
	a.Raise(plan.Memory, 10)
	a.Raise(plan.Memory, 5)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := plan.OpenPage(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }() // the process ends
	if b.Get(plan.Begun) != 3 || b.Get(plan.Memory) != 10 {
		t.Errorf("the page says %d begun, %d bytes; want 3 and 10", b.Get(plan.Begun), b.Get(plan.Memory))
	}
}
