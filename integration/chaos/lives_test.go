package chaos_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/ackledger/ackledger/integration/chaos/plan"
	"github.com/ackledger/ackledger/internal/killpoint"
)

// A topic is deleted and created again while its records are worked on, and a process is killed right then: what the new
// topic has is done once, from its first record on, whatever the offsets of the old one say. What went with the old topic
// is done once or never.
func TestTopicRecreatedInTheMiddle(t *testing.T) {
	needLong(t, "`make test` has TestRealBroker/Pitfall81")
	for _, kind := range []string{"kafka rows", "kafka ranges"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			scenario(t, "a topic is deleted and created again in the middle of the work, "+kind)
			recreatedInTheMiddle(t, kind)
		})
	}
}

func recreatedInTheMiddle(t *testing.T, kind string) {
	const n = 400
	a := lonelyArm(t, kind, "postgres")
	a.ordered = false // records of the old topic end while those of the new one begin
	l := a.broker.(*log)
	body := func(i int) string { return fmt.Sprintf("%s %09d", plan.Fine, i) }
	if err := a.send(t.Context(), n, body); err != nil {
		t.Fatal(err)
	}
	a.crew.keep = true
	a.crew.start(killpoint.BeforeEffect, n/4) // it dies in the middle of its work, and is replaced
	a.crew.start("", 0)
	eventually(t, time.Minute, func() string {
		if done, err := a.finished(t.Context()); err != nil || done < n/4 {
			return fmt.Sprintf("%d of %d are done (%v)", done, n, err)
		}
		return ""
	})
	if _, err := l.admin.DeleteTopic(t.Context(), l.topic); err != nil {
		t.Fatal(err)
	}
	var created kadm.CreateTopicResponse
	eventually(t, time.Minute, func() string {
		var err error
		if created, err = l.admin.CreateTopic(t.Context(), partitions, 1, nil, l.topic); err != nil {
			return err.Error() // the old one is still being deleted
		}
		return ""
	})
	// A broker that does not know of it yet takes records for the old one, which are gone then.
	eventually(t, time.Minute, func() string {
		topics, err := l.admin.ListTopics(t.Context(), l.topic)
		if is := topics[l.topic].ID; err != nil || is != created.ID {
			return fmt.Sprintf("the topic's id is %s, was created as %s (%v)", is, created.ID, err)
		}
		return ""
	})
	l.client.PurgeTopicsFromProducing(l.topic) // the client knows the old id
	a.gone = n
	if err := a.send(t.Context(), n, body); err != nil {
		t.Fatal(err)
	}
	eventually(t, 2*time.Minute, func() string {
		done, err := a.store.number(t.Context(), fmt.Sprintf(`SELECT count(*) FROM effect WHERE body >= '%s'`, body(n)))
		if err != nil || done < n {
			return fmt.Sprintf("%d of %d records of the new topic are done (%v); %s", done, n, err, a.broker.left(t.Context()))
		}
		return ""
	})
	eventually(t, time.Minute, a.left)
	a.crew.dismissAll()
	a.verify()
}
