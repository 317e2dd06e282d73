package sim

import "testing"

// Worlds of all kinds keep their promises while an operator pauses scopes, too, and come to their end once all go on. In all together
// workers are stopped, some of them by what comes after the pause.
func TestWorldsOfOrders(t *testing.T) {
	t.Parallel()
	stopped, came := 0, 0
	for seed := range uint64(120) {
		c := Drawn(seed)
		if c.Moods == [kinds]float64{} {
			continue
		}
		c.Ordered, c.Partitions = true, 2
		r, err := Run(c)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		stopped, came = stopped+r.Stopped, came+r.StoppedByWork
	}
	if stopped < 100 || came == 0 {
		t.Errorf("too little happened: %d times a worker was stopped, %d times by what came", stopped, came)
	}
}
