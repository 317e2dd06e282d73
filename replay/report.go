package replay

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// maxSamples bounds Report.Samples.
const maxSamples = 20

// Report says what became of the dead letters of a [Run]. Its JSON names are stable. With DryRun it says what would.
type Report struct {
	Source string    `json:"source"`
	Target string    `json:"target"`
	DryRun bool      `json:"dry_run"`
	Began  time.Time `json:"began"` // by this machine's clock
	Ended  time.Time `json:"ended"`

	// Read are the dead letters that the filter selects; each is counted once below.
	Read       int64 `json:"read"`
	Replayed   int64 `json:"replayed"`          // sent, or handled with success
	Succeeded  int64 `json:"already_succeeded"` // their message succeeded: dropped
	Superseded int64 `json:"superseded"`        // a later letter of their message takes their place: dropped
	Left       int64 `json:"left"`              // live, in backoff, or behind one that failed or was refused
	Refused    int64 `json:"refused"`
	Mismatched int64 `json:"mismatched"` // not sent: see Config.Mismatched
	Failed     int64 `json:"failed"`     // the send failed, or the handler did
	// Targets counts what was sent by the queue (ARN) or topic (`cluster/topic`) that it was sent to; with DryRun, would be.
	Targets map[string]int64 `json:"targets,omitempty"`
	// Unread are, about, those that the source has beside Read and that the run could not see: see Unreader.
	Unread int64 `json:"unread,omitempty"`

	// Reasons counts why.
	Reasons map[Reason]int64 `json:"reasons,omitempty"`
	// Samples are some of those that were left, refused, mismatched or failed; at most 20.
	Samples []Sample `json:"samples,omitempty"`
	// Warnings are what source and target have to say.
	Warnings []string `json:"warnings,omitempty"`
	// Stopped says why the run ended before the end of what was there; empty: it did not.
	Stopped string `json:"stopped,omitempty"`
}

// Sample is one dead letter that was not replayed.
type Sample struct {
	ID     string `json:"id"`
	Scope  string `json:"scope,omitempty"`
	Step   string `json:"step"`
	Reason string `json:"reason"`
}

// Complete says that nothing is left to do: everything that was there was seen, and was replayed or dropped.
func (r *Report) Complete() bool {
	return r.Stopped == "" && r.Unread == 0 && r.Left == 0 && r.Refused == 0 && r.Mismatched == 0 && r.Failed == 0
}

// Text renders the report for people, several lines with a line break at the end.
func (r *Report) Text() string {
	var b strings.Builder
	verb := "replayed"
	if r.DryRun {
		verb = "would be replayed"
	}
	fmt.Fprintf(&b, "%s to %s: %d dead letters in %s\n", r.Source, r.Target, r.Read, r.Ended.Sub(r.Began).Round(time.Millisecond))
	for _, line := range []struct {
		n    int64
		text string
	}{
		{r.Replayed, verb}, {r.Succeeded, "succeeded already"}, {r.Superseded, "superseded by a later letter"}, {r.Left, "left"},
		{r.Refused, "refused"}, {r.Mismatched, "mismatched"}, {r.Failed, "failed"},
	} {
		fmt.Fprintf(&b, "  %7d %s\n", line.n, line.text)
		if line.text == verb {
			for _, target := range slices.Sorted(maps.Keys(r.Targets)) {
				fmt.Fprintf(&b, "    %7d to %s\n", r.Targets[target], target)
			}
		}
	}
	for _, reason := range slices.SortedFunc(maps.Keys(r.Reasons), func(x, y Reason) int {
		return cmp.Or(cmp.Compare(r.Reasons[y], r.Reasons[x]), cmp.Compare(x, y))
	}) {
		if reason == Failed || reason == Succeeded || reason == Superseded {
			continue // said already
		}
		fmt.Fprintf(&b, "  %7d because: %s\n", r.Reasons[reason], reason)
	}
	for _, s := range r.Samples {
		fmt.Fprintf(&b, "  %s %s: %s\n", s.Step, s.ID, s.Reason)
	}
	for _, w := range r.Warnings {
		fmt.Fprintf(&b, "  warning: %s\n", w)
	}
	if r.Stopped != "" {
		fmt.Fprintf(&b, "stopped: %s\n", r.Stopped)
	}
	return b.String()
}

// Progress is how far a run is.
type Progress struct {
	Report  Report        // so far; a copy, without Samples
	Seen    int64         // what the source has brought, selected by the filter or not
	Total   int64         // an estimate of Seen at the end; -1: not known
	Rate    float64       // of Report.Read in a second, of late
	Left    time.Duration // an estimate; negative: not known
	Elapsed time.Duration
}
