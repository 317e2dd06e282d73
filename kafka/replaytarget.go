package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/replay"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// ReplayTarget puts dead letters back on the Kafka topics they came from: key, value, headers and timestamp as they were,
// with their stamp (see [SourceRecord]). Build it with [NewReplayTarget].
//
// A record that is put back on a topic reaches every group that reads it. Its stamp names the group whose message failed;
// workers of this module in other groups skip it, other consumers handle it once more. So nothing is sent to a topic of
// which another group has committed offsets, or members that read it, unless AllowGroups is set; nor without the right to
// see all groups (Describe of the cluster).
//
// A copy that is older than its topic keeps records (retention.ms, which it asks for with DescribeConfigs) may go before its
// group reads it: it is sent, and the report warns.
type ReplayTarget struct {
	client *kgo.Client
	opt    ReplayTargetOptions

	dead    string              // the address of the dead letters
	prefix  string              // what the cluster's sources begin with
	groups  map[string][]string // that read a topic
	aged    aged
	extents extents
}

var _ replay.Target = (*ReplayTarget)(nil)

// ReplayTargetOptions are the settings of a [ReplayTarget]. The zero value of each field means its default.
type ReplayTargetOptions struct {
	// Topics are the only ones that records are put back on; empty: whichever they came from. For people whose dead-letter
	// topic serves several.
	Topics []string
	// AllowGroups sends although other groups read the topic: for people who know that these skip or bear the copies.
	AllowGroups bool
}

// NewReplayTarget returns a target for replay.Run that puts each record back on the topic it came from. The client is the
// caller's, who closes it after the run; it may be shared, but not be that of a worker. It must wait for all in-sync
// replicas (franz-go's default), and must neither be transactional nor flush by hand nor have a RecordDeliveryTimeout,
// which franz-go counts from the record's timestamp: a copy keeps its original's.
func NewReplayTarget(client *kgo.Client, o *ReplayTargetOptions) (*ReplayTarget, error) {
	o = cmp.Or(o, &ReplayTargetOptions{})
	for _, topic := range append(slices.Clone(o.Topics), "any") {
		if _, err := NewDeadLetterTopic(client, topic); err != nil { // it asks for the same
			return nil, fmt.Errorf("kafka: NewReplayTarget: %w", err)
		}
	}
	if client.OptValue(kgo.RecordDeliveryTimeout) != time.Duration(0) {
		return nil, refused("RecordDeliveryTimeout", "it counts from a record's timestamp, and a copy keeps its original's")
	}
	return &ReplayTarget{client: client, opt: *o, groups: map[string][]string{}}, nil
}

// String names the topics.
func (t *ReplayTarget) String() string {
	if len(t.opt.Topics) == 0 {
		return "the source topics"
	}
	return "topic " + strings.Join(t.opt.Topics, ", ")
}

// Most implements replay.Target.
func (t *ReplayTarget) Most() int { return 500 }

// End implements replay.Target.
func (t *ReplayTarget) End(context.Context) error { return nil }

// Warnings says of how many copies the topic may drop before they are read.
func (t *ReplayTarget) Warnings() []string {
	t.aged.mu.Lock()
	defer t.aged.mu.Unlock()
	if t.aged.n == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d letters are older than the target keeps records (retention.ms, CreateTime): if their group is "+
		"behind they may be gone before it reads them; replay in place does not depend on it", t.aged.n)}
}

// Begin asks the cluster who reads the topics. The dead letters' own topic is refused.
func (t *ReplayTarget) Begin(ctx context.Context, b replay.Begin) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	adm := kadm.NewClient(t.client)
	meta, err := adm.BrokerMetadata(ctx)
	if err != nil {
		return fmt.Errorf("kafka: ask for metadata: %w", err)
	}
	t.aged.reset()
	t.extents.reset()
	t.dead, t.prefix = b.Source, SourceName(meta.Cluster, "")
	for _, topic := range t.opt.Topics {
		if t.has(t.dead, topic) {
			return fmt.Errorf("kafka: the target must not be the dead-letter topic itself, is %q", topic)
		}
	}
	if len(t.opt.Topics) > 0 {
		listed, err := adm.ListTopics(ctx, t.opt.Topics...)
		if err = cmp.Or(err, listed.Error()); err != nil {
			return fmt.Errorf("kafka: topics %q: %w", t.opt.Topics, err)
		}
	}
	if t.opt.AllowGroups {
		return nil
	}
	if err := maySeeGroups(ctx, t.client); err != nil {
		return err
	}
	readers, err := readersOf(ctx, adm)
	t.groups = readers
	return err
}

// Accept implements replay.Target.
func (t *ReplayTarget) Accept(l *replay.Letter) error {
	topic, err := sourceTopic(&l.DeadLetter)
	if err != nil {
		return err
	}
	switch {
	case !t.has(l.Message.Source, topic), len(t.opt.Topics) > 0 && !slices.Contains(t.opt.Topics, topic):
		return fmt.Errorf("%w: %.300q", replay.ErrElsewhere, l.Message.Source)
	case !l.Vouched && len(t.opt.Topics) == 0:
		return fmt.Errorf("only the letter itself says that it came from topic %q: name the topic as the target, or as Config.Origin", topic)
	case l.Message.Source == t.dead:
		return errors.New("it came from the dead-letter topic itself")
	case l.Stamp == nil:
		return errors.New("its identity cannot be told in a stamp: it can be replayed in place")
	}
	if err := t.reaches(topic, l.Stamp); err != nil {
		return err
	}
	foreign := slices.DeleteFunc(slices.Clone(t.groups[topic]), func(g string) bool { return g == l.Stamp.Group })
	if len(foreign) > 0 && !ledger.IsOutboxScope(l.Key.Scope) { // that is for all of them
		return fmt.Errorf("other groups read topic %q, and would get the copy too: %.300q; replay in place, or allow it", topic, foreign)
	}
	return nil
}

