package replay_test

import (
	"testing"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/replay"
)

func TestScopes(t *testing.T) {
	for source, want := range map[string]string{
		arn:                    "sqs:" + arn + "/shop",
		"cluster/orders":       "kafka:cluster/orders/shop",
		"odd/cluster/orders.x": "kafka:odd%2Fcluster/orders.x/shop",
	} {
		scope := replay.Scope(source, "shop")
		back, name, ok := replay.ParseScope(scope)
		if scope != want || back != source || name != "shop" || !ok {
			t.Errorf("%s: %s, %s, %s, %v", source, scope, back, name, ok)
		}
	}
	for _, scope := range []string{"", "sqs:" + arn, "kafka:cluster/orders", "kafka:%zz/orders/shop", "other:a/b/c"} {
		if _, _, ok := replay.ParseScope(scope); ok {
			t.Errorf("%q is read", scope)
		}
	}
}

// However a record failed, its copy carries the place at which its row is: of itself, of a copy that failed again, and of a
// replay in place that failed again, whose delivery names no place.
func TestPlacesAreFound(t *testing.T) {
	t.Parallel()
	s, bodies := newTopics(t), numbered(10)
	s.fail(s.records(bodies))
	s.book.breakAll()
	stop := s.worker()
	if report := s.replay(replay.Archive(s.ledger), s.toSource()); report.Replayed != 10 {
		t.Fatalf("%+v", report)
	}
	eventually(t, "the copies failed", func() bool { return s.depth(s.dlq) == 20 && s.lag(s.group) == 0 })
	if report := s.replay(replay.Archive(s.ledger), s.toSource()); report.Replayed != 10 || report.Superseded != 10 {
		t.Fatalf("%+v", report)
	}
	eventually(t, "their copies failed", func() bool { return s.depth(s.dlq) == 30 && s.lag(s.group) == 0 })
	report := s.replay(replay.Archive(s.ledger), s.inPlace(), func(c *replay.Config) { c.StopAfter = 100 })
	if report.Failed != 10 {
		t.Fatalf("%+v", report)
	}
	s.book.mend()
	if report := s.replay(replay.Archive(s.ledger), s.toSource()); report.Replayed != 10 || report.Superseded != 30 {
		t.Fatalf("%+v", report)
	}
	eventually(t, "all are handled", func() bool { return s.book.count() == 10 && s.lag(s.group) == 0 })
	stop()
	s.book.eachOnce(t, bodies)
	for m, err := range s.ledger.Messages(t.Context(), ledger.Filter{}) {
		if err != nil || m.State != ledger.Succeeded {
			t.Errorf("%+v, %v", m, err)
		}
	}
}
