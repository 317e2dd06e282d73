package soak

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ackledger/ackledger/bench/internal/suite"
)

// Sample is one look at the worker's process.
type Sample struct {
	At         time.Duration // since the load began
	Resident   float64       // MiB
	Heap       float64       // MiB that Go's heap has in use
	Goroutines int
	Files      int // open, connections included
	Handled    Counts
	Backlog    int64 // sent and not handled yet, by the group that is behind the most
}

// Counts are messages by where they came from.
type Counts struct{ Rows, Ranges, Queue, Retried, Failed int64 }

// All is how many messages were handled.
func (c Counts) All() int64 { return c.Rows + c.Ranges + c.Queue }

// Limits are what a flat run stays below: how much larger the median of its last third may be than that of its middle one.
// The first third warms up.
const (
	MaxGrowth     = 10.0  // percent, of the resident size
	MaxResident   = 512.0 // MiB, at any time
	maxMore       = 20    // goroutines, files
	fewestSamples = 9
)

// Thirds are the medians of a value in the three thirds of a run.
func Thirds(samples []Sample, value func(Sample) float64) (out [3]float64) {
	third := len(samples) / 3
	for i := range out {
		part := samples[i*third : (i+1)*third]
		if i == 2 {
			part = samples[2*third:]
		}
		values := make([]float64, len(part))
		for j := range part {
			values[j] = value(part[j])
		}
		out[i] = suite.Median(values)
	}
	return out
}

// Growth is how much larger the last third is than the middle one, in percent.
func Growth(thirds [3]float64) float64 { return 100 * (thirds[2] - thirds[1]) / thirds[1] }

// Values of a sample, for Thirds.
var (
	Resident   = func(s Sample) float64 { return s.Resident }
	Heap       = func(s Sample) float64 { return s.Heap }
	Goroutines = func(s Sample) float64 { return float64(s.Goroutines) }
	Files      = func(s Sample) float64 { return float64(s.Files) }
)

// Judge says what is not flat; nil: everything is.
func Judge(samples []Sample) error {
	if len(samples) < fewestSamples {
		return fmt.Errorf("a run needs %d samples to be judged, has %d", fewestSamples, len(samples))
	}
	var errs []error
	if g := Growth(Thirds(samples, Resident)); g > MaxGrowth {
		errs = append(errs, fmt.Errorf("the resident size grew by %.1f %% from the middle third to the last, more than %.0f %%", g, MaxGrowth))
	}
	highest := slices.MaxFunc(samples, func(a, b Sample) int { return int(a.Resident - b.Resident) })
	if highest.Resident > MaxResident {
		errs = append(errs, fmt.Errorf("the resident size was %.0f MiB after %s, more than %.0f", highest.Resident, highest.At, MaxResident))
	}
	for name, value := range map[string]func(Sample) float64{"goroutines": Goroutines, "open files": Files} {
		if t := Thirds(samples, value); t[2] > t[1]+maxMore {
			errs = append(errs, fmt.Errorf("%.0f %s in the last third, %.0f in the middle one", t[2], name, t[1]))
		}
	}
	return errors.Join(errs...)
}
