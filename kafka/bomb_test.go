package kafka

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// codecs are what a batch may be packed with.
var codecs = map[string]kgo.CompressionCodec{
	"gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

// bombPiece is how much of a bomb is in memory at once while it is made.
const bombPiece = 16 << 20

// bomb is a batch of records that unpacks to much more than it has on its way: records-1 of one byte, and one of n zeros.
// It is made of pieces that are packed by themselves, which all codecs but snappy take for one text.
func bomb(t *testing.T, codec kgo.CompressionCodec, n int64, records int) []byte {
	t.Helper()
	compressor, err := kgo.DefaultCompressor(codec)
	if err != nil {
		t.Fatal(err)
	}
	var head []byte
	for i := range records - 1 {
		head = appendRecord(head, i, 1)
		head = append(head, '1', 0)
	}
	head = appendRecord(head, records-1, n)
	left := int64(len(head)) + n + 1 // the last zero is that there are no headers
	piece := make([]byte, min(bombPiece, left))
	copy(piece, head)
	var body, zeros []byte
	attributes := int16(0)
	for first := true; left > 0; first = false {
		piece = piece[:min(int64(len(piece)), left)]
		if first || zeros == nil || left < bombPiece {
			packed, kind := compressor.Compress(new(bytes.Buffer), piece)
			attributes = int16(kind)
			if zeros = packed; first {
				zeros = nil
				clear(piece)
			}
			body = append(body, packed...)
		} else {
			body = append(body, zeros...)
		}
		left -= int64(len(piece))
	}
	return appendBatch(nil, attributes, records, body)
}

// appendRecord appends all of a record that stands before its value, which is n bytes long.
func appendRecord(b []byte, delta int, n int64) []byte {
	var r []byte
	r = append(r, 0)                              // attributes
	r = binary.AppendVarint(r, 0)                 // timestamp delta
	r = binary.AppendVarint(r, int64(delta))      // offset delta
	r = binary.AppendVarint(r, -1)                // no key
	r = binary.AppendVarint(r, n)                 // the value's length
	b = binary.AppendVarint(b, int64(len(r))+n+1) // and one byte for no headers
	return append(b, r...)
}

// appendBatch appends a record batch with magic 2. It is of now: a broker removes what is older than its retention, at any time.
func appendBatch(b []byte, attributes int16, records int, body []byte) []byte {
	now := time.Now().UnixMilli()
	batch := kmsg.RecordBatch{
		Length: int32(49 + len(body)), PartitionLeaderEpoch: -1, Magic: 2, Attributes: attributes, LastOffsetDelta: int32(records - 1),
		FirstTimestamp: now, MaxTimestamp: now, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(records), Records: body,
	}
	at := len(b)
	b = batch.AppendTo(b)
	binary.BigEndian.PutUint32(b[at+17:], crc32.Checksum(b[at+21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// sendBatch produces a batch as it is to partition 0.
func (s *site) sendBatch(batch []byte) {
	s.t.Helper()
	eventually(s.t, "the broker takes the batch", func() bool {
		meta, err := s.adm.Metadata(s.t.Context(), s.topic)
		if err != nil || meta.Topics[s.topic].Err != nil || len(meta.Topics[s.topic].Partitions) == 0 {
			return false
		}
		req := kmsg.NewPtrProduceRequest()
		req.Acks, req.TimeoutMillis = -1, 30_000
		rt := kmsg.NewProduceRequestTopic()
		rt.Topic, rt.TopicID = s.topic, meta.Topics[s.topic].ID
		rp := kmsg.NewProduceRequestTopicPartition()
		rp.Records = batch
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		resp, err := s.prod.Broker(int(meta.Topics[s.topic].Partitions[0].Leader)).RetriableRequest(s.t.Context(), req)
		if err != nil {
			s.t.Fatal(err)
		}
		p := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		if err := kerr.ErrorForCode(p.ErrorCode); err != nil && !kerr.IsRetriable(err) {
			s.t.Fatalf("produce: %v", err)
		}
		return p.ErrorCode == 0
	})
}

// Bombs are made right: whoever takes enough reads their records.
func TestBombsAreBatches(t *testing.T) {
	t.Parallel()
	for name, codec := range codecs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fakeSite(t, 1)
			size := int64(3 * bombPiece)
			if name == "snappy" {
				size = bombPiece / 2
			}
			s.sendBatch(bomb(t, codec, size, 5))
			reader, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...), kgo.ConsumeTopics(s.topic))
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Close()
			var got []int
			for len(got) < 5 {
				fetches := reader.PollFetches(t.Context())
				if err := fetches.Err(); err != nil {
					t.Fatal(err)
				}
				fetches.EachRecord(func(r *kgo.Record) { got = append(got, len(r.Value)) })
			}
			if want := []int{1, 1, 1, 1, int(size)}; !slices.Equal(got, want) {
				t.Errorf("records of %v bytes, want %v", got, want)
			}
		})
	}
}
