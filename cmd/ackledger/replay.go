package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/kafka"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/replay"
	"github.com/ackledger/ackledger/sqs"
)

type replaying struct {
	filters
	by
	cloud
	brokers
	cfg              replay.Config
	source, to, body string
	visibility       span
	yes, json        bool
	anyGroup         bool
	renewed          bool
	stampKeysIn      string      // a file
	copies           *kgo.Client // sends to topics; nil: none has been needed
}

// stampKeysVariable has the keys in the environment: flags are seen by other users of a machine.
const stampKeysVariable = "ACKLEDGER_STAMP_KEYS"

// stampKeys reads the keys, if there are any.
func (r *replaying) stampKeys() ([]consumer.StampKey, error) {
	text, from := os.Getenv(stampKeysVariable), stampKeysVariable
	if r.stampKeysIn != "" {
		file, err := os.ReadFile(r.stampKeysIn)
		if err != nil {
			return nil, usage("--stamp-keys-file: %w", err)
		}
		text, from = string(file), "--stamp-keys-file"
	} else if text == "" {
		return nil, nil
	}
	keys, err := consumer.ParseStampKeys(text)
	if err != nil {
		return nil, usage("%s: %w", from, err)
	}
	return keys, nil
}

func newReplay(t *target) *cobra.Command {
	r := &replaying{cfg: replay.Config{Concurrency: replay.DefaultConcurrency, StopAfter: replay.DefaultStopAfter}}
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Bring dead letters back, each once",
		Long: `Bring dead letters back to the queue or topic that they came from, each once. Without --yes nothing is changed: it says
what would happen.

  ackledger replay --source archive --to source --scope orders
  ackledger replay --source sqs:orders-dlq --to source --kind exhausted --since 2d --yes
  ackledger replay --source kafka:orders.dlq --to source --brokers kafka.example.com:9092 --rate 50 --yes

The ledger decides for each: what succeeded meanwhile is dropped, what a worker has in hands is left, and the copy of the
rest carries a stamp by which it meets its own row. So nothing is done twice that was done, two replays at once do no harm,
and one that was interrupted or killed is simply run again. A message leaves a dead-letter queue only after its copy was
sent. It handles what was there when it began: if the bug still lives, it ends. A source that a worker of this ledger
consumes is refused: its messages are live.

A letter that SQS has not moved and that the ledger does not know is refused without --unknown; with it, where only the
letter itself says where it came from, name the target (--to sqs:QUEUE, kafka:TOPIC) or --origin. The report, of a dry run
too, has a line for each queue and topic.

A mismatch, whose body is not the one that is known under its id, is sent with --mismatches only, as a message of its own.
Where workers have Options.Stamps.Keys, give the command the same (ACKLEDGER_STAMP_KEYS, or --stamp-keys-file): a copy that
is not signed is another message to them, and runs whenever it is sent.
On Kafka a copy reaches every group that reads the topic; workers of other groups skip it, other programs do not: with such
groups it is refused without --any-group.

Ctrl-C stops between two messages; the report says what was done. What a queue still hides, of a run that was stopped or
from another, is not seen: the report counts it, and with --yes the exit code is 3. The same command again, later, sees it.
The exit code is 3, too, if letters are left, refused or mismatched, or failed again; a dry run has the same for what would be.
To replay through your handler, without the broker, use replay.InPlace in a program of your own.`,
		Args: cobra.NoArgs,
		RunE: t.operating(r.run),
	}
	r.messageFlags(cmd, "failed")
	r.deadLetterFlags(cmd)
	r.by.flags(cmd)
	r.cloud.flags(cmd)
	r.brokers.flags(cmd, &r.cloud)
	flags := cmd.Flags()
	flags.StringVar(&r.source, "source", "", "archive, sqs:QUEUE (its URL, ARN or name) or kafka:TOPIC")
	flags.StringVar(&r.to, "to", "", "source: where each came from; or only sqs:QUEUE or kafka:TOPIC, of those that came from there")
	flags.BoolVar(&r.yes, "yes", false, "do it")
	flags.IntVar(&r.count, "count", 0, "send so many at most, 0 for all")
	flags.Float64Var(&r.cfg.Rate, "rate", 0, "so many in a second at most, 0 for no limit")
	flags.IntVar(&r.cfg.Concurrency, "concurrency", r.cfg.Concurrency, "so many sends at once")
	flags.IntVar(&r.cfg.StopAfter, "max-errors", r.cfg.StopAfter, "stop at this many errors")
	flags.BoolVar(&r.cfg.Mismatched, "mismatches", false, "send mismatches, too, as messages of their own")
	flags.BoolVar(&r.cfg.Unknown, "unknown", false, "send what the ledger does not know (any more): it may have been handled since, or be forged")
	flags.BoolVar(&r.anyGroup, "any-group", false, "Kafka: although other groups read the topic")
	flags.BoolVar(&r.cfg.FreshKeys, "fresh-keys", false, "change the child keys: effects that were done are done AGAIN")
	flags.BoolVar(&r.renewed, "renewed", false, "with --source archive: only what was renewed (--fresh-keys, --body-file) and has not run since")
	flags.Var((*given)(&r.body), "body-file", "send this body in place of the one that failed; with one --id")
	flags.StringVar(&r.cfg.Consumer, "consumer", "", "the consumer of dead letters that name none (SQS moved them by itself)")
	flags.StringVar(&r.cfg.Origin, "origin", "", "where dead letters came from that do not say so: a queue's ARN, or CLUSTER/TOPIC")
	flags.StringVar(&r.stampKeysIn, "stamp-keys-file", "", "a file with the keys of the workers' Options.Stamps, id:secret (default: "+stampKeysVariable+" in the environment)")
	r.visibilityFlag(cmd)
	flags.BoolVar(&r.json, "json", false, "the report as a line of JSON")
	return cmd
}

