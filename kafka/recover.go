package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ackledger/ackledger/internal/killpoint"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
	"github.com/ackledger/ackledger/replay"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// RecoverLedger is what a recovery asks of the ledger that was restored. Those of PostgreSQL and SQLite are.
type RecoverLedger interface {
	ledger.Operator
	ledger.Identified
}

// FindCommitted reads what groups have committed with the ledger, and asks the ledger for each record below, from the commit back,
// until Config.Span records in a row below the youngest that it knows were read. It changes nothing. opts are those of a client (seed
// brokers, TLS, SASL), without topics, partitions and group. span is the workers' Config.Span; 0: its default.
//
// A group is of the ledger if a commit names it, in whatever epoch (storage.EpochOf), or if the ledger has a scope of it. It needs Read of
// the groups and topics, and Describe of the cluster: groups that may not be described are left out by the brokers.
func FindCommitted(ctx context.Context, opts []kgo.Opt, l RecoverLedger, span int) ([]Committed, error) {
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("kafka: the client's options: %w", err)
	}
	defer client.Close()
	f := &finder{ledger: l, opts: opts, client: client, adm: kadm.NewClient(client), span: cmp.Or(span, DefaultSpan)}
	if err := f.prepare(ctx); err != nil {
		return nil, err
	}
	var all []Committed
	for _, group := range slices.Sorted(maps.Keys(f.groups)) {
		some, err := f.ofGroup(ctx, group)
		if err != nil {
			return nil, fmt.Errorf("kafka: group %q: %w", group, err)
		}
		all = append(all, some...)
	}
	return all, nil
}

// finder is one FindCommitted.
type finder struct {
	ledger  RecoverLedger
	opts    []kgo.Opt
	client  *kgo.Client
	adm     *kadm.Client
	span    int
	root    string // of the ledger's id
	cluster string
	scopes  map[string]bool
	groups  map[string]string // their states
	topics  kadm.TopicDetails
}

// prepare asks for all that the groups have in common.
func (f *finder) prepare(ctx context.Context) error {
	id, err := f.ledger.ID(ctx)
	if err != nil {
		return fmt.Errorf("kafka: ask the ledger for its id: %w", err)
	}
	f.root, _ = storage.EpochOf(id)
	meta, err := f.adm.Metadata(ctx)
	if err != nil {
		return fmt.Errorf("kafka: ask for metadata: %w", err)
	}
	f.cluster, f.topics = meta.Cluster, meta.Topics
	listed, err := f.adm.ListGroups(ctx)
	if err != nil {
		return fmt.Errorf("kafka: list the consumer groups: %w", err)
	}
	f.groups, f.scopes = map[string]string{}, map[string]bool{}
	for name, g := range listed {
		f.groups[name] = g.State
	}
	scopes, err := f.ledger.Scopes(ctx)
	for _, s := range scopes {
		source, group, ok := replay.ParseScope(s)
		if ok && strings.HasPrefix(s, "kafka:") && strings.HasPrefix(source, f.cluster+"/") {
			f.scopes[s] = true
			f.groups[group] = cmp.Or(f.groups[group], "Empty") // one that has gone has no offsets
		}
	}
	return err
}

func (f *finder) ofGroup(ctx context.Context, group string) (all []Committed, err error) {
	offsets, err := f.adm.FetchOffsets(ctx, group)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return nil, nil
	}
	if err = cmp.Or(err, offsets.Error()); err != nil {
		return nil, fmt.Errorf("fetch its offsets: %w", err)
	}
	for _, o := range offsets.Sorted() {
		c, source, ok, err := f.commit(group, &o)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		if err := f.compare(ctx, &c, source.scope); err != nil {
			return nil, fmt.Errorf("topic %q partition %d: %w", c.Topic, c.Partition, err)
		}
		all = append(all, c)
	}
	return all, nil
}

