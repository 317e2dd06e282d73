package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/replay"
)

// listPage is how many lines a table shows unless it is told, and how many have their columns aligned together.
const listPage = 100

type list struct {
	filters
	state       string
	stuck, json bool
	newest      bool
	body        bool
	renewed     bool
	queued      bool
	parked      bool
}

func newList(t *target) *cobra.Command {
	l := new(list)
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List dead letters, or messages by their state",
		Long: `List dead letters, the oldest first (or with --newest the last ones): the archived deliveries of messages that failed for good, and how their messages are
now. With --state failed only those whose messages still are failed.

With --state pending or succeeded, or --stuck, messages are listed instead, in no order: that reads the whole table of
messages. (Not with --kind, --header, --key or --newest, which are for dead letters.) With --parked, retries that wait in the ledger are listed,
those first that are due first. Kafka's messages that are pending or
succeeded in one go with their neighbours have no line of their own: ` + "`ackledger stats` counts them, and" + `
` + "`ackledger show`" + ` shows each.

With --outbox, what was published inside of InTx and is not sent yet is listed instead, in the order in which it was written.

A table ends after ` + fmt.Sprint(listPage) + ` lines unless --count says otherwise; --json writes all, a line of JSON each. Bodies and headers
are shown with --json --body only: names and error texts are what your handlers made of them.`,
		Args: cobra.NoArgs,
		RunE: t.operating(l.run),
	}
	l.messageFlags(cmd, "archived (messages: first claimed)")
	l.deadLetterFlags(cmd)
	flags := cmd.Flags()
	flags.Var((*given)(&l.state), "state", "pending, succeeded or failed")
	flags.BoolVar(&l.stuck, "stuck", false, "pending messages that wait for nothing but a copy of them")
	flags.BoolVar(&l.renewed, "renewed", false, "dead letters that were renewed (--fresh-keys, --body-file) and have not run since")
	flags.BoolVar(&l.parked, "parked", false, "retries that wait in the ledger, whole")
	flags.BoolVar(&l.newest, "newest", false, "dead letters: the last ones first")
	flags.BoolVar(&l.queued, "outbox", false, "what waits to be sent; with no filter")
	flags.IntVar(&l.count, "count", listPage, "so many at most, 0 for all (with --json all are the default)")
	flags.BoolVar(&l.json, "json", false, "a line of JSON for each")
	flags.BoolVar(&l.body, "body", false, "with --json: bodies and headers of dead letters and of what is parked, too, in base64")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if l.json && !cmd.Flags().Changed("count") {
			l.count = 0
		}
		if l.body && !l.json {
			return usage("--body needs --json (`ackledger show ID --body` shows one body)")
		}
		if l.queued {
			return onlyOutbox(cmd)
		}
		return nil
	}
	return cmd
}

func (l *list) run(ctx context.Context, op ledger.Operator, out, messages io.Writer) error {
	if l.queued {
		return l.outbox(ctx, op, out)
	}
	f, err := l.filter(ctx, op)
	if err != nil {
		return err
	}
	if f.State, err = stateNamed(l.state); err != nil {
		return err
	}
	f.Stuck, f.Body, f.Newest = l.stuck, l.body, l.newest
	if f.Limit > 0 && !l.json {
		f.Limit++ // to know whether there are more
	}
	if l.parked {
		return l.parkedLines(ctx, op, f, out)
	}
	if err := f.Check(); err != nil {
		return filterError(err)
	}
	if err := l.lines(ctx, op, f, out); err != nil || l.renewed || f.State == ledger.Failed || l.json && !ofMessages(&f) {
		return err
	}
	if l.json { // programs read the other
		out = messages
	}
	return noteRanges(ctx, op, f.Scope, out)
}

func (l *list) lines(ctx context.Context, op ledger.Operator, f ledger.Filter, out io.Writer) error {
	if l.renewed {
		if ofMessages(&f) {
			return usage("--renewed is for messages that failed: not with --stuck, nor with another --state")
		}
		return show(out, l, renewedOnly(ctx, op, f), deadHead, deadLine, newDeadLetter)
	}
	if ofMessages(&f) && f.CheckMessages() == nil {
		return show(out, l, op.Messages(ctx, f), "at\tstate\tretries\tfree\tid\tscope\tlast error", messageLine, newMessage)
	}
	return show(out, l, op.DeadLetters(ctx, f), deadHead, deadLine, newDeadLetter)
}

// ofMessages says that a filter is of messages by their state, not of dead letters.
func ofMessages(f *ledger.Filter) bool {
	return f.Stuck || f.State == ledger.Pending || f.State == ledger.Succeeded
}

