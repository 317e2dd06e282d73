package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ackledger/ackledger/internal/engine"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

const (
	leaveTimeout = 5 * time.Second
	closeTimeout = 3 * time.Second // of the client's own last calls: it gives each kind of them a second
)

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
		Group: w.set.group, Retained: true, Shown: engine.Shown{Health: w.Health, Scopes: w.scopes(), Lag: w.table.most, Revive: revive, Pins: w.table.pins},
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
	if err := w.measureLag("ackledger.kafka.lag", "Offsets between the end of a partition and what is finished of it.", w.table.lags); err != nil {
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
func (w *base) closeClient() {
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

func (w *base) closeEngine(eng *engine.Engine) error {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if err := eng.Close(ctx); err != nil {
		return fmt.Errorf("kafka: %w", err)
	}
	return nil
}
