package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ackledger/ackledger/ledger"
)

// parker is a ledger that parks; else an error that says so.
func parker(l any) (ledger.ParkingOperator, error) {
	p, ok := l.(ledger.ParkingOperator)
	if !ok {
		return nil, fmt.Errorf("this ledger parks no messages: it is a %T", l)
	}
	return p, nil
}

const parkedHead = "parked\tdue\tretries\tbytes\tid\tscope\tlast error"

func parkedLine(m *ledger.ParkedMessage) string {
	return fmt.Sprintf("%s\t%s\t%d\t%s\t%s\t%s\t%s", m.At.UTC().Format(time.RFC3339), parkedDue(m), m.Attempts, size(parkedBytes(m)),
		text(string(m.Key.ID)), text(m.Key.Scope), lastError(m.Errors))
}

func parkedBytes(m *ledger.ParkedMessage) int64 { return int64(max(m.BodyBytes, len(m.Body))) }

// parkedDue is dueText, or that the message waits behind others of its lane.
func parkedDue(m *ledger.ParkedMessage) string {
	if m.Behind() && m.Status.State == ledger.Pending {
		return "behind"
	}
	return dueText(m.Status)
}

// laneText names a lane; empty: there is none.
func laneText(p *ledger.Parked) string {
	if p.Lane == nil {
		return ""
	}
	return text(string(p.Lane.Name))
}

// dueText says when a parked message runs.
func dueText(s ledger.Status) string {
	switch {
	case s.State != ledger.Pending:
		return stateText(s.State)
	case s.Holder == ledger.Live:
		return "held"
	case s.DueIn <= 0:
		return "now"
	}
	return "in " + short(s.DueIn)
}

// parkedMessage is a parked message for programs.
type parkedMessage struct {
	Scope    string          `json:"scope"`
	ID       string          `json:"id"`
	Delivery string          `json:"delivery"`
	State    string          `json:"state"` // of its message, now
	Token    uint64          `json:"token"`
	Holder   string          `json:"holder"`
	Attempts int             `json:"attempts"`
	Source   string          `json:"source"`
	Group    string          `json:"group,omitempty"`
	SentAt   *time.Time      `json:"sent_at,omitempty"`
	At       *time.Time      `json:"at,omitempty"`     // when it was parked
	DueIn    float64         `json:"due_in_seconds"`   // 0: now
	Lane     string          `json:"lane,omitempty"`   // in which it waits its turn
	Behind   bool            `json:"behind,omitempty"` // others of it are before it
	Bytes    int64           `json:"bytes"`            // of its body
	Errors   []failure       `json:"errors,omitempty"`
	Content  *deadLetterBody `json:"content,omitempty"` // asked for
}

func newParked(m *ledger.ParkedMessage) parkedMessage {
	out := parkedMessage{
		Scope: text(m.Key.Scope), ID: text(string(m.Key.ID)), Delivery: text(string(m.Delivery)), State: stateText(m.Status.State),
		Token: m.Status.Token, Holder: holderText(&m.Status), Attempts: m.Attempts, Source: text(m.Source), Group: text(m.Group),
		SentAt: stamp(m.SentAt), At: stamp(m.At), DueIn: max(m.Status.DueIn, 0).Seconds(), Lane: laneText(&m.Parked), Behind: m.Behind(), Bytes: parkedBytes(m), Errors: newFailures(m.Errors),
	}
	if m.Body != nil || m.Headers != nil {
		out.Content = newContent(&m.Archive)
	}
	return out
}

// parkedLines lists what is parked.
func (l *list) parkedLines(ctx context.Context, op ledger.Operator, f ledger.Filter, out io.Writer) error {
	p, err := parker(op)
	if err != nil {
		return err
	}
	if err := f.CheckParked(); err != nil {
		return filterError(err)
	}
	return show(out, l, p.ParkedMessages(ctx, f), parkedHead, parkedLine, newParked)
}

// parkedRuns is what comes of messages that are due now.
const parkedRuns = "a worker of their scope takes each within a third of its lease, and until then they are listed as due now"

type changeParked struct {
	filters
	by
	action         ledger.Action
	done           string // of what was changed
	then           string // what comes of it next; empty: nothing
	yes, all, json bool
}

func newParkedCommand(t *target) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "parked",
		Short: "Run retries that wait in the ledger now, or drop them",
		Long:  "Run retries that wait in the ledger now, or drop them. `ackledger list --parked` lists them.",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(
		newChangeParked(t, &changeParked{action: ledger.ActionRunNow, done: "due now", then: parkedRuns}, "run", "Make parked messages due now",
			`Make parked messages due now: a worker of their scope takes each when it looks next, within a third of its lease.`),
		newChangeParked(t, &changeParked{action: ledger.ActionDrop, done: "dropped"}, "drop", "Make dead letters of parked messages",
			`Make dead letters of parked messages: they fail for good, of the kind "dropped", and run no more. Each is in the archive, whole, and
can be replayed from there. None is published.`),
	)
	return cmd
}

