package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/ackledger/ackledger/internal/engine"
)

// assigned is called by the client before the offsets of new partitions are fetched. The assignments begin in adjust,
// right before the partitions are read.
func (w *Worker) assigned(_ context.Context, cl *kgo.Client, parts map[string][]int32) {
	cl.ResumeFetchPartitions(parts) // a pause of an earlier assignment would outlive it
	w.mu.Lock()
	w.joined = true
	for at := range places(parts) {
		w.given[at] = true
	}
	w.mu.Unlock()
	w.note(withGroup, nil)
	if len(parts) > 0 {
		w.log.Info("partitions assigned", zap.Any("partitions", parts))
	}
}

// revoked is called by the client when partitions go to other members, or at the end; polls wait for it. First nothing
// more is taken in, then what was not started is released and what runs may end, then the finished prefix is committed,
// and from there on nothing moves these partitions' offsets.
func (w *Worker) revoked(_ context.Context, cl *kgo.Client, parts map[string][]int32) {
	list := w.table.close(within(parts))
	if len(list) > 0 {
		began := time.Now()
		w.eng.Drop(of(list...), w.set.RevokeDrain)
		w.commitAndDiscard(context.Background(), list, w.set.RevokeDrain+settleTime)
		w.log.Info("partitions revoked", zap.Any("partitions", parts), zap.Duration("drained_for", time.Since(began)))
	}
	w.taken(parts)
	cl.ResumeFetchPartitions(parts)
}

// lost is called by the client when the group has given the partitions to others already, or may have: nothing is
// committed. Handlers may end, nobody waits for them here.
func (w *Worker) lost(_ context.Context, cl *kgo.Client, parts map[string][]int32) {
	w.abandon(within(parts))
	w.taken(parts)
	cl.ResumeFetchPartitions(parts)
	w.locked(func() { w.joined = false })
	w.log.Warn("partitions lost", zap.Any("partitions", parts))
}

// abandon lets go of assignments without a commit. One that is under way ends first.
func (w *Worker) abandon(match func(*assignment) bool) {
	list := w.table.close(match)
	if len(list) == 0 {
		return
	}
	w.owning.Lock()
	w.table.discard(list)
	w.owning.Unlock()
	w.eng.Drop(of(list...), w.set.RevokeDrain)
}

// taken notes that the group has these partitions no more from this member.
func (w *Worker) taken(parts map[string][]int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for at := range places(parts) {
		delete(w.given, at)
	}
}

// keepGiven removes the partitions that this member does not have.
func (w *Worker) keepGiven(offsets map[string]map[int32]kgo.Offset) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for topic, parts := range offsets {
		maps.DeleteFunc(parts, func(p int32, _ kgo.Offset) bool { return !w.given[place{Topic: topic, Partition: p}] })
		if len(parts) == 0 {
			delete(offsets, topic)
		}
	}
}

// has says whether the group has given partitions of a topic to this member.
func (w *Worker) has(topic string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for at := range w.given {
		if at.Topic == topic {
			return true
		}
	}
	return false
}

func within(parts map[string][]int32) func(*assignment) bool {
	set := places(parts)
	return func(a *assignment) bool { return set[a.TopicPartition] }
}

func places(parts map[string][]int32) map[place]bool {
	set := map[place]bool{}
	for topic, list := range parts {
		for _, p := range list {
			set[place{Topic: topic, Partition: p}] = true
		}
	}
	return set
}

// fetched is called by the client with the group's offsets, right before adjust: it keeps their metadata.
func (w *Worker) fetched(_ context.Context, _ *kgo.Client, resp *kmsg.OffsetFetchResponse) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.notes)
	for i := range resp.Groups {
		for j := range resp.Groups[i].Topics {
			t := &resp.Groups[i].Topics[j]
			for _, p := range t.Partitions {
				if p.Metadata != nil {
					w.notes[place{Topic: t.Topic, Partition: p.Partition}] = *p.Metadata
				}
			}
		}
	}
	return nil
}

