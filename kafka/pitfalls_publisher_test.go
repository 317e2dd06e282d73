package kafka

import (
	"strings"
	"testing"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestPitfall276_MisfitGivesUp: the client's batches did not fit its topic, which counted as a refusal of each message: all that was published
// was given up, one after the other. It waits instead, and is sent once client and topic fit.
func TestPitfall276_MisfitGivesUp(t *testing.T) {
	t.Parallel()
	s := fakeSite(t, 1)
	client, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...), kgo.ProducerBatchMaxBytes(2<<20))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	p, err := NewPublisher(client, s.topic)
	if err != nil {
		t.Fatal(err)
	}
	m := consumer.Publication{Outgoing: ledger.Outgoing{Key: []byte("k"), ID: "1", Body: []byte("small")}}
	for range 2 {
		err := p.Publish(t.Context(), []consumer.Publication{m})[0]
		if !ledger.Unavailable(err) || !strings.Contains(err.Error(), "ProducerBatchMaxBytes") {
			t.Fatalf("%v, want an outage that says why", err)
		}
	}
	large := "4194304"
	if _, err := s.adm.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: &large}}, s.topic); err != nil {
		t.Fatal(err)
	}
	if err := p.Publish(t.Context(), []consumer.Publication{m})[0]; err != nil {
		t.Fatalf("once they fit: %v", err)
	}
}