func newChangeParked(t *target, p *changeParked, use, short, long string) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		Long: long + `

It counts first, and changes nothing without --yes. Without anything that selects some, --yes needs --all. What a worker has in its hands is left.`,
		RunE: begun(func(cmd *cobra.Command) error {
			who, err := p.who()
			if err != nil {
				return err
			}
			if p.yes && !p.all && !p.selects() {
				return usage("%s --yes is for all that is parked: select some, or say --all", use)
			}
			return t.operate(cmd, func(ctx context.Context, l opened) error {
				op, err := parker(l)
				if err != nil {
					return err
				}
				return p.run(ctx, l, op, who, cmd.OutOrStdout())
			})
		}),
	}
	p.messageFlags(cmd, "parked")
	flags := cmd.Flags()
	flags.Var((*given)(&p.group), "key", "the FIFO group or the Kafka key, whole")
	p.flags(cmd)
	flags.IntVar(&p.count, "count", 0, "so many at most, those first that are due first; 0 for all")
	flags.BoolVar(&p.yes, "yes", false, "do it")
	flags.BoolVar(&p.all, "all", false, "for --yes without a selection: all that is parked")
	flags.BoolVar(&p.json, "json", false, "a line of JSON at the end")
	return cmd
}

// changedParked is the report for programs.
type changedParked struct {
	DryRun  bool  `json:"dry_run"`
	Matched int64 `json:"matched"`
	Changed int64 `json:"changed"`
	Left    int64 `json:"left"`
}

func (p *changeParked) run(ctx context.Context, op ledger.Operator, parking ledger.ParkingOperator, who ledger.By, out io.Writer) error {
	f, err := p.filter(ctx, op)
	if err != nil {
		return err
	}
	req := ledger.ParkedRequest{Filter: f, Action: p.action, By: who, DryRun: true}
	counted, err := parking.ChangeParked(ctx, req)
	if err != nil {
		return err
	}
	if counted.Matched == 0 && len(p.ids) > 0 {
		return p.unmet("parked message")
	}
	if !p.json {
		fmt.Fprintln(out, selectedText(counted))
	}
	if !p.yes || counted.Matched == counted.Left {
		return p.report(out, counted, true)
	}
	req.DryRun = false
	var so ledger.ParkedReport
	req.Progress = func(r ledger.ParkedReport) { so = r }
	rep, err := parking.ChangeParked(ctx, req)
	if err != nil {
		return stopped(ctx, err, max(rep.Changed, so.Changed), "parked messages are "+p.done, "the same command goes on with the rest")
	}
	if err := p.report(out, rep, false); err != nil || rep.Left <= counted.Left {
		return err
	}
	return partly(fmt.Errorf("%s parked messages were left: a worker has them, or they have changed since", count(rep.Left-counted.Left)))
}

// selectedText says how many are selected, and how many of them are not changed because a worker has them.
func selectedText(r ledger.ParkedReport) string {
	what := count(r.Matched) + " parked messages are selected"
	if r.Matched == 1 {
		what = "1 parked message is selected"
	}
	if r.Left == 0 {
		return what
	}
	return fmt.Sprintf("%s; workers are handling %s of them, which will not be changed", what, count(r.Left))
}

func (p *changeParked) report(out io.Writer, rep ledger.ParkedReport, dry bool) error {
	switch {
	case p.json:
		return printJSON(out, changedParked{DryRun: dry, Matched: rep.Matched, Changed: rep.Changed, Left: rep.Left})
	case !dry:
		fmt.Fprintf(out, "%s %s, %s left (a worker has them, or they have changed)\n", count(rep.Changed), p.done, count(rep.Left))
		if p.then != "" && rep.Changed > 0 {
			fmt.Fprintln(out, p.then)
		}
	case rep.Matched > rep.Left:
		fmt.Fprintln(out, "nothing was changed: --yes does it")
	}
	return nil
}

// parkedCount is what is parked of a scope, for programs.
type parkedCount struct {
	Scope    string  `json:"scope"`
	Messages int64   `json:"messages"`
	Bytes    int64   `json:"bytes"`
	Overdue  float64 `json:"overdue_seconds"` // of the one that has been due for longest
}

// countParked counts what is parked; nil: this ledger parks nothing.
func countParked(ctx context.Context, l any) (map[string]ledger.ParkedStats, error) {
	p, ok := l.(ledger.ParkingOperator)
	if !ok {
		return nil, nil
	}
	all, err := p.CountParked(ctx)
	if _, not := errors.AsType[*ledger.InvalidError](err); not {
		return nil, nil
	}
	return all, err
}

// sortedParked are the scopes of which something is parked.
func sortedParked(all map[string]ledger.ParkedStats) iter.Seq2[string, ledger.ParkedStats] {
	return func(yield func(string, ledger.ParkedStats) bool) {
		for _, scope := range slices.Sorted(maps.Keys(all)) {
			if !yield(scope, all[scope]) {
				return
			}
		}
	}
}

func newParkedCounts(all map[string]ledger.ParkedStats) []parkedCount {
	out := []parkedCount{}
	for scope, s := range sortedParked(all) {
		out = append(out, parkedCount{Scope: text(scope), Messages: s.Messages, Bytes: s.Bytes, Overdue: s.Overdue.Seconds()})
	}
	return out
}

func printParked(out io.Writer, all map[string]ledger.ParkedStats) error {
	if len(all) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\nparked\tbytes\toverdue\t  scope")
	for scope, s := range sortedParked(all) {
		fmt.Fprintf(w, "%s\t%s\t%s\t  %s\n", count(s.Messages), size(s.Bytes), age(s.Overdue), text(scope))
	}
	return w.Flush()
}
