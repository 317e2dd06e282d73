package sqstest_test

import (
	"testing"
	"time"

	"github.com/ackledger/ackledger/sqs/sqstest"
)

func TestManualClockRunsAlarmsInOrder(t *testing.T) {
	t.Parallel()
	clock := sqstest.NewManualClock(time.Unix(0, 0))
	var ran []string
	note := func(name string) func() {
		return func() { ran = append(ran, name+"@"+clock.Now().UTC().Format("05")) }
	}
	clock.AfterFunc(3*time.Second, note("c"))
	clock.AfterFunc(1*time.Second, func() {
		note("a")()
		clock.AfterFunc(time.Second, note("b")) // falls due in the same Advance
	})
	stop := clock.AfterFunc(2*time.Second, note("stopped"))
	if !stop() || stop() {
		t.Fatal("stop: want true, then false")
	}
	late := clock.AfterFunc(time.Minute, note("late"))
	clock.Advance(-time.Hour)
	clock.Advance(10 * time.Second)
	if want := []string{"a@01", "b@02", "c@03"}; format(ran) != format(want) {
		t.Fatalf("ran %v, want %v", ran, want)
	}
	if !clock.Now().Equal(time.Unix(10, 0)) {
		t.Fatalf("the clock shows %v, want 10 s", clock.Now())
	}
	clock.Advance(time.Minute)
	if late() {
		t.Fatal("an alarm that ran was stopped")
	}
	soon := make(chan struct{})
	clock.AfterFunc(0, func() { close(soon) })
	<-soon
}
