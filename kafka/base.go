package kafka

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"
)

// base is what the workers of both kinds of groups have.
type base struct {
	set     settings
	ledger  ledger.Ledger
	handler consumer.Handler
	log     *zap.Logger
	began   atomic.Bool

	// Set while Run prepares, before anything else runs.
	kgo     *kgo.Client
	adm     *kadm.Client
	cut     context.CancelFunc // ends the client's calls
	cluster string
	sources map[string]topicSource
	lag     metric.Registration
	stop    context.CancelCauseFunc

	mu       sync.Mutex
	eng      *engine.Engine // nil until Run has begun
	paused   bool           // wish for an engine that is not there yet
	failed   error          // why Run ends; nil: it does not
	trouble  [origins]error // why the worker is not well; nil: it is
	warnings []string
}

func newBase(set settings, l ledger.Ledger, h consumer.Handler) base {
	return base{set: set, ledger: l, handler: h, log: set.Logger.With(zap.String("system", "kafka"), zap.String("consumer", set.group))}
}

func (w *base) setPaused(paused bool) {
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

// fail ends Run with an error that nothing heals.
func (w *base) fail(err error) {
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
func (w *base) note(with origin, err error) {
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
func (w *base) report(with origin, err error) {
	if heals(err) {
		w.note(with, err)
		return
	}
	w.fail(err)
}

// locked changes what others may be looking at.
func (w *base) locked(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}
