package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ackledger/ackledger/internal/maintenance"
	"github.com/ackledger/ackledger/internal/operate"
	"github.com/ackledger/ackledger/ledger"
)

type maintain struct {
	cfg        ledger.MaintainConfig
	once, json bool
}

func newMaintain(t *target) *cobra.Command {
	m := &maintain{cfg: ledger.MaintainConfig{
		Keep: ledger.DefaultKeep, KeepAudit: ledger.DefaultKeepAudit, Interval: ledger.DefaultSweepInterval, Batch: ledger.DefaultSweepBatch,
	}}
	cmd := &cobra.Command{
		Use:   "maintain",
		Short: "Remove what has expired from the ledger",
		Long: `Remove what has expired from the ledger: finished messages past their window, archived deliveries past theirs, owners
that are gone. Workers do so by themselves, unless they are told not to; this is for ledgers whose workers are told, and
for doing it now.

It makes one pass after the other and prints a line for each, until a signal ends it. With --once it makes one pass and
ends. Of all processes one sweeps at a time; the others wait. Interrupted, it loses nothing: what was removed stays
removed, and the next pass goes on.

Pending messages past their window are abandoned: their broker has forgotten them, or nobody consumes them. They are
named, and removed only after --keep.`,
		Args: cobra.NoArgs,
		RunE: begun(func(cmd *cobra.Command) error {
			if m.cfg.Batch == 0 { // which is the default for programs
				return usage("--batch must be 100 to 100000 rows, is 0")
			}
			if _, err := maintenance.WithDefaults(m.cfg); err != nil {
				return invalid(err)
			}
			return t.operate(cmd, func(ctx context.Context, l opened) error { return m.run(ctx, l, cmd.OutOrStdout()) })
		}),
	}
	flags := cmd.Flags()
	flags.BoolVar(&m.once, "once", false, "one pass, at full speed")
	flags.Var((*span)(&m.cfg.Keep), "keep", "how long a pending message stays past its window, such as 90d or 12h")
	flags.Var((*span)(&m.cfg.KeepAudit), "keep-audit", "how long what operators did stays in the audit, 90d at least")
	flags.Var((*span)(&m.cfg.Interval), "interval", "the pause after a pass that found little to remove")
	flags.IntVar(&m.cfg.Batch, "batch", m.cfg.Batch, "about how many rows one transaction looks at")
	flags.BoolVar(&m.json, "json", false, "a line of JSON for each pass")
	return cmd
}

// run sweeps once, or until ctx ends.
func (m *maintain) run(ctx context.Context, l opened, out io.Writer) error {
	var unwritten error
	m.cfg.Report = func(r ledger.SweepReport) { unwritten = errors.Join(unwritten, m.print(out, &r)) }
	if m.once {
		r, err := l.Sweep(ctx, m.cfg)
		switch {
		case err == nil:
			return unwritten
		case r.Removed() > 0:
			return partly(fmt.Errorf("%w; %d rows were removed, and the next pass goes on", err, r.Removed()))
		}
		return err
	}
	// What is wrong at the start is said at once; Maintain itself goes on through outages.
	if _, err := l.Stats(ctx); err != nil {
		return err
	}
	return errors.Join(l.Maintain(ctx, m.cfg), unwritten)
}

// sweep is a report for programs.
type sweep struct {
	Began        time.Time          `json:"began"`
	Took         float64            `json:"took_seconds"`
	Rows         int64              `json:"rows"`
	Messages     int64              `json:"messages"`
	Dropped      int64              `json:"dropped"`
	Archives     int64              `json:"archives"`
	Owners       int64              `json:"owners"`
	Audits       int64              `json:"audits"`
	Past         int64              `json:"past"`
	Locked       int64              `json:"locked"`
	Abandoned    int64              `json:"abandoned"`
	Oldest       []abandonedMessage `json:"oldest_abandoned"`
	Transactions int64              `json:"transactions"`
	Longest      float64            `json:"longest_transaction_seconds"`
}

type abandonedMessage struct {
	Scope  string    `json:"scope"`
	ID     string    `json:"id"`
	At     time.Time `json:"at"`
	Expiry time.Time `json:"expiry"`
}

func newSweep(r *ledger.SweepReport) sweep {
	s := sweep{
		Began: r.Began, Took: r.Took.Seconds(), Rows: r.Rows, Messages: r.Messages, Dropped: r.Dropped, Archives: r.Archives,
		Owners: r.Owners, Audits: r.Audits, Past: r.Past, Locked: r.Locked, Abandoned: r.Abandoned, Oldest: []abandonedMessage{},
		Transactions: r.Transactions, Longest: r.Longest.Seconds(),
	}
	for _, a := range r.Oldest {
		s.Oldest = append(s.Oldest, abandonedMessage{Scope: text(a.Scope), ID: text(string(a.ID)), At: a.At, Expiry: a.Expiry})
	}
	return s
}

func (m *maintain) print(out io.Writer, r *ledger.SweepReport) error {
	if m.json {
		return printJSON(out, newSweep(r))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s  looked at %s rows in %s; removed %s messages, %s archived deliveries, %s owners",
		r.Began.UTC().Format(time.RFC3339), count(r.Rows), short(r.Took), count(r.Messages), count(r.Archives), count(r.Owners))
	for _, also := range []struct {
		n    int64
		what string
	}{
		{r.Audits, "%s rows of the audit"}, {r.Past, "%s results kept beyond their rows"}, {r.Dropped, "%s pending ones long past their window"}, {r.Locked, "%s were locked"}, {r.Abandoned, "%s are abandoned"},
	} {
		if also.n > 0 {
			fmt.Fprintf(&b, "; "+also.what, count(also.n))
		}
	}
	b.WriteByte('\n')
	for _, a := range r.Oldest {
		fmt.Fprintf(&b, "  abandoned: %s of %s, first claimed %s, expired %s\n", text(string(a.ID)), text(a.Scope),
			a.At.UTC().Format(time.RFC3339), a.Expiry.UTC().Format(time.RFC3339))
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// span is a duration flag that knows days.
type span time.Duration

// Set reads 90d, 12h or 1m30s; more than nothing.
func (s *span) Set(text string) error {
	d, err := operate.Span(text)
	if err == nil {
		*s = span(d)
	}
	return err
}

func (s *span) String() string { return short(time.Duration(*s)) }

// Type is what the help calls the flag's value.
func (s *span) Type() string { return "duration" }
