package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// view is what is shown of the pipeline at one moment.
type view struct {
	brokers      []row
	killed, kill int // so often, of so often
	note         string
}

// row is one broker's.
type row struct {
	broker                                            string
	charged, orders, delivered, ran, caught, declined int
}

// progress shows how the demo goes: a table on a terminal, which is drawn over itself, else a line now and then.
type progress struct {
	out   io.Writer
	live  bool // a terminal
	lines int  // of the table that stands there
	shown int  // tenths, for lines
}

func newProgress(out *os.File) *progress {
	return &progress{out: out, live: term.IsTerminal(int(out.Fd()))}
}

// at shows a moment.
func (p *progress) at(v view) {
	if p.live {
		p.draw(v)
		return
	}
	charged, orders := 0, 0
	for _, r := range v.brokers {
		charged, orders = charged+r.charged, orders+r.orders
	}
	if tenths := 10 * charged / orders; tenths > p.shown {
		p.shown = tenths
		fmt.Fprintf(p.out, "charged %d of %d\n", charged, orders)
	}
}

// barWidth is that of a bar, in characters.
const barWidth = 24

// draw writes the table over the one before.
func (p *progress) draw(v view) {
	var b strings.Builder
	if p.lines > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", p.lines)
	}
	lines := []string{fmt.Sprintf("%7s  %-*s  %13s  %9s  %12s  %17s  %7s", "broker", barWidth, "", "charged", "delivered", "handler runs", "duplicates caught", "retries")}
	for _, r := range v.brokers {
		full := barWidth * min(r.charged, r.orders) / r.orders
		lines = append(lines, fmt.Sprintf("%7s  %s%s  %13s  %9d  %12d  %17d  %7d", r.broker, strings.Repeat("█", full), strings.Repeat("░", barWidth-full),
			fmt.Sprintf("%d of %d", r.charged, r.orders), r.delivered, r.ran, r.caught, r.declined))
	}
	lines = append(lines, fmt.Sprintf("worker killed: %d of %d  %s", v.killed, v.kill, v.note))
	for _, line := range lines {
		b.WriteString(line + "\x1b[K\n")
	}
	p.lines = len(lines)
	_, _ = io.WriteString(p.out, b.String()) // what cannot be drawn is no failure
}

// say tells of what happened: on a terminal the table has it as its note.
func (p *progress) say(format string, args ...any) {
	if !p.live {
		fmt.Fprintf(p.out, format+"\n", args...)
	}
}
