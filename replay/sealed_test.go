package replay_test

import (
	"strings"
	"testing"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/replay"
)

// An archive that the workers' cipher has sealed is refused by a run without the cipher, with the reason, and replayed by
// one that has it, each message once and whole.
func TestSealedByAWorker(t *testing.T) {
	t.Parallel()
	q := newQueues(t, false)
	q.change = func(o *consumer.Options) { o.Cipher = cipher{} }
	bodies := numbered(5)
	q.fail(bodies)
	report := q.replay(replay.Archive(q.ledger), q.toSource())
	if report.Refused != 5 || report.Reasons[replay.Sealed] != 5 || report.Replayed != 0 || report.Complete() || !strings.Contains(report.Text(), "cipher") {
		t.Errorf("without the cipher: %s", report.Text())
	}
	if n := audits(t, q.ledger); len(n) > 0 {
		t.Errorf("audit %v", n)
	}
	report = q.replay(replay.Archive(q.ledger), q.toSource(), func(c *replay.Config) { c.Filter.Cipher = cipher{} })
	if report.Replayed != 5 || !report.Complete() {
		t.Errorf("with it: %s", report.Text())
	}
	q.worker()
	eventually(t, "all are handled", func() bool { return q.book.count() == 5 && q.server.Counts(q.names[0]).Depth() == 0 })
	q.book.eachOnce(t, bodies)
}
