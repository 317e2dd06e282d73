package soak

import (
	"image/color"
	"io"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	chartWidth  = 20 * vg.Centimeter
	chartHeight = 8 * vg.Centimeter
)

// Chart draws the resident size and the heap over time, as SVG.
func Chart(w io.Writer, samples []Sample) error {
	p := plot.New()
	p.X.Label.Text, p.Y.Label.Text = "minutes", "MiB"
	p.Y.Min, p.Legend.Top = 0, false
	p.Add(plotter.NewGrid())
	for _, line := range []struct {
		name  string
		value func(Sample) float64
		color color.Color
	}{
		{"resident size", Resident, color.RGBA{R: 0x1b, G: 0x6c, B: 0xa8, A: 0xff}},
		{"heap in use", Heap, color.RGBA{R: 0xb5, G: 0xb5, B: 0xb5, A: 0xff}},
	} {
		points := make(plotter.XYs, len(samples))
		for i := range samples {
			points[i] = plotter.XY{X: samples[i].At.Minutes(), Y: line.value(samples[i])}
		}
		l, err := plotter.NewLine(points)
		if err != nil {
			return err
		}
		l.Color, l.Width = line.color, vg.Points(1.5)
		p.Add(l)
		p.Legend.Add(line.name, l)
	}
	p.Y.Min = 0 // Add has moved it
	p.Legend.Left, p.Legend.YOffs = false, vg.Points(4)
	canvas := vgsvg.New(chartWidth, chartHeight)
	p.Draw(draw.New(canvas))
	_, err := canvas.WriteTo(w)
	return err
}
