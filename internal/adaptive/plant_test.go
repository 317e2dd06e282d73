package adaptive_test

import (
	"cmp"
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ackledger/ackledger/internal/adaptive"
)

// plant is what handlers wait for. Its calls come in the order of their times.
type plant interface {
	// call says when a call ends that begins now, and whether it fails; running is how many run, with it.
	call(now time.Duration, running int, rnd *rand.Rand) (end time.Duration, failed bool)
}

// sleeps is a plant of any number of places.
type sleeps struct{ mean time.Duration }

func (p sleeps) call(now time.Duration, _ int, rnd *rand.Rand) (time.Duration, bool) {
	return now + around(p.mean, rnd), false
}

// tailed is a plant of any number of places; a twentieth of its calls takes a hundred times as long.
type tailed struct{ sleeps }

func (p tailed) call(now time.Duration, running int, rnd *rand.Rand) (time.Duration, bool) {
	end, _ := p.sleeps.call(now, running, rnd)
	if rnd.IntN(20) == 0 {
		end = now + 100*(end-now)
	}
	return end, false
}

// servers is a plant with so many places; who finds none waits in the queue.
type servers struct {
	mean     time.Duration
	capacity func(now time.Duration) int // at most 64
	queue    int                         // calls that may wait; one more fails at once. 0: any number
	free     []time.Duration             // when each place is
	ends     []time.Duration             // of what waits or runs
}

func always(n int) func(time.Duration) int { return func(time.Duration) int { return n } }

func (p *servers) call(now time.Duration, _ int, rnd *rand.Rand) (time.Duration, bool) {
	n := p.capacity(now)
	if n == 0 {
		return now + 10*time.Millisecond, true
	}
	p.ends = slices.DeleteFunc(p.ends, func(end time.Duration) bool { return end <= now })
	if p.queue > 0 && len(p.ends) >= n+p.queue {
		return now + 10*time.Millisecond, true
	}
	for len(p.free) < n {
		p.free = append(p.free, now)
	}
	if len(p.free) > n {
		slices.Sort(p.free)
		p.free = p.free[:n]
	}
	next := 0
	for i := range p.free {
		if p.free[i] < p.free[next] {
			next = i
		}
	}
	end := max(now, p.free[next]) + around(p.mean, rnd)
	p.free[next] = end
	p.ends = append(p.ends, end)
	return end, false
}

// knee is a service that has a best load and does less above it, by the universal scalability law (Gunther, 1993); far above it calls time out.
type knee struct {
	mean              time.Duration
	contends, coheres float64
	timeout           time.Duration
}

func (p *knee) call(now time.Duration, running int, rnd *rand.Rand) (time.Duration, bool) {
	n := float64(running)
	took := time.Duration(float64(around(p.mean, rnd)) * (1 + p.contends*(n-1) + p.coheres*n*(n-1)))
	if took > p.timeout {
		return now + p.timeout, true
	}
	return now + took, false
}

// unlucky is a plant of which a part of the calls fails, however many there are.
type unlucky struct {
	plant
	part float64
}

func (p unlucky) call(now time.Duration, running int, rnd *rand.Rand) (time.Duration, bool) {
	end, _ := p.plant.call(now, running, rnd)
	return end, rnd.Float64() < p.part
}

// hangs is a plant whose calls take a minute from some time on, until another, and fail then.
type hangs struct {
	plant
	from, until time.Duration
}

func (p *hangs) call(now time.Duration, running int, rnd *rand.Rand) (time.Duration, bool) {
	if now >= p.from && now < p.until {
		return now + time.Minute, true
	}
	return p.plant.call(now, running, rnd)
}

// slower is a plant of any number of places whose calls take five times as long from some time on.
type slower struct{ from time.Duration }

func (p *slower) call(now time.Duration, _ int, rnd *rand.Rand) (time.Duration, bool) {
	mean := 10 * time.Millisecond
	if now >= p.from {
		mean *= 5
	}
	return now + around(mean, rnd), false
}

// around draws a time: a fifth is the same for all, the rest is exponential.
func around(mean time.Duration, rnd *rand.Rand) time.Duration {
	return mean/5 + time.Duration(rnd.ExpFloat64()*float64(mean)*4/5)
}

// worker runs calls of a plant, as many as allowed at once, without end.
type worker struct {
	limit *adaptive.Limit // nil: fixed
	fixed int
	rnd   *rand.Rand
	plant plant

	now          time.Duration
	running      ending
	done, failed []time.Duration // when calls ended
	took         time.Duration   // all that went well
	limits       []point
}

// point is a limit, from a time on.
type point struct {
	at    time.Duration
	limit int
}

// call is one that runs.
type call struct {
	end    time.Duration
	began  time.Duration
	mark   uint32
	failed bool
}

// ending is a heap of calls by their ends.
type ending []call

func (e ending) Len() int           { return len(e) }
func (e ending) Less(i, j int) bool { return e[i].end < e[j].end }
func (e ending) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *ending) Push(x any)        { *e = append(*e, x.(call)) }

func (e *ending) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func (w *worker) allowed() int {
	if w.limit == nil {
		return w.fixed
	}
	n := w.limit.Allows()
	if last := len(w.limits) - 1; last < 0 || w.limits[last].limit != w.limit.Now() {
		w.limits = append(w.limits, point{w.now, w.limit.Now()})
	}
	return n
}

