package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/replay"
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
func compacted(req *kmsg.FetchRequest, end int64) *kmsg.FetchResponse {
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

// A broker that is away, or whose answer is cut short in the middle of a batch, has not said that nothing is left.
func TestNothingLeftIsNoGuess(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer func(*kmsg.FetchRequest) (kmsg.Response, error)
		want   bool
	}{
		"nothing but what compaction left": {func(req *kmsg.FetchRequest) (kmsg.Response, error) { return compacted(req, 4), nil }, true},
		"away":                             {func(*kmsg.FetchRequest) (kmsg.Response, error) { return nil, errors.New("away") }, false},
		"cut short": {func(req *kmsg.FetchRequest) (kmsg.Response, error) {
			resp := compacted(req, 4)
			p := &resp.Topics[0].Partitions[0]
			p.RecordBatches = p.RecordBatches[:len(p.RecordBatches)/2]
			return resp, nil
		}, false},
	} {
		s := fakeSite(t, 1)
		var asked atomic.Int64
		s.fake.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
			s.fake.KeepControl()
			asked.Add(1)
			resp, err := c.answer(req.(*kmsg.FetchRequest))
			return resp, err, true
		})
		if got := nothingLeft(t.Context(), s.prod, s.topic, 0, 0, 4); got != c.want || asked.Load() != 1 {
			t.Errorf("%s: %v, want %v; asked %d times", name, got, c.want, asked.Load())
		}
	}
}

// What was read to its end is read no further: what others append there meanwhile is the next run's.
func TestReadPartitionsAreLeft(t *testing.T) {
	t.Parallel()
	s := fakeSite(t, 2)
	left := map[int32]part{0: {0, 1}, 1: {0, 1}}
	(&ReplaySource{topic: s.topic}).ended(s.prod, left, 1)
	paused := s.prod.PauseFetchPartitions(nil)
	if _, ok := left[0]; !ok || len(left) != 1 || !slices.Equal(paused[s.topic], []int32{1}) {
		t.Errorf("%v are left, %v are paused", left, paused)
	}
}

// What came to a partition after the run had begun is the next run's, also where compaction removed all that was before it.
func TestReplaySourceStopsAtItsEnd(t *testing.T) {
	t.Parallel()
	s := fakeSite(t, 1)
	s.send(0, "gone", "later")
	src, err := NewReplaySource([]kgo.Opt{kgo.SeedBrokers(s.brokers...)}, s.topic)
	if err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(src.scanOpts(map[int32]kgo.Offset{0: kgo.NewOffset().At(1)})...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	err = src.scan(t.Context(), cl, map[int32]part{0: {0, 1}}, func(l *replay.Letter) bool {
		t.Errorf("a letter from behind the end: %+v", l)
		return true
	})
	if err != nil {
		t.Error(err)
	}
}

// The name of a topic whose cluster does not answer is not known: a replay asks for it before anything else.
func TestReplaySourceWithoutAnAddress(t *testing.T) {
	t.Parallel()
	src, err := NewReplaySource([]kgo.Opt{kgo.SeedBrokers("127.0.0.1:1")}, "dead")
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if address, err := src.Address(ended); err == nil {
		t.Errorf("it is %q", address)
	}
}

// A record that is no dead letter is named by its place, so that whoever replays can look at it.
func TestUnreadableLetterIsNamed(t *testing.T) {
	t.Parallel()
	l := newLetter(&kgo.Record{Topic: "dead", Partition: 1, Offset: 7, Value: []byte("a note")})
	if l.Message.ID != "dead-1-7" || !errors.Is(l.Unreadable, ErrNotDeadLetter) || l.Message.Body != nil {
		t.Errorf("%+v", l)
	}
}
