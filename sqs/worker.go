package sqs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/internal/visibility"
	"github.com/ackledger/ackledger/ledger"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"go.uber.org/zap"
)

const (
	callTimeout = 10 * time.Second      // of one request but a poll
	lastLimit   = 4 * time.Second       // of the last deletes and hand-backs, after the drain
	lastLook    = 10 * time.Millisecond // between two looks at whether they are done
	// visibilityLimit is how long a message is held in all: SQS's 12 hours, less what requests take.
	visibilityLimit = maxVisibility - 10*time.Second
)

// API is what a worker uses of an SQS client; *sqs.Client of aws-sdk-go-v2 implements it. The IAM actions are
// sqs:ReceiveMessage, sqs:DeleteMessage, sqs:ChangeMessageVisibility and sqs:GetQueueAttributes on the queue, and
// sqs:GetQueueUrl and sqs:GetQueueAttributes on its dead-letter queue (optional).
type API interface {
	ReceiveMessage(context.Context, *sqs.ReceiveMessageInput, ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error)
	DeleteMessageBatch(context.Context, *sqs.DeleteMessageBatchInput, ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error)
	ChangeMessageVisibilityBatch(context.Context, *sqs.ChangeMessageVisibilityBatchInput, ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityBatchOutput, error)
	GetQueueAttributes(context.Context, *sqs.GetQueueAttributesInput, ...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error)
	GetQueueUrl(context.Context, *sqs.GetQueueUrlInput, ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error)
}

var _ API = (*sqs.Client)(nil)

// Worker consumes one queue. Build it with [NewWorker].
type Worker struct {
	set     settings
	client  API
	url     string
	ledger  ledger.Ledger
	handler consumer.Handler
	log     *zap.Logger
	limit   time.Duration // visibilityLimit
	began   atomic.Bool
	isAlive func(*engine.Item) bool // alive, made once for all items

	// Set while Run prepares, before anything else runs.
	base  context.Context // values of Run's context, never cancelled by it
	stop  context.CancelCauseFunc
	queue *queue
	table *table
	polls *poller
	tel   *telemetry
	eng   *engine.Engine

	mu       sync.Mutex
	shown    *engine.Engine // eng, for who calls from outside
	paused   bool           // wish for an engine that is not there yet
	troubles map[string]error
	warnings []string
}

var _ consumer.Worker = (*Worker)(nil)

// NewWorker builds a worker for the queue at queueURL. The client is the caller's, with its region, credentials and
// endpoint, and may be shared. Nothing connects before [Worker.Run]. Config.Name is required.
func NewWorker(client API, queueURL string, l ledger.Ledger, h consumer.Handler, c *Config) (*Worker, error) {
	switch {
	case engine.IsNil(client):
		return nil, errors.New("sqs: NewWorker: the client must not be nil")
	case strings.TrimSpace(queueURL) == "":
		return nil, errors.New("sqs: NewWorker: the queue URL must not be empty")
	case engine.IsNil(l):
		return nil, errors.New("sqs: NewWorker: the ledger must not be nil")
	}
	if err := engine.CheckHandler(h); err != nil {
		return nil, fmt.Errorf("sqs: NewWorker: %w", err)
	}
	set, err := newSettings(c)
	if err != nil {
		return nil, err
	}
	w := &Worker{
		set: set, client: client, url: queueURL, ledger: l, handler: h, limit: visibilityLimit, troubles: map[string]error{},
		log: set.Logger.With(zap.String("system", "sqs"), zap.String("source", queueURL), zap.String("consumer", set.Name)),
	}
	w.isAlive = func(it *engine.Item) bool { return w.alive(it.Ref.(*hold)) }
	return w, nil
}

