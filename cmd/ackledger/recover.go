package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ackledger/ackledger/kafka"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/sqlite"
	"github.com/ackledger/ackledger/ledger/storage"
)

type recovering struct {
	by
	brokers
	unseen                      string
	span                        int
	raise, newOwners, yes, json bool
}

// What becomes of partitions of which the ledger knows nothing.
const (
	unseenStart = "start"
	unseenKeep  = "keep"
)

func newRecover(t *target) *cobra.Command {
	r := new(recovering)
	cmd := &cobra.Command{
		Use:   "recover",
		Short: "After a restore from a backup: find what brokers have let go of since, and bring it back",
		Long: `After the ledger was restored from a backup: find what was handled since, and let it be handled again.

What was done with a message goes back with its database: its row, and the effects of handlers that ran in the same transaction. Kafka's
offsets, and what was deleted from SQS, do not. Stop all workers first, restore, then run this before a worker starts.

It reads each partition of each group that has committed with this ledger, from the commit back, and asks the ledger for each record. With
--yes it begins a new epoch of the ledger: its id changes, so that workers are refused in groups that were not recovered, owners of
before have left, and tokens go on above all that was handed out. Then it sets the groups back to the first record that the ledger does
not have as finished. What it has finished is recognised, and not run again.

A ledger of several clusters is recovered once for each of them (--brokers). Interrupted, the same command goes on.
Without --brokers no group of Kafka is looked at: of a ledger that has some the exit code is 3.

A SQLite file that was restored without its -owners file is first given a new one: recover --new-owners --yes, without --brokers. That
changes no group. Then look with --brokers.

What was deleted from SQS is in no queue any more: have producers send again what is newer than the backup, under the same ids.

Of a partition of which the ledger knows nothing, all may have been handled after the backup, or all may be older than the ledger's
window: say which by --unseen start (all of it runs) or --unseen keep.`,
		Args: cobra.NoArgs,
		RunE: begun(func(cmd *cobra.Command) error {
			who, err := r.who()
			if err != nil {
				return err
			}
			if r.unseen != "" && r.unseen != unseenStart && r.unseen != unseenKeep {
				return usage("--unseen must be %s or %s, is %q", unseenStart, unseenKeep, r.unseen)
			}
			if r.span < 1 {
				return usage("--span must be 1 or more, is %d", r.span)
			}
			if err := r.admit(cmd.Context(), t); err != nil {
				return err
			}
			return t.operate(cmd, func(ctx context.Context, l opened) error { return r.run(ctx, l, who, cmd.OutOrStdout()) })
		}),
	}
	r.by.flags(cmd)
	r.brokers.flags(cmd, nil)
	flags := cmd.Flags()
	flags.StringVar(&r.unseen, "unseen", "", "partitions of which the ledger knows nothing: start (from the log's start) or keep (go on at the commit)")
	flags.IntVar(&r.span, "span", kafka.DefaultSpan, "the workers' Config.Span, the largest of them")
	flags.BoolVar(&r.raise, "raise", false, "begin a new epoch though no commit is ahead: after a restore of a ledger of SQS")
	flags.BoolVar(&r.newOwners, "new-owners", false, "of a SQLite file that was restored without its -owners file")
	flags.BoolVar(&r.yes, "yes", false, "do it")
	flags.BoolVar(&r.json, "json", false, "a line of JSON for each partition")
	return cmd
}

// recoverable is a ledger that can be recovered.
type recoverable interface {
	ledger.Recoverer
	kafka.RecoverLedger
}

// admit takes a SQLite file without its owners into use.
func (r *recovering) admit(ctx context.Context, t *target) error {
	name, in, err := t.where()
	if err != nil || !r.newOwners {
		return err
	}
	if in != inSQLite {
		return usage("--new-owners is for a SQLite file")
	}
	if !r.yes {
		return usage("--new-owners makes the missing file: run recover --new-owners --yes without --brokers, then look with --brokers")
	}
	l, err := sqlite.Open(ctx, name, &sqlite.Config{NewOwners: true})
	if err != nil {
		return err
	}
	return l.Close()
}

func (r *recovering) run(ctx context.Context, l opened, who ledger.By, out io.Writer) error {
	rec, ok := l.(recoverable)
	if !ok {
		return usage("recover is for a ledger in Postgres or a SQLite file")
	}
	id, err := rec.ID(ctx)
	if err != nil {
		return err
	}
	var list []kafka.Committed
	if r.named() {
		opts, err := r.options()
		if err != nil {
			return err
		}
		if list, err = kafka.FindCommitted(ctx, opts, rec, r.span); err != nil {
			return err
		}
	}
	scopes, err := rec.Scopes(ctx)
	if err != nil {
		return err
	}
	if err := r.say(scopes, list, out); err != nil {
		return err
	}
	if err := r.act(ctx, rec, r.plan(list, id), r.isBlind(scopes), who, out); err != nil {
		return err
	}
	if r.isBlind(scopes) {
		return partly(errors.New("nothing was compared with Kafka: this ledger has Kafka groups: name --brokers"))
	}
	return nil
}

