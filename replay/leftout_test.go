package replay_test

import (
	"strings"
	"testing"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/replay"
	"github.com/twmb/franz-go/pkg/kgo"
)

// What was too large to be archived with its body is never sent without it: the archive's replay refuses it, by name and with
// where the body is. The dead letter is whole, and is replayed.
func TestLeftOutBodies(t *testing.T) {
	t.Parallel()
	for name, inPlace := range map[string]bool{"to the source": false, "in place": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTopics(t)
			s.ledger = memory.New(memory.WithLimits(ledger.Limits{Result: 1 << 10, Archive: 2 << 20, Errors: 16 << 10}))
			large := strings.Repeat("x", 3<<20)
			client, err := kgo.NewClient(s.seeds, kgo.ProducerBatchMaxBytes(20<<20), kgo.ProducerBatchCompression(kgo.ZstdCompression()))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(client.Close)
			s.client = client
			s.fail(s.records([]string{"small", large}))
			target := func() replay.Target {
				if inPlace {
					return s.inPlace()
				}
				return s.toSource()
			}
			report := s.replay(replay.Archive(s.ledger), target(), func(c *replay.Config) { c.DryRun = true })
			if report.Reasons[replay.LeftOut] != 1 || report.Refused != 1 {
				t.Errorf("dry: %s", report.Text())
			}
			report = s.replay(replay.Archive(s.ledger), target())
			if report.Replayed != 1 || report.Refused != 1 || report.Reasons[replay.LeftOut] != 1 || !strings.Contains(report.Text(), "in the log") {
				t.Fatalf("from the archive: %s", report.Text())
			}
			report = s.replay(s.fromTopic(), target())
			if report.Reasons[replay.Failed] == 0 || report.Refused != 0 || !report.Complete() { // the small one's copy is perhaps not claimed yet
				t.Errorf("from the topic: %s", report.Text())
			}
			stop := s.worker()
			eventually(t, "both are handled", func() bool { return s.book.count() == 2 && s.lag(s.group) == 0 })
			stop()
			s.book.eachOnce(t, []string{"small", large})
		})
	}
}
