package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/ackledger/ackledger/ledger"
)

type purge struct {
	filters
	by
	state          string
	yes, all, json bool
}

func newPurge(t *target) *cobra.Command {
	p := new(purge)
	cmd := &cobra.Command{
		Use:   "purge",
		Short: "Empty archived dead letters for good",
		Long: `Empty archived dead letters for good: bodies, headers, error texts and groups go. What the ledger needs to recognise
the messages stays, so a late redelivery of one is acknowledged as before and not run.

It counts first, and changes nothing without --yes; what is archived after the count stays. Without anything that selects some, --yes needs --all. A purged dead letter cannot be replayed. Those of messages that are
pending are left: they may be the only copy. What a dead-letter queue or topic holds is not touched.`,
		Args: cobra.NoArgs,
		RunE: begun(func(cmd *cobra.Command) error {
			who, err := p.who()
			if err != nil {
				return err
			}
			if p.yes && !p.all && !p.selects() && p.state == "" {
				return usage("purge --yes empties every dead letter of the ledger: select some, or say --all")
			}
			return t.operate(cmd, func(ctx context.Context, l opened) error {
				return p.run(ctx, l, who, cmd.OutOrStdout())
			})
		}),
	}
	p.messageFlags(cmd, "archived")
	p.deadLetterFlags(cmd)
	p.flags(cmd)
	flags := cmd.Flags()
	flags.Var((*given)(&p.state), "state", "only of messages that are succeeded or failed")
	flags.IntVar(&p.count, "count", 0, "so many at most, the oldest first; 0 for all")
	flags.BoolVar(&p.yes, "yes", false, "do it")
	flags.BoolVar(&p.all, "all", false, "for --yes without a selection: every dead letter of the ledger")
	flags.BoolVar(&p.json, "json", false, "a line of JSON at the end")
	return cmd
}

// purged is the report for programs.
type purged struct {
	DryRun  bool  `json:"dry_run"`
	Matched int64 `json:"matched"`
	Purged  int64 `json:"purged"`
	Left    int64 `json:"left"`
}

func (p *purge) run(ctx context.Context, op ledger.Operator, who ledger.By, out io.Writer) error {
	f, err := p.filter(ctx, op)
	if err != nil {
		return err
	}
	if f.State, err = stateNamed(p.state); err != nil {
		return err
	}
	req := ledger.PurgeRequest{Filter: f, By: who, DryRun: true}
	counted, err := op.Purge(ctx, req)
	if err != nil {
		return err
	}
	if counted.Matched == 0 && len(p.ids) > 0 {
		return p.unmet("dead letter")
	}
	if !p.json {
		fmt.Fprintf(out, "%s dead letters are selected, of which %s are of pending messages and stay\n", count(counted.Matched), count(counted.Left))
	}
	if !p.yes || counted.Matched == counted.Left {
		return p.report(out, counted, true)
	}
	req.DryRun = false
	req.Filter.To = counted.Last.Add(time.Microsecond) // what was archived since was not counted: it stays
	var so ledger.PurgeReport
	req.Progress = func(r ledger.PurgeReport) { so = r }
	rep, err := op.Purge(ctx, req)
	if err != nil {
		return stopped(ctx, err, max(rep.Purged, so.Purged), "dead letters were purged", "the same command goes on with the rest")
	}
	if err := p.report(out, rep, false); err != nil || rep.Left <= counted.Left {
		return err
	}
	return partly(fmt.Errorf("%s dead letters were not purged: locked by others, or pending since", count(rep.Left-counted.Left)))
}

func (p *purge) report(out io.Writer, rep ledger.PurgeReport, dry bool) error {
	switch {
	case p.json:
		return printJSON(out, purged{DryRun: dry, Matched: rep.Matched, Purged: rep.Purged, Left: rep.Left})
	case !dry:
		fmt.Fprintf(out, "%s purged, %s left (their message is pending, or locked by others)\n", count(rep.Purged), count(rep.Left))
	case rep.Matched > rep.Left:
		fmt.Fprintln(out, "nothing was changed: --yes does it")
	}
	return nil
}
