package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"

	"github.com/spf13/cobra"

	"github.com/ackledger/ackledger/internal/checks"
	"github.com/ackledger/ackledger/ledger"
)

// operate opens the ledger for one call of do.
func (t *target) operate(cmd *cobra.Command, do func(context.Context, opened) error) error {
	l, closeLedger, err := t.open(cmd.Context(), cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	return errors.Join(do(cmd.Context(), l), closeLedger())
}

// operating is operate, for a command that checks nothing before.
func (t *target) operating(run func(ctx context.Context, op ledger.Operator, out, messages io.Writer) error) func(*cobra.Command, []string) error {
	return begun(func(cmd *cobra.Command) error {
		return t.operate(cmd, func(ctx context.Context, l opened) error {
			return run(ctx, l, cmd.OutOrStdout(), cmd.ErrOrStderr())
		})
	})
}

// by are the flags that say who changes something, and why.
type by struct{ actor, reason string }

func (b *by) flags(cmd *cobra.Command) {
	b.actor = login()
	cmd.Flags().StringVar(&b.actor, "actor", b.actor, "who does it, for the audit")
	cmd.Flags().StringVar(&b.reason, "reason", "", "why, for the audit")
}

func (b *by) who() (ledger.By, error) {
	w := ledger.By{Actor: b.actor, Reason: b.reason}
	return w, filterError(checks.By(w))
}

// login is this process's user on this machine.
func login() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}

// stopped turns the end of a command by a signal into words that say what was done and how to go on.
func stopped(ctx context.Context, err error, done int64, what, goOn string) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() == nil && done == 0:
		return err
	case ctx.Err() == nil:
		return partly(fmt.Errorf("%w; %s %s before that; %s", err, count(done), what, goOn))
	case done == 0:
		return fmt.Errorf("stopped before anything was changed; %s", goOn)
	}
	return partly(fmt.Errorf("stopped: %s %s; %s", count(done), what, goOn))
}
