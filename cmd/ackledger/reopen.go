package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/ackledger/ackledger/ledger"
)

type reopen struct {
	filters
	by
	fresh, yes, json bool
}

func newReopen(t *target) *cobra.Command {
	r := new(reopen)
	cmd := &cobra.Command{
		Use:   "reopen",
		Short: "Let messages that succeeded run again, on purpose",
		Long: `Let messages that succeeded run again, on purpose: after a bug in the handler's logic, whose effects are to be done anew.

It counts first, and changes nothing without --yes. Then the rows of these messages are pending, and run when their
broker brings them: that is up to you (Kafka: reset the group's offsets while no worker of the group runs; SQS: send them
again with their stamp). Nothing is sent by this command.

EFFECTS ARE DONE TWICE: that is what it is for. Child keys stay the same, so services that were given one do nothing
again; with --fresh-keys they change, and such services do it again, too.

Of a Kafka topic name --offsets or --id: records that succeeded in one go with their neighbours are held in ranges, which
know no time, error or child key of a single one, so that --since, --until, --error and --fresh-keys are refused for them.

Interrupted, it says which --until goes on with the rest: messages that were reopened count as first claimed now.`,
		Args: cobra.NoArgs,
		RunE: begun(func(cmd *cobra.Command) error {
			if r.scope == "" {
				return usage("--scope is missing: whose messages, of which source (`ackledger stats` names them)")
			}
			who, err := r.who()
			if err != nil {
				return err
			}
			return t.operate(cmd, func(ctx context.Context, l opened) error {
				return r.run(ctx, l, who, cmd.OutOrStdout())
			})
		}),
	}
	r.messageFlags(cmd, "first claimed")
	r.flags(cmd)
	flags := cmd.Flags()
	flags.IntVar(&r.count, "count", 0, "so many at most, 0 for all")
	flags.BoolVar(&r.fresh, "fresh-keys", false, "change the child keys, so that outside effects are done again")
	flags.BoolVar(&r.yes, "yes", false, "do it")
	flags.BoolVar(&r.json, "json", false, "a line of JSON at the end")
	return cmd
}

// reopened is the report for programs.
type reopened struct {
	Scope    string    `json:"scope"`
	DryRun   bool      `json:"dry_run"`
	Began    time.Time `json:"began"`
	Matched  int64     `json:"matched"`
	Reopened int64     `json:"reopened"`
	Skipped  int64     `json:"skipped"`
}

func (r *reopen) run(ctx context.Context, op ledger.Operator, who ledger.By, out io.Writer) error {
	f, err := r.filter(ctx, op)
	if err != nil {
		return err
	}
	req := ledger.ReopenRequest{Filter: f, FreshKeys: r.fresh, DryRun: true, By: who}
	counted, err := op.Reopen(ctx, req)
	if err != nil {
		return filterError(err)
	}
	if counted.Matched == 0 && len(r.ids) > 0 {
		return r.unmet("message that succeeded")
	}
	if !r.json {
		fmt.Fprintf(out, "%s messages of %s succeeded and are selected\n", count(counted.Matched), text(f.Scope))
		if r.fresh {
			fmt.Fprintln(out, "--fresh-keys: services that were given a child key will do their work for these messages AGAIN")
		}
	}
	if !r.yes || counted.Matched == 0 {
		return r.report(out, f.Scope, counted, true)
	}
	req.DryRun = false
	var so ledger.ReopenReport
	req.Progress = func(p ledger.ReopenReport) { so = p }
	rep, err := op.Reopen(ctx, req)
	if err != nil {
		rep.Reopened = max(rep.Reopened, so.Reopened)
		goOn := "the same command goes on with the rest"
		byName := f.Offsets != nil || len(f.IDs) > 0 // those are few, or in ranges, which know no times
		if began := max(rep.Began.UnixNano(), so.Began.UnixNano()); rep.Reopened > 0 && !byName && f.To.IsZero() {
			goOn = fmt.Sprintf("the same command with --until %s goes on with the rest", time.Unix(0, began).UTC().Format(time.RFC3339Nano))
		}
		return stopped(ctx, err, rep.Reopened, "messages were reopened", goOn)
	}
	return r.report(out, f.Scope, rep, false)
}

func (r *reopen) report(out io.Writer, scope string, rep ledger.ReopenReport, dry bool) error {
	switch {
	case r.json:
		if err := printJSON(out, reopened{Scope: text(scope), DryRun: dry, Began: rep.Began.UTC(), Matched: rep.Matched,
			Reopened: rep.Reopened, Skipped: rep.Skipped}); err != nil {
			return err
		}
	case !dry:
		fmt.Fprintf(out, "%s reopened, %s left as they are\n", count(rep.Reopened), count(rep.Skipped))
		if rep.Reopened > 0 {
			fmt.Fprintln(out, "nothing was sent: they run when their broker brings them again (Kafka: reset the group's offsets; SQS: send them with their stamp)")
		}
	case rep.Matched > 0:
		fmt.Fprintln(out, "nothing was changed: --yes does it")
	}
	if dry || rep.Skipped == 0 {
		return nil
	}
	return partly(fmt.Errorf("%s messages were not reopened: locked by others, or changed meanwhile", count(rep.Skipped)))
}
