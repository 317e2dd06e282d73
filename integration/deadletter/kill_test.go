package deadletter_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/sqlite"
	"github.com/ackledger/ackledger/sqs"
	"github.com/ackledger/ackledger/sqs/sqstest"
)

// childVariable is set in processes of this test binary that are workers to be killed.
const childVariable = "ACKLEDGER_DEADLETTER_WORKER"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "" {
		os.Exit(m.Run())
	}
	if err := child(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

// child is a worker whose handler always fails. It runs until it is killed, or its parent has died.
func child(args []string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // the parent holds the other end
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(1)
	}()
	endpoint, url, dead, path := args[0], args[1], args[2], args[3]
	l, err := sqlite.Open(ctx, path, nil)
	if err != nil {
		return err
	}
	client := clientOf(endpoint)
	target, err := sqs.NewDeadLetterQueue(client, dead)
	if err != nil {
		return err
	}
	w, err := sqs.NewWorker(client, url, l, consumer.HandlerFunc(func(context.Context, *consumer.Message) error {
		return consumer.Terminal(errBug)
	}), &sqs.Config{Options: consumer.Options{Name: "billing", Lease: 500 * time.Millisecond, DeadLetter: target, Concurrency: 4, Breaker: consumer.Breaker{Off: true}},
		VisibilityTimeout: 2 * time.Second, WaitTime: time.Second})
	if err != nil {
		return err
	}
	fmt.Println("begins")
	return w.Run(ctx)
}

// Workers are killed again and again while they dead-letter. No message is lost: each is archived, and what the archive
// says was sent is in the dead-letter queue, under one identity and with the token of its last failure.
func TestPitfall74_KilledProcesses(t *testing.T) {
	t.Parallel()
	const messages, kills = 150, 12
	srv := sqstest.Start(t, nil)
	q, dead := newQueue(t, srv.URL, ""), newQueue(t, srv.URL, "")
	for i := range messages / 10 {
		in := &awssqs.SendMessageBatchInput{QueueUrl: &q.url}
		for j := range 10 {
			in.Entries = append(in.Entries, types.SendMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(j)), MessageBody: aws.String(fmt.Sprint("order ", i*10+j))})
		}
		if out, err := q.client.SendMessageBatch(t.Context(), in); err != nil || len(out.Failed) > 0 {
			t.Fatal(err, out)
		}
	}
	path := filepath.Join(t.TempDir(), "ledger.db")
	l, err := sqlite.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	for i := 0; ; i++ {
		end := spawn(t, srv.URL, q.url, dead.url, path)
		if i == kills {
			eventually(t, "all is acknowledged", func() bool { return q.acknowledged(t) })
			end()
			break
		}
		time.Sleep(time.Duration(20+random.IntN(300)) * time.Millisecond) // the random moment at which it is killed
		end()
	}
	check(t, l, q, dead, messages, kills)
	if t.Failed() {
		t.Logf("the server has %+v", srv.Counts(dead.url[strings.LastIndexByte(dead.url, '/')+1:]))
	}
}

func check(t *testing.T, l *sqlite.Ledger, q, dead *queue, messages, kills int) {
	tokens, copies := map[string]map[uint64]bool{}, 0
	for _, d := range dead.letters(t, 1) {
		if d.Stamp == nil || d.Stamp.ID != d.Message.ID || d.Message.Source != q.arn {
			t.Fatalf("dead letter %+v", d)
		}
		if tokens[d.Message.ID] == nil {
			tokens[d.Message.ID] = map[uint64]bool{}
		}
		tokens[d.Message.ID][d.Stamp.Token] = true
		copies++
	}
	found, sent := 0, 0
	for d, err := range l.DeadLetters(t.Context(), ledger.Filter{Scope: "sqs:" + q.arn + "/billing"}) {
		if err != nil {
			t.Fatal(err)
		}
		found++
		id := string(d.Key.ID)
		if d.Sent {
			sent++
		}
		if d.Sent && !tokens[id][d.Token] {
			t.Errorf("message %s: sent by the archive with token %d, the queue has %v", id, d.Token, tokens[id])
		}
		if n := len(tokens[id]); n > kills+1 {
			t.Errorf("message %s: %d copies", id, n)
		}
	}
	t.Logf("%d messages, %d archived, %d of them sent, %d copies", messages, found, sent, copies)
	if found != messages || sent < messages/2 {
		t.Errorf("%d of %d messages are archived, %d as sent", found, messages, sent)
	}
}

// spawn starts a worker process and waits until it begins; end kills it.
func spawn(t *testing.T, args ...string) (end func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), childVariable+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 10)); err != nil {
		t.Errorf("the worker did not begin: %v", err)
	}
	return func() {
		_ = cmd.Process.Kill()
		_, exited := errors.AsType[*exec.ExitError](cmd.Wait())
		if !exited {
			t.Error("the worker ended by itself")
		}
		_ = in.Close()
	}
}
