package soak_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/bench/internal/soak"
)

// samples are n looks, a second apart, of a process that has these sizes in its thirds.
func samples(n int, sizes ...float64) (out []soak.Sample) {
	for i := range n {
		out = append(out, soak.Sample{At: time.Duration(i) * time.Second, Resident: sizes[min(i*3/n, 2)], Heap: 10, Goroutines: 50, Files: 20,
			Handled: soak.Counts{Rows: int64(i), Ranges: int64(i), Queue: int64(i), Failed: 1}})
	}
	return out
}

func TestJudge(t *testing.T) {
	grown := samples(30, 50, 100, 100)
	for i := range grown[20:] {
		grown[20+i].Goroutines = 80
	}
	for name, c := range map[string]struct {
		samples []soak.Sample
		want    string
	}{
		"flat, after it warmed up": {samples(30, 50, 100, 105), ""},
		"it shrinks":               {samples(30, 50, 100, 60), ""},
		"it grows":                 {samples(30, 100, 100, 111), "grew by 11.0 %"},
		"too large":                {samples(30, 600, 100, 100), "600 MiB"},
		"goroutines":               {grown, "80 goroutines"},
		"too short":                {samples(8, 1, 1, 1), "needs 9 samples"},
	} {
		err := soak.Judge(c.samples)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestSectionTellsTheVerdict(t *testing.T) {
	r := &soak.Run{Took: time.Minute, Machine: "two cores", Samples: samples(30, 50, 100, 105)}
	first := r.Section("soak.svg")
	r.Verdict = errors.New("it grew")
	second := r.Section("soak.svg")
	if strings.Contains(second, "Flat:") || !strings.Contains(first, "Flat:") || !strings.Contains(second, "**Not passed:** it grew.") {
		t.Errorf("page:\n%s", second)
	}
	if !strings.Contains(first, "| resident size, MiB | 50 | 100 | 105 | +5.0 % |") {
		t.Errorf("page:\n%s", first)
	}
}

func TestChart(t *testing.T) {
	var b bytes.Buffer
	if err := soak.Chart(&b, samples(30, 50, 100, 105)); err != nil || !strings.Contains(b.String(), "<svg") || !strings.Contains(b.String(), "resident size") {
		t.Errorf("%v: %.200s", err, b.String())
	}
}
