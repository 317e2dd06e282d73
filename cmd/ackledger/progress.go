package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/ackledger/ackledger/replay"
)

// progress shows how far a replay is: a bar on a terminal, a line now and then elsewhere.
type progress struct {
	out      io.Writer
	interval time.Duration
	terminal bool
	bar      *progressbar.ProgressBar
}

const (
	barInterval  = 200 * time.Millisecond
	lineInterval = 10 * time.Second
)

func newProgress(out io.Writer) *progress {
	f, ok := out.(*os.File)
	if ok && term.IsTerminal(int(f.Fd())) {
		return &progress{out: out, interval: barInterval, terminal: true}
	}
	return &progress{out: out, interval: lineInterval}
}

// show is replay.Config.Progress.
func (p *progress) show(now replay.Progress) {
	if p.terminal {
		p.draw(now)
		return
	}
	if now.Elapsed < lineInterval || now.Report.Read == 0 { // a short run has its report
		return
	}
	fmt.Fprintln(p.out, progressLine(now))
}

func (p *progress) draw(now replay.Progress) {
	if p.bar == nil {
		p.bar = progressbar.NewOptions64(max(now.Total, -1), progressbar.OptionSetWriter(p.out), progressbar.OptionFullWidth(),
			progressbar.OptionSetPredictTime(false), progressbar.OptionClearOnFinish(),
			progressbar.OptionSetSpinnerChangeInterval(0)) // it would be drawn again behind the report
	}
	if now.Total > 0 && now.Total != p.bar.GetMax64() {
		p.bar.ChangeMax64(max(now.Total, now.Seen))
	}
	p.bar.Describe(progressLine(now))
	_ = p.bar.Set64(now.Seen) // a terminal that is gone ends nothing
}

// end takes the bar away, so that the report stands alone.
func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}

func progressLine(now replay.Progress) string {
	r := &now.Report
	verb := "replayed"
	if r.DryRun {
		verb = "to replay"
	}
	line := fmt.Sprintf("%s read, %s %s, %s dropped, %s left, %s refused, %s mismatched, %s failed; %.0f/s", count(r.Read), count(r.Replayed), verb,
		count(r.Succeeded+r.Superseded), count(r.Left), count(r.Refused), count(r.Mismatched), count(r.Failed), now.Rate)
	if now.Left > 0 {
		line += ", " + short(now.Left.Round(time.Second)) + " to go"
	}
	return line
}
