package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ackledger/ackledger/internal/checks"
	"github.com/ackledger/ackledger/ledger"
)

// order is a pause, or its end.
type order struct {
	by
	scope     string
	all, json bool
}

func (o *order) orderFlags(cmd *cobra.Command) {
	o.flags(cmd)
	flags := cmd.Flags()
	flags.Var((*given)(&o.scope), "scope", "a scope (consumer and source), or the part of its name that no other has")
	flags.BoolVar(&o.all, "all", false, "all workers, of whatever scope")
	flags.BoolVar(&o.json, "json", false, "a line of JSON at the end")
}

// check refuses what names no scope, and who the audit could not name.
func (o *order) check(by ledger.By) error {
	if o.all == (o.scope != "") {
		return usage("either --scope or --all is needed: whose workers (`ackledger workers` names them)")
	}
	return filterError(checks.Pause("", by))
}

// ordered is the report for programs.
type ordered struct {
	Scope  string `json:"scope"` // empty: all
	Paused bool   `json:"paused"`
	// Workers are live and of the scope; Silent ones are live, have reported nothing, and may be of the scope: they
	// may heed no pause.
	Workers int `json:"workers"`
	Silent  int `json:"silent"`
}

func newPause(t *target) *cobra.Command {
	o := new(order)
	cmd := &cobra.Command{
		Use:   "pause",
		Short: "Have workers start nothing until they are resumed",
		Long: `Have the workers of a scope, or all, start nothing until ` + "`ackledger resume`" + `.

They learn of it with their next heartbeat, a third of a lease away at most (10 s by default), and workers that start
later before they begin. What runs then comes to its end. What is claimed and has not begun is given back and counts no
attempt. Nothing is polled; a worker stays in its consumer group, and stays ready, so that no probe restarts it. A worker
that cannot reach the ledger keeps to what it knew. A pause ends by ` + "`ackledger resume`" + ` alone.

A worker of several scopes (topics) pauses as a whole if one of them is paused. Workers of older versions, and those
of Lambda (lambdasqs), do not pause.

Pausing what is paused changes who says so, and why. Both go into the audit.`,
		Args: cobra.NoArgs,
		RunE: begun(func(cmd *cobra.Command) error {
			who := ledger.By{Actor: o.actor, Reason: o.reason}
			if o.reason == "" {
				return usage("--reason is missing: whoever finds the workers paused will want to know why")
			}
			if err := o.check(who); err != nil {
				return err
			}
			return t.operate(cmd, func(ctx context.Context, l opened) error { return o.pause(ctx, l, who, cmd.OutOrStdout()) })
		}),
	}
	o.orderFlags(cmd)
	return cmd
}

func (o *order) pause(ctx context.Context, l opened, who ledger.By, out io.Writer) error {
	workers, err := l.Workers(ctx)
	if err != nil {
		return err
	}
	scopes, err := l.Scopes(ctx)
	if err != nil {
		return err
	}
	for i := range workers {
		scopes = append(scopes, scopesOf(&workers[i].Report)...)
	}
	scope, err := scopeAmong(scopes, o.scope)
	if err != nil {
		return fmt.Errorf("%w; nothing was changed", err)
	}
	if err := l.Pause(ctx, scope, who); err != nil {
		return filterError(err)
	}
	did := ordered{Scope: textOrNone(scope), Paused: true}
	for i := range workers {
		w := &workers[i]
		switch {
		case w.Fate != ledger.Live:
		case w.Report.Started.IsZero():
			did.Silent++
		case scope == "" || slices.Contains(scopesOf(&w.Report), scope):
			did.Workers++
		}
	}
	if o.json {
		return printJSON(out, did)
	}
	fmt.Fprintf(out, "paused: %s; %s live workers of it start nothing from their next heartbeat on\n", scopeOrAll(scope), count(int64(did.Workers)))
	if did.Silent > 0 {
		fmt.Fprintf(out, "%s live workers have reported nothing: young ones do with their first heartbeat, and pause; those of older versions, and of Lambda, do not\n", count(int64(did.Silent)))
	}
	return nil
}

// scopesOf are the scopes of which a worker says that they are its own.
func scopesOf(r *ledger.WorkerReport) []string {
	if r.Scope == "" {
		return r.Scopes
	}
	return append([]string{r.Scope}, r.Scopes...)
}

func newResume(t *target) *cobra.Command {
	o := new(order)
	cmd := &cobra.Command{
		Use:   "resume",
		Short: "Have paused workers go on",
		Long: `Have the workers of a scope go on that ` + "`ackledger pause`" + ` has stopped, from their next heartbeat on.

--all ends the pause of all, and leaves pauses of single scopes as they are; what still holds is said. Who ends a pause,
and why, goes into the audit.`,
		Args: cobra.NoArgs,
		RunE: begun(func(cmd *cobra.Command) error {
			who := ledger.By{Actor: o.actor, Reason: o.reason}
			if err := o.check(who); err != nil {
				return err
			}
			return t.operate(cmd, func(ctx context.Context, l opened) error { return o.resume(ctx, l, who, cmd.OutOrStdout()) })
		}),
	}
	o.orderFlags(cmd)
	return cmd
}

func (o *order) resume(ctx context.Context, l opened, who ledger.By, out io.Writer) error {
	hold, err := l.Pauses(ctx)
	if err != nil {
		return err
	}
	var scopes []string
	for _, p := range hold {
		if p.Scope != "" {
			scopes = append(scopes, p.Scope)
		}
	}
	scope, err := scopeAmong(scopes, o.scope)
	if err != nil {
		return fmt.Errorf("of scopes that are paused, %w; nothing was changed", err)
	}
	was, err := l.Resume(ctx, scope, who)
	switch {
	case err != nil:
		return filterError(err)
	case !was:
		return fmt.Errorf("not paused: %s; nothing was changed", scopeOrAll(scope))
	case o.json:
		return printJSON(out, ordered{Scope: textOrNone(scope)})
	}
	fmt.Fprintf(out, "resumed: %s\n", scopeOrAll(scope))
	for _, p := range hold {
		if p.Scope != scope {
			fmt.Fprintf(out, "still paused: %s, %s\n", scopeOrAll(p.Scope), saidBy(p))
		}
	}
	return nil
}
