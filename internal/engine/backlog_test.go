package engine

import (
	"fmt"
	"testing"
	"time"
)

// A retry that was due in 100 ms stood behind thousands of messages that had come later, for seconds; on Kafka the
// committed offset stood still with it.
func TestWhatIsDueGoesAheadOfTheBacklog(t *testing.T) {
	for _, lane := range []string{"", "lane of the retry"} {
		w := newTwin()
		retry := w.add(lane, "retry")
		w.claim(1, false)
		w.s.hold(retry, w.now.Add(time.Second))
		for i := range 5000 {
			w.add("", fmt.Sprint("new ", i))
			w.add(fmt.Sprint("lane ", i%100), fmt.Sprint("new in a lane ", i))
		}
		w.s.wake(w.now.Add(2 * time.Second))
		w.claim(10, false)
		if retry.phase != claiming {
			t.Errorf("lane %q: the retry is not among the first 10", lane)
		}
		if n := len(w.in(claiming)); n != 10 {
			t.Errorf("lane %q: %d claimed, want 10: what is new goes on beside it", lane, n)
		}
	}
}
