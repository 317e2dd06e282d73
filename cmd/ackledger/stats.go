package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ackledger/ackledger/ledger"
)

func newStats(t *target) *cobra.Command {
	asJSON, letters := false, false
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Say how the ledger is doing",
		Long: `Say how the ledger is doing: messages by state and scope, ages of what is pending, what deliveries were, owners, the
size of the tables, sessions that wait for locks, and retries that wait in the ledger.

It is cheap at any size of the tables: counts and ages are those of the last whole pass of the sweep, and the answer says
how old they are; the rest is of now. (` + "`ackledger maintain --once`" + ` makes a pass.)

What deliveries were, workers count and add with their heartbeats. A miss is the first claim of a message, a hit a
duplicate: its message was finished before. A timeout was busy behind another worker until the broker had it back. The rate
of deduplication is the share of hits in misses and hits.

--dead-letters counts the archive, too: by scope, kind and what became of the messages, and in bytes, as
Options.ArchiveBudget counts them. That reads all of it, without bodies.`,
		Args: cobra.NoArgs,
		RunE: begun(func(cmd *cobra.Command) error {
			var s ledger.Stats
			var dead []deadLetters
			var bytes []archivedBytes
			var parked map[string]ledger.ParkedStats
			err := t.operate(cmd, func(ctx context.Context, l opened) (err error) {
				if s, err = l.Stats(ctx); err == nil {
					parked, err = countParked(ctx, l)
				}
				if err != nil || !letters {
					return err
				}
				if dead, err = countDeadLetters(ctx, l); err == nil {
					bytes, err = weighArchive(ctx, l)
				}
				return err
			})
			if err != nil {
				return err
			}
			if asJSON {
				all := newStatistics(&s)
				all.DeadLetters, all.Archived, all.Parked = dead, bytes, newParkedCounts(parked)
				return printJSON(cmd.OutOrStdout(), all)
			}
			if err = printStats(cmd.OutOrStdout(), &s); err == nil {
				err = printParked(cmd.OutOrStdout(), parked)
			}
			if err == nil && letters {
				err = printDeadLetters(cmd.OutOrStdout(), dead, bytes)
			}
			return err
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "JSON, with ages in seconds")
	cmd.Flags().BoolVar(&letters, "dead-letters", false, "count the archive, too")
	return cmd
}

// statistics are Stats for programs.
type statistics struct {
	At     *time.Time `json:"at"` // null: there was no pass yet
	Age    float64    `json:"age_seconds"`
	Pass   *sweep     `json:"pass"`
	Scopes []scope    `json:"scopes"`
	// Deliveries are what workers have counted up to their last heartbeats.
	Deliveries []deliveries `json:"deliveries"`

	// Parked are the retries that wait in the ledger, as of now.
	Parked []parkedCount `json:"parked"`

	Owners    owners  `json:"owners"`
	Tables    []table `json:"tables"`
	LockWaits int64   `json:"lock_waits"`
	// LockWaited is how long these have waited up to now, in sum.
	LockWaited float64 `json:"lock_waited_seconds"`
	// DeadLetters and Archived are there if they were asked for.
	DeadLetters []deadLetters   `json:"dead_letters,omitempty"`
	Archived    []archivedBytes `json:"archived,omitempty"`
}

type scope struct {
	Scope         string  `json:"scope"`
	Pending       int64   `json:"pending"`
	Succeeded     int64   `json:"succeeded"`
	Failed        int64   `json:"failed"`
	Abandoned     int64   `json:"abandoned"`
	OldestPending float64 `json:"oldest_pending_seconds"`
	PendingAgeP95 float64 `json:"pending_age_p95_seconds"`
	PendingAgeP99 float64 `json:"pending_age_p99_seconds"`
}

type deliveries struct {
	Scope     string    `json:"scope"`
	Since     time.Time `json:"since"`
	Misses    int64     `json:"misses"`
	Hits      int64     `json:"hits"`
	Timeouts  int64     `json:"timeouts"`
	DedupRate float64   `json:"dedup_rate"`
}

type owners struct {
	Live    int64 `json:"live"`
	Overdue int64 `json:"overdue"`
	Left    int64 `json:"left"`
	Dead    int64 `json:"dead"`
}

type table struct {
	Name       string `json:"name"`
	Rows       *int64 `json:"rows"` // an estimate; null: not known
	Bytes      int64  `json:"bytes"`
	IndexBytes int64  `json:"index_bytes"`
}

func newStatistics(s *ledger.Stats) statistics {
	out := statistics{Owners: owners(s.Owners), LockWaits: s.LockWaits, LockWaited: s.LockWaited.Seconds(),
		Scopes: []scope{}, Deliveries: []deliveries{}, Tables: []table{}}
	if !s.At.IsZero() {
		at, pass := s.At.UTC(), newSweep(&s.Pass)
		out.At, out.Age, out.Pass = &at, s.Age.Seconds(), &pass
	}
	for _, c := range s.Scopes {
		out.Scopes = append(out.Scopes, scope{
			Scope: text(c.Scope), Pending: c.Pending, Succeeded: c.Succeeded, Failed: c.Failed, Abandoned: c.Abandoned,
			OldestPending: c.OldestPending.Seconds(), PendingAgeP95: c.PendingAgeP95.Seconds(),
			PendingAgeP99: c.PendingAgeP99.Seconds(),
		})
	}
	for _, d := range s.Deliveries {
		out.Deliveries = append(out.Deliveries, deliveries{
			Scope: text(d.Scope), Since: d.Since, Misses: d.Misses, Hits: d.Hits, Timeouts: d.Timeouts, DedupRate: d.DedupRate(),
		})
	}
	for _, t := range s.Tables {
		row := table{Name: t.Name, Bytes: t.Bytes, IndexBytes: t.IndexBytes}
		if t.Rows >= 0 {
			row.Rows = &t.Rows
		}
		out.Tables = append(out.Tables, row)
	}
	return out
}

func printStats(out io.Writer, s *ledger.Stats) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	counted := fmt.Sprintf("counted %s ago, at %s", short(s.Age), s.At.UTC().Format(time.RFC3339))
	switch {
	case s.At.IsZero():
		fmt.Fprintln(w, "no pass of the sweep has ended yet, so nothing is counted: see `ackledger maintain`")
	case len(s.Scopes) == 0:
		fmt.Fprintln(w, counted+": no messages were there. The workers' next pass counts again (about once a minute,\n"+
			"if they are not told otherwise), or `ackledger maintain --once` now")
	default:
		fmt.Fprintln(w, counted+"; workers count about once a minute, `ackledger maintain --once` now\n\npending\toldest\tp95\tp99\tsucceeded\tfailed\tabandoned\t  scope")
		for _, c := range s.Scopes {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t  %s\n", count(c.Pending), age(c.OldestPending), age(c.PendingAgeP95),
				age(c.PendingAgeP99), count(c.Succeeded), count(c.Failed), count(c.Abandoned), text(c.Scope))
		}
		if len(s.Scopes) == ledger.MaxStatScopes {
			fmt.Fprintln(w, "(there are more scopes)")
		}
		if slices.ContainsFunc(s.Scopes, func(c ledger.ScopeStats) bool { return c.Scope == ledger.PermitScope }) {
			fmt.Fprintln(w, "("+ledger.PermitScope+" has the permits of Options.Limit, which stay, and no messages)")
		}
	}
	if len(s.Deliveries) > 0 {
		fmt.Fprintln(w, "\nmisses\thits\tdedup rate\ttimeouts\tcounted since\t  scope")
	}
	for _, d := range s.Deliveries {
		fmt.Fprintf(w, "%s\t%s\t%.2f %%\t%s\t%s\t  %s\n", count(d.Misses), count(d.Hits), 100*d.DedupRate(), count(d.Timeouts),
			d.Since.Format(time.RFC3339), text(d.Scope))
	}
	fmt.Fprintln(w, "\nrows\ttable\tindexes\t  name")
	for _, t := range s.Tables {
		rows := "?"
		if t.Rows >= 0 {
			rows = count(t.Rows)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t  %s\n", rows, size(t.Bytes), size(t.IndexBytes), t.Name)
	}
	o := s.Owners
	fmt.Fprintf(w, "\nowners: %s live (%s overdue), %s left, %s dead; %s sessions wait for locks, for %s in sum\n", count(o.Live),
		count(o.Overdue), count(o.Left), count(o.Dead), count(s.LockWaits), short(s.LockWaited))
	return w.Flush()
}

// age is empty where nothing is pending.
func age(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return short(d)
}
