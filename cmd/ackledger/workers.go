package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ackledger/ackledger/ledger"
)

func newWorkers(t *target) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "workers",
		Short: "Say which workers there are, and how they do",
		Long: `Say which workers there are, and how they do: those that live, and those that left or died within the last hour. Below
them stand the pauses that hold.

A worker says how it does a second after it has joined, and then with each heartbeat, three times a lease (every 10 s by
default), so what is shown may be as old. One that died says what it said last. Counts are since it started. What a worker writes is its own to say: names
and texts may be anything.

A worker without a scope has reported nothing. It is young, or ended before its first heartbeat; or it is of an older
version, or its program wraps the ledger's owner, and then it does not heed pauses. Which of these, the ledger does not
know.`,
		Args: cobra.NoArgs,
		RunE: begun(func(cmd *cobra.Command) error {
			return t.operate(cmd, func(ctx context.Context, l opened) error {
				all, err := l.Workers(ctx)
				if err != nil {
					return err
				}
				hold, err := l.Pauses(ctx)
				if err != nil {
					return err
				}
				slices.SortStableFunc(all, func(a, b ledger.WorkerStatus) int {
					return cmp.Or(int(a.Fate)-int(b.Fate), cmp.Compare(a.Report.Scope, b.Report.Scope), cmp.Compare(a.Report.Host, b.Report.Host))
				})
				if asJSON {
					return printJSON(cmd.OutOrStdout(), newCrew(all, hold))
				}
				return printWorkers(cmd.OutOrStdout(), all, hold)
			})
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "JSON, with times in seconds")
	return cmd
}

// crew is the board for programs.
type crew struct {
	Workers []worker `json:"workers"`
	Pauses  []paused `json:"pauses"`
}

type worker struct {
	Owner  string   `json:"owner"`
	Fate   string   `json:"fate"`          // live, overdue, left, dead
	Lease  *float64 `json:"lease_seconds"` // what is left of it; null: it does not live
	Report *report  `json:"report"`        // null: it has reported nothing
}

type report struct {
	Scope      string    `json:"scope"`
	Scopes     []string  `json:"scopes,omitempty"`
	Host       string    `json:"host"`
	PID        int       `json:"pid"`
	Version    string    `json:"version"`
	Started    time.Time `json:"started"`
	Held       int       `json:"held"`
	Running    int       `json:"running"`
	Waiting    int       `json:"waiting"`
	Oldest     float64   `json:"oldest_seconds"`
	Succeeded  int64     `json:"succeeded"`
	Failed     int64     `json:"failed"`
	Retried    int64     `json:"retried"`
	Duplicates int64     `json:"duplicates"`
	Alive      bool      `json:"alive"`
	Ready      bool      `json:"ready"`
	Paused     string    `json:"paused"` // empty: it is not
	Stalled    []string  `json:"stalled"`
	Warnings   []string  `json:"warnings"`
	Error      string    `json:"error"`
	Lag        []lag     `json:"lag"` // the largest first, as far as they were told
}

type lag struct {
	Source  string `json:"source"`
	Waiting int64  `json:"waiting"`
}

type paused struct {
	Scope  string    `json:"scope"` // empty: all
	Actor  string    `json:"actor"`
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
}

func newCrew(all []ledger.WorkerStatus, hold []ledger.Pause) crew {
	out := crew{Workers: []worker{}, Pauses: []paused{}}
	for i := range all {
		w := worker{Owner: all[i].Owner, Fate: fateOf(&all[i])}
		if all[i].Fate == ledger.Live {
			left := all[i].Lease.Seconds()
			w.Lease = &left
		}
		if r := &all[i].Report; !r.Started.IsZero() {
			w.Report = newReport(r)
		}
		out.Workers = append(out.Workers, w)
	}
	for _, p := range hold {
		out.Pauses = append(out.Pauses, newPaused(p))
	}
	return out
}

