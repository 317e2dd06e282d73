package kafka

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger/storage"
)

// Defaults of Config; docs/defaults.md says why.
const (
	DefaultSpan           = 100_000
	DefaultCommitInterval = time.Second
	DefaultRevokeDrain    = 10 * time.Second
)

// Order says which records run one at a time, in the order of their offsets. What has to wait for a retry holds what is
// behind it in its order, and nothing else.
type Order uint8

const (
	// OrderKey keeps the order of records with the same key in one partition. Records without a key have none. Default.
	OrderKey Order = iota
	// OrderPartition keeps the order of each partition: one record of it at a time.
	OrderPartition
	// OrderNone keeps no order.
	OrderNone
)

// Start says where a group begins that has never committed an offset of a topic. A partition that is added to the topic
// later, and a topic that is deleted and created again while a worker runs, begin at the start of their log whatever it
// says: nobody has seen their records yet. (Kafka drops a group's offsets with the topic. So a topic that was created
// again while no worker ran is new to the group.)
type Start uint8

const (
	// StartEarliest begins at the start of the log. Default.
	StartEarliest Start = iota
	// StartLatest begins at its end, for people who only want what comes from now on. "Now" is when the group's first
	// members start: each writes down the ends it sees for the whole topic, so that of records sent in those first
	// moments some may count as past if a member crashes right then. A group that must miss none begins at the start.
	StartLatest
)

// Reset says what happens when the broker does not have the committed offset, or has lost records behind it: retention
// was faster than the consumer, or a log was truncated.
type Reset uint8

const (
	// ResetFail ends Run with an error that names the topic, the partition and the offsets ([ErrOutOfRange],
	// [ErrDataLoss]): messages may be lost, and somebody should know before anything goes on. Default.
	ResetFail Reset = iota
	// ResetEarliest reports it in the log and in Health, and goes on at the first record that the broker still has. For
	// people for whom old messages lose their worth.
	ResetEarliest
)

// Audit says what the ledger keeps of a record that was handled without trouble. What failed, is retried, has a result or
// an identity of its own (a stamp, Options.KeyFunc) has a row whatever it says.
type Audit uint8

const (
	// AuditRanges keeps a span of offsets for whole batches of records: that each of them succeeded, and between which
	// times. It costs some kilobytes for millions of records. Default.
	AuditRanges Audit = iota
	// AuditRows keeps a row for each record, with its own time: for people who must say of each message when it was
	// handled, or whose producers may forge stamps (see the package's comment). It costs some 200 bytes a record, and most
	// of the speed. Workers of both kinds may share a group: what
	// was handled under one is known under the other.
	AuditRows
)

// Oversize says what happens to a record that is larger than the ledger archives (ledger.Limits). A topic's max.message.bytes
// does not exclude such a record: it bounds what is compressed.
type Oversize uint8

const (
	// OversizeExcerpt handles it like any other. If it fails for good it is archived without its body: with its headers, its
	// position, its length, its SHA-256, and the mark that the body is in the log (ledger.LeftOut), where it stays for as long
	// as the topic keeps it. Its dead letter is whole, if the target takes it. Default.
	OversizeExcerpt Oversize = iota
	// OversizeEnd ends Run with [ErrOversize] before it is handled.
	OversizeEnd
)

// LargeBatch says what happens to a batch of records that unpacks to more bytes than the client takes
// (kgo.MaxDecompressBatchBytes). Nobody can handle its records here: they are unknown. The client reads the partition no
// further until it is told where to go on.
type LargeBatch uint8

const (
	// LargeBatchEnd ends Run with [ErrLargeBatch], which names the topic, the partition and the offsets. Default.
	LargeBatchEnd LargeBatch = iota
	// LargeBatchPass archives an entry of the batch's place, reports it in the log and in Health, and goes on behind it. The
	// entry has no body ([ledger.LeftOut]): no replay sends it, and no dead letter is published of it. The ledger knows
	// nothing of the records: a worker with a larger limit handles them when the group's offset is set back to the batch.
	LargeBatchPass
)

