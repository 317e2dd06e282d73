package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/internal/services"
)

func TestMain(m *testing.M) {
	if scenario := os.Getenv("SCENARIO"); scenario != "" {
		end(serve(scenario))
	}
	os.Exit(m.Run())
}

// Each cell, with some hundred jobs: whatever disturbs it, no job is lost and no effect is there twice.
func TestEveryCell(t *testing.T) {
	if testing.Short() {
		t.Skip("left out by -short: it needs servers and some minutes; make test-long runs it")
	}
	brokers := strings.Join(services.Kafka(t), ",")
	for _, c := range cells() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.workers, c.rate, c.depth = 8, 100, min(c.depth, 100)
			o, err := c.run(t.Context(), brokers, 2*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			t.Log(o.row(c))
			if o.jobs < 100 || o.lost != 0 || o.repeated != 0 {
				t.Errorf("%d jobs, %d lost, %d done twice", o.jobs, o.lost, o.repeated)
			}
			if before := o.phases[0]; before.rate == 0 || before.p50 == 0 {
				t.Errorf("nothing was completed before the disturbance: %+v", o.phases)
			}
		})
	}
}

// Three digits of a duration are right, over the whole of what is counted.
func TestLatencies(t *testing.T) {
	for d := time.Microsecond; d < time.Hour; d = d*11/10 + time.Microsecond {
		if got := from(bucket(d)); got > d || d-got > d/1000+time.Microsecond {
			t.Errorf("%v is counted as %v", d, got)
		}
	}
	l := newLatencies(2)
	for i := range 100 {
		l.add(time.Duration(i+1) * time.Millisecond)
	}
	for sample, want := range [][2]float64{{50, 99}, {50, 99}, {0, 0}} { // of two samples' time, then forgotten
		for i, got := range l.take([]float64{0.5, 0.99}) {
			if got > want[i] || got < want[i]*0.998 {
				t.Errorf("sample %d: %v, want %v", sample, got, want[i])
			}
		}
	}
}

func TestSettings(t *testing.T) {
	_, err := read(func(name string) string {
		return map[string]string{"WORKER_COUNT": "0", "PRODUCER_RATE": "x", "DATABASE_URL": "y"}[name]
	})
	for _, name := range []string{"WORKER_COUNT", "PRODUCER_RATE", "ACKLEDGER_KAFKA"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v does not name %s", err, name)
		}
	}
}
