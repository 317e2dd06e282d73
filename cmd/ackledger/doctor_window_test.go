package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/sqs/sqstest"
)

// What Kafka's worker has finished lies in ranges, without rows: the doctor said "ok" and had seen nothing.
func TestDoctorSeesRanges(t *testing.T) {
	t.Parallel()
	onTopics(t, func(t *testing.T, k *topics) {
		env := []string{brokersVariable + "=" + k.brokers}
		r := withEnv(t, env, "doctor", "--ledger", k.name, "--topic", "orders")
		if r.code != exitDone {
			t.Errorf("no worker yet: code %d, %s%s", r.code, r.out, r.errors)
		}
		wants(t, r.out, "note     topic orders: the ledger has never seen a worker of it")
		for i := range 10 {
			if err := k.client.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: fmt.Append(nil, "order ", i)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		k.work(10, "")
		r = withEnv(t, env, "doctor", "--ledger", k.name, "--topic", "orders")
		line := lineWith(r.out, "/orders/shipping")
		if r.code != exitDone || !strings.HasPrefix(line, "ok       topic orders: kafka:") || !strings.Contains(line, "recognises messages for ") {
			t.Errorf("ten messages in a range: code %d, %s%s", r.code, r.out, r.errors)
		}
		// The last one is retried. Its row expires early, since the range has it, too.
		if err := k.client.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("again")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		k.work(2, "")
		r = withEnv(t, env, "doctor", "--ledger", k.name, "--topic", "orders")
		if again := lineWith(r.out, "/orders/shipping"); r.code != exitDone || again != line {
			t.Errorf("the last one was retried: code %d, %s%s", r.code, r.out, r.errors)
		}
		day := "86400000"
		longer := []kadm.AlterConfig{{Name: "retention.ms", Value: new(day + "00")}}
		if _, err := kadm.NewClient(k.client).AlterTopicConfigs(t.Context(), longer, "orders"); err != nil {
			t.Fatal(err)
		}
		r = withEnv(t, env, "doctor", "--ledger", k.name, "--topic", "orders")
		if line := lineWith(r.out, "/orders/shipping"); r.code != exitFailed || !strings.HasPrefix(line, "problem  topic orders: kafka:") {
			t.Errorf("the topic keeps records for longer since: code %d, %s%s", r.code, r.out, r.errors)
		}
	})
}

func lineWith(text, part string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			return line
		}
	}
	return ""
}

// A message that a range holds is recognised from when it was finished, or, while the range is worked on, claimed.
func TestKeptFor(t *testing.T) {
	t.Parallel()
	at := time.Now()
	r := &ledger.Record{At: at, Expiry: at.Add(5 * time.Hour)}
	if kept, from := keptFor(r); kept != 5*time.Hour || !from.Equal(at) {
		t.Errorf("a row: %s from %s", kept, from)
	}
	r.In = &ledger.Neighbours{Since: at}
	if kept, from := keptFor(r); kept != 5*time.Hour || !from.Equal(at) {
		t.Errorf("claimed: %s from %s", kept, from)
	}
	r.In.Until = at.Add(2 * time.Hour)
	if kept, from := keptFor(r); kept != 3*time.Hour || !from.Equal(r.In.Until) {
		t.Errorf("finished: %s from %s", kept, from)
	}
}

// A scope that was idle for a day tells nothing of its window, and the doctor says so.
func TestDoctorOfAnIdleScope(t *testing.T) {
	t.Parallel()
	s := openStore(t, filepath.Join(t.TempDir(), "ledger.db"))
	s.succeed(orders, "o1")
	var f findings
	idle := func(context.Context, ledger.Operator, string) (time.Duration, error) { return 0, nil }
	new(doctor).visitWindow(t.Context(), s, strings.TrimSuffix(orders, "shipping"), "queue orders", time.Hour, idle, &f)
	if len(f) != 1 || f[0].Grade != note || !strings.Contains(f[0].Text, "no message in the last day") || f[0].Remedy == "" {
		t.Errorf("%+v", f)
	}
}

