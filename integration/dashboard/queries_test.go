package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

// board is what is read of the dashboard's JSON.
type board struct {
	Templating struct {
		List []variable
	}
	Panels []panel
}

type variable struct {
	Name, Type, AllValue string
	Query                json.RawMessage
}

type panel struct {
	Title   string
	Targets []target
}

type target struct{ Expr, LegendFormat string }

func readBoard(t *testing.T) (b *board) {
	t.Helper()
	text, err := os.ReadFile("../../examples/metrics/dashboard.json")
	if err == nil {
		err = json.Unmarshal(text, &b)
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Panels) < 20 || len(b.Templating.List) < 2 {
		t.Fatalf("the dashboard was not read: %+v", b)
	}
	return b
}

var (
	legendLabel = regexp.MustCompile(`{{\s*([a-zA-Z_]+)\s*}}`)
	labelValues = regexp.MustCompile(`^label_values\(([a-z_]+), ([a-z_]+)\)$`)
)

// viewer looks at a dashboard as Grafana does.
type viewer struct {
	context.Context
	monitor *monitor
	values  map[string]string // of the variables
	quiet   bool              // what counts events need not have grown
	used    map[string]bool   // the metrics that queries selected
}

// problems says what is wrong with the dashboard when it is shown with "All", and with everything that can be chosen.
// With quiet, counters need not have grown. Only queries of metrics with the prefix are run.
func (b *board) problems(ctx context.Context, m *monitor, prefix string, quiet bool) (problems []string) {
	all := &viewer{ctx, m, map[string]string{"__rate_interval": rateInterval.String()}, quiet, map[string]bool{}}
	chosen := &viewer{ctx, m, map[string]string{"__rate_interval": rateInterval.String()}, quiet, map[string]bool{}}
	for _, v := range b.Templating.List {
		if v.Type != "query" {
			continue
		}
		values, err := all.choices(v)
		if err != nil {
			problems = append(problems, fmt.Sprintf("variable %s: %v", v.Name, err))
		}
		all.values[v.Name], chosen.values[v.Name] = v.AllValue, oneOf(values)
	}
	for _, look := range []*viewer{all, chosen} {
		for _, p := range b.Panels {
			for _, q := range p.Targets {
				if !strings.Contains(q.Expr, prefix) {
					continue
				}
				if err := look.check(q); err != nil {
					problems = append(problems, fmt.Sprintf("panel %s: %s: %v", p.Title, q.Expr, err))
				}
			}
		}
	}
	for _, name := range m.names() {
		if strings.HasPrefix(name, prefix) && !all.shown(name) {
			problems = append(problems, name+" is on no panel")
		}
	}
	return problems
}

// shown says whether a query selected the metric: of a histogram's series, one is enough.
func (v *viewer) shown(name string) bool {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(name, suffix); ok && (v.used[base+"_bucket"] || v.used[base+"_count"]) {
			return true
		}
	}
	return v.used[name]
}

// choices are the values of a variable.
func (v *viewer) choices(of variable) (values []string, err error) {
	var q struct{ Query string }
	if err := json.Unmarshal(of.Query, &q); err != nil {
		return nil, err
	}
	words := labelValues.FindStringSubmatch(q.Query)
	if words == nil {
		return nil, fmt.Errorf("%q is not label_values(metric, label)", q.Query)
	}
	found, err := v.monitor.query(v, "group by ("+words[2]+") ("+words[1]+")")
	for _, s := range found {
		if value := s.Metric.Get(words[2]); value != "" {
			values = append(values, value)
		}
	}
	if err == nil && len(values) == 0 {
		err = errors.New("there is nothing to choose")
	}
	return values, err
}

