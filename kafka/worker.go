package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"
)

const (
	commitTimeout = 5 * time.Second // of one commit: it waits through a whole join of the group
	leaveTimeout  = 5 * time.Second
	closeTimeout  = 3 * time.Second  // of the client's own last calls: it gives each kind of them a second
	watchInterval = 10 * time.Second // between two looks at the topics
)

// Worker consumes the topics of one consumer group. Build it with [NewWorker].
type Worker struct {
	set     settings
	ledger  ledger.Ledger
	handler consumer.Handler
	log     *zap.Logger
	watch   time.Duration
	began   atomic.Bool

	// Set while Run prepares, before anything else runs.
	kgo     *kgo.Client
	adm     *kadm.Client
	cut     context.CancelFunc // ends the client's calls
	cluster string
	sources map[string]topicSource
	stop    context.CancelCauseFunc
	lag     metric.Registration

	table   *table
	horizon *horizon // set by Run
	// owning is held while offsets are committed, and while a revoked partition is let go of: so a commit is never under
	// way for a partition that went to somebody else.
	owning  sync.Mutex
	pausing sync.Mutex
	poke    chan string // topics for the watcher to look at now, after an error that names them

	mu       sync.Mutex
	eng      *engine.Engine // nil until Run has begun
	paused   bool           // wish for an engine that is not there yet
	joined   bool           // the group has answered with an assignment, perhaps an empty one
	failed   error          // why Run ends; nil: it does not
	trouble  [origins]error // why the worker is not well; nil: it is
	warnings []string
	gone     error              // the last records that were gone before they were handled; nil: none
	batches  int                // that were passed unread (LargeBatchPass)
	batch    error              // the last of them
	notes    map[place]string   // metadata of the offsets that were fetched last
	born     map[string]topicID // the topics' ids as they were seen last
	reborn   map[string]bool    // topics that were created anew while we ran
	astray   map[string]bool    // topics of which records were thrown away: see joinAfresh
	ours     string             // the ledger's id, as commits name it; empty: they name none
	given    map[place]bool     // what the group has given to this member, as the client tells it
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
		set: set, ledger: l, handler: h, watch: watchInterval, table: newTable(set.Span, set.MaxHeld, set.MaxHeldBytes),
		log:   set.Logger.With(zap.String("system", "kafka"), zap.String("consumer", set.group)),
		poke:  make(chan string, 16),
		notes: map[place]string{}, born: map[string]topicID{}, reborn: map[string]bool{}, astray: map[string]bool{},
		given: map[place]bool{},
	}, nil
}

// options are the client's: what the caller may change, the caller's, and what the promises rest on. life is the client's.
func (w *Worker) options(life context.Context) []kgo.Opt {
	reset := kgo.NoResetOffset()
	if w.set.Reset == ResetEarliest {
		reset = kgo.NewOffset().AtStart()
	}
	before := []kgo.Opt{
		kgo.WithLogger(clientLog{w.log}), kgo.MaxDecompressBatchBytes(unpackLimit(w.set.archive)),
		kgo.FetchMaxBytes(fetchLimit(w.set.MaxHeldBytes)),
	}
	after := []kgo.Opt{
		kgo.WithContext(life),
		kgo.ConsumeTopics(), // they are added once Run has seen that they may be consumed
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(w.assigned),
		kgo.OnPartitionsRevoked(w.revoked),
		kgo.OnPartitionsLost(w.lost),
		kgo.OnOffsetsFetched(w.fetched),
		kgo.AdjustFetchOffsetsFn(w.adjust),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.ConsumeResetOffset(reset),
		kgo.RebalanceTimeout(w.set.rebalance),
	}
	return slices.Concat(before, w.set.opts, after)
}

// Run consumes until ctx is cancelled. Then it polls no more, lets running handlers end (Options.Drain), commits what is
// finished, leaves the group, and returns nil, or an error that names what still ran. It leaves the ledger right after the
// drain, and waits some seconds for brokers that do not answer: then records come again, and the ledger knows them. It
// returns early with an error on what cannot heal: an unknown topic, a refused login, a ledger that cannot serve, offsets
// that the broker does not have ([ErrOutOfRange], [ErrDataLoss]). A worker runs once.
func (w *Worker) Run(ctx context.Context) error {
	if !w.began.CompareAndSwap(false, true) {
		return errors.New("kafka: Run: a worker runs once")
	}
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w.stop = cancel
	life, cut := context.WithCancel(context.Background())
	defer cut()
	client, err := kgo.NewClient(w.options(life)...)
	if err != nil {
		return fmt.Errorf("kafka: %w", err)
	}
	w.kgo, w.adm, w.cut = client, kadm.NewClient(client), cut
	w.horizon = newHorizon(w.log, func(ctx context.Context, topic string) (extent, error) { return extentOf(ctx, client, topic) })
	eng, err := w.begin(running)
	if err != nil {
		w.closeClient()
		if ctx.Err() != nil {
			return nil // nothing was begun that would have to be drained
		}
		return err
	}
	w.log.Info("consuming", zap.Strings("topics", w.set.topics), zap.String("cluster", w.cluster))
	var loops, commits sync.WaitGroup
	committing, endCommits := context.WithCancel(context.Background())
	defer endCommits()
	client.AddConsumeTopics(w.set.topics...)
	loops.Go(func() { w.pollLoop(running) })
	loops.Go(func() { w.watchLoop(running) })
	commits.Go(func() { w.commitLoop(committing) })
	<-running.Done()
	var failed error
	if ctx.Err() == nil {
		failed = fmt.Errorf("kafka: %w", context.Cause(running))
	}
	drained := eng.Drain(context.WithoutCancel(ctx))
	left := make(chan error, 1) // brokers that hang must not keep us from leaving: that would count as a crash
	go func() { left <- w.closeEngine(eng) }()
	loops.Wait()
	endCommits()
	commits.Wait()
	w.end()
	return errors.Join(failed, drained, <-left)
}

