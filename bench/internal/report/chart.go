package report

import (
	"fmt"
	"image/color"
	"io"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"github.com/ackledger/ackledger/bench/internal/suite"
)

const (
	chartWidth = 22 * vg.Centimeter
	barHeight  = vg.Length(16) // points
	margin     = vg.Length(6)  // points
	titleSpace = vg.Length(70) // points; a group's title and axis
)

var (
	oursColor  = color.RGBA{R: 0x1b, G: 0x6c, B: 0xa8, A: 0xff}
	otherColor = color.RGBA{R: 0xb5, G: 0xb5, B: 0xb5, A: 0xff}
)

// Chart draws the medians of all groups as a PNG: bars from zero, one picture under the other, ours in blue.
func (r *Report) Chart(w io.Writer) error {
	list := groups(r.Outcome)
	heights := make([]vg.Length, len(list))
	var all vg.Length
	for i, rows := range list {
		heights[i] = titleSpace + vg.Length(len(rows))*barHeight
		all += heights[i]
	}
	canvas := vgimg.NewWith(vgimg.UseWH(chartWidth, all), vgimg.UseDPI(144))
	page := draw.New(canvas)
	top := page.Max.Y
	for i, rows := range list {
		p, err := groupPlot(rows)
		if err != nil {
			return fmt.Errorf("%s: %w", rows[0].Case.Group, err)
		}
		area := page
		area.Max.Y, area.Min.Y = top, top-heights[i]
		top -= heights[i]
		p.Draw(draw.Crop(area, margin, -4*margin, margin, -margin))
	}
	_, err := vgimg.PngCanvas{Canvas: canvas}.WriteTo(w)
	return err
}

// groupPlot is one group: its rows from top to bottom.
func groupPlot(rows []*suite.Row) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = rows[0].Case.Group + " (" + rows[0].Case.MainValue() + ")"
	p.Title.TextStyle.Font.Size = 11
	p.X.Min, p.X.Max = 0, 1
	p.X.Tick.Marker = thousands{}
	names := make([]string, len(rows))
	ours, other := make(plotter.Values, len(rows)), make(plotter.Values, len(rows))
	var labels plotter.XYLabels
	for i, row := range slices.Backward(rows) { // a plot's y grows upwards
		y := len(rows) - 1 - i
		names[y] = row.Case.Name
		values := row.Values(row.Case.MainValue())
		if len(values) == 0 {
			continue
		}
		v := suite.Median(values)
		if strings.HasPrefix(row.Case.Name, "ours") {
			ours[y] = v
		} else {
			other[y] = v
		}
		p.X.Max = max(p.X.Max, v*1.12)
		labels.XYs = append(labels.XYs, plotter.XY{X: v, Y: float64(y)})
		labels.Labels = append(labels.Labels, " "+Number(v))
	}
	for _, set := range []struct {
		values plotter.Values
		color  color.Color
	}{{ours, oursColor}, {other, otherColor}} {
		bars, err := plotter.NewBarChart(set.values, barHeight*7/10)
		if err != nil {
			return nil, err
		}
		bars.Horizontal, bars.Color, bars.LineStyle.Width = true, set.color, 0
		p.Add(bars)
	}
	if len(labels.XYs) > 0 {
		texts, err := plotter.NewLabels(labels)
		if err != nil {
			return nil, err
		}
		for i := range texts.TextStyle {
			texts.TextStyle[i].Font.Size, texts.TextStyle[i].YAlign = 8, draw.YCenter
		}
		p.Add(texts)
	}
	p.NominalY(names...)
	p.Y.Tick.Label.Font.Size, p.X.Tick.Label.Font.Size = 9, 8
	return p, nil
}

// thousands writes the numbers of an axis as the tables do.
type thousands struct{}

// Ticks implements plot.Ticker.
func (thousands) Ticks(low, high float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(low, high)
	for i, t := range ticks {
		if t.Label != "" {
			ticks[i].Label = Number(t.Value)
		}
	}
	return ticks
}
