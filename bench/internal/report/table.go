package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ackledger/ackledger/bench/internal/suite"
)

// Report is everything that is shown.
type Report struct {
	At       time.Time
	Facts    []suite.Fact
	Outcome  *suite.Outcome
	Verdicts []suite.Verdict
}

// Number writes a value with three significant digits, or whole with thousands separated.
func Number(v float64) string {
	switch {
	case math.IsNaN(v):
		return "–"
	case math.Abs(v) < 100:
		digits := 2
		if math.Abs(v) >= 10 {
			digits = 1
		}
		return strings.TrimSuffix(fmt.Sprintf("%.*f", digits, v), ".00")
	}
	whole := fmt.Sprintf("%.0f", v)
	for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	return whole
}

// extras lists a row's other values, by name.
func extras(row *suite.Row) string {
	names := map[string]bool{}
	for _, res := range row.Rounds {
		for name := range res {
			names[name] = name != row.Case.MainValue()
		}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if names[name] {
			out = append(out, fmt.Sprintf("%s %s", name, Number(suite.Median(row.Values(name)))))
		}
	}
	return strings.Join(out, ", ")
}

// cells are one row: name, median, spread, other values.
func cells(row *suite.Row) (median, spread, other string) {
	values := row.Values(row.Case.MainValue())
	low, high := suite.Spread(values)
	median = Number(suite.Median(values)) + " " + row.Case.MainValue()
	spread, other = Number(low)+" to "+Number(high), extras(row)
	if row.Err != nil {
		failed := "failed: " + firstLine(row.Err.Error())
		other = strings.TrimPrefix(other+"; "+failed, "; ")
	}
	return median, spread, other
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// groups are the rows by group, in their order.
func groups(o *suite.Outcome) (out [][]*suite.Row) {
	at := map[string]int{}
	for _, row := range o.Rows {
		i, ok := at[row.Case.Group]
		if !ok {
			i = len(out)
			at[row.Case.Group] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], row)
	}
	return out
}

// verdict is a goal in words.
func verdict(v suite.Verdict) (aim, got, spread, met string) {
	aim = cmp.Or(map[bool]string{true: "at most "}[v.Goal.AtMost], "at least ") + unit(v.Goal.Bound, v.Goal.Unit)
	if !v.Known() {
		return aim, "–", "–", "not measured"
	}
	met = cmp.Or(map[bool]string{true: "met"}[v.Met()], "not met")
	if met == "met" && !v.Always() {
		met = "met, not in each round"
	}
	return aim, unit(v.Median, v.Goal.Unit), Number(v.Low) + " to " + Number(v.High), met
}

func unit(v float64, name string) string {
	if name == "×" {
		return Number(v) + "×"
	}
	return Number(v) + " " + name
}

// Terminal writes the tables for people who look on.
func (r *Report) Terminal(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, rows := range groups(r.Outcome) {
		fmt.Fprintf(t, "\n%s\t\t\t\n", rows[0].Case.Group)
		for _, row := range rows {
			median, spread, other := cells(row)
			fmt.Fprintf(t, "  %s\t%s\t(%s)\t%s\n", row.Case.Name, median, spread, other)
		}
	}
	fmt.Fprintf(t, "\ngoals\t\t\t\n")
	unknown := 0
	for _, v := range r.Verdicts {
		if !v.Known() {
			unknown++
			continue
		}
		aim, got, spread, met := verdict(v)
		fmt.Fprintf(t, "  %s\t%s\t%s (%s)\t%s\n", v.Goal.Text, aim, got, spread, met)
	}
	if unknown > 0 {
		fmt.Fprintf(t, "  (%d goals need cases that were not measured)\t\t\t\n", unknown)
	}
	return t.Flush()
}
