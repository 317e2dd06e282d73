package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// iso is the harness' form of a time.
const iso = "2006-01-02T15:04:05.000Z07:00"

// reading is one line of an adapter: a metric of one replica.
type reading struct {
	At          string  `json:"t"`
	System      string  `json:"system"`
	Kind        string  `json:"kind"`
	SubjectKind string  `json:"subject_kind"`
	Subject     string  `json:"subject"`
	Metric      string  `json:"metric"`
	Value       float64 `json:"value"`
	Window      float64 `json:"window_s"`
	Instance    int     `json:"instance_id"`
}

// completedTotal is how many jobs a replica has completed since it began. The harness does not know it.
const completedTotal = "completed_total"

// describe prints the first line: the manifest, and what runs.
func (a *adapter) describe() error {
	var d map[string]any
	if err := json.Unmarshal(manifest, &d); err != nil {
		return err
	}
	a.system, _ = d["system"].(string)
	d["kind"], d["version"], d["schema_version"] = "descriptor", "source", "current"
	d["started_at"], d["instance_id"] = time.Now().UTC().Format(iso), a.instance
	return a.out.Encode(d)
}

// sample prints metrics at whole multiples of the cadence, and once more when ctx ends.
func (a *adapter) sample(ctx context.Context) {
	var enqueued, completed int64
	last := time.Now()
	for going := true; going; {
		now := time.Now()
		going = pause(ctx, now.Truncate(a.every).Add(a.every).Sub(now))
		at := time.Now()
		e, c, took := a.enqueued.Load(), a.completed.Load(), at.Sub(last).Seconds()
		lines := []reading{
			{Metric: "enqueue_rate", Value: float64(e-enqueued) / took, Window: a.every.Seconds()},
			{Metric: "completion_rate", Value: float64(c-completed) / took, Window: a.every.Seconds()},
			{Metric: completedTotal, Value: float64(c)},
		}
		enqueued, completed, last = e, c, at
		if a.instance == 0 && going { // what all replicas share is told by one
			lines = append(lines, reading{Metric: "producer_target_rate", Value: a.offered()})
			if depth, ok := a.behind(ctx); ok {
				lines = append(lines, reading{Metric: "queue_depth", Value: depth})
			}
		}
		for name, l := range map[string]*latencies{"claim": a.claim, "end_to_end": a.whole} {
			for i, ms := range l.take([]float64{0.5, 0.95, 0.99}) {
				lines = append(lines, reading{Metric: name + [3]string{"_p50_ms", "_p95_ms", "_p99_ms"}[i], Value: ms, Window: a.window.Seconds()})
			}
		}
		a.print(at, lines)
	}
}

func (a *adapter) print(at time.Time, lines []reading) {
	for _, r := range lines {
		r.At, r.System, r.Kind, r.SubjectKind, r.Instance = at.UTC().Format(iso), a.system, "adapter", "adapter", a.instance
		if err := a.out.Encode(r); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3) // the parent has gone
		}
	}
}

// behind is how many records the group has not committed: what waits, and what is in hand.
func (a *adapter) behind(ctx context.Context) (float64, bool) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	lags, err := kadm.NewClient(a.client).Lag(ctx, a.topic)
	group := lags[a.topic]
	if err != nil || group.Error() != nil {
		return 0, false
	}
	return float64(group.Lag.Total()), true
}
