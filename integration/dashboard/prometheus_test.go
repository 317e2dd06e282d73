package dashboard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

const (
	scrapeInterval = 15 * time.Second // as in prometheus.yml
	// rateInterval is what Grafana puts for $__rate_interval when a panel's points are close: four scrapes (Grafana
	// documentation, "Prometheus template variables").
	rateInterval = 4 * scrapeInterval

	metricName = "__name__" // the label that has it
)

// monitor is a Prometheus: an engine, and the series that scrapes brought.
type monitor struct {
	engine *promql.Engine
	series map[string]promql.Series // by their labels
	now    time.Time                // of the last scrape
}

// newMonitor stores scrapes that were made in turn, scrapeInterval apart: each is what the targets answered.
func newMonitor(scrapes []map[string]string) (*monitor, error) {
	m := &monitor{series: map[string]promql.Series{}, now: time.Unix(1_800_000_000, 0),
		engine: promql.NewEngine(promql.EngineOpts{MaxSamples: 1_000_000, Timeout: time.Minute, EnableNegativeOffset: true, EnableAtModifier: true})}
	var present map[string]bool
	for _, targets := range scrapes {
		m.now = m.now.Add(scrapeInterval)
		before := present
		present = map[string]bool{}
		for target, text := range targets {
			if err := m.store(target, text, present); err != nil {
				return nil, fmt.Errorf("scrape of %s: %w", target, err)
			}
		}
		for key := range before {
			if !present[key] { // Prometheus marks what is scraped no more
				m.add(key, m.series[key].Metric, math.Float64frombits(value.StaleNaN))
			}
		}
	}
	return m, nil
}

// store keeps one answer of a target, and notes its series as present. Prometheus adds that the target is up.
func (m *monitor) store(target, text string, present map[string]bool) error {
	parser := textparse.NewPromParser([]byte(text+"\nup 1\n"), labels.NewSymbolTable(), false)
	for {
		entry, err := parser.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case entry != textparse.EntrySeries:
			continue
		}
		var scraped labels.Labels
		parser.Labels(&scraped)
		all := labels.NewBuilder(scraped).Set("job", "ackledger").Set("instance", target).Labels()
		_, _, v := parser.Series()
		key := all.String()
		if present[key] {
			return fmt.Errorf("%s is there twice", key)
		}
		present[key] = true
		m.add(key, all, v)
	}
}

func (m *monitor) add(key string, all labels.Labels, v float64) {
	s := m.series[key]
	s.Metric, s.Floats = all, append(s.Floats, promql.FPoint{T: m.now.UnixMilli(), F: v})
	m.series[key] = s
}

// names are those of the metrics that were scraped.
func (m *monitor) names() []string {
	found := map[string]bool{}
	for _, s := range m.series {
		found[s.Metric.Get(metricName)] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// query runs an expression at the time of the last scrape.
func (m *monitor) query(ctx context.Context, expr string) (promql.Vector, error) {
	return m.queryAt(ctx, expr, m.now)
}

// queryAt runs an expression at a time. What Prometheus has to remark about it is an error.
func (m *monitor) queryAt(ctx context.Context, expr string, at time.Time) (promql.Vector, error) {
	q, err := m.engine.NewInstantQuery(ctx, m, nil, expr, at)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	result := q.Exec(ctx)
	if result.Err != nil {
		return nil, result.Err
	}
	for _, remark := range result.Warnings {
		return nil, remark
	}
	vector, err := result.Vector()
	return slices.Clone(vector), err
}

// Querier implements storage.Queryable: the engine itself takes of a series what lies in the time that it asks about.
func (m *monitor) Querier(_, _ int64) (storage.Querier, error) { return querier{m}, nil }

type querier struct{ of *monitor }

func (q querier) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	set := &seriesSet{}
	for _, key := range slices.Sorted(maps.Keys(q.of.series)) {
		s := q.of.series[key]
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.Metric.Get(m.Name)) }) {
			set.left = append(set.left, s)
		}
	}
	slices.SortFunc(set.left, func(a, b promql.Series) int { return labels.Compare(a.Metric, b.Metric) })
	return set
}

var errNotAsked = errors.New("the engine asks for no names and values of labels")

func (querier) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, errNotAsked
}

func (querier) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, errNotAsked
}

func (querier) Close() error { return nil }

type seriesSet struct {
	at   promql.Series
	left []promql.Series
}

func (s *seriesSet) Next() bool {
	if len(s.left) == 0 {
		return false
	}
	s.at, s.left = s.left[0], s.left[1:]
	return true
}

func (s *seriesSet) At() storage.Series                { return promql.NewStorageSeries(s.at) }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }
