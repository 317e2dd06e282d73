package sim

import (
	"fmt"
	"strings"
	"time"
)

// Report is what became of a world.
type Report struct {
	Messages, Steps, Runs, Kills int
	Dispatches                   int
	Taken, Calls, Whole          int           // deliveries taken in, calls of the ledger, messages that were settled in ranges
	Transactions, Rows           int           // of the ledger, in which messages are claimed or settled; messages with rows of their own at the end
	Ranges, News                 int           // ranges that were claimed; what workers told of that is for logs and metrics
	Told                         [replies]int  // what callers were told
	Recorded, Given              int           // steps that were recorded, and given back
	Stopped, StoppedByWork       int           // with Config.Ordered: workers that a pause stopped; of them, by what came after it
	Declared, Late, Thrown       int           // with Config.Watched: owners declared dead; claims that arrived, and answers that came, when the lease was over
	Permits                      int           // with Config.Limit: that came
	Parked, Revived              int           // with Config.Parks: retries that were parked, and that came back
	Behind                       int           // messages that were to be parked behind others of their key
	Took                         time.Duration // simulated
	Hash                         uint64        // of all steps
}

// Broken is a promise that was broken.
type Broken struct {
	Config  Config
	Promise string
	Steps   []string // those that have to do with it
}

// mostSteps is how many steps of a story are told: as many as a person reads.
const mostSteps = 50

// Error tells the story.
func (b *Broken) Error() string {
	return fmt.Sprintf("%s; the world and its steps:\n%#v\n%s", b.Promise, b.Config, strings.Join(b.Steps, "\n"))
}

// step is something that happened.
type step struct {
	at   time.Duration
	who  *process // nil: none of the processes
	what string
	of   message // none: it has to do with all
	n    int64   // 0: there is no number to it
}

// none is no message.
var none = message{-1, -1}

// String is a step for people.
func (s *step) String() string {
	text := fmt.Sprintf("%12s %s %s", s.at, s.who, s.what)
	if s.of != none {
		text += " " + s.of.String()
	}
	if s.n != 0 {
		text += fmt.Sprintf(" (%d)", s.n)
	}
	return text
}

// note notes what happens.
func (w *world) note(who *process, what string, of message, n int64) {
	var by uint64
	if who != nil {
		by = uint64(who.worker.number)<<32 | uint64(who.life)
	}
	w.report.Hash = mix(w.report.Hash, uint64(w.now), by, uint64(len(what)), uint64(what[0]), uint64(of.partition), uint64(of.offset), uint64(n))
	if w.traced {
		w.steps = append(w.steps, step{w.now, who, what, of, n})
	}
}

// breaks notes the first promise that is broken, and the message that it has to do with.
func (w *world) breaks(of message, format string, args ...any) {
	if w.broken != nil {
		return
	}
	w.broken = &Broken{Config: w.cfg, Promise: fmt.Sprintf(format, args...)}
	for i := range w.steps {
		if s := &w.steps[i]; of == none || s.of == none || s.of == of {
			w.broken.Steps = append(w.broken.Steps, s.String())
		}
	}
	if n := len(w.broken.Steps); n > mostSteps { // how it began, and how it ended
		w.broken.Steps = append(append(w.broken.Steps[:mostSteps/2:mostSteps/2], "..."), w.broken.Steps[n-mostSteps/2+1:]...)
	}
}
