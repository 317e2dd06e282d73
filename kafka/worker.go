package kafka

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/internal/offsets"
	"github.com/ackledger/ackledger/ledger"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
)

// watchInterval is the time between two looks at the topics.
const watchInterval = 10 * time.Second

// Worker consumes the topics of one consumer group. Build it with [NewWorker].
type Worker struct {
	base
	watch time.Duration

	table   *table
	horizon *horizon // set by Run
	// owning is held while offsets are committed, and while a revoked partition is let go of: so a commit is never under
	// way for a partition that went to somebody else.
	owning  sync.Mutex
	pausing sync.Mutex
	poke    chan string // topics for the watcher to look at now, after an error that names them

	// Of base's lock.
	joined  bool               // the group has answered with an assignment, perhaps an empty one
	gone    error              // the last records that were gone before they were handled; nil: none
	batches int                // that were passed unread (LargeBatchPass)
	batch   error              // the last of them
	notes   map[place]string   // metadata of the offsets that were fetched last
	born    map[string]topicID // the topics' ids as they were seen last
	reborn  map[string]bool    // topics that were created anew while we ran
	astray  map[string]bool    // topics of which records were thrown away: see joinAfresh
	ours    string             // the ledger's id, as commits name it; empty: they name none
	given   map[place]bool     // what the group has given to this member, as the client tells it
}

var _ consumer.Worker = (*Worker)(nil)

// NewWorker builds a worker for the topics and the group that opts name (kgo.ConsumeTopics, kgo.ConsumerGroup). opts
// are the caller's: brokers, TLS, SASL, balancers, kgo.ServerSideBalancer for the KIP-848 protocol, kgo.InstanceID for
// static membership. The worker adds its own and refuses, by name, those that would break a promise: everything that
// commits, the callbacks, start and reset offsets, partitions and regular expressions. kgo.WithContext is replaced (the
// client lives as long as Run), and so is kgo.FetchIsolationLevel: what was not committed is never handled.
//
// A batch of records may unpack to twice what the ledger archives (Limits.Archive), and to 16 MiB at least: 128 MiB by default.
// kgo.MaxDecompressBatchBytes sets another limit; Config.LargeBatch says what happens to a batch over it.
//
// Nothing connects before [Worker.Run]. A nil Config is the default one.
func NewWorker(opts []kgo.Opt, l ledger.Ledger, h consumer.Handler, c *Config) (*Worker, error) {
	if engine.IsNil(l) {
		return nil, errors.New("kafka: NewWorker: the ledger must not be nil")
	}
	if err := engine.CheckHandler(h); err != nil {
		return nil, fmt.Errorf("kafka: NewWorker: %w", err)
	}
	cl, err := examine(opts)
	if err != nil {
		return nil, err
	}
	set, err := newSettings(c, cl)
	if err != nil {
		return nil, err
	}
	set.archive = l.Limits().Archive
	return &Worker{
		base: newBase(set, l, h), watch: watchInterval, table: &table{core: offsets.NewTable(set.Span, set.MaxHeld, set.MaxHeldBytes)},
		poke:  make(chan string, 16),
		notes: map[place]string{}, born: map[string]topicID{}, reborn: map[string]bool{}, astray: map[string]bool{},
		given: map[place]bool{},
	}, nil
}

// Finish implements engine.Sink.
func (w *Worker) Finish(done []engine.Finished) {
	for _, p := range w.table.finish(done) {
		w.applyPause(p)
		w.log.Debug("the partition is held no more", zap.String("topic", p.Topic), zap.Int32("partition", p.Partition))
	}
}

// applyPause makes the client's pause of a partition what the table says at this moment: two that change it at once
// both end with the truth.
func (w *Worker) applyPause(p place) {
	w.pausing.Lock()
	defer w.pausing.Unlock()
	parts := map[string][]int32{p.Topic: {p.Partition}}
	if w.table.full(p) {
		w.kgo.PauseFetchPartitions(parts)
	} else {
		w.kgo.ResumeFetchPartitions(parts)
	}
}

// spanLimit pauses a partition.
func (w *Worker) spanLimit(a *assignment) {
	w.applyPause(a.TopicPartition)
	oldest, _ := w.table.oldest(a)
	w.log.Warn("span limit: the partition pauses until its first unfinished record is done", zap.String("topic", a.Topic),
		zap.Int32("partition", a.Partition), zap.Int64("offset", oldest), zap.Int("span", w.set.Span))
}

// Pause implements consumer.Worker. The group membership lives on.
func (w *Worker) Pause() { w.setPaused(true) }

// Resume implements consumer.Worker.
func (w *Worker) Resume() { w.setPaused(false) }

// Health implements consumer.Worker: the engine's, with the partitions that are held and the trouble with the cluster.
func (w *Worker) Health() consumer.Health {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := consumer.Health{Alive: true}
	if w.eng != nil {
		h = w.eng.Health()
	}
	if err := cmp.Or(w.failed, w.trouble[withCluster], w.trouble[withGroup]); err != nil {
		h.Ready, h.LastError = false, err.Error()
	}
	if h.Ready && !w.joined {
		h.Ready, h.LastError = false, "the group has not let it in yet: after a crash that takes until the dead member's session ends"
	}
	h.Warnings = append(h.Warnings, w.warnings...)
	if w.gone != nil {
		h.Warnings = append(h.Warnings, w.gone.Error())
	}
	if w.batches > 0 {
		h.Warnings = append(h.Warnings, fmt.Sprintf("%d batches were passed and archived by their place alone, the last: %v", w.batches, w.batch))
	}
	h.Stalled = append(h.Stalled, w.table.stalls()...)
	return h
}

// goOn reports records that are gone and were not handled (ResetEarliest).
func (w *Worker) goOn(err error) {
	w.log.Error("records are gone that were not handled, going on", zap.Error(err))
	w.locked(func() { w.gone = err })
}

// lookAt asks the watcher to look at a topic now.
func (w *Worker) lookAt(topic string) {
	select {
	case w.poke <- topic:
	default: // it is busy with others, and looks at all of them in a while
	}
}

// readAgain has a partition's topic joined afresh, and takes nothing in meanwhile.
func (w *Worker) readAgain(a *assignment) {
	a.astray = true // of poll's goroutine
	w.joinAfresh(a.Topic)
}

// joinAfresh lets the watcher restart a topic of which records were thrown away, now or as soon as it may.
func (w *Worker) joinAfresh(topic string) {
	w.locked(func() { w.astray[topic] = true })
	w.lookAt(topic)
}
