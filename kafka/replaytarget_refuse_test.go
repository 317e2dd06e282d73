package kafka

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackledger/ackledger/replay"
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

// Records go together, and a cluster refuses a request as a whole: each of it is sent alone then. So one that is refused for
// its own sake takes no other with it, but for those behind it in its key.
func TestReplayTargetSendsAloneWhatIsRefusedInCompany(t *testing.T) {
	t.Parallel()
	s := fakeSite(t, 1)
	s.fake.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		s.fake.KeepControl()
		p := req.(*kmsg.ProduceRequest)
		resp := p.ResponseKind().(*kmsg.ProduceResponse)
		refused := false
		for _, t := range p.Topics {
			rt := kmsg.NewProduceResponseTopic()
			rt.Topic, rt.TopicID = t.Topic, t.TopicID
			for _, part := range t.Partitions {
				var batch kmsg.RecordBatch
				if err := batch.ReadFrom(part.Records); err != nil || batch.NumRecords > 1 || bytes.Contains(part.Records, []byte("poison")) {
					refused = true
				}
				rp := kmsg.NewProduceResponseTopicPartition()
				rp.Partition, rp.ErrorCode = part.Partition, kerr.InvalidRecord.Code
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp, nil, refused
	})
	client, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	target, err := NewReplayTarget(client, nil)
	if err != nil {
		t.Fatal(err)
	}
	var letters []*replay.Letter
	for i, body := range []string{"one", "two", "poison", "behind it", "three", "behind that"} {
		l := &replay.Letter{}
		l.Message.ID, l.Message.Topic, l.Message.Source, l.Message.Body = fmt.Sprint(i), s.topic, "cluster/"+s.topic, []byte(body)
		if strings.Contains(body, "poison") || strings.Contains(body, "behind") {
			l.Message.Key = []byte("a key")
		}
		letters = append(letters, l)
	}
	var got []string
	for _, r := range target.Send(t.Context(), letters) {
		got = append(got, fmt.Sprint(r.Outcome == replay.Sent, r.Reason == replay.Behind, r.Err != nil))
	}
	sent, refused, behind := "true false false", "false false true", "false true false"
	if want := []string{sent, sent, refused, behind, sent, behind}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("sent, behind, error:\n%v, want\n%v", got, want)
	}
}

// Of one key one record after the other is under way, and a cluster may be slow: each has its time. What waits when the
// replay is cancelled is left, soon.
func TestReplayTargetOfOneKeyOnASlowCluster(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cancelled bool
		least     int // that are sent
		most      int
	}{"to the end": {false, 8, 8}, "cancelled": {true, 4, 6}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fakeSite(t, 1)
			s.fake.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
				s.fake.KeepControl()
				s.fake.SleepControl(func() { time.Sleep(3 * time.Second) })
				return nil, nil, false
			})
			client, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(client.Close)
			target, err := NewReplayTarget(client, nil)
			if err != nil {
				t.Fatal(err)
			}
			letters := make([]*replay.Letter, 8)
			for i := range letters {
				letters[i] = &replay.Letter{}
				m := &letters[i].Message
				m.ID, m.Topic, m.Source, m.Body, m.Key = fmt.Sprint(i), s.topic, "cluster/"+s.topic, []byte("body"), []byte("a key")
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.cancelled {
				cancel()
			}
			sent := 0
			for i, r := range target.Send(ctx, letters) {
				if r.Outcome == replay.Sent {
					sent++
				} else if r.Err != nil || r.Reason != replay.Behind || !c.cancelled {
					t.Errorf("letter %d: %+v", i, r)
				}
			}
			if sent < c.least || sent > c.most {
				t.Errorf("%d are sent, want %d to %d", sent, c.least, c.most)
			}
		})
	}
}
