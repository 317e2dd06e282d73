package maintenance_test

import (
	"testing"
	"time"

	"github.com/ackledger/ackledger/internal/maintenance"
)

// TestSweepPaceRows: how many rows the next transaction of a sweep may look at, after those before it.
func TestSweepPaceRows(t *testing.T) {
	t.Parallel()
	const broken = time.Duration(-1) // the database ended it
	for name, c := range map[string]struct {
		batch int
		took  []time.Duration
		rows  []int // after each
	}{
		"slow ones halve it":           {5000, []time.Duration{2 * time.Second, time.Minute, 2 * time.Second}, []int{2500, 1250, 625}},
		"it grows by an eighth":        {5000, []time.Duration{2 * time.Second, 0, 0, 2 * time.Second}, []int{2500, 2813, 3165, 1582}},
		"as long as it aims at is not": {1000, []time.Duration{2 * time.Second, time.Second}, []int{500, 563}},
		"never above the batch":        {100, []time.Duration{0, 2 * time.Second, 0, 0, 0, 0, 0, 0, 0}, []int{100, 50, 57, 65, 74, 84, 95, 100, 100}},
		"never below one":              {3, []time.Duration{2 * time.Second, 2 * time.Second, 2 * time.Second}, []int{1, 1, 1}},
		"a broken one quarters it":     {1000, []time.Duration{broken, broken, 0}, []int{250, 62, 70}},
		"out of one row come no fewer": {3, []time.Duration{broken}, []int{1}},
	} {
		p := maintenance.NewPace(c.batch, time.Second)
		for i, d := range c.took {
			if d == broken {
				if before := p.Rows(); p.Broken() != (before > 1) {
					t.Errorf("%s, step %d: of %d rows, Broken is wrong about a smaller one", name, i, before)
				}
			} else {
				p.Took(d)
			}
			if p.Rows() != c.rows[i] {
				t.Errorf("%s, step %d: %d rows, want %d", name, i, p.Rows(), c.rows[i])
			}
		}
	}
	p := maintenance.NewPace(1, time.Second)
	if p.Broken() {
		t.Error("a transaction of one row was broken, and Broken says that a smaller one can be tried")
	}
}
