package kafka

import (
	"encoding/binary"
	"hash/crc32"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackledger/ackledger/ledger"
)

// Compaction had removed the last records of a dead-letter topic: nothing more came, so that each replay of it ended as
// stopped after half a minute, whatever it had done.
func TestReplaySourceEndsBehindATailThatIsGone(t *testing.T) {
	t.Parallel()
	s := fakeSite(t, 1)
	client, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	const records = 4
	for range records {
		if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: s.topic, Value: []byte("gone")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	s.fake.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		s.fake.KeepControl()
		return compacted(req.(*kmsg.FetchRequest), records), nil, true
	})
	src, err := NewReplaySource([]kgo.Opt{kgo.SeedBrokers(s.brokers...)}, s.topic)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for l, err := range src.Letters(t.Context(), &ledger.Filter{}) {
		t.Fatalf("a letter, or an error: %+v, %v", l, err)
	}
	if took := time.Since(began); took > quietLimit/2 || len(src.Warnings()) > 0 {
		t.Errorf("it took %s; %q", took, src.Warnings())
	}
}

// compacted answers that a partition has so many offsets, and records of none.
func compacted(req *kmsg.FetchRequest, end int64) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewFetchResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewFetchResponseTopicPartition()
			rp.Partition, rp.HighWatermark, rp.LastStableOffset = p.Partition, end, end
			if p.FetchOffset < end {
				rp.RecordBatches = emptyBatch(end)
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// emptyBatch is what compaction leaves of a batch of so many records.
func emptyBatch(records int64) []byte {
	b := kmsg.RecordBatch{Magic: 2, LastOffsetDelta: int32(records - 1), ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1}
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}
