package chaos_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ackledger/ackledger/integration/chaos/plan"
	"github.com/ackledger/ackledger/internal/services"
)

// Two brokers. One is away while records are written to the other; that one dies, and the first, which never had them, is
// elected all the same: the log is truncated, and its offsets are used again for other records. Those are done once, each;
// what was truncated is done once or never; what both brokers had is done once.
func TestUncleanElection(t *testing.T) {
	needLong(t, "it takes three more servers")
	cluster, err := services.StartKafka(t.Context(), services.KafkaOptions{Brokers: 2, Controller: true,
		Properties: map[string]string{
			"unclean.leader.election.enable": "true", "offsets.topic.replication.factor": "2",
			"replica.lag.time.max.ms": "2000", "broker.session.timeout.ms": "4000",
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Close() })
	for _, rows := range []bool{true, false} {
		t.Run(fmt.Sprintf("rows=%v", rows), func(t *testing.T) {
			scenario(t, fmt.Sprintf("an unclean election of Kafka truncates the log, rows=%v", rows))
			if err := cluster.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			uncleanElection(t, cluster, rows)
		})
	}
}

func uncleanElection(t *testing.T, cluster *services.KafkaCluster, rows bool) {
	const n = 150
	l := newLog(t, services.Name(t), cluster.Brokers())
	a := newArm(t, "unclean", newPostgres(t, services.Postgres(t).URL), l, plan.Orders{Rows: rows, Reset: true})
	a.ordered = false // what is truncated may be done beside what is written in its place
	body := func(i int) string { return fmt.Sprintf("%s %09d", plan.Fine, i) }
	send := func() {
		if err := a.send(t.Context(), n, body); err != nil {
			t.Fatal(err)
		}
	}
	done := func(from, to int) func() string {
		return func() string {
			got, err := a.store.number(t.Context(), fmt.Sprintf(`SELECT count(DISTINCT body) FROM effect WHERE body >= '%s' AND body < '%s'`,
				body(from), body(to)))
			if err != nil || got < int64(to-from) {
				return fmt.Sprintf("of the messages %d to %d %d are done (%v)", from, to, got, err)
			}
			return ""
		}
	}
	a.crew.keep = true
	a.crew.start("", 0)
	a.crew.start("", 0)
	send()
	eventually(t, 2*time.Minute, done(0, n)) // both brokers have these

	if err := cluster.Broker(1).Stop(); err != nil {
		t.Fatal(err)
	}
	send() // broker 0 alone has these
	eventually(t, 2*time.Minute, done(n, n+n/2))
	if err := cluster.Broker(0).Kill(); err != nil {
		t.Fatal(err)
	}
	startAgain(t, "broker 1", cluster.Broker(1))
	a.gone = 2 * n
	send() // at offsets that the log has had before
	startAgain(t, "broker 0", cluster.Broker(0))
	eventually(t, 3*time.Minute, done(2*n, 3*n))
	eventually(t, time.Minute, a.left)
	a.crew.dismissAll()
	if wrong := done(0, n)(); wrong != "" {
		t.Error(wrong)
	}
	a.verify()
}