// run goes on until a time.
func (w *worker) run(until time.Duration) *worker {
	for w.now < until {
		for len(w.running) < w.allowed() {
			c := call{began: w.now}
			if w.limit != nil {
				c.mark = w.limit.Began(w.now)
			}
			c.end, c.failed = w.plant.call(w.now, len(w.running)+1, w.rnd)
			heap.Push(&w.running, c)
		}
		if w.limit != nil {
			if at, rests := w.limit.Rests(); rests && (len(w.running) == 0 || at < w.running[0].end) {
				w.now = at
				w.limit.Wake(at)
				continue
			}
		}
		c := heap.Pop(&w.running).(call)
		w.now = c.end
		s := adaptive.Sample{Took: c.end - c.began, Calls: 1}
		if c.failed {
			s.Failed = 1
			w.failed = append(w.failed, c.end)
		} else {
			w.done = append(w.done, c.end)
			w.took += c.end - c.began
		}
		if w.limit != nil {
			w.limit.Ended(w.now, c.mark, s)
		}
	}
	return w
}

// count says how many of sorted times lie in [from, to).
func count(at []time.Duration, from, to time.Duration) int {
	search := func(t time.Duration) int { i, _ := slices.BinarySearch(at, t); return i }
	return search(to) - search(from)
}

// mean is the limit's, weighted by time, in [from, to).
func (w *worker) mean(from, to time.Duration) float64 {
	sum := 0.0
	for i, p := range w.limits {
		end := to
		if i+1 < len(w.limits) {
			end = min(w.limits[i+1].at, to)
		}
		sum += float64(p.limit) * max(0, (end-max(p.at, from)).Seconds())
	}
	return sum / (to - from).Seconds()
}

// workload is a plant, and for how long it is under load.
type workload struct {
	name  string
	make  func() plant
	lasts time.Duration
}

var workloads = []workload{
	{"processors, 4", func() plant { return &servers{mean: 5 * time.Millisecond, capacity: always(4)} }, 30 * time.Second},
	{"sleep", func() plant { return sleeps{20 * time.Millisecond} }, 30 * time.Second},
	{"a pool of 8 connections", func() plant { return &servers{mean: 10 * time.Millisecond, capacity: always(8)} }, 30 * time.Second},
	{"a service with a knee", func() plant {
		return &knee{mean: 10 * time.Millisecond, contends: 0.01, coheres: 0.002, timeout: 200 * time.Millisecond}
	}, 30 * time.Second},
	{"one that degrades", func() plant {
		return &servers{mean: 10 * time.Millisecond, queue: 16, capacity: func(now time.Duration) int {
			if now < 20*time.Second {
				return 20
			}
			return 2
		}}
	}, time.Minute},
	{"one that recovers", func() plant {
		return &servers{mean: 10 * time.Millisecond, queue: 16, capacity: func(now time.Duration) int {
			if now > 20*time.Second && now < 40*time.Second {
				return 2
			}
			return 20
		}}
	}, 80 * time.Second},
}

// others are like those, with numbers that nothing was chosen by.
var others = []workload{
	{"processors, 3, slow", func() plant { return &servers{mean: 60 * time.Millisecond, capacity: always(3)} }, 2 * time.Minute},
	{"a pool of 30 connections", func() plant { return &servers{mean: 35 * time.Millisecond, capacity: always(30)} }, time.Minute},
	{"a service with an early knee", func() plant {
		return &knee{mean: 40 * time.Millisecond, contends: 0.03, coheres: 0.01, timeout: time.Second}
	}, 2 * time.Minute},
	{"a service with a late knee", func() plant {
		return &knee{mean: 3 * time.Millisecond, contends: 0.005, coheres: 0.0006, timeout: 100 * time.Millisecond}
	}, 30 * time.Second},
	{"one that degrades by half", func() plant {
		return &servers{mean: 25 * time.Millisecond, queue: 6, capacity: func(now time.Duration) int {
			if now < 45*time.Second {
				return 30
			}
			return 15
		}}
	}, 90 * time.Second},
	{"a twentieth takes a hundred times as long", func() plant { return tailed{sleeps{10 * time.Millisecond}} }, 3 * time.Minute},
	{"a pool of 12 connections, and a fifth fails", func() plant {
		return unlucky{&servers{mean: 10 * time.Millisecond, capacity: always(12)}, 0.2}
	}, time.Minute},
}

// fixed are the settings that are tried.
func fixed(most int) (all []int) {
	for n := 1.0; n < float64(most); n = math.Ceil(n * 1.25) {
		all = append(all, int(n))
	}
	return append(all, most)
}

const most = 64

func (l workload) with(limit *adaptive.Limit, n int, seed uint64) *worker {
	w := &worker{limit: limit, fixed: n, rnd: rand.New(rand.NewPCG(seed, 1)), plant: l.make()}
	return w.run(l.lasts)
}

// best is the fixed setting with which most is done; of those within a hundredth of it the one with the least handlers.
func (l workload) best(seed uint64) *worker {
	var all []*worker
	for _, n := range fixed(most) {
		all = append(all, l.with(nil, n, seed))
	}
	top := slices.MaxFunc(all, func(a, b *worker) int { return cmp.Compare(len(a.done), len(b.done)) })
	i := slices.IndexFunc(all, func(w *worker) bool { return float64(len(w.done)) >= 0.99*float64(len(top.done)) })
	return all[i]
}
