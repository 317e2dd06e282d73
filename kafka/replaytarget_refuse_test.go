package kafka

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A dead letter is older than any delivery timeout: franz-go counts it from the record's timestamp, so that no copy was
// ever sent.
func TestReplayTargetRefusesADeliveryTimeout(t *testing.T) {
	client, err := kgo.NewClient(kgo.SeedBrokers("127.0.0.1:1"), kgo.RecordDeliveryTimeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := NewReplayTarget(client, nil); err == nil || !strings.Contains(err.Error(), "RecordDeliveryTimeout") {
		t.Errorf("it takes the client: %v", err)
	}
}
