package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackledger/ackledger/sqs/sqstest"
)

// testQueues are sqstest's ARNs.
const testQueues = "arn:aws:sqs:us-east-1:000000000000:"

// withEnv runs the command in an environment of its own.
func withEnv(t *testing.T, env []string, args ...string) result {
	t.Helper()
	cmd := command(t, args...)
	cmd.Env = append(cmd.Env, env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// awsEnv is where a user of the AWS SDK keeps his settings.
func awsEnv(srv *sqstest.Server) []string {
	return []string{"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_REGION=us-east-1", "AWS_ENDPOINT_URL_SQS=" + srv.URL,
		"AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null"}
}

// wants checks that each text is one line's part, with its remedy below unless it is fine.
func wants(t *testing.T, out string, texts ...string) {
	t.Helper()
	for _, want := range texts {
		if !strings.Contains(out, want) {
			t.Errorf("the doctor does not say %q:\n%s", want, out)
		}
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for i, line := range lines {
		bad := !strings.HasPrefix(line, string(good)) && !strings.Contains(line, "-> ")
		if bad && (i+1 == len(lines) || !strings.Contains(lines[i+1], "-> ")) {
			t.Errorf("%q has no remedy", line)
		}
	}
}

func TestDoctorOfLedgers(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s *store) {
		shop(s)
		wants(t, s.run("doctor"), "warning  sweep: no pass has ended yet", "ok       stuck: no pending message")
		s.run("maintain", "--once")
		out := s.run("doctor")
		wants(t, out, "ok       sweep: the last pass ended", "ok       tables: ")
		if strings.Contains(out, "warning") || strings.Contains(out, "problem") {
			t.Errorf("a ledger in order:\n%s", out)
		}
		for _, f := range jsonLines[finding](t, s.run("doctor", "--json")) {
			if f.Grade != good || f.Check == "" || f.Text == "" {
				t.Errorf("%+v", f)
			}
		}
		s.newer()
		r := ackledger(t, "doctor", "--ledger", s.name)
		if r.code != exitFailed || strings.Count(r.errors, "\n") != 1 {
			t.Errorf("a ledger of another version: code %d, %s", r.code, r.errors)
		}
		wants(t, r.out, "problem  ledger: ", "99")
	})
}

func TestDoctorOfAMissingLedger(t *testing.T) {
	t.Parallel()
	r := ackledger(t, "doctor", "--ledger", filepath.Join(t.TempDir(), "none.db"))
	if r.code != exitFailed {
		t.Errorf("code %d, %s", r.code, r.errors)
	}
	wants(t, r.out, "problem  ledger: ", "`ackledger migrate`")
	r = ackledger(t, "doctor", "--ledger", "postgres://u:hush@127.0.0.1:1/d")
	if r.code != exitFailed || strings.Contains(r.out+r.errors, "hush") {
		t.Errorf("code %d, %s%s", r.code, r.out, r.errors)
	}
}

// A role that may only work: the doctor says which rights are missing, and how to give them.
func TestDoctorOfRights(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s *store) {
		if !strings.HasPrefix(s.name, "postgres") {
			return // a file has no roles
		}
		pool, err := pgxpool.New(t.Context(), s.name)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		c := pool.Config().ConnConfig
		role := c.Database + "_hand"
		newRole(t, pool, s.name, role)
		url := fmt.Sprintf("postgres://%s@%s:%d/%s?sslmode=disable", role, c.Host, c.Port, c.Database)
		done(t, "migrate", "--ledger", s.name, "--worker-role", role)
		r := ackledger(t, "doctor", "--ledger", url)
		if r.code != exitFailed {
			t.Errorf("a worker's role: code %d, %s%s", r.code, r.out, r.errors)
		}
		wants(t, r.out, "problem  rights: role "+role+" lacks SELECT on audit", "--operator-role "+role)
		done(t, "migrate", "--ledger", s.name, "--operator-role", role)
		wants(t, done(t, "doctor", "--ledger", url), "ok       rights: role "+role)
		done(t, "list", "--ledger", url)
		done(t, "purge", "--yes", "--all", "--ledger", url)
	})
}

// A process that was stopped with a transaction open held the logs for 40 s, and the doctor said that all was well.
func TestDoctorOfAFrozenSession(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s *store) {
		if !strings.HasPrefix(s.name, "postgres") {
			return // a file has no sessions
		}
		shop(s)
		pool, err := pgxpool.New(t.Context(), s.name)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
		if _, err := tx.Exec(t.Context(), "SELECT FROM ackledger.message FOR NO KEY UPDATE"); err != nil {
			t.Fatal(err)
		}
		if out := s.run("doctor"); !strings.Contains(out, "ok       transactions: ") {
			t.Errorf("a session that was idle for a moment:\n%s", out)
		}
		waitIdle(t, pool, tx.Conn().PgConn().PID())
		r := ackledger(t, "doctor", "--ledger", s.name)
		wants(t, r.out, "problem  transactions: session "+fmt.Sprint(tx.Conn().PgConn().PID()), "pg_terminate_backend")
		if r.code != exitFailed {
			t.Errorf("code %d", r.code)
		}
	})
}

