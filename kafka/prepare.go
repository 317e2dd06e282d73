package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/twmb/franz-go/pkg/kerr"
)

// topicGrace is how long a topic may be unknown when Run begins: brokers learn of a new topic one after the other.
const topicGrace = 5 * time.Second

// prepare learns what identities and windows are made of, and refuses what could break a promise. What can heal is tried
// again until ctx is done.
func (w *Worker) prepare(ctx context.Context) error { return w.untilPrepared(ctx, w.prepareOnce) }

func (w *Worker) prepareOnce(ctx context.Context) error {
	cluster, metas, err := w.identify(ctx)
	if err != nil {
		return err
	}
	w.locked(func() { w.seen(metas) })
	if err := w.learn(ctx, cluster); err != nil {
		return err
	}
	return w.checkLedger(ctx)
}

// untilPrepared asks the cluster what Run needs to know. What can heal is tried again until ctx is done.
func (w *base) untilPrepared(ctx context.Context, once func(context.Context) error) error {
	since := time.Now()
	for n := 1; ; n++ {
		err := once(ctx)
		if err == nil {
			w.note(withCluster, nil)
			return nil
		}
		again, isRetry := errors.AsType[*retryError](err)
		unknown := errors.Is(err, kerr.UnknownTopicOrPartition)
		if !isRetry || !heals(again.err) || isUntrusted(again.err) || unknown && time.Since(since) > topicGrace {
			return err
		}
		w.note(withCluster, err)
		delay := retryDelay(n)
		if unknown {
			delay = min(delay, topicGrace/10)
		}
		if !engine.Sleep(ctx, delay) {
			return context.Cause(ctx)
		}
	}
}

// identify asks for the cluster's id and the topics'.
func (w *base) identify(ctx context.Context) (cluster string, metas map[string]topicMeta, err error) {
	cluster, metas, err = w.metadata(ctx, w.kgo, w.set.topics)
	if err != nil {
		return "", nil, &retryError{err}
	}
	for _, topic := range w.set.topics {
		if err := metas[topic].err; errors.Is(err, kerr.UnknownTopicOrPartition) {
			return "", nil, &retryError{fmt.Errorf("topic %q does not exist: make it, with kafka-topics.sh --create or kadm's CreateTopic: %w", topic, err)}
		} else if err != nil {
			return "", nil, &retryError{fmt.Errorf("topic %q: %w", topic, err)}
		}
		if metas[topic].id == (topicID{}) && !w.set.NameIdentity {
			return "", nil, fmt.Errorf("kafka: topic %q: the cluster gives topics no id, by which a topic that was created anew is "+
				"recognised: Config.NameIdentity accepts that", topic)
		}
	}
	if cluster == "" {
		return "", nil, errors.New("kafka: the cluster has no id, which is part of each message's identity")
	}
	return cluster, metas, nil
}

// learn reads the topics' configurations, and where dead letters go.
func (w *base) learn(ctx context.Context, cluster string) error {
	topics, err := describe(ctx, w.adm, w.set.topics...)
	if err != nil {
		return &retryError{err}
	}
	for topic, l := range topics {
		if l.err != nil { // brokers learn of a new topic one after the other: the one that knew it may not have answered this
			return &retryError{fmt.Errorf("topic %q: %w", topic, l.err)}
		}
	}
	target, err := engine.TargetRetention(ctx, &w.set.Options)
	for topic, l := range topics {
		topics[topic] = l.behind(target, err)
	}
	if adopting := w.adopt(cluster, topics); adopting != nil {
		return adopting
	}
	if err != nil && !errors.Is(err, consumer.ErrUnbounded) {
		w.warn(fmt.Sprintf("how long dead letters stay where they go is not known, and not part of the window: %v", err))
	}
	return nil
}

// warn says what is to be seen in Health as long as the worker runs.
func (w *base) warn(text string) {
	w.log.Warn(text)
	w.locked(func() { w.warnings = append(w.warnings, text) })
}

// adopt checks the topics' limits against the settings and the ledger, and keeps what records are keyed with.
func (w *base) adopt(cluster string, topics map[string]limits) error {
	w.cluster, w.sources = cluster, make(map[string]topicSource, len(topics))
	archive := int64(w.set.archive)
	var warnings []string
	var longest time.Duration
	for _, topic := range w.set.topics {
		l := topics[topic]
		source, err := newTopicSource(w.set.group, cluster, topic)
		if err != nil {
			return err
		}
		window, warning, err := w.set.windowFor(topic, l)
		if err != nil {
			return err
		}
		if warning != "" {
			warnings = append(warnings, warning)
		}
		if l.maxBytes > archive {
			return fmt.Errorf("kafka: topic %q: max.message.bytes is %d, and the ledger archives at most %d bytes of a "+
				"failed message (Limits.Archive): it must hold the largest", topic, l.maxBytes, archive)
		}
		if l.maxBytes == 0 {
			warnings = append(warnings, fmt.Sprintf("topic %q: max.message.bytes cannot be read: of a message over %d bytes "+
				"that fails the body is not archived", topic, archive))
		}
		source.window, source.keeps = window, l.keeps
		w.sources[topic], longest = source, max(longest, window)
	}
	if err := w.adoptWindow(longest); err != nil {
		return err
	}
	w.locked(func() { w.warnings = warnings })
	return nil
}

// checkTarget refuses to dead-letter to a topic that the worker consumes.
func (w *base) checkTarget(ctx context.Context) error {
	names := make([]string, 0, len(w.sources))
	for _, s := range w.sources {
		names = append(names, s.name)
	}
	warning, err := engine.CheckTarget(ctx, &w.set.Options, names...)
	if err != nil {
		return fmt.Errorf("kafka: %w", err)
	}
	if warning != "" {
		w.warn(warning)
	}
	return nil
}

// adoptWindow sets the options that are bound to the window.
func (w *base) adoptWindow(window time.Duration) error {
	if w.set.givenKeep != 0 && w.set.givenKeep < window {
		return fmt.Errorf("kafka: Config.Keep: must be at least the window of %s, is %s", window, w.set.givenKeep)
	}
	w.set.Window = window
	if w.set.givenKeep == 0 {
		w.set.Keep = max(consumer.DefaultKeep, window)
	}
	return nil
}

// sourceName names all topics together, for logs and metrics of the engine.
func (w *base) sourceName() string { return w.cluster + "/" + strings.Join(w.set.topics, ",") }
