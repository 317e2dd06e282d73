package report_test

import (
	"bytes"
	"errors"
	"image/color"
	"image/png"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/bench/internal/report"
	"github.com/ackledger/ackledger/bench/internal/suite"
)

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.834: "0.83", 12.34: "12.3", 99.94: "99.9", 100: "100", 1234: "1,234", 1234567.8: "1,234,568",
		-123456: "-123,456", -123: "-123", math.NaN(): "–", 3: "3"} {
		if got := report.Number(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
}

// example is a group with a peer, a row that failed in one round and one that failed always.
func example() *report.Report {
	row := func(name string, err error, rounds ...suite.Result) *suite.Row {
		return &suite.Row{Case: suite.Case{Group: "kafka", Name: name, Note: "a | b", N: suite.Size{Full: 10, Quick: 5}}, Rounds: rounds, Err: err}
	}
	rate := func(v float64) suite.Result { return suite.Result{suite.Rate: v, suite.HotShare: 50} }
	out := &suite.Outcome{Mode: suite.Quick, Rounds: 3, Rows: []*suite.Row{
		row("ours", nil, rate(80_000), rate(90_000), rate(85_000)),
		row("bare", nil, rate(100_000), rate(100_000), rate(100_000)),
		row("limping", errors.New("round 2: broken\nmore"), rate(1), nil, rate(3)),
		row("broken", errors.New("round 1: no server"), nil, nil, nil),
	}}
	of := func(name string) func(suite.Round) float64 {
		return func(r suite.Round) float64 { return r.Rate("kafka/"+name) / r.Rate("kafka/bare") }
	}
	goals := []suite.Goal{
		{Text: "ours of bare", Unit: "×", Bound: 0.8, Value: of("ours")},
		{Text: "more than bare", Unit: "×", Bound: 1, Value: of("ours")},
		{Text: "broken of bare", Unit: "×", Bound: 1, Value: of("broken")},
	}
	return &report.Report{At: time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC), Facts: []suite.Fact{{Name: "Go", Value: "1.26"}}, Outcome: out,
		Verdicts: suite.Judge(out, goals)}
}

func TestTerminalAndMarkdown(t *testing.T) {
	var terminal, page bytes.Buffer
	if err := errors.Join(example().Terminal(&terminal), example().Markdown(&page, "results.png")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"85,000 messages/s", "80,000 to 90,000", "HOT % 50", "failed: round 2: broken", "failed: round 1: no server",
		"at least 0.80×", "0.85×", "not met", "not measured"} {
		if !strings.Contains(terminal.String(), want) {
			t.Errorf("the terminal's table has no %q:\n%s", want, &terminal)
		}
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page has no %q:\n%s", want, &page)
		}
	}
	for _, want := range []string{"make bench` QUICK=1, 2026-01-02 03:04 UTC", "| Go | 1.26 |", `a \| b; 5 messages`, "**not met**", "(results.png)"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page has no %q:\n%s", want, &page)
		}
	}
}

// The chart is a picture with a blue bar (ours) that is shorter than the longest grey one.
func TestChart(t *testing.T) {
	var b bytes.Buffer
	if err := example().Chart(&b); err != nil {
		t.Fatal(err)
	}
	picture, err := png.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	longest := map[color.RGBA]int{}
	for y := range picture.Bounds().Dy() {
		row := map[color.RGBA]int{}
		for x := range picture.Bounds().Dx() {
			row[color.RGBAModel.Convert(picture.At(x, y)).(color.RGBA)]++
		}
		for c, n := range row {
			longest[c] = max(longest[c], n)
		}
	}
	ours, other := longest[color.RGBA{R: 0x1b, G: 0x6c, B: 0xa8, A: 0xff}], longest[color.RGBA{R: 0xb5, G: 0xb5, B: 0xb5, A: 0xff}]
	if ratio := float64(ours) / float64(other); ratio < 0.83 || ratio > 0.87 {
		t.Errorf("our bar is %d pixels long and the other %d, want 0.85 of it", ours, other)
	}
}