// commit reads one commit; false: it is not of this ledger.
func (f *finder) commit(group string, o *kadm.OffsetResponse) (c Committed, source topicSource, ok bool, err error) {
	if source, err = newTopicSource(group, f.cluster, o.Topic); err != nil || o.At < 0 {
		return c, source, false, err
	}
	named, rest := readNote(o.Metadata)
	root, _ := storage.EpochOf(named)
	mine := named != "" && root == f.root && strings.HasPrefix(rest, f.cluster+":")
	if !mine && (named != "" || !f.scopes[source.scope]) {
		return c, source, false, nil
	}
	topic := f.topics[o.Topic]
	c = Committed{Group: group, State: f.groups[group], Topic: o.Topic, Partition: o.Partition, LedgerID: named, Offset: o.At, Back: o.At,
		epoch: o.LeaderEpoch, topicID: topicID(topic.ID), note: o.Metadata, signature: rest}
	if id, found := strings.CutPrefix(rest, f.cluster+":"); found && id == "-" {
		c.topicID = topicID{} // workers that go by names
	}
	c.signature = cmp.Or(rest, f.cluster+":"+c.topicID.String())
	return c, source, topic.Err == nil && len(topic.Partitions) > 0, nil
}

// compare asks the ledger for what lies below a commit. A commit for a topic that was made anew is signed again, no more.
func (f *finder) compare(ctx context.Context, c *Committed, scope string) error {
	if anotherTopic(noteLedgerPrefix+"x:"+c.signature, f.cluster, c.topicID) {
		return nil
	}
	starts, err := f.adm.ListStartOffsets(ctx, c.Topic)
	if err = cmp.Or(err, starts.Error()); err != nil {
		return fmt.Errorf("where it begins: %w", err)
	}
	start, _ := starts.Lookup(c.Topic, c.Partition)
	c.Start = start.Offset
	s := &scan{ledger: f.ledger, opts: f.opts, cluster: f.cluster, span: f.span, scope: scope, of: c}
	return s.run(ctx)
}

// SetBack commits for groups that have no members what Back says, with the ledger's id, which is that of its new epoch. Those that go on
// where they were are signed anew, too: else their workers would be refused. A group with members is refused by the brokers.
//
// A group that has committed since [FindCommitted] read it is refused as well: Back may be ahead of what it has committed now, and what
// lies between would be lost. The groups are taken in the order of their names, one request each; those before an error are set back.
func SetBack(ctx context.Context, opts []kgo.Opt, list []Committed, ledgerID string) error {
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return fmt.Errorf("kafka: the client's options: %w", err)
	}
	defer client.Close()
	adm := kadm.NewClient(client)
	groups := map[string][]*Committed{}
	for i := range list {
		groups[list[i].Group] = append(groups[list[i].Group], &list[i])
	}
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		if err := setBack(ctx, adm, group, groups[group], ledgerID); err != nil {
			return fmt.Errorf("kafka: set group %q back: %w", group, err)
		}
	}
	return nil
}

func setBack(ctx context.Context, adm *kadm.Client, group string, list []*Committed, ledgerID string) error {
	now, err := adm.FetchOffsets(ctx, group)
	if err = cmp.Or(err, now.Error()); err != nil {
		return fmt.Errorf("fetch its offsets: %w", err)
	}
	offsets := kadm.Offsets{}
	for _, c := range list {
		if is, _ := now.Lookup(c.Topic, c.Partition); is.At != c.Offset || is.Metadata != c.note {
			return fmt.Errorf("topic %q partition %d: it was at %d when it was read, and has committed %d since: find again what it lacks",
				c.Topic, c.Partition, c.Offset, is.At)
		}
		offsets.Add(kadm.Offset{Topic: c.Topic, TopicID: kadm.TopicID(c.topicID), Partition: c.Partition, At: c.Back,
			LeaderEpoch: c.epoch, Metadata: noteLedgerPrefix + ledgerID + ":" + c.signature})
	}
	killpoint.At(killpoint.BeforeAck)
	err = adm.CommitAllOffsets(ctx, group, offsets)
	killpoint.At(killpoint.AfterAck)
	return err
}