const rangesUnlisted = "(records that are held in ranges, if there are any, have no line: `ackledger stats` counts them, `ackledger show` shows each)"

// noteRanges says what a list leaves out if it is of a Kafka topic, alone or among others: only those are held in ranges.
func noteRanges(ctx context.Context, op ledger.Operator, scope string, out io.Writer) error {
	scopes := []string{scope}
	if scope == "" {
		var err error
		if scopes, err = op.Scopes(ctx); err != nil {
			return err
		}
	}
	if !slices.ContainsFunc(scopes, func(s string) bool { return strings.HasPrefix(s, "kafka:") }) {
		return nil
	}
	_, err := fmt.Fprintln(out, rangesUnlisted)
	return err
}

const deadHead = "archived\tkind\tstate\tattempts\tid\tscope\tlast error"

// renewedOnly lists dead letters that were renewed and have not run since.
func renewedOnly(ctx context.Context, op ledger.Operator, f ledger.Filter) iter.Seq2[ledger.DeadLetter, error] {
	most := f.Limit
	f.State, f.Limit = ledger.Failed, 0
	return func(yield func(ledger.DeadLetter, error) bool) {
		n := 0
		for d, err := range op.DeadLetters(ctx, f) {
			if err == nil && !replay.Renewed(&d) {
				continue
			}
			if n++; !yield(d, err) || n == most {
				return
			}
		}
	}
}

// show writes what a list has as lines of a table or of JSON, page by page.
func show[T, J any](out io.Writer, l *list, items iter.Seq2[T, error], head string, line func(*T) string, object func(*T) J) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	n := 0
	for item, err := range items {
		switch {
		case err != nil:
			return errors.Join(w.Flush(), err)
		case l.json:
			if err := printJSON(out, object(&item)); err != nil {
				return err
			}
			n++
			continue
		case l.count > 0 && n == l.count:
			fmt.Fprintf(w, "(there are more: --count %d shows as many again, --count 0 all)\n", 2*l.count)
			return w.Flush()
		case n == 0:
			fmt.Fprintln(w, strings.ToUpper(head))
		}
		fmt.Fprintln(w, line(&item))
		if n++; n%listPage == 0 {
			if err := w.Flush(); err != nil {
				return err
			}
		}
	}
	if n == 0 && !l.json {
		fmt.Fprintln(w, "nothing is there that the filter selects")
	}
	return w.Flush()
}

func stateNamed(name string) (ledger.State, error) {
	for _, s := range []ledger.State{ledger.Pending, ledger.Succeeded, ledger.Failed} {
		if name == s.String() {
			return s, nil
		}
	}
	if name == "" {
		return 0, nil
	}
	return 0, usage("--state must be pending, succeeded or failed, is %q", name)
}

// stateText is the state of a message for people; a message without a row has none.
func stateText(s ledger.State) string {
	if s == 0 {
		return "gone"
	}
	return s.String()
}

func deadLine(d *ledger.DeadLetter) string {
	state := stateText(d.Status.State)
	if d.Superseded {
		state += ", superseded"
	}
	before := ""
	if replay.Renewed(d) { // nothing has run it yet: what it has are the errors of the letter that it was made of
		state, before = state+", renewed", "of the one before: "
	}
	if !d.Purged.IsZero() {
		state += ", purged"
	}
	return fmt.Sprintf("%s\t%s\t%s\t%d\t%s\t%s\t%s", d.At.UTC().Format(time.RFC3339), text(string(d.Kind)), state, d.Attempts,
		text(string(d.Key.ID)), text(d.Key.Scope), before+lastError(d.Errors))
}

func messageLine(m *ledger.Listed) string {
	free := "-"
	if m.State == ledger.Pending {
		free = freeIn(m.Status)
	}
	return fmt.Sprintf("%s\t%s\t%d\t%s\t%s\t%s\t%s", m.At.UTC().Format(time.RFC3339), m.State, m.Attempts, free,
		text(string(m.ID)), text(m.Scope), lastError(m.Errors))
}

// freeIn says when a pending message can be claimed.
func freeIn(s ledger.Status) string {
	switch {
	case s.Free():
		return "now"
	case s.Holder == ledger.Live && s.HeldFor > 0:
		return "held"
	}
	return "in " + short(s.DueIn)
}

// lastError is the latest error's text, cut for a line of a table.
func lastError(list []ledger.AttemptError) string {
	if len(list) == 0 {
		return "-"
	}
	const most = 60
	s := []rune(list[len(list)-1].Error)
	if len(s) > most {
		s = append(s[:most-1], '…')
	}
	return text(string(s))
}