// oneOf is what Grafana puts for a variable of which all these values were chosen, inside a string of PromQL.
func oneOf(values []string) string {
	quoted := make([]string, len(values))
	for i, value := range values {
		quoted[i] = strings.ReplaceAll(regexp.QuoteMeta(value), `\`, `\\`)
	}
	return "(" + strings.Join(quoted, "|") + ")"
}

// fill puts the variables' values into an expression.
func (v *viewer) fill(expr string) (filled string, err error) {
	filled = os.Expand(expr, func(name string) string {
		value, ok := v.values[name]
		if !ok {
			err = fmt.Errorf("there is no variable %s", name)
		}
		return value
	})
	return filled, err
}

// check runs a query, and says what is wrong with its result.
func (v *viewer) check(q target) error {
	filled, err := v.fill(q.Expr)
	if err != nil {
		return err
	}
	expr, err := parser.ParseExpr(filled)
	if err != nil {
		return err
	}
	events := false // it shows how many events there were
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch node := node.(type) {
		case *parser.VectorSelector:
			v.used[node.Name] = true
		case *parser.Call:
			events = events || node.Func.Name == "rate"
		case *parser.AggregateExpr:
			if err == nil {
				err = v.grouped(node)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	result, err := v.monitor.query(v, filled)
	if err != nil {
		return err
	}
	if len(result) == 0 {
		return errors.New("no series")
	}
	if !slices.ContainsFunc(result, func(s promql.Sample) bool {
		return v.quiet || !math.IsNaN(s.F) && !math.IsInf(s.F, 0) && (s.F > 0 || !events)
	}) {
		return fmt.Errorf("nothing to see: %v", result)
	}
	for _, label := range legendLabel.FindAllStringSubmatch(q.LegendFormat, -1) {
		if err := have(result, label[1]); err != nil {
			return fmt.Errorf("the legend: %w", err)
		}
	}
	return nil
}

// grouped says whether what an aggregation groups has the labels by which it does: PromQL does not mind if not.
func (v *viewer) grouped(a *parser.AggregateExpr) error {
	inner, err := v.monitor.query(v, a.Expr.String())
	for _, label := range a.Grouping {
		if err == nil {
			err = have(inner, label)
		}
	}
	return err
}

func have(result promql.Vector, label string) error {
	for _, s := range result {
		if !s.Metric.Has(label) {
			return fmt.Errorf("a series has no label %s: %s", label, s.Metric.DropReserved(func(n string) bool { return n == metricName }))
		}
	}
	return nil
}

// A test that lets every query pass would prove nothing of the dashboard.
func TestQueriesThatShowNothingAreRefused(t *testing.T) {
	t.Parallel()
	scrape := func(n string) map[string]string {
		return map[string]string{"a": `# TYPE jobs_total counter
jobs_total{queue="a.b",kind="x"} ` + n + `
jobs_total{queue="b"} 1
idle_total 3
# TYPE depth gauge
depth{queue="a.b"} 1
# TYPE took histogram
took_bucket{le="1"} ` + n + `
took_bucket{le="+Inf"} ` + n + `
took_count ` + n + `
took_sum ` + n + "\n"}
	}
	m, err := newMonitor([]map[string]string{scrape("1"), scrape("2"), {"a": scrape("4")["a"] + "late_total 1\n"}})
	if err != nil {
		t.Fatal(err)
	}
	v := &viewer{Context: t.Context(), monitor: m, used: map[string]bool{},
		values: map[string]string{"queue": oneOf([]string{"a.b", "b"}), "__rate_interval": rateInterval.String()}}
	for _, c := range []struct{ expr, legend, want string }{
		{`sum by (queue) (rate(jobs_total{queue=~"$queue"}[$__rate_interval]))`, "{{queue}}", ""},
		{`sum(rate(jobs_total[$__rate_interval])) / sum(rate(took_count[$__rate_interval]))`, "", ""},
		{`histogram_quantile(0.9, sum by (le) (rate(took_bucket[$__rate_interval])))`, "p90", ""},
		{`max(depth{queue=~"$queue"})`, "", ""},
		{`max(depths)`, "", "no series"},
		{`max(depth{queue="c"})`, "", "no series"},
		{`max(depth{que=~"$queue"})`, "", "no series"},
		{`max(depth{queue=~"$que"})`, "", "there is no variable que"},
		{`max by (kind) (depth)`, "", "no label kind"},
		{`sum by (kind) (jobs_total)`, "", "no label kind"}, // one of them has none
		{`sum(jobs_total)`, "{{queue}}", "the legend: a series has no label queue"},
		{`rate(depth[$__rate_interval])`, "", "might not be a counter"},
		{`rate(jobs_total)`, "", "expected type range vector"},
		{`rated(jobs_total[$__rate_interval])`, "", "unknown function"},
		{`sum(rate(jobs_total[$__rate_interval])`, "", "unclosed left parenthesis"},
		{`sum(rate(late_total[$__rate_interval]))`, "", "no series"}, // seen once only
		{`sum(rate(idle_total[$__rate_interval]))`, "", "nothing to see"},
		{`sum(rate(idle_total[$__rate_interval])) / sum(rate(idle_total[$__rate_interval]))`, "", "nothing to see"}, // 0/0
		{`max by (queue) (depth) / max(depth)`, "", "no series"},
		{`histogram_quantile(0.9, sum(rate(took_bucket[$__rate_interval])))`, "", "bucket"}, // without le
	} {
		err := v.check(target{c.expr, c.legend})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.expr, err, c.want)
		}
	}
}