// Run consumes until ctx is cancelled. Then it polls no more, waits for open polls to end by themselves (up to
// Config.WaitTime), hands back what was not started, lets running handlers end (Options.Drain), sends the last deletes,
// and returns nil, or an error that names what still ran. It returns early with an error on what cannot heal: an unknown
// queue, a refused login or action, a ledger that cannot serve. A worker runs once.
func (w *Worker) Run(ctx context.Context) error {
	if !w.began.CompareAndSwap(false, true) {
		return errors.New("sqs: Run: a worker runs once")
	}
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w.stop, w.base = cancel, context.WithoutCancel(ctx)
	if err := w.begin(running); err != nil {
		if ctx.Err() != nil {
			return nil // nothing was begun that would have to be drained
		}
		return err
	}
	w.log.Info("consuming", zap.Bool("fifo", w.queue.fifo), zap.Duration("window", w.queue.window))
	var loops, polls sync.WaitGroup
	keeping, end := context.WithCancel(w.base)
	defer end()
	loops.Go(func() { w.keepLoop(keeping) })
	loops.Go(func() { w.deleteLoop(keeping) })
	polls.Go(func() { w.pollLoop(running) })
	<-running.Done()
	var failed error
	if ctx.Err() == nil {
		failed = fmt.Errorf("sqs: %w", context.Cause(running))
	}
	drained := w.drain(&polls)
	left := make(chan error, 1) // an SQS that hangs must not keep us from leaving: that would count as a crash
	go func() { left <- w.closeEngine() }()
	w.finishCalls()
	end()
	loops.Wait()
	return errors.Join(failed, drained, <-left)
}

// begin reads the queue and starts the engine.
func (w *Worker) begin(ctx context.Context) error {
	if err := w.learn(ctx); err != nil {
		return err
	}
	warning, err := engine.CheckTarget(ctx, &w.set.Options, w.queue.arn)
	if err != nil {
		return fmt.Errorf("sqs: %w", err)
	}
	if warning != "" {
		w.queue.warnings = append(w.queue.warnings, warning)
	}
	w.log = w.set.Logger.With(zap.String("system", "sqs"), zap.String("source", w.queue.arn), zap.String("consumer", w.set.Name))
	for _, text := range w.queue.warnings {
		w.log.Warn(text)
	}
	ahead := w.set.ClaimAhead
	if w.set.Park {
		ahead = 0
	}
	w.table = newTable(w.set.VisibilityTimeout, w.limit, w.queue.fifo)
	w.polls = newPoller(w.set.MaxPollers, ahead)
	if w.tel, err = newTelemetry(&w.set, w.queue.arn); err != nil {
		return fmt.Errorf("sqs: %w", err)
	}
	cfg := engine.Config{
		Options: w.set.Options, Ledger: w.ledger, Handler: w.handler, Sink: w, System: "sqs", Source: w.queue.arn,
		Shown: engine.Shown{Health: w.Health, Scopes: []string{w.queue.scope}, Revive: w.revive},
	}
	if !w.queue.fifo { // a group waits in place; to hand its head back would let the others overtake it
		cfg.HoldMax = holdMax
	}
	if w.eng, err = engine.New(cfg); err != nil {
		return fmt.Errorf("sqs: %w", err)
	}
	w.mu.Lock()
	w.shown, w.warnings = w.eng, w.queue.warnings
	if w.paused {
		w.eng.Pause()
	}
	w.mu.Unlock()
	if err := w.eng.Start(ctx); err != nil {
		return errors.Join(fmt.Errorf("sqs: %w", err), w.closeEngine())
	}
	return nil
}

// holdMax is the longest backoff for which a message of a standard queue is held; with a longer one it goes back, hidden
// for that time, and costs one more receive.
const holdMax = 15 * time.Minute

// drain ends polls and handlers side by side. What was not started goes back as soon as no poll of ours can meet it.
func (w *Worker) drain(polls *sync.WaitGroup) error {
	w.table.use((*visibility.Table).Drain)
	drained := make(chan error, 1)
	go func() { drained <- w.eng.Drain(w.base) }()
	polls.Wait()
	w.table.use((*visibility.Table).PollsOver)
	poke(w.table.toChange)
	if err := <-drained; err != nil {
		return fmt.Errorf("sqs: %w", err)
	}
	return nil
}

