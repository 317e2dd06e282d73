package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/internal/locks"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
)

// options are the client's.
func (w *ShareWorker) options(life context.Context) []kgo.Opt {
	before := []kgo.Opt{
		kgo.WithLogger(clientLog{w.log}), kgo.MaxDecompressBatchBytes(unpackLimit(w.set.archive)),
		kgo.FetchMaxBytes(fetchLimit(w.set.MaxHeldBytes)),
	}
	after := []kgo.Opt{
		kgo.WithContext(life),
		kgo.ConsumeTopics(), // they are added once Run has seen that they may be consumed
		kgo.FetchMaxWait(shareFetchWait),
		kgo.MaxConcurrentFetches(0), // nothing is fetched ahead: it would be locked
		kgo.ShareAckCallback(w.acknowledged),
		kgo.WithHooks(hider{w.locks}),
	}
	return slices.Concat(before, w.set.opts, after)
}

// Run consumes until ctx is cancelled. Then it polls no more, releases what was not started, lets running handlers end
// (Options.Drain), sends the last acknowledgements, leaves the group, and returns nil, or an error that names what still ran. It
// returns early with an error on what cannot heal: an unknown topic, a refused login, settings of the group that would lose a record,
// a ledger that cannot serve. A worker runs once.
//
// If a record of which the broker has made its last delivery could not be decided, because the ledger did not answer, Run returns
// [ErrDeliveryLimit], which names it: the record is in the log, and the group gets it no more.
func (w *ShareWorker) Run(ctx context.Context) error {
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
	w.log.Info("consuming", zap.Strings("topics", w.set.topics), zap.String("cluster", w.cluster), zap.Bool("share", true))
	var loops, polls sync.WaitGroup
	keeping, endKeeping := context.WithCancel(context.Background())
	defer endKeeping()
	client.AddConsumeTopics(w.set.topics...)
	polls.Go(func() { w.pollLoop(running) })
	loops.Go(func() { w.watchLoop(running) })
	loops.Go(func() { w.keepLoop(keeping) })
	<-running.Done()
	var failed error
	if ctx.Err() == nil {
		failed = fmt.Errorf("kafka: %w", context.Cause(running))
	}
	w.locks.use((*locks.Table).Drain)
	nothing := make(chan struct{})
	over := w.afterPolls(&polls, nothing)
	drained := eng.Drain(context.WithoutCancel(ctx))
	if w.locks.returning() == 0 {
		close(nothing)
	}
	left := make(chan error, 1) // brokers that hang must not keep us from leaving: that would count as a crash
	go func() { left <- w.closeEngine(eng) }()
	<-over
	lost := w.finish(func() { endKeeping(); loops.Wait() })
	return errors.Join(failed, drained, <-left, lost)
}

// begin prepares what Run needs and starts the engine.
func (w *ShareWorker) begin(ctx context.Context) (*engine.Engine, error) {
	since := time.Now()
	err := w.untilPrepared(ctx, func(ctx context.Context) error { return w.prepareOnce(ctx, time.Since(since) < topicGrace) })
	if err != nil {
		return nil, err
	}
	if err := w.checkTarget(ctx); err != nil {
		return nil, err
	}
	eng, err := engine.New(engine.Config{
		Options: w.set.Options, Ledger: w.ledger, Handler: w.handler, Sink: w, System: "kafka", Source: w.sourceName(),
		Group: w.set.group, Retained: true, Shown: engine.Shown{Health: w.Health, Scopes: w.scopes(), Revive: revive},
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
	err = w.measureLag("ackledger.kafka.share.lag", "Records of a partition that the share group has not decided.", w.lags.lags)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("kafka: %w", err), w.closeEngine(eng))
	}
	return eng, nil
}

// prepareOnce is a try of prepare. soon: brokers learn of settings, as of topics, one after the other, and after they have begun.
func (w *ShareWorker) prepareOnce(ctx context.Context, soon bool) error {
	cluster, metas, err := w.identify(ctx)
	if err != nil {
		return err
	}
	if err := checkShareVersion(ctx, w.kgo); err != nil {
		return err
	}
	t, err := askTerms(ctx, w.kgo, w.set.group)
	if err != nil {
		return err
	}
	warnings, err := t.check(&w.set, w.config.AllowUncommitted)
	if err != nil && soon {
		return &retryError{err}
	}
	if err != nil {
		return err
	}
	if err := w.learn(ctx, cluster); err != nil {
		return err
	}
	for _, text := range warnings {
		w.warn(text)
	}
	w.ids = make(map[string]topicID, len(metas))
	for topic, m := range metas {
		w.ids[topic] = m.id
	}
	w.heed(t)
	return nil
}

// afterPolls tells the table when no fetch of ours is open any more: what is released then comes to another member. It need not wait once
// there is nothing to release.
func (w *ShareWorker) afterPolls(polls *sync.WaitGroup, nothing <-chan struct{}) <-chan struct{} {
	over := make(chan struct{})
	go func() {
		defer close(over)
		polls.Wait()
		select {
		case <-time.After(2 * shareFetchWait): // a fetch that a poll has left behind
		case <-nothing:
		}
		w.locks.use((*locks.Table).PollsOver)
		w.release()
	}()
	return over
}

const lastAcks = 4 * time.Second // for the last acknowledgements, after the drain

// finish sends the last acknowledgements, and leaves the group. It returns which records the group gets no more.
func (w *ShareWorker) finish(endLoops func()) error {
	deadline := time.Now().Add(lastAcks)
	for w.locks.deciding() > 0 && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond) // a look at whether renewals have ended
	}
	endLoops()
	w.release()
	ctx, cancel := context.WithDeadline(context.Background(), deadline.Add(time.Second))
	defer cancel()
	if err := w.kgo.FlushAcks(ctx); err != nil {
		w.log.Warn("stopped before all acknowledgements were answered: what they are of comes again, and the ledger knows it", zap.Error(err))
	}
	lost := w.locks.lost()
	if err := w.kgo.LeaveGroupContext(ctx); err != nil {
		w.log.Warn("left the share group without its answer: its locks end by themselves", zap.Error(err))
	}
	w.closeClient()
	_ = w.lag.Unregister() // an error means that it is gone already
	if len(lost) == 0 {
		return nil
	}
	err := fmt.Errorf("kafka: %w: %d records were not decided at their last delivery, such as %s: they are in the log, and the group gets them no more",
		ErrDeliveryLimit, len(lost), strings.Join(lost[:min(len(lost), 10)], ", "))
	w.log.Error("records were not decided", zap.Error(err))
	return err
}

// Finish implements engine.Sink.
func (w *ShareWorker) Finish(done []engine.Finished) { w.accept(w.locks.finish(done)) }

// watchLoop reads the group's lag and settings now and then. They may be altered while it runs. What is said twice in a row counts: a broker
// that has just begun may say Kafka's defaults, and with their limit of deliveries records would be archived unhandled.
func (w *ShareWorker) watchLoop(ctx context.Context) {
	var last terms
	for engine.Sleep(ctx, w.watch) {
		w.lags.ask(ctx, w.adm, w.set.group, w.ids)
		t, err := askTerms(ctx, w.kgo, w.set.group)
		if err != nil {
			if ctx.Err() == nil {
				w.note(withCluster, err)
			}
			continue
		}
		w.note(withCluster, nil)
		if t != last {
			last = t
			continue
		}
		_, short := t.check(&w.set, true)
		w.locked(func() { w.short, short = short, w.short })
		if w.heed(t); short == nil && w.isShort() {
			w.log.Error("the share group's settings were altered, and would be refused now", zap.Error(w.short))
		}
	}
}
