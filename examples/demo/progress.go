package main

import (
	"fmt"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows how many orders are charged: a bar on a terminal, else a line now and then.
type progress struct {
	out   *os.File
	bar   *progressbar.ProgressBar // nil: not a terminal
	total int
	shown int // tenths, for lines
}

func newProgress(out *os.File, total int) *progress {
	p := &progress{out: out, total: total}
	if term.IsTerminal(int(out.Fd())) {
		p.bar = progressbar.NewOptions(total, progressbar.OptionSetWriter(out), progressbar.OptionSetDescription("charged"),
			progressbar.OptionShowCount(), progressbar.OptionSetWidth(40), progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionSetPredictTime(false), progressbar.OptionUseANSICodes(true))
	}
	return p
}

// at says how many orders are charged by now.
func (p *progress) at(n int) {
	if p.bar != nil {
		_ = p.bar.Set(min(n, p.total)) // what cannot be drawn is no failure
		return
	}
	if tenths := 10 * n / p.total; tenths > p.shown {
		p.shown = tenths
		fmt.Fprintf(p.out, "charged %d of %d\n", n, p.total)
	}
}

// say prints a line of its own.
func (p *progress) say(format string, args ...any) {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
	fmt.Fprintf(p.out, format+"\n", args...)
}

// end leaves the line that the bar is on.
func (p *progress) end() {
	if p.bar != nil {
		fmt.Fprintln(p.out)
	}
}
