package sim

import (
	"container/heap"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ackledger/ackledger/internal/promises"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
	"github.com/ackledger/ackledger/ledger/memory"
)

// Bounds of a world.
const (
	lease    = 6 * time.Second
	timeout  = 2 * time.Second // of a call
	maxSteps = 5_000_000
	attempts = 4 // of a message
)

// size is how many bytes most messages take.
const size = 3000

// scopeOf is the scope of a message: those of other partitions have another.
func scopeOf(m message) string { return fmt.Sprintf("sim/topic-%d", m.partition) }

// world is everything.
type world struct {
	cfg     Config
	now     time.Duration
	queue   events
	made    uint64
	rnd     *rand.Rand
	ledger  *memory.Ledger
	broker  broker
	workers []*worker
	facts   facts
	twin    twin
	answers answered
	lives   map[driver.OwnerID]*life // of owners that are live, where the ledger has no clock
	ledgers []*driver.Ledger         // those of its sessions, there
	off     [conditions]bool         // what such a ledger does without

	redrives            redrives
	anew                int  // messages that were reopened
	sweeping, disturbed bool // the ledger is being swept; something happened meanwhile
	tear                tear
	orders              orders
	report              Report
	traced              bool
	steps               []step // if it is traced
	broken              *Broken
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
func Run(cfg Config) (Report, error) {
	w := newWorld(cfg)
	w.run()
	if w.broken == nil {
		return w.report, nil
	}
	again := newWorld(cfg) // the same, to be told
	again.traced = true
	again.run()
	if again.broken == nil {
		return w.report, &Broken{Config: cfg, Promise: "the same seed makes the same steps: once " + w.broken.Promise}
	}
	return w.report, again.broken
}

func newWorld(cfg Config) *world {
	w := &world{cfg: cfg, rnd: rand.New(rand.NewPCG(cfg.Seed, 0x5eed)), facts: newFacts(), twin: newTwin(), lives: map[driver.OwnerID]*life{}}
	began := time.Unix(1_000_000_000, 0)
	w.ledger = memory.New(memory.WithClock(func() time.Time { return began.Add(w.hours(w.now)) }))
	w.tears()
	switch {
	case cfg.Callers > 0:
		w.broker = newDesk(w)
	case cfg.Visibility > 0:
		w.broker = newQueue(w)
	default:
		w.broker = newCluster(w)
	}
	return w
}

func (w *world) run() {
	for i := range w.cfg.Workers {
		w.workers = append(w.workers, w.newWorker(i))
	}
	w.broker.begin()
	w.after(w.between(time.Second, 10*time.Second), w.sweep)
	w.after(w.cfg.Calm, w.purge)
	w.redrive()
	w.after(300*time.Millisecond, w.operate)
	w.order()
	for len(w.queue) > 0 && w.broken == nil && (w.parks() && !w.noneParked() || !w.broker.done() || !w.redrives.done()) {
		w.step()
	}
	w.report.Took, w.report.Rows, w.report.Ranges = w.now, w.ledger.Len(), len(w.twin.ranges)
	if w.broken == nil {
		w.mustHaveEnded()
	}
}

// step has happen what comes next.
func (w *world) step() {
	e := heap.Pop(&w.queue).(event)
	w.now = e.at
	e.do()
	if w.report.Steps++; w.report.Steps > maxSteps || w.now > w.cfg.Calm+w.patience() {
		w.breaks(none, promises.ComesToItsEnd+": %s", w.broker.left())
	}
}

// patience is how long after its calm a world may take to come to its end. Crashes take leases, the breaker takes its pauses, and a
// spent budget waits for the next question.
func (w *world) patience() time.Duration {
	switch m := &w.cfg.Moods; {
	case w.cfg.Failures+w.cfg.Budget > 0:
		return time.Hour
	case m[deadly] > 0 || m[hopeless] > 0:
		return 15 * time.Minute
	}
	return 2 * time.Minute
}

// sweep has the ledger swept, now and then.
func (w *world) sweep() {
	if !w.sweeping {
		w.sweeping, w.disturbed = true, false
		_, err := w.ledger.Sweep(context.Background(), ledger.MaintainConfig{})
		if w.sweeping = false; err != nil {
			w.breaks(none, "the ledger can be swept: %v", err)
		}
		if !w.disturbed {
			w.mustCount()
		}
	}
	w.after(w.between(time.Second, 30*time.Second), w.sweep)
}

// purge has an operator empty the archive, now and then: a worker whose budget is spent goes on.
func (w *world) purge() {
	if _, err := w.ledger.Purge(context.Background(), ledger.PurgeRequest{By: ledger.By{Actor: "sim"}}); err != nil {
		w.breaks(none, "the archive can be purged: %v", err)
	}
	w.after(10*time.Second, w.purge)
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

// trouble says whether something goes wrong.
func (w *world) trouble(k kind) bool {
	return w.cfg.Moods[k] > 0 && w.now < w.cfg.Calm && w.rnd.Float64() < min(usual[k]*w.cfg.Moods[k], 0.9)
}

// marked says whether a message is of a kind, each time that it comes.
func (w *world) marked(k kind, m message) bool {
	often := min(usual[k]*w.cfg.Moods[k], 0.3)
	return often > 0 && float64(mix(w.cfg.Seed, uint64(k), uint64(m.partition), uint64(m.offset))>>11)/(1<<53) < often
}

// mix makes a number of numbers that depends on all bits of each.
func mix(all ...uint64) (sum uint64) {
	for _, n := range all {
		sum ^= n + 0x9e3779b97f4a7c15 // splitmix64, Steele et al., 2014
		sum = (sum ^ sum>>30) * 0xbf58476d1ce4e5b9
		sum = (sum ^ sum>>27) * 0x94d049bb133111eb
		sum ^= sum >> 31
	}
	return sum
}