// finishCalls waits for the last deletes and hand-backs. What is not done in time is harmless: the messages come again,
// and the ledger knows them.
func (w *Worker) finishCalls() {
	look := time.NewTicker(lastLook)
	defer look.Stop()
	for deadline := time.Now().Add(lastLimit); ; <-look.C {
		deletes, returns := w.table.waiting()
		if deletes == 0 && returns == 0 {
			return
		}
		if time.Now().After(deadline) {
			w.log.Warn("stopped before all messages were deleted or handed back: they come again, and the ledger knows them",
				zap.Int("deletes", deletes), zap.Int("returns", returns))
			return
		}
	}
}

func (w *Worker) closeEngine() error {
	ctx, cancel := context.WithTimeout(w.base, callTimeout)
	defer cancel()
	if err := w.eng.Close(ctx); err != nil {
		return fmt.Errorf("sqs: %w", err)
	}
	return nil
}

// Finish implements engine.Sink.
func (w *Worker) Finish(done []engine.Finished) {
	now, acked, handsBack := w.table.now(), 0, false
	w.table.use(func(v *visibility.Table) {
		for _, f := range done {
			h := &f.Item.Ref.(*hold).Hold
			switch {
			case f.Verdict.Ack:
				v.Ack(h)
				acked++
			case f.Verdict.Held:
				v.Forget(h)
			default:
				handsBack = v.HandBack(h, f.Verdict.Again, now) || handsBack
			}
		}
	})
	if handsBack {
		poke(w.table.toChange)
	}
	w.polls.done(acked, time.Now())
}

// Pause implements consumer.Worker. What is in hand stays in hand, and hidden.
func (w *Worker) Pause() { w.setPaused(true) }

// Resume implements consumer.Worker.
func (w *Worker) Resume() { w.setPaused(false) }

func (w *Worker) setPaused(paused bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paused = paused
	switch {
	case w.shown == nil:
	case paused:
		w.shown.Pause()
	default:
		w.shown.Resume()
	}
}

// Health implements consumer.Worker: the engine's, with warnings about the queue and the trouble with SQS.
func (w *Worker) Health() consumer.Health {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := consumer.Health{Alive: true}
	if w.shown != nil {
		h = w.shown.Health()
	}
	for _, what := range []string{doLearn, doReceive} {
		if err := w.troubles[what]; err != nil {
			h.Ready, h.LastError = false, err.Error()
		}
	}
	h.Warnings = append(h.Warnings, w.warnings...)
	for _, what := range []string{doChange, doDelete} {
		if err := w.troubles[what]; err != nil {
			h.Warnings = append(h.Warnings, err.Error())
		}
	}
	return h
}

// What the worker asks of SQS, for logs. Trouble with the first two means that it is not ready.
const (
	doLearn   = "read the queue"
	doReceive = "receive"
	doChange  = "change visibility"
	doDelete  = "delete"
)

// trouble keeps that a kind of request fails, and says so once. What cannot heal ends Run, and is answered with true. Once the
// queue has been read that is only what the service itself says: what fails in the client, such as a body's checksum or a
// provider of credentials, has worked before.
func (w *Worker) trouble(what string, err error) (ends bool) {
	err = fmt.Errorf("%s: %w", what, err)
	w.mu.Lock()
	first := w.troubles[what] == nil
	w.troubles[what] = err
	w.mu.Unlock()
	ends = w.table != nil && kindOf(err).final() && isAnswer(err)
	switch {
	case ends:
		w.stop(err)
		if first {
			w.log.Error("cannot go on", zap.Error(err))
		}
	case first:
		w.log.Warn("trouble with SQS, trying again", zap.Error(err))
	}
	return ends
}

// well says that a kind of request works.
func (w *Worker) well(what string) {
	w.mu.Lock()
	was := w.troubles[what]
	delete(w.troubles, what)
	w.mu.Unlock()
	if was != nil {
		w.log.Info("well again", zap.NamedError("after", was))
	}
}
