package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/replay"
)

// grade says how bad a finding is.
type grade string

const (
	good    grade = "ok"
	note    grade = "note" // there was nothing to see
	warning grade = "warning"
	problem grade = "problem"
	unknown grade = "unknown" // it could not be found out
)

// finding is the answer to one check.
type finding struct {
	Grade  grade  `json:"grade"`
	Check  string `json:"check"`
	Text   string `json:"text"`
	Remedy string `json:"remedy,omitempty"`
	Page   string `json:"page,omitempty"` // what to know of it; not with ok
}

// doctorPage has a heading for each check.
const doctorPage = "https://github.com/ackledger/ackledger/blob/main/docs/operations-doctor.md"

// pageOf is where a check is explained: its heading is the first word of its name.
func pageOf(check string) string {
	word, _, _ := strings.Cut(check, " ")
	return doctorPage + "#" + word
}

// findings are what a visit found.
type findings []finding

func (f *findings) add(g grade, check, text, remedy string) {
	page := ""
	if g != good {
		page = pageOf(check)
	}
	*f = append(*f, finding{g, check, oneLine(errors.New(text)), remedy, page})
}

type doctor struct {
	cloud
	brokers
	queues, topics []string
	deadLetter     string
	attempts       int
	json           bool
}

// stuckAfter is how long a pending message may wait for a copy before it is worth a word.
const stuckAfter = time.Hour

// renewedAfter is how long the copy of a renewed message may be on its way before it is worth a word.
const renewedAfter = 10 * time.Minute

func newDoctor(t *target) *cobra.Command {
	d := new(doctor)
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what is wrong with the ledger, queues and topics, and what to do",
		Long: `Say what is wrong, and what to do about it, a line for each check: the ledger's tables and version, this role's rights,
bloat, connections, standbys, disk and clocks, the sweep, sources with two names, stuck messages, retries in the ledger that nobody takes, renewals that were never sent, pauses, what an outbox did not send; with --queue an SQS queue's redrive policy, its maxReceiveCount against the attempts, its
dead-letter queue's retention, and the ledger's window against both; with --topic a Kafka topic's retention against the
window. It changes nothing.

Where workers send with Options.DeadLetter is known to your program alone. With --dead-letter its retention counts, too: a
copy may come back from there for that long. A note says what could not be seen, such as the window of workers that have
finished nothing in the last day.

Exit codes: 0 no problem (there may be warnings), 1 a problem, 2 wrong usage, 3 no problem, but something could not be
found out.`,
		Args: cobra.NoArgs,
		RunE: begun(func(cmd *cobra.Command) error { return d.run(cmd.Context(), t, cmd.OutOrStdout(), cmd.ErrOrStderr()) }),
	}
	d.cloud.flags(cmd)
	d.brokers.flags(cmd, &d.cloud)
	flags := cmd.Flags()
	flags.StringArrayVar(&d.queues, "queue", nil, "an SQS queue that workers consume: its URL, ARN or name (repeatable)")
	flags.StringArrayVar(&d.topics, "topic", nil, "a Kafka topic that workers consume (repeatable)")
	flags.StringVar(&d.deadLetter, "dead-letter", "", "where these workers' Options.DeadLetter sends: sqs:QUEUE (its URL, ARN or name) or kafka:TOPIC")
	flags.IntVar(&d.attempts, "attempts", consumer.DefaultAttempts, "the workers' Options.Attempts")
	flags.BoolVar(&d.json, "json", false, "a line of JSON for each check")
	return cmd
}

func (d *doctor) run(ctx context.Context, t *target, out, messages io.Writer) error {
	if d.attempts < 1 || d.attempts > maxAttempts {
		return usage("--attempts must be 1 to %d, is %d", maxAttempts, d.attempts)
	}
	if _, _, err := t.where(); err != nil {
		return err
	}
	kind, name, _ := strings.Cut(d.deadLetter, ":")
	if d.deadLetter != "" && (kind != "sqs" && kind != "kafka" || name == "") {
		return usage("--dead-letter must be sqs:QUEUE or kafka:TOPIC, is %q", d.deadLetter)
	}
	if len(d.topics) > 0 || kind == "kafka" {
		if _, err := d.options(); err != nil {
			return err
		}
	}
	var f findings
	l, closeLedger, err := t.open(ctx, messages)
	if err != nil {
		if o, coded := errors.AsType[*outcome](err); coded && o.code == exitUsage {
			return err
		}
		f.add(problem, "ledger", fmt.Sprintf("%s: %v", t, err), t.remedy())
	} else {
		defer func() { _ = closeLedger() }() // it was only read
		visit(ctx, l, t, &f)
	}
	behind := d.visitTarget(ctx, &f)
	d.visitQueues(ctx, l, behind, &f) // a ledger that could not be opened is nil
	d.visitTopics(ctx, l, behind, &f)
	return d.report(out, f)
}