// Two services on one queue, or one that was renamed, do again what the other has done: nobody says so but the doctor.
func TestDoctorOfTwoNames(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s *store) {
		queue := "sqs:arn:aws:sqs:eu-central-1:000000000000:orders/"
		s.succeed(queue+"shipping", "o1")
		s.succeed("kafka:prod/payments/billing", "p1")
		s.run("maintain", "--once")
		wants(t, s.run("doctor"), "ok       names: no source is consumed under two names", "ok       id: the ledger's id is ")
		s.succeed(queue+"delivery", "o1")
		s.succeed("kafka:prod/payments/audit", "p1")
		s.run("maintain", "--once")
		wants(t, s.run("doctor"), "warning  names: arn:aws:sqs:eu-central-1:000000000000:orders is consumed under 2 names: delivery, shipping",
			"note     names: prod/payments is consumed under 2 names: audit, billing")
	})
}

// Where Options.DeadLetter sends is in the user's program: the doctor looks at what --dead-letter names.
func TestDoctorOfADeadLetterTarget(t *testing.T) {
	t.Parallel()
	srv := sqstest.Start(t, nil)
	for name, keeps := range map[string]string{"orders": "60", "orders-dead": "1209600"} {
		if _, err := srv.CreateQueue(name, map[string]string{"MessageRetentionPeriod": keeps}); err != nil {
			t.Fatal(err)
		}
	}
	onTopics(t, func(t *testing.T, k *topics) {
		s := k.store
		if _, err := kadm.NewClient(k.client).CreateTopic(t.Context(), 1, 1, map[string]*string{"cleanup.policy": new("compact")}, "compact"); err != nil {
			t.Fatal(err)
		}
		s.succeed(testScope, "m1") // recognised for an hour
		s.park(testScope, "m2")
		s.park(testScope, "m3")
		s.wake(testScope, "m3") // it has succeeded since, and is kept for longer
		for target, want := range map[string]struct {
			code int
			text []string
		}{
			"":                 {exitDone, []string{"ok       queue orders: sqs:", "recognises messages for 1h (--dead-letter says"}},
			"sqs:orders":       {exitDone, []string{"ok       dead letters: sqs:orders keeps them for 1m", "recognises messages for 1h\n"}},
			"sqs:orders-dead":  {exitFailed, []string{"ok       dead letters: sqs:orders-dead keeps them for 14d", "problem  queue orders: sqs:", "for 1h, but one may come again for 14d"}},
			"sqs:none":         {exitFailed, []string{"problem  dead letters: sqs:none: there is no queue none"}},
			"kafka:orders.dlq": {exitFailed, []string{"ok       dead letters: kafka:orders.dlq keeps them for ", "problem  queue orders: sqs:"}},
			"kafka:compact":    {exitDone, []string{"warning  dead letters: kafka:compact may keep them for ever"}},
			"kafka:none":       {exitFailed, []string{"problem  dead letters: kafka:none: "}},
		} {
			args := []string{"doctor", "--ledger", s.name, "--queue", "orders", "--brokers", k.brokers}
			if target != "" {
				args = append(args, "--dead-letter", target)
			}
			r := withEnv(t, awsEnv(srv), args...)
			if r.code != want.code {
				t.Errorf("%q: code %d, %s%s", target, r.code, r.out, r.errors)
			}
			wants(t, r.out, want.text...)
		}
		for _, bad := range []string{"orders-dead", "sqs:", "archive"} {
			if r := ackledger(t, "doctor", "--ledger", s.name, "--dead-letter", bad); r.code != exitUsage || strings.Count(r.errors, "\n") != 1 {
				t.Errorf("--dead-letter %s: code %d, %s", bad, r.code, r.errors)
			}
		}
	})
}
