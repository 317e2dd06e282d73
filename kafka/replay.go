package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/replay"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// quietLimit is how long a scan waits for records that must be there.
const quietLimit = 30 * time.Second

// ReplaySource is a dead-letter topic as a source of package replay. Build it with [NewReplaySource].
//
// Nothing can be deleted from a topic: the ledger's rows are the progress, and each run scans from the start of the topic
// to the end that it saw when it began. Partitions are read side by side; a message and its later failures, and the
// messages of one key or group, are in one partition, in their order.
type ReplaySource struct {
	opts  []kgo.Opt
	topic string

	mu       sync.Mutex
	warnings []string
}

var _ replay.Source = (*ReplaySource)(nil)

// NewReplaySource returns a dead-letter topic as a source for replay.Run. opts are those of a client (seed brokers, TLS,
// SASL), without topics, partitions and group; the source makes clients of its own of them. It reads committed records
// only. Nothing connects before the run.
func NewReplaySource(opts []kgo.Opt, topic string) (*ReplaySource, error) {
	if !isTopicName(topic) {
		return nil, fmt.Errorf("kafka: NewReplaySource: the topic must be 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-', is %.300q", topic)
	}
	if i := slices.Index(opts, nil); i >= 0 {
		return nil, fmt.Errorf("kafka: NewReplaySource: option %d of %d is nil", i+1, len(opts))
	}
	s := &ReplaySource{opts: slices.Clone(opts), topic: topic}
	if err := kgo.ValidateOpts(s.scanOpts(nil)...); err != nil {
		return nil, fmt.Errorf("kafka: NewReplaySource: the client's options: %w", err)
	}
	return s, nil
}

// scanOpts are those of the client that scans.
func (s *ReplaySource) scanOpts(from map[int32]kgo.Offset) []kgo.Opt {
	return append(slices.Clone(s.opts), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{s.topic: from}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
}

// String names the topic.
func (s *ReplaySource) String() string { return "topic " + s.topic }

// Removes implements replay.Source: nothing is removed.
func (s *ReplaySource) Removes() bool { return false }

// Done implements replay.Source. The ledger's row says that the message is done with.
func (s *ReplaySource) Done(context.Context, []*replay.Letter) error { return nil }

// Keep implements replay.Source.
func (s *ReplaySource) Keep([]*replay.Letter) {}

// Warnings says what the scan could not read.
func (s *ReplaySource) Warnings() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.warnings
}

func (s *ReplaySource) warn(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.warnings = append(s.warnings, fmt.Sprintf(format, args...))
}

// with calls f with a client for questions.
func (s *ReplaySource) with(f func(*kgo.Client) error) error {
	cl, err := kgo.NewClient(s.opts...)
	if err != nil {
		return fmt.Errorf("kafka: the client's options: %w", err)
	}
	defer cl.Close()
	return f(cl)
}

// Address returns the cluster's id and the topic as `cluster/topic`.
func (s *ReplaySource) Address(ctx context.Context) (address string, err error) {
	err = s.with(func(cl *kgo.Client) error {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		address, err = (&DeadLetterTopic{client: cl, topic: s.topic}).Source(ctx)
		return err
	})
	return address, err
}

// Count returns how many offsets the topic has.
func (s *ReplaySource) Count(ctx context.Context, _ *ledger.Filter) (n int64, err error) {
	err = s.with(func(cl *kgo.Client) error {
		parts, err := s.bounds(ctx, cl)
		for _, p := range parts {
			n += p.end - p.start
		}
		return err
	})
	return n, err
}

// part is what is to be read of one partition: offsets from start, below end.
type part struct{ start, end int64 }

// bounds asks for the topic's offsets. The end is that of the transactions that have ended.
func (s *ReplaySource) bounds(ctx context.Context, cl *kgo.Client) (map[int32]part, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	adm := kadm.NewClient(cl)
	starts, err := adm.ListStartOffsets(ctx, s.topic)
	if err = cmp.Or(err, starts.Error()); err != nil {
		return nil, fmt.Errorf("kafka: dead-letter topic %q: %w", s.topic, err)
	}
	ends, err := adm.ListCommittedOffsets(ctx, s.topic)
	if err = cmp.Or(err, ends.Error()); err != nil {
		return nil, fmt.Errorf("kafka: dead-letter topic %q: %w", s.topic, err)
	}
	parts := map[int32]part{}
	starts.Each(func(o kadm.ListedOffset) {
		if end, ok := ends.Lookup(o.Topic, o.Partition); ok {
			parts[o.Partition] = part{start: o.Offset, end: end.Offset}
		}
	})
	if len(parts) == 0 {
		return nil, fmt.Errorf("kafka: dead-letter topic %q: it has no partitions", s.topic)
	}
	return parts, nil
}