// remedy is what helps where a ledger could not be opened. What is wrong with a file its error says, with the command that mends it.
func (t *target) remedy() string {
	if _, in, err := t.where(); err == nil && in == inSQLite {
		return "do what the error says, or name the right file; if its tables are newer, use a newer program"
	}
	return "make it reachable, or name the right one; if it has no tables or old ones, run `ackledger migrate`; if they are newer, use a newer program"
}

// visit looks at the ledger.
func visit(ctx context.Context, l opened, t *target, f *findings) {
	switch name, in, _ := t.where(); in { // it was opened by that
	case inPostgres:
		visitPostgres(ctx, name, t.schema, f)
	case inDynamoDB:
		visitTable(ctx, t, name, f)
	case inSQLite:
		f.add(good, "tables", "SQLite, of this program's version", "")
		visitFiles(name, f)
	}
	if i, ok := l.(ledger.Identified); ok {
		if id, err := i.ID(ctx); err != nil {
			f.add(unknown, "id", err.Error(), "see the error")
		} else {
			f.add(good, "id", "the ledger's id is "+id+", as commits of its workers of Kafka name it", "")
		}
	}
	s, err := l.Stats(ctx)
	if err != nil {
		f.add(unknown, "statistics", err.Error(), "see the error")
		return
	}
	visitSweep(&s, f)
	visitScopes(&s, f)
	visitStuck(ctx, l, f)
	visitParked(ctx, l, f)
	visitRenewed(ctx, l, renewedAfter, f)
	visitPauses(ctx, l, f)
	visitOutbox(ctx, l, f)
}

// visitSweep reads the last pass of the sweep.
func visitSweep(s *ledger.Stats, f *findings) {
	const late = 24 * time.Hour
	switch {
	case s.At.IsZero():
		f.add(warning, "sweep", "no pass has ended yet: what has expired stays", "let workers maintain the ledger (the default), or run `ackledger maintain`")
	case s.Age > late:
		f.add(warning, "sweep", fmt.Sprintf("the last pass ended %s ago: what has expired stays", short(s.Age)), "let workers maintain the ledger (the default), or run `ackledger maintain`")
	default:
		f.add(good, "sweep", fmt.Sprintf("the last pass ended %s ago", short(s.Age)), "")
	}
	var abandoned int64
	for _, c := range s.Scopes {
		abandoned += c.Abandoned
	}
	if abandoned > 0 {
		f.add(warning, "abandoned", count(abandoned)+" pending messages are past their window: their broker has forgotten them, or nobody consumes them",
			"`ackledger list --state pending` names them; consume their source, or replay their dead letters")
	}
	if s.Owners.Overdue > 0 {
		f.add(warning, "owners", count(s.Owners.Overdue)+" owners' leases have ended, and no peer has declared them dead yet",
			"run a worker: it takes over what they held")
	}
	if s.LockWaits > 0 {
		f.add(warning, "locks", count(s.LockWaits)+" sessions wait for locks on the ledger's tables", "look for long transactions in pg_stat_activity")
	}
}