// has says whether a source is the topic of this cluster.
func (t *ReplayTarget) has(source, topic string) bool {
	cluster, ok := strings.CutSuffix(source, topic)
	return ok && cluster == t.prefix
}

// reaches says why no worker would take the stamp of a copy, and so would run it as another message, however often it is sent;
// nil: it would. Workers look at the same ([delivery.Exists]), and take what is signed without a look.
func (t *ReplayTarget) reaches(topic string, s *consumer.Stamp) error {
	if s.Pos == nil || s.Signer != "" {
		return nil
	}
	x, err := t.extents.get(t.client, topic)
	if err != nil {
		return fmt.Errorf("what there is of its topic cannot be asked for: %w", err)
	}
	cluster := strings.TrimSuffix(t.prefix, "/")
	for _, known := range []topicID{x.id, {}} { // by its id, or, with NameIdentity, by its name
		if partition, ok := partitionOf(s.Pos.Log, LogName(cluster, topic, known, 0)); ok {
			if e, there := x.ends[partition]; there && (e == silent || e.reaches(s.Pos.Offset, s.Pos.Epoch)) {
				return nil
			}
			return fmt.Errorf("topic %q has no such record (any more), and workers take its copy for another message: it can be replayed in place", topic)
		}
	}
	return fmt.Errorf("topic %q was created anew since, and workers take its copy for another message: it can be replayed in place", topic)
}

// reproduced is one letter on its way.
type reproduced struct {
	letter *replay.Letter
	record *kgo.Record
	lane   string // its key; empty: none
	result *replay.Result
}

// Send implements replay.Target. Of one key, one record at a time is under way: what the cluster refuses for a record's own
// sake must not be overtaken by the next of its key. All others go together, so that they share requests. Once ctx has
// ended, what waits behind others of its key is left after 10 s.
func (t *ReplayTarget) Send(ctx context.Context, letters []*replay.Letter) []replay.Result {
	results := make([]replay.Result, len(letters))
	all, waiting := make([]reproduced, len(letters)), make([]*reproduced, 0, len(letters))
	for i, l := range letters {
		p := &all[i]
		p.letter, p.result = l, &results[i]
		if l.Message.Key != nil {
			p.lane = "key " + l.Message.Source + "\x00" + string(l.Message.Key)
		}
		p.record, p.result.Err = SourceRecord(&l.DeadLetter)
		waiting = append(waiting, p)
	}
	failed := map[string]bool{}
	var ended time.Time // when ctx was first seen to have
	for len(waiting) > 0 {
		if ctx.Err() != nil && ended.IsZero() {
			ended = time.Now()
		}
		if !ended.IsZero() && time.Since(ended) > callTimeout {
			for _, p := range waiting {
				*p.result = replay.Result{Reason: replay.Behind}
			}
			break
		}
		var round []*reproduced
		round, waiting = firsts(waiting)
		t.produce(ctx, round)
		for _, p := range round {
			if p.lane != "" && p.result.Err != nil {
				failed[p.lane] = true
			}
		}
		waiting = slices.DeleteFunc(waiting, func(p *reproduced) bool {
			if failed[p.lane] {
				*p.result = replay.Result{Reason: replay.Behind}
			}
			return failed[p.lane]
		})
	}
	t.aged.note(ctx, t.client, letters, results)
	return results
}

// firsts takes the first of each key, and all that have none.
func firsts(waiting []*reproduced) (round, rest []*reproduced) {
	lanes := make(map[string]bool, len(waiting))
	round = make([]*reproduced, 0, len(waiting))
	for _, p := range waiting {
		if p.lane != "" {
			if lanes[p.lane] {
				rest = append(rest, p)
				continue
			}
			lanes[p.lane] = true
		}
		round = append(round, p)
	}
	return round, rest
}

// produce sends records together. What the cluster refuses then is sent alone: it may have been refused for another record's
// sake, or for the size of them all.
func (t *ReplayTarget) produce(ctx context.Context, round []*reproduced) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*callTimeout)
	defer cancel()
	records, of := make([]*kgo.Record, 0, len(round)), make(map[*kgo.Record]*reproduced, len(round))
	for _, p := range round {
		if p.result.Err == nil {
			records, of[p.record] = append(records, p.record), p
		}
	}
	for _, produced := range t.client.ProduceSync(ctx, records...) {
		p := of[produced.Record]
		if _, refused := errors.AsType[*kerr.Error](produced.Err); refused && len(records) > 1 {
			again, err := SourceRecord(&p.letter.DeadLetter)
			if produced.Err = err; err == nil {
				produced.Err = t.client.ProduceSync(ctx, again).FirstErr()
			}
		}
		*p.result = replay.Result{Outcome: replay.Sent}
		if produced.Err != nil {
			*p.result = replay.Result{Err: fmt.Errorf("kafka: message %q: %w", p.letter.Message.ID, produced.Err)}
		}
	}
}
