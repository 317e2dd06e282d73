package kafka

import (
	"context"
	"errors"
	"iter"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/replay"
	"github.com/twmb/franz-go/pkg/kgo"
)

// ReplaySource is a dead-letter topic as a source of package replay. Build it with [NewReplaySource].
//
// Nothing can be deleted from a topic: the ledger's rows are the progress, and each run scans from the start of the topic
// to the end that it saw when it began.
type ReplaySource struct{ topic string }

var _ replay.Source = (*ReplaySource)(nil)

// NewReplaySource returns a dead-letter topic as a source for replay.Run. opts are those of a client (seed brokers, TLS,
// SASL), without topics, partitions and group; the source makes a client of its own of them for the time of a run. It
// reads committed records only. Nothing connects before the run.
func NewReplaySource(opts []kgo.Opt, topic string) (*ReplaySource, error) {
	return nil, errors.New("kafka: not built yet")
}

func (s *ReplaySource) String() string                          { return s.topic }
func (s *ReplaySource) Address(context.Context) (string, error) { return "", nil }
func (s *ReplaySource) Count(context.Context) (int64, error)    { return -1, nil }
func (s *ReplaySource) Letters(context.Context, *ledger.Filter) iter.Seq2[*replay.Letter, error] {
	return func(func(*replay.Letter, error) bool) {}
}
func (s *ReplaySource) Done(context.Context, []*replay.Letter) error { return nil }
func (s *ReplaySource) Warnings() []string                           { return nil }

// ReplayTarget puts dead letters back on the Kafka topics they came from. Build it with [NewReplayTarget].
//
// A record that is put back on a topic reaches every group that reads it. Its stamp names the group whose message failed;
// workers of this module in other groups skip it, other consumers handle it once more. So a run is refused while another
// group has committed offsets of the topic, or members that read it, unless AllowGroups is set.
type ReplayTarget struct{ client *kgo.Client }

var _ replay.Target = (*ReplayTarget)(nil)

// ReplayTargetOptions are the settings of a [ReplayTarget].
type ReplayTargetOptions struct {
	// Topics are the only ones that records are put back on; empty: whichever they came from. For people whose dead-letter
	// topic serves several.
	Topics []string
	// AllowGroups sends although other groups read the topic: for people who know that these skip or bear the copies.
	AllowGroups bool
}

// NewReplayTarget returns a target for replay.Run that puts each record back on the topic it came from. The client is the
// caller's, who closes it after the run; it may be shared, but not be that of a worker. It must wait for all in-sync
// replicas (franz-go's default), be idempotent, and neither be transactional nor flush by hand.
func NewReplayTarget(client *kgo.Client, o *ReplayTargetOptions) (*ReplayTarget, error) {
	return nil, errors.New("kafka: not built yet")
}

func (t *ReplayTarget) String() string                            { return "" }
func (t *ReplayTarget) Begin(context.Context, replay.Begin) error { return nil }
func (t *ReplayTarget) Accept(*replay.Letter) error               { return nil }
func (t *ReplayTarget) Send(context.Context, []*replay.Letter) []replay.Result {
	return nil
}
func (t *ReplayTarget) Most() int                 { return 500 }
func (t *ReplayTarget) End(context.Context) error { return nil }
