package flow

import "testing"

// A dispatch that is over keeps nothing of its range in memory, however long it lies there to be used again.
func TestFreedDispatchKeepsNoRange(t *testing.T) {
	f := New(Config{Concurrency: 1, BatchSize: 1})
	d := f.anyDispatch(0, 2, &Range{})
	f.Free(d)
	if d.rng != nil || d.Of != nil {
		t.Errorf("it keeps its range: %v, %v", d.rng, d.Of)
	}
}