// adjust is called by the client right before partitions are read: it decides where, commits the position of what had
// none, and begins the assignments. What the group has taken away meanwhile is not read (kgo 1.22.2 fetches the offsets of
// a topic once more that was purged during a fetch of them, in a classic group, and would read beside its new owner).
func (w *Worker) adjust(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	if w.keepGiven(offsets); len(offsets) == 0 {
		return nil, nil
	}
	for n := 1; ; n++ {
		list, err := w.assign(ctx, offsets)
		if err == nil {
			w.install(list, offsets)
			w.note(withGroup, nil)
			return offsets, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		w.report(withGroup, err)
		if !heals(err) || n == adjustTries || !engine.Sleep(ctx, retryDelay(n)) {
			return nil, err
		}
	}
}

// fresh is an assignment to be, and where the client is to read.
type fresh struct {
	*assignment
	from   kgo.Offset
	signed bool // its commit is like one of ours: see isSigned
}

// assign decides where each partition begins, and commits that where nothing is committed, or nothing that names our ledger.
func (w *Worker) assign(ctx context.Context, offsets map[string]map[int32]kgo.Offset) ([]fresh, error) {
	s, err := w.survey(ctx, offsets)
	if err != nil {
		return nil, err
	}
	var list []fresh
	var first []point
	for topic, parts := range offsets {
		for partition, offset := range parts {
			f, err := w.beginOne(ctx, s, place{Topic: topic, Partition: partition}, offset)
			if err != nil {
				return nil, err
			}
			if !f.signed { // what is not committed is not, either
				first = append(first, point{place: f.TopicPartition, id: f.id, offset: f.Start, epoch: f.Epoch, of: f.assignment})
			}
			list = append(list, f)
		}
	}
	return list, w.sign(ctx, append(first, s.others...))
}

// maxSession is how long a member may be silent and stay in its group, at most: brokers' group.max.session.timeout.ms is
// 30 minutes by default. Of the members with StartLatest that begin in one generation, one that is slow between its look and
// its commit puts the end that it saw over the position of another one (see newcomers), until then; so each repeats its own,
// one small request an interval. After that the group takes no commit from there any more.
const maxSession = 30 * time.Minute

// beginOne decides where one partition begins.
func (w *Worker) beginOne(ctx context.Context, s *survey, at place, offset kgo.Offset) (fresh, error) {
	id := s.metas[at.Topic].id
	a := newAssignment(at, id, LogName(w.cluster, at.Topic, id, at.Partition))
	a.source, a.horizon = w.sources[at.Topic], w.horizon
	if w.set.Start == StartLatest {
		a.Unsure = time.Now().Add(maxSession)
	}
	low, _ := s.starts.Lookup(at.Topic, at.Partition)
	if low.Err != nil {
		return fresh{}, fmt.Errorf("start of topic %q partition %d: %w", at.Topic, at.Partition, low.Err)
	}
	stored := s.committed(at, offset)
	if err := w.checkNote(ctx, at, stored.note); err != nil {
		return fresh{}, err
	}
	where := whereToBegin(stored.offset, stored.note, w.cluster, id, s.known[at.Topic])
	if where == atStartOption && w.set.Start == StartLatest {
		high, ok := s.ends.Lookup(at.Topic, at.Partition)
		if !ok {
			high.Err = errors.New("the broker does not list it")
		}
		if high.Err != nil {
			return fresh{}, fmt.Errorf("end of topic %q partition %d: %w", at.Topic, at.Partition, high.Err)
		}
		a.Start, a.Epoch = high.Offset, high.LeaderEpoch // without the epoch a loss below would go unnoticed
		return fresh{assignment: a, from: kgo.NewOffset().At(a.Start).WithEpoch(a.Epoch)}, nil
	}
	if where == atCommit && stored.offset < low.Offset {
		err := fmt.Errorf("topic %q partition %d: %w: committed %d, the log begins at %d", at.Topic, at.Partition, ErrOutOfRange, stored.offset, low.Offset)
		if w.set.Reset == ResetFail {
			return fresh{}, err
		}
		w.goOn(err)
		where = atLogStart
	}
	if where != atCommit {
		a.Start = low.Offset
		return fresh{assignment: a, from: kgo.NewOffset().AtStart()}, nil
	}
	a.Start, a.Epoch, a.Committed = stored.offset, stored.epoch, stored.offset
	return fresh{a, kgo.NewOffset().At(stored.offset).WithEpoch(stored.epoch), isSigned(stored.note, w.signature(), w.cluster)}, nil
}

// install begins the assignments and tells the client where to read. A partition that the client reads already, because it
// was assigned twice and not revoked in between, is joined afresh: a fetch may be under way, whose records would be taken
// for the old assignment's and whose end for the place to read on from (kgo 1.22.2 does so with a topic that is purged and
// added, if the group is quicker than the metadata).
func (w *Worker) install(list []fresh, offsets map[string]map[int32]kgo.Offset) {
	for _, f := range list {
		offsets[f.Topic][f.Partition] = f.from
		f.astray = w.table.get(f.TopicPartition) != nil
		if old := w.table.install(f.assignment); old != nil {
			w.eng.Drop(of(old), w.set.RevokeDrain)
		}
		if f.astray {
			w.log.Warn("partition was assigned twice: its topic is joined afresh", zap.String("topic", f.Topic), zap.Int32("partition", f.Partition))
			w.joinAfresh(f.Topic)
		}
		w.log.Debug("partition begins", zap.String("topic", f.Topic), zap.Int32("partition", f.Partition), zap.Int64("offset", f.Start))
	}
}

// survey is what the cluster says of partitions that are about to be read.
type survey struct {
	metas  map[string]topicMeta
	starts kadm.ListedOffsets
	ends   kadm.ListedOffsets // with StartLatest and partitions that have no commit
	notes  map[place]string
	group  kadm.OffsetResponses // likewise
	known  map[string]bool      // topics of which the group has a commit of ours
	others []point              // positions of partitions that nobody has committed, see newcomers
}

// stored is a committed offset; negative: none.
type stored struct {
	offset int64
	epoch  int32
	note   string
}

// committed returns the group's offset of a partition, as the client or, later, the survey has fetched it.
func (s *survey) committed(at place, offset kgo.Offset) stored {
	if eo := offset.EpochOffset(); eo.Offset >= 0 {
		return stored{offset: eo.Offset, epoch: eo.Epoch, note: s.notes[at]}
	}
	if r, ok := s.group.Lookup(at.Topic, at.Partition); ok && r.At >= 0 {
		return stored{offset: r.At, epoch: r.LeaderEpoch, note: r.Metadata}
	}
	return stored{offset: -1, epoch: -1}
}

func (w *Worker) survey(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (*survey, error) {
	var topics, newcomers []string
	for topic, parts := range offsets {
		topics = append(topics, topic)
		for _, o := range parts {
			if o.EpochOffset().Offset < 0 {
				newcomers = append(newcomers, topic)
				break
			}
		}
	}
	s := &survey{}
	_, metas, err := w.metadata(ctx, w.kgo, topics)
	if err != nil {
		return nil, err
	}
	for topic, m := range metas {
		if m.err != nil {
			return nil, fmt.Errorf("topic %q: %w", topic, m.err)
		}
	}
	s.metas = metas
	s.notes, s.known = w.remembered(metas)
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if s.starts, err = w.adm.ListStartOffsets(ctx, topics...); err != nil {
		return nil, fmt.Errorf("list where the topics begin: %w", err)
	}
	if w.set.Start == StartLatest && len(newcomers) > 0 {
		return s, w.newcomers(ctx, s, newcomers)
	}
	return s, nil
}

// newcomers looks at topics with partitions that have no commit, for StartLatest. If the group has never committed an
// offset of a topic, the whole topic's ends are committed, whoever owns its partitions: so another member that starts at
// the same time does not take its own for added later, and a crash before its first commit skips nothing.
func (w *Worker) newcomers(ctx context.Context, s *survey, topics []string) (err error) {
	if s.group, err = w.adm.FetchOffsets(ctx, w.set.group); err != nil {
		return fmt.Errorf("fetch the group's offsets: %w", err)
	}
	if s.ends, err = w.adm.ListEndOffsets(ctx, topics...); err != nil {
		return fmt.Errorf("list where the topics end: %w", err)
	}
	for _, topic := range topics {
		none := !s.known[topic]
		for _, r := range s.group[topic] {
			if r.At >= 0 {
				none = false
				s.known[topic] = s.known[topic] || isOurs(r.Metadata)
			}
		}
		if !none {
			continue
		}
		for partition, end := range s.ends[topic] {
			if end.Err == nil && partition >= 0 {
				s.others = append(s.others, point{place: place{Topic: topic, Partition: partition}, id: s.metas[topic].id, offset: end.Offset, epoch: end.LeaderEpoch})
			}
		}
	}
	return nil
}
