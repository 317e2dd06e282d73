package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kgo"
	_ "modernc.org/sqlite"

	"github.com/ackledger/ackledger/kafka"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/sqlite"
	"github.com/ackledger/ackledger/replay"
	"github.com/ackledger/ackledger/sqs"
)

const (
	perBroker      = 250
	queuedByHand   = 20
	loggedByHand   = 17
	succeededAhead = queuedByHand + loggedByHand
)

func main() {
	command := flag.String("command", "", "path of the command ackledger, to replay with it; empty: with the function behind it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *command, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, command string, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "ackledger-replay-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "ledger.db")
	l, err := sqlite.Open(ctx, path, nil)
	if err != nil {
		return err
	}
	defer l.Close()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, createCharges); err != nil {
		return err
	}
	b, err := startBrokers(ctx)
	if err != nil {
		return err
	}
	defer b.close()
	d := &demo{shop: &shop{b: b, ledger: l, db: db}, path: path, command: command, out: out}
	return d.run(ctx)
}

// demo is the story.
type demo struct {
	*shop
	path, command string
	out           io.Writer
}

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.out, format+"\n", args...) }

func (d *demo) run(ctx context.Context) error {
	if err := d.breakAll(ctx); err != nil {
		return err
	}
	stop, err := d.start(ctx)
	if err != nil {
		return err
	}
	return errors.Join(d.bringBack(ctx), stop())
}

// breakAll lets all orders fail.
func (d *demo) breakAll(ctx context.Context) error {
	d.say("%d orders to an SQS queue, %d to a Kafka topic; the handler has a bug", perBroker, perBroker)
	d.buggy.Store(true)
	if err := d.b.send(ctx, perBroker); err != nil {
		return err
	}
	stop, err := d.start(ctx)
	if err != nil {
		return err
	}
	err = until(ctx, "all orders are dead letters", func() (bool, error) {
		queued, logged, err := d.b.deadLetters(ctx)
		if err != nil || queued < perBroker || logged < perBroker {
			return false, err
		}
		return d.b.idle(ctx)
	})
	d.buggy.Store(false)
	if err = errors.Join(err, stop()); err != nil {
		return err
	}
	d.say("%d handlers failed; %d dead letters in the queue, %d in the topic; charged: 0", d.failed.Load(), perBroker, perBroker)
	return nil
}

// bringBack mends the bug, and brings everything back.
func (d *demo) bringBack(ctx context.Context) error {
	d.say("the bug is mended; a colleague sends %d dead letters again by hand, and leaves them where they are", succeededAhead)
	if err := d.b.byHand(ctx, queuedByHand, loggedByHand); err != nil {
		return err
	}
	if err := until(ctx, "what was sent by hand is charged", func() (bool, error) { return d.settled(ctx, succeededAhead) }); err != nil {
		return err
	}
	d.say("charged: %d\n", succeededAhead)
	for _, source := range []string{"sqs:" + d.b.deadURL, "kafka:" + dead} {
		if err := d.replay(ctx, source); err != nil {
			return err
		}
	}
	if err := until(ctx, "all orders are charged", func() (bool, error) { return d.settled(ctx, 2*perBroker) }); err != nil {
		return err
	}
	d.say("once more, to see that nothing is left:\n")
	if err := d.replay(ctx, "archive"); err != nil {
		return err
	}
	return d.prove(ctx)
}

// settled says that so many handlers ran, and the brokers have nothing more for them.
func (d *demo) settled(ctx context.Context, ran int64) (bool, error) {
	if d.ran.Load() < ran {
		return false, nil
	}
	return d.b.idle(ctx)
}

// prove reads the records of the shop, not of the ledger.
func (d *demo) prove(ctx context.Context) error {
	once, err := d.audit(ctx, perBroker)
	if err != nil {
		return err
	}
	queued, _, err := d.b.deadLetters(ctx)
	if err != nil {
		return err
	}
	if ran := d.ran.Load(); queued != 0 || ran != 2*perBroker {
		return fmt.Errorf("%d dead letters are left in the queue, and %d handlers ran for %d orders", queued, ran, 2*perBroker)
	}
	d.say("The table of charges has no unique constraint: each of %d orders is in it once. %d handlers ran; for the %d that had", once, d.ran.Load(), succeededAhead)
	d.say("succeeded meanwhile, none did.")
	return nil
}

// replay brings the dead letters of a source back to where they came from.
func (d *demo) replay(ctx context.Context, source string) error {
	if d.command != "" {
		return d.runCommand(ctx, source)
	}
	src, err := d.source(source)
	if err != nil {
		return err
	}
	toQueue, err := sqs.NewReplayTarget(d.b.sqs, d.b.queueURL)
	if err != nil {
		return err
	}
	toTopic, err := kafka.NewReplayTarget(d.b.kafka, nil)
	if err != nil {
		return err
	}
	var dst replay.Target = toQueue
	if strings.HasPrefix(source, "kafka:") {
		dst = toTopic
	}
	report, err := replay.Run(ctx, d.ledger, src, dst, replay.Config{By: ledger.By{Actor: "demo", Reason: "the bug is mended"}})
	d.say("%s", report.Text())
	return err
}

func (d *demo) source(name string) (replay.Source, error) {
	switch kind, rest, _ := strings.Cut(name, ":"); kind {
	case "sqs":
		return sqs.NewReplaySource(d.b.sqs, rest, 0)
	case "kafka":
		return kafka.NewReplaySource([]kgo.Opt{d.b.seeds}, rest)
	}
	return replay.Archive(d.ledger), nil
}

// runCommand does the same with the command.
func (d *demo) runCommand(ctx context.Context, source string) error {
	args := []string{
		"replay", "--ledger", d.path, "--source", source, "--to", "source", "--actor", "demo", "--reason", "the bug is mended",
		"--brokers", strings.Join(d.b.cluster.ListenAddrs(), ","), "--yes",
	}
	d.say("$ ackledger replay --source %s --to source --yes", source)
	cmd := exec.CommandContext(ctx, d.command, args...)
	cmd.Stdout, cmd.Stderr = d.out, d.out
	cmd.Env = append(os.Environ(), "AWS_ENDPOINT_URL="+d.b.server.URL, "AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=demo",
		"AWS_SECRET_ACCESS_KEY=demo", "AWS_EC2_METADATA_DISABLED=true")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("ackledger replay: %w", err)
	}
	d.say("")
	return nil
}