// visitStuck counts pending messages that wait for nothing but a copy, for long.
func visitStuck(ctx context.Context, op ledger.Operator, f *findings) {
	const most, patience = 1000, 30 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	n := 0
	for _, err := range op.Messages(ctx, ledger.Filter{Stuck: true, To: time.Now().Add(-stuckAfter), Limit: most}) {
		if err != nil {
			f.add(unknown, "stuck", "messages that wait for a copy cannot be counted: "+err.Error(), "run `ackledger list --stuck`, which reads the whole table")
			return
		}
		n++
	}
	switch n {
	case 0:
		f.add(good, "stuck", "no pending message waits for a copy for more than "+short(stuckAfter), "")
	case most:
		f.add(warning, "stuck", fmt.Sprintf("%s or more pending messages wait for nothing but a copy for more than %s", count(int64(n)), short(stuckAfter)), stuckRemedy)
	default:
		f.add(warning, "stuck", fmt.Sprintf("%d pending messages wait for nothing but a copy for more than %s", n, short(stuckAfter)), stuckRemedy)
	}
}

const stuckRemedy = "`ackledger list --stuck` names them; run workers of their source, or `ackledger replay` if they are archived"

// visitRenewed counts messages that were renewed and have not run since: a replay was killed before it sent them.
func visitRenewed(ctx context.Context, op ledger.Operator, after time.Duration, f *findings) {
	const most, patience, check = 1000, 30 * time.Second, "renewed"
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	late, n := time.Now().Add(-after), 0
	for d, err := range op.DeadLetters(ctx, ledger.Filter{State: ledger.Failed}) {
		old := false
		if err == nil && replay.Renewed(&d) {
			old, err = renewedBefore(ctx, op, &d, late)
		}
		if err != nil {
			f.add(unknown, check, "messages that were renewed and not run cannot be counted: "+err.Error(), "run `ackledger list --renewed`, which reads the whole archive")
			return
		}
		if old {
			n++
		}
		if n == most {
			break
		}
	}
	if n == 0 {
		f.add(good, check, "no message waits for more than "+short(after)+" for the send of its renewal", "")
		return
	}
	text := fmt.Sprintf("%s messages were renewed (--fresh-keys, --body-file) more than %s ago and have not run since: "+
		"copies of theirs from before, as in a dead-letter queue, are acknowledged and not run", count(int64(n)), short(after))
	if n == most {
		text = "at least " + text
	}
	f.add(warning, check, text, "`ackledger list --renewed` names them; `ackledger replay --source archive --renewed --to source` sends them, each runs once")
}

// pausedAfter is how long a pause may hold before it is worth a word.
const pausedAfter = time.Hour

// visitPauses looks for pauses that were forgotten: the workers stay ready.
func visitPauses(ctx context.Context, b ledger.Board, f *findings) {
	hold, err := b.Pauses(ctx)
	if err != nil {
		f.add(unknown, "pauses", err.Error(), "see the error")
		return
	}
	if len(hold) == 0 {
		f.add(good, "pauses", "no operator pauses workers", "")
	}
	for _, p := range hold {
		g := note
		if time.Since(p.Since) > pausedAfter {
			g = warning
		}
		f.add(g, "pauses", fmt.Sprintf("workers are paused: %s, %s", scopeOrAll(p.Scope), saidBy(p)), "`ackledger resume`, once the reason is over")
	}
}

// renewedBefore says whether the last renewal of a message is older than a time.
func renewedBefore(ctx context.Context, op ledger.Operator, d *ledger.DeadLetter, late time.Time) (bool, error) {
	var last time.Time
	for a, err := range op.Audits(ctx, ledger.AuditFilter{Key: &d.Key, Action: ledger.ActionRenew}) {
		if err != nil {
			return false, err
		}
		last = a.At
	}
	return last.Before(late), nil
}

// report prints what was found, the worst last.
func (d *doctor) report(out io.Writer, f findings) error {
	n := map[grade]int{}
	for _, x := range f {
		n[x.Grade]++
		if d.json {
			if err := printJSON(out, x); err != nil {
				return err
			}
			continue
		}
		line := fmt.Sprintf("%-8s %s: %s\n", x.Grade, x.Check, x.Text)
		if x.Grade != good {
			line += fmt.Sprintf("%-8s   -> %s (%s)\n", "", x.Remedy, x.Page)
		}
		if _, err := io.WriteString(out, safe(line)); err != nil {
			return err
		}
	}
	switch {
	case n[problem] > 0:
		return fmt.Errorf("problems: %d, warnings: %d", n[problem], n[warning])
	case n[unknown] > 0:
		return partly(fmt.Errorf("%d checks could not be made", n[unknown]))
	}
	return nil
}
