package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/kafka"
)

// topics is a ledger beside a Kafka cluster.
type topics struct {
	*store
	brokers string
	client  *kgo.Client
	keys    sync.Map // by id: the child key of "charge" that its handler saw
}

func onTopics(t *testing.T, test func(*testing.T, *topics)) {
	onStores(t, func(t *testing.T, s *store) {
		cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders", "orders.dlq"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cluster.Close)
		client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		test(t, &topics{store: s, brokers: strings.Join(cluster.ListenAddrs(), ","), client: client})
	})
}

// work runs a worker until it has handled n records; those whose body has the word fail for good.
func (k *topics) work(n int64, bad string) {
	k.Helper()
	dead, err := kafka.NewDeadLetterTopic(k.client, "orders.dlq")
	if err != nil {
		k.Fatal(err)
	}
	ctx, stop := context.WithCancel(k.Context())
	defer stop()
	var seen atomic.Int64
	worker, err := kafka.NewWorker([]kgo.Opt{kgo.SeedBrokers(strings.Split(k.brokers, ",")...), kgo.ConsumerGroup("shipping"), kgo.ConsumeTopics("orders")},
		k.Ledger, consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
			if seen.Add(1) == n {
				defer stop()
			}
			key := consumer.ChildKey(ctx, "charge")
			if was, again := k.keys.LoadOrStore(m.ID, key); again && was != key {
				k.Errorf("a copy of %s has another child key", m.ID)
			}
			if bad != "" && strings.Contains(string(m.Body), bad) {
				return consumer.Terminal(errors.New("no such SKU"))
			}
			if m.Attempt == 1 && strings.HasPrefix(string(m.Body), "again") {
				return errors.New("not yet")
			}
			return nil
		}), &kafka.Config{Options: consumer.Options{DeadLetter: dead}})
	if err != nil {
		k.Fatal(err)
	}
	if err := worker.Run(ctx); err != nil {
		k.Fatal(err)
	}
}

func (k *topics) end() int64 {
	const topic = "orders"
	k.Helper()
	ends, err := kadm.NewClient(k.client).ListEndOffsets(k.Context(), topic)
	if err != nil {
		k.Fatal(err)
	}
	o, _ := ends.Lookup(topic, 0)
	return o.Offset
}

// ran is done, but for lines of progress.
func ran(t *testing.T, args ...string) string {
	t.Helper()
	r := ackledger(t, args...)
	if r.code != exitDone {
		t.Fatalf("ackledger %v: code %d, %s%s", args, r.code, r.errors, r.out)
	}
	return r.out
}

