package kafka

import (
	"context"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	"github.com/ackledger/ackledger/internal/engine"
)

// measureLag registers the lag of each partition that this member knows of.
func (w *base) measureLag(name, what string, lags func(tell func(place, int64))) error {
	m, _ := engine.Meter(&w.set.Options, "kafka", w.sourceName())
	lag, err := m.Int64ObservableGauge(name, metric.WithUnit("{record}"), metric.WithDescription(what))
	if err != nil {
		return err
	}
	w.lag, err = m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		lags(func(p place, n int64) {
			o.ObserveInt64(lag, n, metric.WithAttributes(
				attribute.String("messaging.system", "kafka"),
				attribute.String("messaging.destination.name", w.sources[p.Topic].name),
				attribute.Int64("messaging.destination.partition.id", int64(p.Partition)),
				attribute.String("messaging.consumer.group.name", w.set.group),
			))
		})
		return nil
	}, lag)
	return err
}

// scopes are those of the worker's topics, sorted.
func (w *base) scopes() (all []string) {
	for _, s := range w.sources {
		all = append(all, s.scope)
	}
	slices.Sort(all)
	return all
}

// clientLog hands the client's warnings and errors to zap. They name brokers, topics and offsets, never a body.
type clientLog struct{ *zap.Logger }

// Level implements kgo.Logger.
func (clientLog) Level() kgo.LogLevel { return kgo.LogLevelWarn }

// beforeFirst begins what kgo says where a commit is answered before the first poll of a session, as the commit that gives a new
// group its start is. The worker reads the answers of its commits itself.
const beforeFirst = "received an OffsetCommitResponse after our group session has ended"

// Log implements kgo.Logger.
func (l clientLog) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	if strings.HasPrefix(msg, beforeFirst) {
		return
	}
	fields := make([]zap.Field, 0, len(keyvals)/2)
	for i := 0; i+1 < len(keyvals); i += 2 {
		key, _ := keyvals[i].(string)
		fields = append(fields, zap.Any(key, keyvals[i+1]))
	}
	if level == kgo.LogLevelError {
		l.Error(msg, fields...)
	} else {
		l.Warn(msg, fields...)
	}
}
