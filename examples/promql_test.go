package examples_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// series is one line of a scrape.
type series struct {
	name   string
	labels map[string]string
}

// scrape is what Prometheus gets, and the type of each metric.
type scrape struct {
	all   []series
	types map[string]string
}

var (
	sampleLine = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? [^ ]+$`)
	labelPair  = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"`)
)

// parseScrape reads the text format (Prometheus documentation, "Exposition formats").
func parseScrape(t *testing.T, text string) *scrape {
	t.Helper()
	s := &scrape{types: map[string]string{}}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if words := strings.Fields(line); len(words) == 4 && words[0] == "#" && words[1] == "TYPE" {
			s.types[words[2]] = words[3]
		}
		if line == "" || line[0] == '#' {
			continue
		}
		m := sampleLine.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("not a sample: %q", line)
		}
		labels := map[string]string{}
		for _, pair := range labelPair.FindAllStringSubmatch(m[2], -1) {
			labels[pair[1]] = pair[2]
		}
		s.all = append(s.all, series{m[1], labels})
	}
	return s
}

// kind is the type of a series' metric: those of a histogram end in _bucket, _sum and _count.
func (s *scrape) kind(name string) string {
	if k, ok := s.types[name]; ok {
		return k
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(name, suffix); ok && s.types[base] == "histogram" {
			return "histogram"
		}
	}
	return ""
}

// query checks one PromQL expression against a scrape. It knows the part of the language that the dashboard uses, and
// refuses everything else. What it computes of an expression is the set of labels that its result has.
type query struct {
	scrape *scrape
	tokens []string
	used   map[string]bool // the metrics that were selected
}

var promToken = regexp.MustCompile(`^(?:\s+|"(?:[^"\\]|\\.)*"|[a-zA-Z_:][a-zA-Z0-9_:]*|[0-9.]+|\$__rate_interval|=~|!~|!=|[-+*/(){}\[\],=])`)

// check returns the labels of an expression's result.
func (s *scrape) check(expr string, used map[string]bool) (labels map[string]bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			wrong, ok := p.(queryError)
			if !ok {
				panic(p)
			}
			err = fmt.Errorf("%s: %s", expr, string(wrong))
		}
	}()
	q := &query{scrape: s, used: used}
	for rest := expr; rest != ""; {
		token := promToken.FindString(rest)
		if token == "" {
			return nil, fmt.Errorf("%s: no PromQL that is known here: %q", expr, rest)
		}
		if rest = rest[len(token):]; strings.TrimSpace(token) != "" {
			q.tokens = append(q.tokens, token)
		}
	}
	labels = q.expr()
	if len(q.tokens) > 0 {
		q.fail("%q follows", q.tokens)
	}
	return labels, nil
}

type queryError string

func (q *query) fail(format string, args ...any) { panic(queryError(fmt.Sprintf(format, args...))) }

func (q *query) peek() string {
	if len(q.tokens) == 0 {
		return ""
	}
	return q.tokens[0]
}

func (q *query) next() string {
	token := q.peek()
	if token == "" {
		q.fail("it ends too soon")
	}
	q.tokens = q.tokens[1:]
	return token
}

func (q *query) want(token string) {
	if got := q.next(); got != token {
		q.fail("%q stands where %q should", got, token)
	}
}

func (q *query) expr() map[string]bool {
	labels := q.term()
	for slices.Contains([]string{"+", "-", "*", "/"}, q.peek()) {
		q.next()
		if right := q.term(); !maps.Equal(labels, right) { // one-to-one matching needs the same labels on both sides
			q.fail("an operator between results with the labels %v and %v", labels, right)
		}
	}
	return labels
}

func (q *query) term() map[string]bool {
	token := q.next()
	switch token {
	case "(":
		labels := q.expr()
		q.want(")")
		return labels
	case "sum", "min", "max":
		return q.aggregation()
	case "histogram_quantile":
		q.want("(")
		if p := q.next(); strings.Trim(p, "0123456789.") != "" {
			q.fail("a quantile %q", p)
		}
		q.want(",")
		labels := q.expr()
		q.want(")")
		if !labels["le"] {
			q.fail("histogram_quantile of something without le")
		}
		delete(labels, "le")
		return labels
	case "rate":
		q.want("(")
		name := q.peek()
		labels := q.selector(q.next(), true)
		q.want(")")
		if kind := q.scrape.kind(name); kind != "counter" && kind != "histogram" {
			q.fail("the rate of a %s", kind)
		}
		return labels
	}
	return q.selector(token, false)
}