// Config is what a worker is built of, beside the options of the Kafka client. The zero value of each field means its
// default.
//
// Options.MaxHeld and MaxHeldBytes are the high-water mark: polling stops at it. When no more than a quarter of that is
// left, a partition that has more in hand than there is room, and finishes none of it, pauses, so that the others go on.
// Options.Name must be empty or the consumer group. Options.Window is by default, for each topic, retention.ms + segment.ms,
// and the same of the topic of Options.DeadLetter (or the retention of its queue).
type Config struct {
	consumer.Options

	// Order is what waits for what. Default: OrderKey. For people whose handlers need more order, or none.
	Order Order
	// Start is where a new group begins. Default: StartEarliest. For people who do not want the past.
	Start Start
	// Reset is what to do about records that the broker has lost. Default: ResetFail. For people who prefer to go on.
	Reset Reset
	// Audit is what the ledger keeps of each record. Default: AuditRanges. For people who need each record's own row. With
	// Options.Park it is always AuditRows: a row knows whether its message was ever claimed before.
	Audit Audit

	// Oversize is what happens to records that are larger than the ledger archives. Default: OversizeExcerpt. For people who
	// must be able to replay from the ledger alone whatever failed.
	Oversize Oversize

	// LargeBatch is what happens to a batch that unpacks to more than kgo.MaxDecompressBatchBytes. Default: LargeBatchEnd.
	// For people whose other messages must not wait until somebody has looked at such a batch.
	LargeBatch LargeBatch

	// Span is how many records of one partition may be delivered past its first unfinished one, 1 to 10,000,000. Then
	// the partition pauses, and Health reports it. Default 100,000. It bounds memory and what a restart delivers again;
	// for people whose records fail for long while others pass them.
	Span int
	// CommitInterval is the time between two commits of what is finished, 10 ms to 1 min. Default 1 s. For people who
	// want fewer redeliveries after a crash (the ledger answers those), or fewer commits.
	CommitInterval time.Duration
	// RevokeDrain is how long a handler may go on when its partition goes to another member of the group, 1 ms to
	// 10 min. Default 10 s; the group waits for it. For people with short handlers, or with long ones worth waiting for.
	RevokeDrain time.Duration

	// NameIdentity keys records by the topic's name instead of its id: for clusters that have no topic ids (before
	// Kafka 2.8, some compatible services), which are refused otherwise. A topic that is deleted and created again is
	// then taken for the old one: whenever its log is read from the start (ResetEarliest, or a group whose offsets went with
	// the old topic), records at offsets that the old one had reached are dropped as delivered before, and so are lost.
	// Give such a topic another name. Changing NameIdentity makes every record a new one.
	NameIdentity bool

	// MovedFrom has the ids of other ledgers whose commits this worker goes on from, at most 16. Otherwise a group in which a
	// worker of another ledger has committed is refused ([ErrOtherLedger] names its id, and so does `ackledger doctor`): the
	// members of a group must share one ledger. For people who move to another ledger: stop all workers of the old one first.
	// What the old one knew of messages is not known in the new one, and what comes again runs again.
	MovedFrom []string
}

// settings are a Config with its defaults and what the client's options say.
type settings struct {
	Config
	givenKeep time.Duration // Options.Keep as the caller set it
	archive   int           // the ledger's Limits.Archive
	share     bool          // of a share group's worker
	client
}

func newSettings(c *Config, cl client) (settings, error) {
	c = cmp.Or(c, &Config{})
	s := settings{Config: *c, givenKeep: c.Keep, client: cl}
	if s.Name != "" && s.Name != cl.group {
		return s, fmt.Errorf("kafka: Config.Name: must be empty or the consumer group %q, is %q", cl.group, s.Name)
	}
	if c.FairBy == nil && (c.FairShare != 0 || len(c.FairWeights) > 0) {
		return s, errors.New("kafka: Config.FairShare, FairWeights: must be set with FairBy, which says whose a record is")
	}
	s.Name = cl.group
	var err error
	if s.Options, err = s.WithDefaults(); err != nil {
		return s, fmt.Errorf("kafka: Config: %w", err)
	}
	s.Span = cmp.Or(s.Span, DefaultSpan)
	s.CommitInterval = cmp.Or(s.CommitInterval, DefaultCommitInterval)
	s.RevokeDrain = cmp.Or(s.RevokeDrain, DefaultRevokeDrain)
	if s.Park && s.Audit == AuditRanges {
		s.Audit = AuditRows
	}
	return s, errors.Join(
		inRange("Order", s.Order, OrderKey, OrderNone),
		inRange("Start", s.Start, StartEarliest, StartLatest),
		inRange("Reset", s.Reset, ResetFail, ResetEarliest),
		inRange("Audit", s.Audit, AuditRanges, AuditRows),
		inRange("Oversize", s.Oversize, OversizeExcerpt, OversizeEnd),
		inRange("LargeBatch", s.LargeBatch, LargeBatchEnd, LargeBatchPass),
		inRange("Span", s.Span, 1, 10_000_000),
		inRange("CommitInterval", s.CommitInterval, 10*time.Millisecond, time.Minute),
		inRange("RevokeDrain", s.RevokeDrain, time.Millisecond, 10*time.Minute),
		checkMoved(s.MovedFrom),
		s.checkRebalance(),
	)
}

// maxMoved bounds Config.MovedFrom.
const maxMoved = 16

func checkMoved(ids []string) error {
	if len(ids) > maxMoved {
		return fmt.Errorf("kafka: Config.MovedFrom: must be at most %d ids, are %d", maxMoved, len(ids))
	}
	for _, id := range ids {
		if !storage.IsLedgerID(id) {
			return fmt.Errorf("kafka: Config.MovedFrom: must be ids of ledgers, 1 to %d letters, digits, \"-\" and \"_\", has %q",
				storage.MaxLedgerID, id)
		}
	}
	return nil
}

// rebalanceMargin is what a revocation takes beside the drain: the commit, the callback, the next join.
const rebalanceMargin = 20 * time.Second

// checkRebalance sees that a member that drains is not put out of the group for it. franz-go's default is raised; what
// the caller has set is not.
func (s *settings) checkRebalance() error {
	need := s.RevokeDrain + rebalanceMargin
	switch {
	case s.rebalance >= need:
	case s.rebalance == s.rebalanceDefault:
		s.rebalance = need
	default:
		return fmt.Errorf("kafka: kgo.RebalanceTimeout: must be at least %s (Config.RevokeDrain and %s), is %s",
			need, rebalanceMargin, s.rebalance)
	}
	return nil
}

func inRange[T ~int | ~int64 | ~uint8](field string, v, low, high T) error {
	if v < low || v > high {
		return fmt.Errorf("kafka: Config.%s: must be %v to %v, is %v", field, low, high, v)
	}
	return nil
}
