package soak

import (
	"fmt"
	"strings"
	"time"
)

// Run is a run that has ended.
type Run struct {
	Began   time.Time
	Took    time.Duration
	Machine string
	Samples []Sample
	Verdict error // of Judge, and of what else went wrong
}

// Section is what a page says of the run. chart is the picture's file name beside it.
func (r *Run) Section(chart string) string {
	last := r.Samples[len(r.Samples)-1].Handled
	var b strings.Builder
	fmt.Fprintf(&b, "## Soak\n\n`make soak` on %s: %s at full load on %s. One process runs three workers on a PostgreSQL ledger: two groups of one Kafka "+
		"topic (one with a row for each record, one with ranges) and a queue of ElasticMQ. The load keeps a backlog before all of them. "+
		"One message of 100 fails once and is retried, one of 1,000 fails for good. The rates are no benchmark: whatever else the machine did had its share.\n\n", r.Began.UTC().Format(time.DateOnly), r.Took.Round(time.Second), r.Machine)
	seconds := r.Samples[len(r.Samples)-1].At.Seconds()
	b.WriteString("| | handled | a second |\n|---|---|---|\n")
	for _, row := range []struct {
		name string
		n    int64
	}{{"Kafka, rows", last.Rows}, {"Kafka, ranges", last.Ranges}, {"SQS, rows", last.Queue}, {"all", last.All()}, {"retried", last.Retried}, {"failed for good, archived", last.Failed}} {
		fmt.Fprintf(&b, "| %s | %d | %.0f |\n", row.name, row.n, float64(row.n)/seconds)
	}
	fmt.Fprintf(&b, "\nMedians of each third of the run, %d samples:\n\n| | first | middle | last | middle to last |\n|---|---|---|---|---|\n", len(r.Samples))
	for _, row := range []struct {
		name  string
		value func(Sample) float64
	}{{"resident size, MiB", Resident}, {"heap in use, MiB", Heap}, {"goroutines", Goroutines}, {"open files and connections", Files}} {
		t := Thirds(r.Samples, row.value)
		fmt.Fprintf(&b, "| %s | %.0f | %.0f | %.0f | %+.1f %% |\n", row.name, t[0], t[1], t[2], Growth(t))
	}
	verdict := fmt.Sprintf("Flat: the resident size may grow by %.0f %% from the middle third to the last, and never be over %.0f MiB.", MaxGrowth, MaxResident)
	if r.Verdict != nil {
		verdict = "**Not passed:** " + strings.ReplaceAll(r.Verdict.Error(), "\n", "; ") + "."
	}
	fmt.Fprintf(&b, "\n%s After the load ended, everything was handled, and the ledger had no pending message.\n\n![resident size over time](%s)\n", verdict, chart)
	return b.String()
}
