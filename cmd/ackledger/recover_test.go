package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/kafka"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
	"github.com/ackledger/ackledger/ledger/storage"
)

// restoring is a topic of two partitions, and a database whose copy is its backup.
type restoring struct {
	*testing.T
	brokers []string
	topic   string
	audit   kafka.Audit
}

func newRestoring(t *testing.T, audit kafka.Audit) *restoring {
	t.Helper()
	r := &restoring{T: t, brokers: services.Kafka(t), topic: services.Name(t), audit: audit}
	client := r.client()
	if _, err := kadm.NewClient(client).CreateTopic(t.Context(), 2, 1, nil, r.topic); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *restoring) client(opts ...kgo.Opt) *kgo.Client {
	r.Helper()
	c, err := kgo.NewClient(append(opts, kgo.SeedBrokers(r.brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(c.Close)
	return c
}

func (r *restoring) produce(partition int32, from, to int) {
	r.Helper()
	var records []*kgo.Record
	for i := from; i < to; i++ {
		records = append(records, &kgo.Record{Topic: r.topic, Partition: partition, Value: fmt.Appendf(nil, "%d/%d", partition, i)})
	}
	if err := r.client().ProduceSync(r.Context(), records...).FirstErr(); err != nil {
		r.Fatal(err)
	}
}

// database has a ledger, and a table for effects.
func (r *restoring) database() string {
	r.Helper()
	url := services.Postgres(r).URL
	done(r.T, "migrate", "--ledger", url)
	conn, err := pgx.Connect(r.Context(), url)
	if err == nil {
		_, err = conn.Exec(r.Context(), "CREATE TABLE effect (name text NOT NULL)")
	}
	if err != nil {
		r.Fatal(err)
	}
	_ = conn.Close(r.Context())
	return url
}

// backup copies a database in which nobody works.
func (r *restoring) backup(url string) string {
	r.Helper()
	db := services.Postgres(r)
	admin, err := pgx.Connect(r.Context(), db.AdminURL)
	if err != nil {
		r.Fatal(err)
	}
	defer func() { _ = admin.Close(context.WithoutCancel(r.Context())) }()
	from, err := pgx.ParseConfig(url)
	if err != nil {
		r.Fatal(err)
	}
	for _, text := range []string{"DROP DATABASE " + db.Database, "CREATE DATABASE " + db.Database + " TEMPLATE " + from.Database} {
		if _, err := admin.Exec(r.Context(), text); err != nil {
			r.Fatal(err)
		}
	}
	return db.URL
}

// work runs a worker of a group until its effects in the database are as many as wanted, and ends it. Each message's effect is a row
// that InTx writes. A message that is named fails with an error once, and then waits for an hour.
func (r *restoring) work(url, group string, want int, fails string) error {
	r.Helper()
	pool, err := pgxpool.New(r.Context(), url)
	if err != nil {
		r.Fatal(err)
	}
	defer pool.Close()
	l, err := postgres.New(r.Context(), pool, nil)
	if err != nil {
		r.Fatal(err)
	}
	defer l.Close()
	var failed atomic.Bool
	handle := func(ctx context.Context, m *consumer.Message) error {
		if string(m.Body) == fails {
			failed.Store(true)
			return consumer.RetryAfter(errors.New("not now"), time.Hour)
		}
		return postgres.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO effect (name) VALUES ($1)", group+" "+string(m.Body))
			return err
		})
	}
	w, err := kafka.NewWorker([]kgo.Opt{kgo.SeedBrokers(r.brokers...), kgo.ConsumerGroup(group), kgo.ConsumeTopics(r.topic)}, l,
		consumer.HandlerFunc(handle), &kafka.Config{Options: consumer.Options{NoParking: true}, Audit: r.audit, CommitInterval: 50 * time.Millisecond})
	if err != nil {
		r.Fatal(err)
	}
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	for deadline := time.After(time.Minute); ; {
		n := 0
		if err := pool.QueryRow(r.Context(), "SELECT count(*) FROM effect WHERE name LIKE $1", group+" %").Scan(&n); err != nil {
			r.Fatal(err)
		}
		if n == want && (fails == "" || failed.Load()) {
			stop()
			return <-ended
		}
		select {
		case err := <-ended:
			return err
		case <-deadline:
			r.Fatalf("%d effects of %d", n, want)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// exactly fails unless each message of a group has had its effect once.
func (r *restoring) exactly(url, group string, want int) {
	r.Helper()
	conn, err := pgx.Connect(r.Context(), url)
	if err != nil {
		r.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(r.Context())) }()
	var all, different int
	if err := conn.QueryRow(r.Context(), "SELECT count(*), count(DISTINCT name) FROM effect WHERE name LIKE $1", group+" %").Scan(&all, &different); err != nil {
		r.Fatal(err)
	}
	if all != want || different != want {
		r.Errorf("group %s: %d effects of %d messages, want %d", group, all, different, want)
	}
}

func (r *restoring) recover(url string, args ...string) result {
	r.Helper()
	return ackledger(r.T, append([]string{"recover", "--ledger", url, "--brokers", strings.Join(r.brokers, ",")}, args...)...)
}

// A database was restored to a moment before the last messages were handled: their effects were gone with it, and the group's offsets
// were not, so nobody handled them again.
func TestRecover(t *testing.T) {
	t.Parallel()
	for name, audit := range map[string]kafka.Audit{"Ranges": kafka.AuditRanges, "Rows": kafka.AuditRows} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRestoring(t, audit)
			old, later := r.topic+"_old", r.topic+"_later"
			url := r.database()
			r.produce(0, 0, 50)
			must(t, r.work(url, old, 49, "0/5")) // record 5 waits for its retry at the backup
			if out := r.recover(url); out.code != exitDone || !strings.Contains(out.out, "nothing is to be done") {
				t.Fatalf("a ledger in order: %d, %s%s", out.code, out.out, out.errors)
			}
			copied := r.backup(url)
			r.produce(0, 50, 100)
			r.produce(1, 0, 10)
			r.release(url)
			must(t, r.work(url, old, 110, ""))
			must(t, r.work(url, later, 110, "")) // a group that the backup knows nothing of
			r.restored(url, copied, old, later)
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// release ends the waits for retries.
func (r *restoring) release(url string) {
	r.Helper()
	conn, err := pgx.Connect(r.Context(), url)
	if err == nil {
		_, err = conn.Exec(r.Context(), "UPDATE ackledger.message SET due = NULL WHERE state = 1")
	}
	if err != nil {
		r.Fatal(err)
	}
	_ = conn.Close(r.Context())
}

func (r *restoring) restored(was, url, old, later string) {
	r.Helper()
	dry := r.recover(url)
	want := []string{old + ", " + r.topic + "-0 (Empty) has committed 100", "51 records of", "go back to 5", later + ", " + r.topic + "-0", "knows none of the 100 records",
		old + ", " + r.topic + "-1 (Empty) has committed 10: the ledger knows none of the 10 records", "--unseen start"}
	for _, text := range want {
		if !strings.Contains(dry.out+dry.errors, text) {
			r.Errorf("recover does not say %q:\n%s%s", text, dry.out, dry.errors)
		}
	}
	if dry.code != exitFailed {
		r.Errorf("code %d", dry.code)
	}
	if out := r.recover(url, "--unseen", unseenStart); out.code != exitDone || !strings.Contains(out.out, "--yes does it") {
		r.Errorf("code %d, %s%s", out.code, out.out, out.errors)
	}
	member := r.client(kgo.ConsumerGroup(old), kgo.ConsumeTopics(r.topic), kgo.DisableAutoCommit())
	joined := false
	for deadline := time.Now().Add(time.Minute); !joined && time.Now().Before(deadline); {
		poll, cancel := context.WithTimeout(r.Context(), 100*time.Millisecond)
		member.PollFetches(poll)
		cancel()
		_, generation := member.GroupMetadata()
		joined = generation > 0
	}
	if out := r.recover(url, "--unseen", unseenStart, "--yes"); out.code != exitFailed || !strings.Contains(out.errors, "stop its workers") {
		r.Errorf("with a member: code %d, %s%s", out.code, out.out, out.errors)
	}
	member.Close()

	out := r.recover(url, "--unseen", unseenStart, "--yes", "--actor", "test")
	if out.code != exitDone || !strings.Contains(out.out, "epoch 1: ") || !strings.Contains(out.out, "4 partitions are signed anew, and set back by 215 offsets") {
		r.Fatalf("code %d, %s%s", out.code, out.out, out.errors)
	}
	if out := r.recover(url, "--yes"); out.code != exitDone || !strings.Contains(out.out, "nothing is to be done") {
		r.Errorf("once more: code %d, %s%s", out.code, out.out, out.errors)
	}
	r.release(url)
	must(r.T, r.work(url, old, 110, ""))
	must(r.T, r.work(url, later, 110, ""))
	r.exactly(url, old, 110)
	r.exactly(url, later, 110)

	r.forgotten(was, url)
}

// forgotten is a group that has committed with the ledger of before, and was not recovered with the others.
func (r *restoring) forgotten(was, url string) {
	r.Helper()
	group := r.topic + "_forgotten"
	must(r.T, r.work(was, group, 110, ""))
	if err := r.work(url, group, 110, ""); !errors.Is(err, kafka.ErrOtherLedger) || !strings.Contains(err.Error(), "ackledger recover") {
		r.Fatalf("a group that was not recovered: %v", err)
	}
	out := r.recover(url, "--unseen", unseenStart, "--yes")
	if out.code != exitDone || strings.Contains(out.out, "epoch 2") || !strings.Contains(out.out, "2 partitions are signed anew, and set back by 110 offsets") {
		r.Errorf("code %d, %s%s", out.code, out.out, out.errors)
	}
	must(r.T, r.work(url, group, 110, ""))
	r.exactly(url, group, 110)
}

// A SQLite file that was restored without its owners is taken into use once, with the epoch that follows.
func TestRecoverSQLite(t *testing.T) {
	t.Parallel()
	was := filepath.Join(t.TempDir(), "was.db")
	s := openStore(t, was)
	s.succeed(orders, "m1")
	s.claim(orders, "m2")
	conn, err := sql.Open("sqlite", was)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "restored.db")
	_, err = conn.ExecContext(t.Context(), "VACUUM INTO ?", file)
	if err = errors.Join(err, conn.Close()); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{"--raise --yes": "NewOwners", "": "recover --new-owners --yes", "--new-owners": "--yes", "--new-owners --yes --unseen all": "--unseen", "--yes --span 0": "--span"} {
		if r := ackledger(t, append([]string{"recover", "--ledger", file}, strings.Fields(args)...)...); r.code == exitDone || !strings.Contains(r.errors, want) {
			t.Errorf("%s: code %d, %s%s", args, r.code, r.out, r.errors)
		}
	}
	if r := ackledger(t, "doctor", "--ledger", file); r.code != exitFailed || !strings.Contains(r.out, "recover --new-owners --yes") || strings.Contains(r.out, "migrate") {
		t.Errorf("doctor: code %d, %s%s", r.code, r.out, r.errors)
	}
	out := done(t, "recover", "--ledger", file, "--new-owners", "--raise", "--yes")
	for _, want := range []string{"epoch 1: ", "1 messages are pending", "no --brokers", "what was deleted from the queue"} {
		if !strings.Contains(out, want) {
			t.Errorf("recover does not say %q: %s", want, out)
		}
	}
	restored := openStore(t, file)
	if c := restored.claim(orders, "m2")[0]; c.Answer != ledger.Run || c.Token <= storage.TokenFloor(1) {
		t.Errorf("what was in hand: %+v", c)
	}
	if list, err := restored.Status(t.Context(), []ledger.Key{{Scope: orders, ID: []byte("m1")}}); err != nil || list[0].State != ledger.Succeeded {
		t.Errorf("what had succeeded: %+v, %v", list, err)
	}
}

// Without brokers nothing is known of a group of Kafka, so a script must not take it for recovered.
func TestRecoverWithoutItsBrokers(t *testing.T) {
	t.Parallel()
	for scope, want := range map[string]int{"kafka:c/t/shipping": exitPartly, orders: exitDone} {
		file := filepath.Join(t.TempDir(), "ledger.db")
		openStore(t, file).succeed(scope, "m1")
		for _, flags := range []string{"", "--yes", "--raise --yes"} {
			r := ackledger(t, append([]string{"recover", "--ledger", file}, strings.Fields(flags)...)...)
			blind := want == exitPartly
			if r.code != want || blind != strings.Contains(r.errors, "name --brokers") || blind && strings.Contains(r.out, "nothing is to be done") {
				t.Errorf("%s %q: code %d, want %d: %s%s", scope, flags, r.code, want, r.out, r.errors)
			}
		}
	}
}