func (q *query) aggregation() map[string]bool {
	by := map[string]bool{}
	if q.peek() == "by" {
		q.next()
		q.want("(")
		for {
			by[q.next()] = true
			if q.peek() != "," {
				break
			}
			q.next()
		}
		q.want(")")
	}
	q.want("(")
	labels := q.expr()
	q.want(")")
	for label := range by {
		if !labels[label] {
			q.fail("by %s, which is not among the labels %v", label, slices.Sorted(maps.Keys(labels)))
		}
	}
	return by
}

// selector checks that the scrape has a series that the matchers let through, and returns the labels that all such have.
func (q *query) selector(name string, ranged bool) map[string]bool {
	matches := q.matchers()
	if ranged {
		q.want("[")
		q.want("$__rate_interval")
		q.want("]")
	}
	var common map[string]bool
	for _, s := range q.scrape.all {
		if s.name != name || !matches(s.labels) {
			continue
		}
		if common == nil {
			common = map[string]bool{}
			for label := range s.labels {
				common[label] = true
			}
		}
		maps.DeleteFunc(common, func(label string, _ bool) bool { _, has := s.labels[label]; return !has })
	}
	if common == nil {
		q.fail("the scrape has no such series of %s", name)
	}
	q.used[name] = true
	return common
}

func (q *query) matchers() func(labels map[string]string) bool {
	var all []func(map[string]string) bool
	if q.peek() == "{" {
		for q.next(); q.peek() != "}"; {
			label, op, value := q.next(), q.next(), strings.Trim(q.next(), `"`)
			if strings.HasPrefix(value, "$") {
				value = ".+" // a variable, of which all is chosen; its label must be there
			}
			want, err := regexp.Compile("^(?:" + value + ")$")
			if err != nil || op != "=" && op != "=~" {
				q.fail("the matcher %s%s%q (%v)", label, op, value, err)
			}
			all = append(all, func(labels map[string]string) bool {
				return op == "=" && labels[label] == value || op == "=~" && want.MatchString(labels[label])
			})
			if q.peek() == "," {
				q.next()
			}
		}
		q.next()
	}
	return func(labels map[string]string) bool {
		return !slices.ContainsFunc(all, func(m func(map[string]string) bool) bool { return !m(labels) })
	}
}

// A checker that lets everything through would prove nothing of the dashboard.
func TestTheCheckerOfQueriesRefuses(t *testing.T) {
	t.Parallel()
	s := parseScrape(t, `# TYPE jobs_total counter
jobs_total{queue="a",kind="x"} 1
jobs_total{queue="b"} 1
# TYPE depth gauge
depth{queue="a"} 1
# TYPE took histogram
took_bucket{le="1"} 1
took_count 1
`)
	for expr, want := range map[string]string{
		`sum by (queue) (rate(jobs_total{queue=~"$queue"}[$__rate_interval]))`:              "",
		`sum(rate(jobs_total[$__rate_interval])) / sum(rate(took_count[$__rate_interval]))`: "",
		`histogram_quantile(0.9, sum by (le) (rate(took_bucket[$__rate_interval])))`:        "",
		`max(depth{queue="a"})`:                  "",
		`max(depths)`:                            "no such series",
		`max(depth{queue="c"})`:                  "no such series",
		`max(depth{que="a"})`:                    "no such series",
		`max by (kind) (depth)`:                  "not among the labels",
		`sum by (kind) (jobs_total)`:             "not among the labels", // one of them has none
		`rate(depth[$__rate_interval])`:          "the rate of a gauge",
		`rate(jobs_total)`:                       "should",
		`sum(rate(jobs_total[$__rate_interval])`: "too soon",
		`max(depth))`:                            "follows",
		`topk(3, depth)`:                         "no such series of topk",
		`max by (queue) (depth) / max(depth)`:    "an operator between",
		`histogram_quantile(0.9, sum(rate(took_bucket[$__rate_interval])))`: "without le",
		`max(depth) > 3`: "no PromQL that is known here",
	} {
		_, err := s.check(expr, map[string]bool{})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", expr, err, want)
		}
	}
}