// TestKafka goes through the life of dead letters of a topic: they are listed, shown, replayed and handled.
func TestKafka(t *testing.T) {
	t.Parallel()
	onTopics(t, func(t *testing.T, k *topics) {
		for i := range 10 {
			body := fmt.Sprintf("order %d", i)
			if i%4 == 0 {
				body = secret
			}
			if err := k.client.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Key: []byte(fmt.Sprint(i)), Value: []byte(body)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		k.work(10, secret)
		got := k.listed("--scope", "orders")
		slices.Sort(got) // they failed side by side
		if got := strings.Join(got, " "); got != "orders-0-0 orders-0-4 orders-0-8" {
			t.Errorf("dead letters: %s", got)
		}
		if got := strings.Join(k.listed("--offsets", "0:1-7"), " "); got != "orders-0-4" {
			t.Errorf("dead letters of offsets 1 to 7: %s", got)
		}
		k.shows()

		replayed := []string{"replay", "--ledger", k.name, "--brokers", k.brokers, "--source", "kafka:orders.dlq", "--to"}
		for to, want := range map[string]string{"kafka:orders.dlq": "must not be the dead-letter topic itself", "kafka:none": "none"} {
			if r := ackledger(t, append(replayed, to, "--yes")...); r.code != exitFailed || strings.Count(r.errors, "\n") != 1 || !strings.Contains(r.errors, want) {
				t.Errorf("to %s: code %d, %s%s", to, r.code, r.out, r.errors)
			}
		}
		r := ackledger(t, "replay", "--ledger", k.name, "--brokers", k.brokers, "--source", "kafka:none", "--to", "source", "--yes")
		if r.code != exitFailed || strings.Count(r.errors, "\n") != 1 || !strings.Contains(r.errors, "none") {
			t.Errorf("no such topic: code %d, %s%s", r.code, r.out, r.errors)
		}
		if out := ran(t, append(replayed, "source")...); !strings.Contains(out, "3 would be replayed") || k.end() != 10 {
			t.Errorf("the dry run sent, or says %s", out)
		}
		if out := ran(t, append(replayed, "source", "--yes", "--error", "SKU")...); !strings.Contains(out, "3 replayed") || k.end() != 13 {
			t.Errorf("%d records in the topic: %s", k.end(), out)
		}
		k.work(3, "")
		if got := k.listed("--state", "failed"); len(got) != 0 {
			t.Errorf("still failed: %v", got)
		}
		var again reopened
		decode(t, ran(t, "reopen", "--ledger", k.name, "--scope", "orders", "--offsets", "0:1-2", "--yes", "--json"), &again)
		if again.Matched != 2 || again.Reopened != 2 {
			t.Errorf("reopened: %+v", again)
		}
		r = ackledger(t, "reopen", "--ledger", k.name, "--scope", "orders", "--offsets", "0:3-3", "--fresh-keys", "--yes")
		if r.code != exitUsage || !strings.Contains(r.errors, "--fresh-keys must be") || strings.Count(r.errors, "\n") != 1 {
			t.Errorf("fresh keys of a range: code %d, %s%s", r.code, r.out, r.errors)
		}
		if out := ran(t, append(replayed, "source", "--yes")...); !strings.Contains(out, "3 succeeded already") || k.end() != 13 {
			t.Errorf("once more: %s", out)
		}
	})
}

// shows: a record that succeeded is found by its place in the log, one that failed by its id as well.
func (k *topics) shows() {
	k.Helper()
	for flags, noted := range map[string]bool{
		"": true, "--state pending": true, "--state succeeded": true, "--stuck": true, "--scope orders": true,
		"--state failed": false, "--renewed": false, "--json": false,
	} {
		out := done(k.T, append([]string{"list", "--ledger", k.name}, strings.Fields(flags)...)...)
		if n := strings.Count(out, "held in ranges"); n > 1 || n == 1 != noted {
			k.Errorf("list %s: want a note of ranges: %v:\n%s", flags, noted, out)
		}
	}
	r := ackledger(k.T, "list", "--ledger", k.name, "--state", "pending", "--json")
	if r.code != exitDone || strings.Contains(r.out, "ranges") || strings.Count(r.errors, "held in ranges") != 1 {
		k.Errorf("list --state pending --json: %q, %q", r.out, r.errors)
	}
	r = ackledger(k.T, "reopen", "--ledger", k.name, "--scope", "orders", "--since", "1h")
	if r.code != exitUsage || !strings.Contains(r.errors, "--offsets or --id") {
		k.Errorf("reopen by time: code %d, %s", r.code, r.errors)
	}
	for _, id := range []string{"orders-0-1", "orders-0-9"} {
		out := done(k.T, "show", id, "--ledger", k.name, "--brokers", k.brokers)
		if !strings.Contains(out, "succeeded") || !strings.Contains(out, "/orders/shipping") {
			k.Errorf("show %s:\n%s", id, out)
		}
	}
	for _, id := range []string{"orders-0-1", "orders-0-4"} { // in a range; with a row
		want, _ := k.keys.Load(id)
		for _, brokers := range []string{"", k.brokers} {
			all := jsonLines[shown](k.T, done(k.T, "show", id, "--ledger", k.name, "--brokers", brokers, "--step", "charge", "--json"))
			if len(all) != 1 || all[0].Child["charge"] != want {
				k.Errorf("show %s with brokers %q: %+v, and the handler saw the child key %v", id, brokers, all, want)
			}
		}
	}
	if out := done(k.T, "show", "orders-0-1", "--ledger", k.name); !strings.Contains(out, "held with") || !strings.Contains(out, "finished between") {
		k.Errorf("show orders-0-1:\n%s", out)
	}
	if out := done(k.T, "show", "orders-0-4", "--ledger", k.name); !strings.Contains(out, "no such SKU") || !strings.Contains(out, "failed") {
		k.Errorf("show orders-0-4:\n%s", out)
	}
	one := jsonLines[shown](k.T, done(k.T, "show", "orders-0-4", "--ledger", k.name, "--brokers", k.brokers, "--json"))
	if len(one) != 1 {
		k.Errorf("one record is shown as %d: %+v", len(one), one)
	}
	for id, want := range map[string]string{"orders-0-77": "knows nothing of orders-0-77", "orders-5-1": "has no partition 5", "none-0-1": "none"} {
		r := ackledger(k.T, "show", id, "--ledger", k.name, "--brokers", k.brokers)
		if r.code != exitFailed || !strings.Contains(r.errors, want) || strings.Count(r.errors, "\n") != 1 {
			k.Errorf("show %s: code %d, %s%s", id, r.code, r.out, r.errors)
		}
	}
}

// A password went to the brokers in clear, and nobody had asked for that.
func TestPitfall139_PasswordInClear(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("hush"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := brokers{seeds: []string{"127.0.0.1:1"}, sasl: "plain", user: "u", passwordIn: file}
	if _, err := b.options(); err == nil || !strings.Contains(err.Error(), "--insecure") {
		t.Errorf("in clear: %v", err)
	}
	for _, login := range []string{"oauthbearer", "aws-msk-iam"} {
		one := brokers{seeds: b.seeds, sasl: login, passwordIs: "hush"}
		if _, err := one.options(); err == nil || !strings.Contains(err.Error(), "--insecure") {
			t.Errorf("%s in clear: %v", login, err)
		}
	}
	for name, safe := range map[string]func(*brokers){"TLS": func(b *brokers) { b.tls = true }, "asked for": func(b *brokers) { b.insecure = true },
		"SCRAM": func(b *brokers) { b.sasl = "scram-sha-256" }} {
		one := b
		safe(&one)
		if _, err := one.options(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBrokersSettings(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ledger.db")
	done(t, "migrate", "--ledger", file)
	for args, want := range map[string]struct {
		code int
		text string
	}{
		"--sasl plain --sasl-user u":                              {exitUsage, "--insecure"},
		"--sasl plain --sasl-user u --sasl-password-file " + file: {exitUsage, "in clear"},
		"--sasl plain --sasl-user u --insecure":                   {exitUsage, passwordVariable},
		"--sasl plain --sasl-password-file /none --tls":           {exitUsage, "--sasl-password-file"},
		"--sasl plain --insecure --sasl-password-file " + file:    {exitFailed, "brokers"},
		"--sasl-user u":                    {exitUsage, "--sasl is missing"},
		"--tls-cert /none":                 {exitUsage, "go together"},
		"--tls-cert /none --tls-key /none": {exitUsage, "--tls-cert"},
		"--tls-ca " + file:                 {exitUsage, "no certificate"},
		"--sasl scram-sha-1 --sasl-password-file /dev/null":                  {exitUsage, "--sasl must be plain"},
		"--sasl scram-sha-512 --sasl-password-file " + file:                  {exitFailed, "brokers"},
		"--sasl scram-sha-256 --sasl-password-file " + file:                  {exitFailed, "brokers"},
		"--sasl plain --sasl-user u --sasl-password-file " + file + " --tls": {exitFailed, "brokers"},
		"--sasl oauthbearer --tls":                                           {exitUsage, passwordVariable},
		"--sasl oauthbearer --tls --sasl-password-file /none":                {exitUsage, "--sasl-password-file"},
		"--sasl oauthbearer --tls --sasl-password-file " + file:              {exitFailed, "brokers"},
		"--sasl aws-msk-iam":                                                 {exitUsage, "--insecure"},
		"--sasl aws-msk-iam --tls --sasl-user u":                             {exitUsage, "neither user nor password"},
	} {
		r := ackledger(t, append([]string{"show", "orders-0-1", "--ledger", file, "--brokers", "127.0.0.1:1"}, strings.Fields(args)...)...)
		if r.code != want.code || !strings.Contains(r.errors, want.text) || strings.Count(r.errors, "\n") != 1 {
			t.Errorf("%s: code %d, error %q; want code %d and one line with %q", args, r.code, r.errors, want.code, want.text)
		}
	}
}