// waitIdle waits until a session has been idle for longer than the doctor lets pass.
func waitIdle(t *testing.T, pool *pgxpool.Pool, pid uint32) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		var long bool
		if err := pool.QueryRow(t.Context(), "SELECT clock_timestamp() - state_change > $2 FROM pg_stat_activity WHERE pid = $1",
			int32(pid), idleLate).Scan(&long); err != nil || time.Now().After(deadline) {
			t.Fatalf("the session is not idle: %v", err)
		}
		if long {
			return
		}
		select {
		case <-t.Context().Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func TestDoctorOfQueues(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ledger.db")
	done(t, "migrate", "--ledger", file)
	srv := sqstest.Start(t, nil)
	queue := func(name string, attributes map[string]string) string {
		url, err := srv.CreateQueue(name, attributes)
		if err != nil {
			t.Fatal(err)
		}
		return url
	}
	policy := func(dlq string, n int) string {
		return fmt.Sprintf(`{"deadLetterTargetArn":"%s","maxReceiveCount":"%d"}`, testQueues+dlq, n)
	}
	queue("bare", map[string]string{"MessageRetentionPeriod": "300"})
	queue("short-dlq", map[string]string{"MessageRetentionPeriod": "3600"})
	queue("long-dlq", map[string]string{"MessageRetentionPeriod": "1209600"})
	queue("eager", map[string]string{"RedrivePolicy": policy("short-dlq", 3)})
	fine := queue("fine", map[string]string{"RedrivePolicy": policy("long-dlq", 25)})

	env := awsEnv(srv)
	r := withEnv(t, env, "doctor", "--ledger", file, "--queue", "bare", "--queue", "eager", "--queue", fine)
	if r.code != exitDone || r.errors != "" {
		t.Errorf("warnings alone: code %d, %s", r.code, r.errors)
	}
	wants(t, r.out, "warning  queue bare: it has no redrive policy",
		"warning  queue bare: it keeps messages for 5m, and with the default backoff 10 attempts take up to 8m", "warning  queue eager: its maxReceiveCount is 3", "set maxReceiveCount to 25",
		"warning  queue eager: its dead-letter queue keeps messages for 1h, the queue for 4d", "ok       queue fine: maxReceiveCount 25",
		"ok       queue fine: its dead-letter queue keeps messages for 14d")
	wants(t, r.out, "note     queue fine: the ledger has never seen a worker of it")
	r = withEnv(t, env, "doctor", "--ledger", file, "--queue", "none")
	if r.code != exitFailed || !strings.Contains(r.out, "there is no queue none") {
		t.Errorf("no such queue: code %d, %s%s", r.code, r.out, r.errors)
	}
	shortWindow(t, file, "sqs:"+testQueues+"fine/shipping")
	r = withEnv(t, env, "doctor", "--ledger", file, "--queue", fine)
	if r.code != exitFailed {
		t.Errorf("a short window: code %d, %s%s", r.code, r.out, r.errors)
	}
	wants(t, r.out, "problem  queue fine: sqs:", "for 1h, but one may come again for 18d: it would run twice")
}

// shortWindow makes a message that is recognised for an hour.
func shortWindow(t *testing.T, file, scope string) {
	t.Helper()
	s := openStore(t, file)
	s.succeed(scope, "m1")
}

func TestDoctorOfTopics(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	for name, configs := range map[string]map[string]*string{
		"orders":  {"retention.ms": new("86400000"), "segment.ms": new("3600000"), "cleanup.policy": new("delete")},
		"compact": {"cleanup.policy": new("compact")},
	} {
		if _, err := admin.CreateTopic(t.Context(), 1, 1, configs, name); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "ledger.db")
	done(t, "migrate", "--ledger", file)
	brokers := strings.Join(cluster.ListenAddrs(), ",")
	meta, err := admin.Metadata(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	shortWindow(t, file, "kafka:"+meta.Cluster+"/orders/shipping")
	r := withEnv(t, []string{brokersVariable + "=" + brokers}, "doctor", "--ledger", file, "--topic", "orders", "--topic", "compact")
	if r.code != exitFailed {
		t.Errorf("code %d, %s%s", r.code, r.out, r.errors)
	}
	wants(t, r.out, "ok       topic orders: a record may be delivered for 1d1h", "problem  topic orders: kafka:", "warning  topic compact: a record may stay for ever")
	if r := ackledger(t, "doctor", "--ledger", file, "--topic", "none", "--brokers", brokers); r.code != exitFailed || !strings.Contains(r.out, "problem  topic none: ") {
		t.Errorf("no such topic: code %d, %s%s", r.code, r.out, r.errors)
	}
}

func TestManual(t *testing.T) {
	t.Parallel()
	page := done(t, "man")
	for _, want := range []string{".TH ACKLEDGER 1", ".SS show ID", ".SS replay", `\-\-fresh\-keys`, ".SS doctor", "Exit codes"} {
		if !strings.Contains(page, want) {
			t.Errorf("the manual page lacks %q", want)
		}
	}
	man, err := exec.LookPath("man")
	if err != nil {
		return // no formatter here: the text was checked
	}
	file := filepath.Join(t.TempDir(), "ackledger.1")
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), man, "--warnings", "-l", file)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if out, err := cmd.Output(); err != nil || errs.Len() > 0 || !strings.Contains(string(out), "COMMANDS") {
		t.Errorf("man: %v, %s", err, errs.String())
	}
}