// Letters reads the topic to the end that it has now.
func (s *ReplaySource) Letters(ctx context.Context, _ *ledger.Filter) iter.Seq2[*replay.Letter, error] {
	return func(yield func(*replay.Letter, error) bool) {
		var parts map[int32]part
		err := s.with(func(cl *kgo.Client) (err error) { parts, err = s.bounds(ctx, cl); return err })
		if err != nil {
			yield(nil, err)
			return
		}
		from := map[int32]kgo.Offset{}
		for p, b := range parts {
			if b.start < b.end {
				from[p] = kgo.NewOffset().At(b.start)
			} else {
				delete(parts, p)
			}
		}
		if len(from) == 0 {
			return
		}
		cl, err := kgo.NewClient(s.scanOpts(from)...)
		if err != nil {
			yield(nil, fmt.Errorf("kafka: the client's options: %w", err))
			return
		}
		defer cl.CloseAllowingRebalance()
		if err := s.scan(ctx, cl, parts, func(l *replay.Letter) bool { return yield(l, nil) }); err != nil {
			yield(nil, err)
		}
	}
}

// scan polls until each partition is at its end.
func (s *ReplaySource) scan(ctx context.Context, cl *kgo.Client, left map[int32]part, yield func(*replay.Letter) bool) error {
	next := map[int32]int64{}
	for p, b := range left {
		next[p] = b.start
	}
	for quiet := time.Now(); len(left) > 0; {
		poll, cancel := context.WithTimeout(ctx, time.Second)
		fetches := cl.PollRecords(poll, 1000)
		cancel()
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := s.failure(fetches); err != nil {
			return err
		}
		stopped := false
		fetches.EachRecord(func(r *kgo.Record) {
			b, ok := left[r.Partition]
			if !ok || stopped {
				return
			}
			if r.Offset < b.end && !r.Attrs.IsControl() && !yield(newLetter(r)) {
				stopped = true
				return
			}
			if next[r.Partition] = r.Offset + 1; next[r.Partition] >= b.end {
				s.ended(cl, left, r.Partition)
			}
		})
		if stopped {
			return nil
		}
		if fetches.NumRecords() > 0 {
			quiet = time.Now() // the reader may have been slow
		}
		if time.Since(quiet) > quietLook {
			for p, b := range left {
				if nothingLeft(ctx, cl, s.topic, p, next[p], b.end) {
					s.ended(cl, left, p)
				}
			}
		}
		if len(left) > 0 && time.Since(quiet) > quietLimit {
			for p, b := range left {
				s.warn("partition %d of %s was not read up to offset %d: nothing more came for %s", p, s.topic, b.end, quietLimit)
			}
			return fmt.Errorf("%w: dead-letter topic %q: nothing more came for %s", replay.ErrStopped, s.topic, quietLimit)
		}
	}
	return nil
}

// ended notes that a partition is read to its end.
func (s *ReplaySource) ended(cl *kgo.Client, left map[int32]part, p int32) {
	delete(left, p)
	cl.PauseFetchPartitions(map[string][]int32{s.topic: {p}})
}

// failure is an error of a poll that does not heal.
func (s *ReplaySource) failure(fetches kgo.Fetches) error {
	for _, e := range fetches.Errors() {
		if !errors.Is(e.Err, context.DeadlineExceeded) {
			return fmt.Errorf("kafka: dead-letter topic %q, partition %d: %w", s.topic, e.Partition, e.Err)
		}
	}
	return nil
}

// newLetter reads a record of the topic.
func newLetter(r *kgo.Record) *replay.Letter {
	l := &replay.Letter{At: r.Timestamp}
	d := &l.DeadLetter
	if err := parseDeadLetter(r, d); err != nil {
		*d = consumer.DeadLetter{}
		l.Message.ID, l.Unreadable = fmt.Sprintf("%s-%d-%d", r.Topic, r.Partition, r.Offset), err
		return l
	}
	if d.Delivery == nil {
		d.Delivery = fmt.Appendf(nil, "%s-%d-%d", r.Topic, r.Partition, r.Offset)
	}
	l.Identified = d.Stamp != nil
	if !d.FailedAt.IsZero() {
		l.At = d.FailedAt
	}
	if d.Stamp != nil {
		l.Token = d.Stamp.Token
	}
	return l
}