// begin prepares what Run needs and starts the engine.
func (w *Worker) begin(ctx context.Context) (*engine.Engine, error) {
	if err := w.prepare(ctx); err != nil {
		return nil, err
	}
	if err := w.checkTarget(ctx); err != nil {
		return nil, err
	}
	eng, err := engine.New(engine.Config{
		Options: w.set.Options, Ledger: w.ledger, Handler: w.handler, Sink: w, System: "kafka", Source: w.sourceName(),
		Group: w.set.group, Retained: true, Health: w.Health,
	})
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	w.mu.Lock()
	w.eng = eng
	if w.paused {
		eng.Pause()
	}
	w.mu.Unlock()
	if err := eng.Start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("kafka: %w", err), w.closeEngine(eng))
	}
	if err := w.measureLag(); err != nil {
		return nil, errors.Join(fmt.Errorf("kafka: %w", err), w.closeEngine(eng))
	}
	return eng, nil
}

// end commits for the last time, and leaves the group.
func (w *Worker) end() {
	w.commitAll(context.Background())
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	member, _ := w.kgo.GroupMetadata()
	w.kgo.AllowRebalance()
	err := w.kgo.LeaveGroupContext(ctx)
	if w.set.instance != "" && errors.Is(err, kerr.InvalidRequest) {
		err = w.leaveStatic(ctx, member)
	}
	if err != nil {
		w.log.Warn("left the group without its answer: its partitions wait for the session's end", zap.Error(err))
	}
	w.closeClient()
	_ = w.lag.Unregister() // an error means that it is gone already
}

// closeClient closes the client. What that still asks of a broker that hangs ends with the client's context: a connection
// that is being made has no nearer limit (it took 20 s).
func (w *Worker) closeClient() {
	defer time.AfterFunc(closeTimeout, w.cut).Stop()
	w.kgo.CloseAllowingRebalance()
}

// leaveStatic sends the leave of a static member of a KIP-848 group. franz-go 1.22.2 sends it without the instance id,
// which Kafka 4.3 refuses ("InstanceId can't be null"); the member that comes back would then wait for the session's end.
func (w *Worker) leaveStatic(ctx context.Context, member string) error {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.InstanceID = w.set.group, member, &w.set.instance
	req.MemberEpoch = -2 // gone for now: its partitions are kept for it
	resp, err := req.RequestWith(ctx, w.kgo)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.ErrorCode)
}

func (w *Worker) closeEngine(eng *engine.Engine) error {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if err := eng.Close(ctx); err != nil {
		return fmt.Errorf("kafka: %w", err)
	}
	return nil
}

// Finish implements engine.Sink.
func (w *Worker) Finish(done []engine.Finished) {
	for _, p := range w.table.finish(done) {
		w.applyPause(p)
		w.log.Debug("the partition is held no more", zap.String("topic", p.topic), zap.Int32("partition", p.partition))
	}
}

// applyPause makes the client's pause of a partition what the table says at this moment: two that change it at once
// both end with the truth.
func (w *Worker) applyPause(p place) {
	w.pausing.Lock()
	defer w.pausing.Unlock()
	parts := map[string][]int32{p.topic: {p.partition}}
	if w.table.full(p) {
		w.kgo.PauseFetchPartitions(parts)
	} else {
		w.kgo.ResumeFetchPartitions(parts)
	}
}

// Pause implements consumer.Worker. The group membership lives on.
func (w *Worker) Pause() { w.setPaused(true) }

// Resume implements consumer.Worker.
func (w *Worker) Resume() { w.setPaused(false) }

func (w *Worker) setPaused(paused bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paused = paused
	switch {
	case w.eng == nil:
	case paused:
		w.eng.Pause()
	default:
		w.eng.Resume()
	}
}

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
	h.Ready = h.Ready && w.joined
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

// fail ends Run with an error that nothing heals.
func (w *Worker) fail(err error) {
	w.mu.Lock()
	first := w.failed == nil
	if first {
		w.failed = err
	}
	w.mu.Unlock()
	if first {
		w.log.Error("cannot go on", zap.Error(err))
	}
	w.stop(err)
}

// origin is what trouble is with: what heals one says nothing of the other.
type origin uint8

const (
	withCluster origin = iota
	withGroup
	origins
)

// note keeps why the worker is not well, and says it once; nil: it is well again.
func (w *Worker) note(with origin, err error) {
	w.mu.Lock()
	was := w.trouble[with]
	w.trouble[with] = err
	failed := w.failed != nil
	w.mu.Unlock()
	switch {
	case failed:
	case err == nil && was != nil:
		w.log.Info("well again", zap.NamedError("after", was))
	case err != nil && (was == nil || was.Error() != err.Error()):
		w.log.Warn("trouble, trying again", zap.Error(err))
	}
}

// report is for an error of the cluster or the group: one that cannot heal ends Run.
func (w *Worker) report(with origin, err error) {
	if heals(err) {
		w.note(with, err)
		return
	}
	w.fail(err)
}
