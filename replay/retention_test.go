package replay_test

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A copy keeps its timestamp: the report says how many the topic may drop before their group reads them.
func TestCopiesOlderThanTheTopicKeeps(t *testing.T) {
	t.Parallel()
	s := newTopics(t)
	records := s.records([]string{"old", "new"})
	records[0].Timestamp = time.Now().Add(-30 * 24 * time.Hour) // the default is seven days
	s.fail([]*kgo.Record{records[0], records[1]})
	report := s.replay(s.fromTopic(), s.toSource())
	if said := strings.Join(report.Warnings, "\n"); report.Replayed != 2 || !strings.Contains(said, "1 letters are older than the target keeps") {
		t.Errorf("%+v", report)
	}
}