// isBlind says that the ledger has groups of Kafka, while no broker is named to ask what they have committed.
func (r *recovering) isBlind(scopes []string) bool {
	return !r.named() && slices.ContainsFunc(scopes, func(s string) bool { return strings.HasPrefix(s, "kafka:") })
}

// act does what is to be done, or says why it does not.
func (r *recovering) act(ctx context.Context, rec recoverable, p recovery, blind bool, who ledger.By, out io.Writer) error {
	switch {
	case len(p.list) == 0 && !p.raise && blind: // that nothing is to be done is not known
		return nil
	case len(p.list) == 0 && !p.raise:
		fmt.Fprintln(r.people(out), "nothing is to be done in Kafka: no commit is ahead of the ledger")
		return nil
	case len(p.refused) > 0:
		return errors.New(strings.Join(p.refused, "; "))
	case !r.yes:
		fmt.Fprintln(r.people(out), "nothing was changed: --yes does it")
		return nil
	}
	return r.do(ctx, rec, p, who, out)
}

// people is where what is not JSON goes.
func (r *recovering) people(out io.Writer) io.Writer {
	if r.json {
		return io.Discard
	}
	return out
}

// recovery is what is to be done.
type recovery struct {
	id      string // the ledger's
	raise   bool   // begin an epoch
	epoch   int    // that the ledger has in the end
	list    []kafka.Committed
	refused []string // why it cannot be done yet
}

// plan decides. A commit that names an earlier epoch than the ledger's is of a group that is still to be recovered; one of the same or a
// later epoch that is ahead, or of another recovery of the same epoch, says that the ledger was restored.
func (r *recovering) plan(list []kafka.Committed, id string) (p recovery) {
	_, now := storage.EpochOf(id)
	p.id, p.raise, p.epoch = id, r.raise, now
	behind, unseen, busy := map[int]bool{}, []string(nil), map[string]bool{}
	for i := range list {
		c := &list[i]
		_, epoch := storage.EpochOf(c.LedgerID)
		if c.LedgerID == "" {
			epoch = now
		}
		if c.Unseen && r.unseen == unseenStart {
			c.Back = c.Start
		}
		p.epoch = max(p.epoch, epoch)
		other := c.LedgerID != "" && c.LedgerID != id // in the same epoch: of a recovery that the ledger was restored to before
		p.raise = p.raise || epoch > now || epoch == now && (other || c.Back < c.Offset)
		behind[i] = epoch < now || c.Back < c.Offset
	}
	if p.raise {
		p.epoch++
	}
	for i := range list {
		if c := &list[i]; p.raise || behind[i] {
			p.list = append(p.list, *c)
			if c.State != "Empty" && c.State != "Dead" && c.State != "" { // Kafka before 2.6 does not say, and refuses by itself
				busy[fmt.Sprintf("group %s is %s: stop its workers", text(c.Group), text(c.State))] = true
			}
			if c.Unseen && r.unseen == "" {
				unseen = append(unseen, placeOf(c))
			}
		}
	}
	for why := range busy {
		p.refused = append(p.refused, why)
	}
	if len(unseen) > 0 {
		p.refused = append(p.refused, fmt.Sprintf("the ledger knows nothing of %s: say --unseen start or --unseen keep", strings.Join(unseen, ", ")))
	}
	return p
}

func placeOf(c *kafka.Committed) string {
	return fmt.Sprintf("group %s, %s-%d", text(c.Group), text(c.Topic), c.Partition)
}

// do changes the ledger first: if it ends there, commits are of an epoch before, workers are refused, and the same command goes on.
func (r *recovering) do(ctx context.Context, l recoverable, p recovery, who ledger.By, out io.Writer) error {
	id := p.id
	if p.raise {
		got, err := l.Recover(ctx, ledger.Recovery{ID: id, Epoch: p.epoch, By: who})
		if err != nil {
			return err
		}
		id = got.ID
		fmt.Fprintf(r.people(out), "epoch %d: the ledger's id is %s; %s owners have left, %s messages are pending\n", p.epoch, id, count(got.Owners), count(got.Messages))
	}
	if len(p.list) == 0 {
		return nil
	}
	opts, err := r.options()
	if err == nil {
		err = kafka.SetBack(ctx, opts, p.list, id)
	}
	if err != nil {
		return partly(fmt.Errorf("%w; workers are refused until the same command has gone on", err))
	}
	n := int64(0)
	for i := range p.list {
		n += p.list[i].Offset - p.list[i].Back
	}
	fmt.Fprintf(r.people(out), "%d partitions are signed anew, and set back by %s offsets\n", len(p.list), count(n))
	return nil
}
