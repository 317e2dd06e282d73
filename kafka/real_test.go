package kafka

import (
	"fmt"
	"testing"
	"time"

	"github.com/ackledger/ackledger/internal/services"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The scenarios of handover_test.go, identity_test.go and flow_test.go on a real broker, with both group protocols.

func realSite(t *testing.T, brokers []string, partitions int32) *site {
	t.Helper()
	s := newSite(t, brokers, services.Name(t))
	s.group = services.Name(t)
	if _, err := s.adm.CreateTopic(t.Context(), partitions, 1, nil, s.topic); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRealBroker(t *testing.T) {
	t.Parallel()
	brokers := services.Kafka(t)
	for name, scenario := range map[string]struct {
		partitions int32
		play       func(*site)
	}{
		"Pitfall20":   {1, recreatedWhileStopped},
		"Pitfall52":   {2, revokeCommitsThePrefix},
		"Pitfall53":   {2, lateCompletion},
		"Pitfall54":   {2, awayAndBack},
		"Pitfall57":   {1, gaps},
		"Pitfall62":   {2, closeDuringARebalance},
		"Pitfall81":   {1, recreatedUnderAWorker},
		"Pitfall123":  {2, largeBatchPassed},
		"Pitfall126":  {2, stampOfARecordYetToCome},
		"Pitfall137":  {2, twoLedgers},
		"StartLatest": {2, startLatest},
		"Static":      {2, staticMember},
		"Rebalance":   {2, rebalanceInARange},
		"Gap":         {1, gapOf100k},
		"Reset":       {1, resetOffsets},
		"Switch":      {4, switchAudit},
	} {
		for protocol, opts := range protocols {
			t.Run(name+"/"+protocol, func(t *testing.T) {
				t.Parallel()
				for mode, audit := range audits {
					t.Run(mode, func(t *testing.T) {
						t.Parallel()
						s := realSite(t, brokers, scenario.partitions).with(audit)
						s.opts = opts
						scenario.play(s)
					})
				}
			})
		}
	}
}

// A static member comes back with the same instance id: it gets its partitions back without a rebalance, and goes on.
func TestStaticMembership(t *testing.T) { onBoth(t, 2, staticMember) }

func staticMember(s *site) {
	t := s.t
	b := newBook()
	var want []string
	other := s.start(b.handle, nil, kgo.InstanceID("other"), kgo.SessionTimeout(10*time.Second))
	for i := range 3 {
		r := s.start(b.handle, nil, kgo.InstanceID("one"), kgo.SessionTimeout(10*time.Second))
		r.owns(1)
		other.owns(1)
		values := numbers(fmt.Sprintf("%d-", i), 10)
		s.send(0, values[:5]...)
		s.send(1, values[5:]...)
		want = append(want, values...)
		eventually(t, "all are handled", func() bool { return b.len() == len(want) })
		s.caughtUp()
		r.end()
	}
	if other.owned() != 1 {
		t.Errorf("the other member owns %d partitions: the static one's were given away", other.owned())
	}
	other.end()
	b.once(t, want)
}