func (r *replaying) visibilityFlag(cmd *cobra.Command) {
	r.visibility = span(30 * time.Second)
	cmd.Flags().Var(&r.visibility, "visibility", "SQS: how long what is read from the queue is hidden from others")
}

func (r *replaying) run(ctx context.Context, op ledger.Operator, out, messages io.Writer) error {
	if err := r.prepare(ctx, op); err != nil {
		return err
	}
	if r.cfg.Mend {
		shown := out
		if r.json {
			shown = messages // the output is for programs
		}
		if err := r.showMended(ctx, op, shown); err != nil {
			return err
		}
	}
	if r.cfg.FreshKeys {
		fmt.Fprintln(messages, "--fresh-keys: the child keys change, so services that were given one do their work AGAIN for each "+
			"message that is sent: a payment is taken twice. Without it they recognise the key and do nothing.")
	}
	defer r.end()
	src, dst, err := r.ends(ctx, op)
	if err != nil {
		return err
	}
	p := newProgress(messages)
	r.cfg.Progress, r.cfg.Interval = p.show, p.interval
	report, err := replay.Run(ctx, op, src, dst, r.cfg)
	p.end()
	if bad, ok := settingError(err); ok {
		return bad
	}
	if err == nil && report.Read == 0 && len(r.ids) > 0 && report.Unread == 0 {
		return r.unmet("dead letter")
	}
	return errors.Join(r.print(out, &report, err), r.outcome(ctx, &report, err))
}

// prepare makes the settings of the flags.
func (r *replaying) prepare(ctx context.Context, op ledger.Operator) (err error) {
	if r.cfg.By, err = r.who(); err != nil {
		return err
	}
	if r.cfg.Filter, err = r.filter(ctx, op); err != nil {
		return err
	}
	if r.cfg.StampKeys, err = r.stampKeys(); err != nil {
		return err
	}
	r.cfg.DryRun = !r.yes
	if r.body == "" {
		return nil
	}
	if len(r.ids) != 1 {
		return usage("--body-file needs --id exactly once, it is there %d times", len(r.ids))
	}
	r.cfg.Mend = true
	r.cfg.Body, err = readBody(r.body)
	return err
}

// ends makes source and target. What they need is released by end.
func (r *replaying) ends(ctx context.Context, op ledger.Operator) (src replay.Source, dst replay.Target, err error) {
	switch {
	case r.renewed && r.source != "archive":
		err = usage("--renewed needs --source archive, --source is %q", r.source)
	case r.renewed:
		src = replay.Renewals(op)
	case r.source == "archive":
		src = replay.Archive(op)
	case isBrokerSource(r.source):
		src, err = r.brokerSource(ctx, r.source)
	default:
		err = usage("--source must be archive, sqs:QUEUE or kafka:TOPIC, is %q", r.source)
	}
	if err != nil {
		return nil, nil, err
	}
	dst, err = r.target(ctx)
	return src, dst, err
}

// isBrokerSource says whether a source is written as a broker's queue or topic.
func isBrokerSource(source string) bool {
	kind, name, _ := strings.Cut(source, ":")
	return (kind == "sqs" || kind == "kafka") && name != ""
}

// brokerSource makes the source that isBrokerSource has let pass.
func (r *replaying) brokerSource(ctx context.Context, source string) (replay.Source, error) {
	if queue, ok := strings.CutPrefix(source, "sqs:"); ok {
		return r.queueSource(ctx, queue)
	}
	return r.topicSource(strings.TrimPrefix(source, "kafka:"))
}

func (r *replaying) end() {
	if r.copies != nil {
		r.copies.Close()
	}
}

// settingError says what is wrong with a setting in the words of the command line.
func settingError(err error) (error, bool) {
	if err == nil {
		return nil, false
	}
	rest, ok := strings.CutPrefix(err.Error(), "replay: Config.")
	if !ok {
		return nil, false
	}
	field, problem, _ := strings.Cut(rest, ":")
	flag := map[string]string{"Rate": "--rate", "Concurrency": "--concurrency", "StopAfter": "--max-errors", "Mend": "--id"}[field]
	if flag == "" {
		return nil, false
	}
	return usage("%s%s", flag, problem), true
}

