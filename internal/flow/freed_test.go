package flow

import "testing"

// TestPitfall190_FreedDispatch: a dispatch that was over kept its range, and so the records of a poll, in memory until it was used again.
func TestPitfall190_FreedDispatch(t *testing.T) {
	f := New(Config{Concurrency: 1, BatchSize: 1})
	d := f.anyDispatch(0, 2, &Range{})
	f.Free(d)
	if d.rng != nil || d.Of != nil {
		t.Errorf("it keeps its range: %v, %v", d.rng, d.Of)
	}
}
