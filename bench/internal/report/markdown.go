package report

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/ackledger/ackledger/bench/internal/suite"
)

// Markdown writes the page. chart is the picture's file name beside it; empty: none.
func (r *Report) Markdown(w io.Writer, chart string) error {
	var b strings.Builder
	b.WriteString("# Benchmark results\n\n")
	fmt.Fprintf(&b, "Written by `make bench`%s, %s; medians of %d rounds, and the lowest and highest of them. The cases of a group run in turn, round by round.\n\n",
		map[suite.Mode]string{suite.Quick: " QUICK=1"}[r.Outcome.Mode], r.At.UTC().Format(time.DateOnly+" 15:04 UTC"), r.Outcome.Rounds)
	b.WriteString("| | |\n|---|---|\n")
	for _, f := range r.Facts {
		fmt.Fprintf(&b, "| %s | %s |\n", cell(f.Name), cell(f.Value))
	}
	b.WriteString("\n## Goals\n\nRatios are taken within a round. Several servers and their clients share this machine's processors, as the rows that they are compared with do.\n\n")
	b.WriteString("| goal | aim | measured | rounds | |\n|---|---|---|---|---|\n")
	for _, v := range r.Verdicts {
		aim, got, spread, met := verdict(v)
		if met == "not met" {
			met = "**not met**"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", cell(v.Goal.Text), aim, got, spread, met)
	}
	if chart != "" {
		fmt.Fprintf(&b, "\n![all rows](%s)\n", chart)
	}
	for _, rows := range groups(r.Outcome) {
		fmt.Fprintf(&b, "\n## %s\n\n| row | median | rounds | also | how |\n|---|---|---|---|---|\n", rows[0].Case.Group)
		for _, row := range rows {
			median, spread, other := cells(row)
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s; %s messages |\n", cell(row.Case.Name), median, spread, cell(other), cell(row.Case.Note),
				Number(float64(r.Outcome.Mode.Of(row.Case.N))))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// cell makes text fit into a table's cell.
func cell(s string) string { return strings.NewReplacer("|", `\|`, "\n", " ").Replace(s) }