// print writes the report, if there is one: a run that could not begin has none.
func (r *replaying) print(out io.Writer, report *replay.Report, err error) error {
	if err != nil && report.Read == 0 {
		return nil
	}
	if r.json {
		return printJSON(out, report)
	}
	if _, err := io.WriteString(out, safe(report.Text())); err != nil {
		return err
	}
	if n := report.Reasons[replay.Sealed]; n > 0 {
		fmt.Fprintf(out, "%s dead letters are sealed by the workers' cipher, which this command does not have: replay them from "+
			"the dead-letter queue or topic, or in a program of yours that has the cipher (package replay, the example \"Sealed\")\n", count(n))
	}
	if report.DryRun {
		fmt.Fprintln(out, "nothing was changed: --yes does it")
	}
	return nil
}

// outcome is the error of a run, with its exit code.
func (r *replaying) outcome(ctx context.Context, report *replay.Report, err error) error {
	finished := report.Replayed + report.Succeeded + report.Superseded
	if report.DryRun {
		finished = 0
	}
	open := report.Left + report.Refused + report.Mismatched + report.Failed
	switch {
	case errors.Is(err, replay.ErrStopped) || err != nil && ctx.Err() != nil:
		return stopped(ctx, err, finished, "dead letters were finished", "nothing is lost: the same command goes on with the rest")
	case err != nil && finished > 0:
		return partly(err)
	case err != nil:
		return err
	case report.Unread > 0 && open == 0 && (!report.DryRun || len(r.ids) > 0 && report.Read == 0):
		// It did all it saw, while its source says that it has more; none of that is known by its id.
		return partly(fmt.Errorf("about %s messages of %s were not seen: run the same command again, see the warning", count(report.Unread), report.Source))
	case open == 0:
		return nil
	case report.DryRun: // a script that asks first is told what the run would tell it
		return partly(fmt.Errorf("%s of %s dead letters would not be replayed: see the report", count(open), count(report.Read)))
	case report.Failed > 0 && finished == 0:
		return fmt.Errorf("%s dead letters failed again; they are where they were", count(report.Failed))
	}
	return partly(fmt.Errorf("%s of %s dead letters were not replayed: see the report", count(open), count(report.Read)))
}

func (r *replaying) queueSource(ctx context.Context, name string) (replay.Source, error) {
	client, url, err := r.queue(ctx, name)
	if err != nil {
		return nil, err
	}
	if _, err := queueAttributes(ctx, client, url); err != nil {
		return nil, err
	}
	return sqs.NewReplaySource(client, url, time.Duration(r.visibility))
}

func (r *replaying) topicSource(name string) (replay.Source, error) {
	opts, err := r.options()
	if err != nil {
		return nil, err
	}
	return kafka.NewReplaySource(opts, name)
}

// target is where the dead letters go: --to.
func (r *replaying) target(ctx context.Context) (replay.Target, error) {
	kind, name, _ := strings.Cut(r.to, ":")
	switch {
	case r.to == "source":
		return r.home(ctx)
	case kind == "sqs" && name != "":
		client, url, err := r.queue(ctx, name)
		if err != nil {
			return nil, err
		}
		return sqs.NewReplayTarget(client, url)
	case kind == "kafka" && name != "":
		return r.topics(name)
	}
	return nil, usage("--to must be source, sqs:QUEUE or kafka:TOPIC, is %q: this command cannot run your handlers", r.to)
}

func (r *replaying) topics(names ...string) (replay.Target, error) {
	var err error
	if r.copies, err = r.brokers.client(); err != nil {
		return nil, err
	}
	return kafka.NewReplayTarget(r.copies, &kafka.ReplayTargetOptions{Topics: names, AllowGroups: r.anyGroup})
}

// home sends each dead letter to where it came from, as far as the brokers are named.
func (r *replaying) home(ctx context.Context) (replay.Target, error) {
	scope := r.cfg.Filter.Scope
	var both home
	if r.named() && !strings.HasPrefix(scope, "sqs:") {
		var err error
		if both.topics, err = r.topics(); err != nil {
			return nil, err
		}
	}
	if !strings.HasPrefix(scope, "kafka:") {
		client, err := r.cloud.client(ctx)
		switch {
		case err == nil:
			if both.queues, err = sqs.NewReplayTarget(client); err != nil {
				return nil, err
			}
		case both.topics == nil:
			return nil, err
		}
	}
	switch {
	case both.topics == nil && both.queues == nil:
		return nil, usage("--brokers is missing: host:port,… (or %s in the environment)", brokersVariable)
	case both.topics == nil:
		return both.queues, nil
	case both.queues == nil:
		return both.topics, nil
	}
	return &both, nil
}
