package storm_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackledger/ackledger/internal/services"
)

// shareAttempts, with the crashes that the ledger counts, is within the deliveries that a share group may have here.
const shareAttempts = 20

// TestShareStorm kills members of a share group, and the broker under them. Nothing is lost, and no effect is there twice.
func TestShareStorm(t *testing.T) {
	t.Parallel()
	faults, restarts, every := 8, 8, 500*time.Millisecond
	if long() {
		faults, restarts = 10_000, 200
	}
	services.NeedServers(t)
	k, err := services.StartKafka(t.Context(), services.KafkaOptions{Properties: map[string]string{
		"group.share.min.record.lock.duration.ms": "3000", "group.share.max.delivery.count.limit": "25",
		"group.share.min.session.timeout.ms": "3000", "group.share.session.timeout.ms": "6000",
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Close() })
	d := newDatabase(t)
	l := newLogOn(t, k.Brokers(), 0, 4)
	err = services.SetShareGroup(t.Context(), l.client, l.group, map[string]string{
		"share.auto.offset.reset": "earliest", "share.isolation.level": "read_committed",
		"share.delivery.count.limit": "25", "share.record.lock.duration.ms": "5000",
	})
	if err != nil {
		t.Fatal(err)
	}
	c := newCrew(t, orders{Database: d.server.URL(), Brokers: k.Brokers(), Topic: l.topic, Group: l.group, Share: true, Work: 20 * time.Millisecond})
	for range 4 {
		c.start()
	}
	l.more(d, 400)
	eventually(t, time.Minute, func() string { return progress(d, l.records, 1) })
	tick := time.NewTicker(every)
	defer tick.Stop()
	broke := 0
	for n := range faults {
		if l.more(d, 200); n%restarts == restarts/2 {
			restart(t, k, n/restarts%2 == 0)
			broke++
		} else {
			members := c.all()
			c.kill(members[rand.IntN(len(members))])
			c.start()
		}
		if <-tick.C; n%500 == 499 {
			t.Logf("%d faults, %d records", n+1, l.records)
		}
	}
	eventually(t, 5*time.Minute, func() string { return l.decided(d) })
	eventually(t, 5*time.Minute, l.shareLag)
	for _, m := range c.all() {
		c.dismiss(m)
	}
	failed := d.count(t, `SELECT count(*) FROM ackledger.message WHERE state = 3`)
	if rows := d.count(t, `SELECT count(*) FROM effect`); rows != l.records-failed {
		t.Errorf("%d effects, and %d that failed for good, of %d records", rows, failed, l.records)
	}
	if ids := d.count(t, `SELECT count(DISTINCT message) FROM effect`); ids != l.records-failed {
		t.Errorf("effects of %d messages of %d", ids, l.records-failed)
	}
	c.expectTrouble(t, faults-broke, l.records-failed)
	t.Logf("%d records, %d processes killed, the broker %d times, %d records failed for good: 0 lost", l.records, c.killed, broke, failed)
}

// restart kills the broker, or stops it, and starts it again.
func restart(t *testing.T, k *services.KafkaCluster, kill bool) {
	t.Helper()
	end := k.Stop
	if kill {
		end = k.Kill
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if err := k.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// more produces so many records if fewer than half of them are left to do.
func (l *log) more(d *database, n int) {
	l.t.Helper()
	done, ok := d.tryCount(l.t.Context(), `SELECT count(*) FROM effect`)
	if !ok || l.records-done > n/2 {
		return
	}
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = &kgo.Record{Key: fmt.Appendf(nil, "key %d", i), Value: fmt.Appendf(nil, "record %d", l.records+i)}
	}
	if err := l.client.ProduceSync(l.t.Context(), records...).FirstErr(); err != nil {
		l.t.Fatal(err)
	}
	l.records += n
}

// decided says how many records the ledger has not decided; empty: none.
func (l *log) decided(d *database) string {
	n, ok := d.tryCount(l.t.Context(), `SELECT count(*) FROM ackledger.message WHERE state IN (2, 3)`)
	if !ok || n < l.records {
		return fmt.Sprintf("%d of %d records are decided", n, l.records)
	}
	return ""
}

// shareLag says how many records the share group has not accepted; empty: none.
func (l *log) shareLag() string {
	all, err := l.admin.DescribeShareGroupOffsets(l.t.Context(), l.group)
	if err != nil {
		return err.Error()
	}
	for p, o := range all[l.group].Offsets[l.topic] {
		if o.Lag != 0 {
			return fmt.Sprintf("partition %d: %d records are not accepted, from %d on (%v)", p, o.Lag, o.StartOffset, o.Err)
		}
	}
	if len(all[l.group].Offsets[l.topic]) == 0 {
		return "the group has no offsets"
	}
	return ""
}
