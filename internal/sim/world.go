package sim

import (
	"container/heap"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// Config is a world.
type Config struct {
	Seed        uint64
	Workers     int
	Partitions  int
	Messages    int // in each partition
	Keys        int // ordering keys in each partition; 0: no order
	Concurrency int
	Ranged      bool          // the ledger holds what succeeds in ranges
	Letters     bool          // what fails for good is published and sealed before it is settled
	HoldMax     time.Duration // the broker waits in a worker's stead where it is longer; 0: it never does
	Trouble     float64       // how often things go wrong; 0: never, 1: as usual
	Calm        time.Duration // when nothing goes wrong any more; the world must come to its end after it
}

// Drawn is the world of a seed: of any kind that there is.
func Drawn(seed uint64) Config {
	rnd := rand.New(rand.NewPCG(seed, 0xd3a3))
	c := Config{
		Seed: seed, Workers: 1 + rnd.IntN(3), Partitions: 1 + rnd.IntN(3), Messages: 60, Keys: 4 * rnd.IntN(3),
		Concurrency: 1 + rnd.IntN(4), Ranged: rnd.IntN(2) == 0, Letters: rnd.IntN(2) == 0,
		HoldMax: time.Duration(rnd.IntN(2)) * 300 * time.Millisecond, Trouble: float64(rnd.IntN(5)), Calm: time.Minute,
	}
	if c.Keys > 0 { // a broker that brings a message again does not keep its place
		c.HoldMax = 0
	}
	return c
}

// Report is what became of a world.
type Report struct {
	Messages, Steps, Runs, Kills int
	Took                         time.Duration // simulated
	Hash                         uint64        // of all steps
}

// Broken is a promise that was broken.
type Broken struct {
	Seed    uint64
	Promise string
	Steps   []string // the last ones
}

// Error tells the story.
func (b *Broken) Error() string {
	s := fmt.Sprintf("seed %d: %s; the last steps:", b.Seed, b.Promise)
	for _, step := range b.Steps {
		s += "\n" + step
	}
	return s
}

const (
	lease     = 6 * time.Second
	timeout   = 2 * time.Second // of a call
	maxSteps  = 5_000_000
	patience  = 10 * time.Minute // after Calm
	lastSteps = 50
)

// What all messages have in common.
const (
	scope = "sim/topic"
	size  = 100
)

// world is everything.
type world struct {
	cfg     Config
	now     time.Duration
	queue   events
	made    uint64
	rnd     *rand.Rand
	mood    [kinds]float64
	ledger  *memory.Ledger
	broker  broker
	workers []*worker
	facts   facts
	report  Report
	steps   []string
	broken  *Broken
}

// event is something that happens at a time.
type event struct {
	at   time.Duration
	made uint64
	do   func()
}

type events []event

// Len implements heap.Interface.
func (e events) Len() int { return len(e) }

// Less implements heap.Interface.
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].made < e[j].made
}

// Swap implements heap.Interface.
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }

// Push implements heap.Interface.
func (e *events) Push(x any) { *e = append(*e, x.(event)) }

// Pop implements heap.Interface.
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	(*e)[len(*e)-1] = event{}
	*e = (*e)[:len(*e)-1]
	return last
}

// Run plays a world to its end. The error is a [*Broken] if a promise is broken.
func Run(cfg Config) (Report, error) { return newWorld(cfg).run() }

func newWorld(cfg Config) *world {
	w := &world{cfg: cfg, rnd: rand.New(rand.NewPCG(cfg.Seed, 0x5eed)), facts: newFacts()}
	for k := range w.mood {
		if cfg.Trouble > 0 {
			w.mood[k] = cfg.Trouble * moods[w.rnd.IntN(len(moods))]
		}
	}
	began := time.Unix(1_000_000_000, 0)
	w.ledger = memory.New(memory.WithClock(func() time.Time { return began.Add(w.now) }))
	w.broker = newCluster(w)
	return w
}

