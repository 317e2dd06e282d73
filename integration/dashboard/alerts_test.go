package dashboard

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// evaluationInterval is Prometheus' default: a rule is looked at so often.
const evaluationInterval = time.Minute

// readAlerts reads the rules, as strictly as Prometheus does: it runs their templates, too.
func readAlerts(t *testing.T) (rules []rulefmt.Rule) {
	t.Helper()
	text, err := os.ReadFile("../../examples/metrics/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	groups, errs := rulefmt.Parse(text, false, model.UTF8Validation)
	for _, err := range errs {
		t.Error(err)
	}
	if len(errs) > 0 {
		t.FailNow()
	}
	for _, g := range groups.Groups {
		rules = append(rules, g.Rules...)
	}
	if len(rules) < 10 {
		t.Fatalf("the rules were not read: %+v", rules)
	}
	return rules
}

// unseen says which selectors of the rules find nothing in what is scraped, and which aggregations group by a label that is not
// there: such a rule is silent for ever.
func unseen(ctx context.Context, m *monitor, rules []rulefmt.Rule) (problems []string) {
	v := &viewer{Context: ctx, monitor: m}
	for _, r := range rules {
		expr, err := parser.ParseExpr(r.Expr)
		if err != nil {
			return append(problems, fmt.Sprintf("%s: %v", r.Alert, err))
		}
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			var err error
			switch node := node.(type) {
			case *parser.VectorSelector:
				node.OriginalOffset = 0
				found, failed := m.query(ctx, node.String())
				if err = failed; err == nil && len(found) == 0 {
					err = fmt.Errorf("%s: no series", node)
				}
			case *parser.AggregateExpr:
				err = v.grouped(node)
			}
			if err != nil {
				problems = append(problems, fmt.Sprintf("%s: %v", r.Alert, err))
			}
			return nil
		})
	}
	return problems
}

// alarms is what fires at last, by alert and labels, and when it began to.
type alarms map[string]map[string]time.Time

// names are those of the alerts.
func (a alarms) names() (names []string) {
	for name, firing := range a {
		if len(firing) > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

var usedLabel = regexp.MustCompile(`\$labels\.([a-z_]+)`)

// watch looks at the rules every minute of what was scraped. An alert fires where its expression has had a result with the same
// labels for as long as the rule says (Prometheus' documentation, "Alerting rules"). It calls each with all that fires.
func (m *monitor) watch(ctx context.Context, rules []rulefmt.Rule, each func(at time.Time, a alarms)) error {
	since := map[string]map[string]time.Time{}
	for at := m.began(); !at.After(m.now); at = at.Add(evaluationInterval) {
		firing := alarms{}
		for _, r := range rules {
			result, err := m.queryAt(ctx, r.Expr, at)
			if err != nil {
				return fmt.Errorf("%s: %w", r.Alert, err)
			}
			active := map[string]time.Time{}
			firing[r.Alert] = map[string]time.Time{}
			for _, s := range result {
				for _, text := range r.Annotations {
					for _, label := range usedLabel.FindAllStringSubmatch(text, -1) {
						if !s.Metric.Has(label[1]) {
							return fmt.Errorf("%s: %q, and its labels are %s", r.Alert, text, s.Metric)
						}
					}
				}
				key := labels.NewBuilder(s.Metric).Del(metricName).Labels().String()
				began, ok := since[r.Alert][key]
				if !ok {
					began = at
				}
				active[key] = began
				if at.Sub(began) >= time.Duration(r.For) {
					firing[r.Alert][key] = at
				}
			}
			since[r.Alert] = active
		}
		each(at, firing)
	}
	return nil
}

// began is the time of the first scrape.
func (m *monitor) began() time.Time {
	first := m.now
	for _, s := range m.series {
		if at := time.UnixMilli(s.Floats[0].T); at.Before(first) {
			first = at
		}
	}
	return first
}

// TestRulesThatSelectNothingAreFound: a test that lets every rule pass would prove nothing of them.
func TestRulesThatSelectNothingAreFound(t *testing.T) {
	t.Parallel()
	scrape := map[string]string{"a": "jobs_total{queue=\"x\"} 1\n"}
	m, err := newMonitor([]map[string]string{scrape, scrape})
	if err != nil {
		t.Fatal(err)
	}
	for expr, want := range map[string]string{
		`sum by (queue) (increase(jobs_total[15m])) > 0`:            "",
		`sum(jobs_total) - sum(jobs_total offset 30m) > 1`:          "",
		`sum by (queue) (increase(job_total[15m])) > 0`:             "no series",
		`sum by (queue) (increase(jobs_total{queue="y"}[15m])) > 0`: "no series",
		`sum by (que) (increase(jobs_total[15m])) > 0`:              "no label que",
		`sum(jobs_total) unless sum by (job) (jobs_totals)`:         "no series",
	} {
		problems := strings.Join(unseen(t.Context(), m, []rulefmt.Rule{{Alert: "a", Expr: expr}}), "\n")
		if (problems == "") != (want == "") || !strings.Contains(problems, want) {
			t.Errorf("%s: %q, want %q", expr, problems, want)
		}
	}
}