func newReport(r *ledger.WorkerReport) *report {
	out := &report{
		Scope: text(r.Scope), Host: r.Host, PID: r.PID, Version: r.Version, Started: r.Started.UTC(), Held: r.Held, Running: r.Running,
		Waiting: r.Waiting, Oldest: r.Oldest.Seconds(), Succeeded: r.Succeeded, Failed: r.Failed, Retried: r.Retried, Duplicates: r.Duplicates,
		Alive: r.Alive, Ready: r.Ready, Paused: r.Paused, Stalled: append([]string{}, r.Stalled...), Warnings: append([]string{}, r.Warnings...),
		Error: r.Error, Lag: []lag{},
	}
	for _, scope := range r.Scopes {
		out.Scopes = append(out.Scopes, text(scope))
	}
	for _, l := range r.Lag {
		out.Lag = append(out.Lag, lag(l))
	}
	return out
}

func newPaused(p ledger.Pause) paused {
	return paused{Scope: textOrNone(p.Scope), Actor: p.By.Actor, Reason: p.By.Reason, Since: p.Since.UTC()}
}

func textOrNone(scope string) string {
	if scope == "" {
		return ""
	}
	return text(scope)
}

func fateOf(w *ledger.WorkerStatus) string {
	switch {
	case w.Fate == ledger.Live && w.Lease <= 0:
		return "overdue"
	case w.Fate == ledger.Live:
		return "live"
	case w.Fate == ledger.Left:
		return "left"
	}
	return "dead"
}

func printWorkers(out io.Writer, all []ledger.WorkerStatus, hold []ledger.Pause) error {
	if len(all) == 0 {
		fmt.Fprintln(out, "no worker lives, and none has left or died within the last hour")
	} else {
		tab := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(tab, "OWNER\tFATE\tLEASE\tSCOPE\tHOST\tVERSION\tHELD\tRUNNING\tWAITING\tLAG\tPAUSED\tSTALLED")
		for i := range all {
			w, lease := &all[i], "-"
			if w.Fate == ledger.Live {
				lease = short(w.Lease)
			}
			fmt.Fprintf(tab, "%s\t%s\t%s\t%s\n", text(w.Owner), fateOf(w), lease, cells(&w.Report))
		}
		if err := tab.Flush(); err != nil {
			return err
		}
	}
	if len(hold) > 0 {
		fmt.Fprintln(out)
	}
	for _, p := range hold {
		fmt.Fprintf(out, "paused: %s, %s\n", scopeOrAll(p.Scope), saidBy(p))
	}
	return nil
}

// cells are what a worker says of itself.
func cells(r *ledger.WorkerReport) string {
	if r.Started.IsZero() {
		return strings.Join(slices.Repeat([]string{"-"}, 9), "\t")
	}
	scope, behind := text(r.Scope), "-"
	if n := len(r.Scopes) - 1; n > 0 {
		scope += fmt.Sprintf(" and %d more", n)
	}
	if len(r.Lag) > 0 {
		sum := int64(0)
		for _, l := range r.Lag {
			sum += l.Waiting
		}
		behind = count(sum)
	}
	stalled := "-"
	if n := len(r.Stalled); n > 0 {
		stalled = text(r.Stalled[0])
		if n > 1 {
			stalled += fmt.Sprintf(" and %d more", n-1)
		}
	}
	return strings.Join([]string{
		cmp.Or(scope, "-"), fmt.Sprintf("%s:%d", text(r.Host), r.PID), cmp.Or(text(r.Version), "-"), count(int64(r.Held)), count(int64(r.Running)),
		count(int64(r.Waiting)), behind, cmp.Or(text(r.Paused), "-"), stalled,
	}, "\t")
}

func scopeOrAll(scope string) string {
	if scope == "" {
		return "all"
	}
	return text(scope)
}

// saidBy says who has paused a scope, since when, and why.
func saidBy(p ledger.Pause) string {
	said := fmt.Sprintf("by %s since %s", text(p.By.Actor), p.Since.UTC().Format(time.RFC3339))
	if p.By.Reason != "" {
		said += ": " + text(p.By.Reason)
	}
	return said
}