func (w *world) run() (Report, error) {
	for i := range w.cfg.Workers {
		w.workers = append(w.workers, w.newWorker(i))
	}
	w.broker.begin()
	for len(w.queue) > 0 && w.broken == nil && !w.broker.done() {
		e := heap.Pop(&w.queue).(event)
		w.now = e.at
		e.do()
		if w.report.Steps++; w.report.Steps > maxSteps || w.now > w.cfg.Calm+patience {
			w.breaks("every world comes to its end: %s", w.broker.left())
		}
	}
	w.report.Took, w.report.Messages = w.now, w.cfg.Partitions*w.cfg.Messages
	for _, k := range w.workers {
		if w.cfg.Trouble == 0 && w.broken == nil && k.process != nil {
			w.mustBeEmpty(k.process)
		}
	}
	if w.broken != nil {
		return w.report, w.broken
	}
	return w.report, nil
}

// after has something happen.
func (w *world) after(d time.Duration, do func()) {
	w.made++
	heap.Push(&w.queue, event{w.now + d, w.made, do})
}

// between draws a time, short ones more often.
func (w *world) between(least, most time.Duration) time.Duration {
	x := w.rnd.Float64()
	return least + time.Duration(x*x*float64(most-least))
}

// latency is how long a request or its answer is under way.
func (w *world) latency() time.Duration { return w.between(50*time.Microsecond, 3*time.Millisecond) }

// kind is one kind of trouble.
type kind uint8

// The kinds of trouble.
const (
	refused     kind = iota // a call
	requestLost             // of a call
	answerLost
	callLate
	commitLost
	revocation
	unnoticed // revocation
	slow      // handler
	lethal
	failing
	retried
	mishap // of a process
	copied // message: another copy of it comes
	pause  // of a worker
	unfit  // settlement
	kinds
)

// usual is how often each happens in a world of its usual mood.
var usual = [kinds]float64{
	refused: 0.01, requestLost: 0.01, answerLost: 0.02, callLate: 0.02, commitLost: 0.05, revocation: 0.5, unnoticed: 0.3,
	slow: 0.08, lethal: 0.001, failing: 0.01, retried: 0.03, mishap: 0.7, copied: 0.05, pause: 0.3, unfit: 0.1,
}

// moods are how much more often, or less, a kind happens in one world: what never happens in a world hides nothing of the rest, and
// what happens often comes together with itself (swarm testing, Groce et al., 2012).
var moods = [...]float64{0, 0, 1, 1, 4, 20}

// trouble says whether something goes wrong.
func (w *world) trouble(k kind) bool {
	return w.now < w.cfg.Calm && w.rnd.Float64() < min(usual[k]*w.mood[k], 0.9)
}

// step notes what happens.
func (w *world) step(format string, args ...any) {
	text := fmt.Sprintf("%12s ", w.now) + fmt.Sprintf(format, args...)
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d %s", w.report.Hash, text)
	w.report.Hash = h.Sum64()
	if w.steps = append(w.steps, text); len(w.steps) > 4*lastSteps {
		w.steps = append([]string(nil), w.steps[len(w.steps)-lastSteps:]...)
	}
}

// breaks notes the first promise that is broken.
func (w *world) breaks(format string, args ...any) {
	if w.broken == nil {
		last := w.steps[max(0, len(w.steps)-lastSteps):]
		w.broken = &Broken{Seed: w.cfg.Seed, Promise: fmt.Sprintf(format, args...), Steps: last}
	}
}

// errAway is what a ledger that does not answer comes to.
var errAway = errors.New("sim: the ledger is away")

// call sends a request to the ledger and waits for the answer. execute runs when the request arrives, unless that is after the
// deadline; answered gets what it returned, an error that says that nobody knows, or one that says that it was not executed. Each
// callback runs once, and answered does not where the process has died.
func (p *process) call(what string, execute func() error, answered func(error)) {
	w, over := p.world, false
	deadline := w.now + timeout
	end := func(err error) {
		if !over {
			over = true
			answered(err)
		}
	}
	switch {
	case w.trouble(refused):
		p.after(w.latency(), func() { end(errAway) })
		return
	case w.trouble(requestLost):
		w.step("%s: %s is lost", p, what)
	default:
		late := w.latency()
		if w.trouble(callLate) {
			late = w.between(0, timeout+time.Second)
		}
		w.after(late, func() {
			if w.now >= deadline {
				return
			}
			err := execute()
			if w.trouble(answerLost) {
				w.step("%s: the answer to %s is lost", p, what)
				return
			}
			p.after(w.latency(), func() { end(err) })
		})
	}
	p.after(timeout, func() { end(ledger.MarkUnknown(errAway)) })
}
