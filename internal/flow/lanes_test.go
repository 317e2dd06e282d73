package flow

import (
	"math/rand/v2"
	"testing"
	"time"
)

// lanesTwin is a ledger with what is parked in each lane, and what an assignment knows of it.
type lanesTwin struct {
	*testing.T
	rnd    *rand.Rand
	is     Lanes
	now    time.Duration
	parked map[uint64]int
	flight map[uint64]bool // lanes of which this process parks a message, which may be there or not
}

func (w *lanesTwin) lane() uint64 { return w.rnd.Uint64N(30) }

// loads has the assignment ask for all lanes; while it does, others things happen.
func (w *lanesTwin) loads(most int, meanwhile func()) {
	since, is := w.is.ToLoad(w.now)
	if !is {
		return
	}
	var lanes []uint64
	for lane, n := range w.parked {
		if n > 0 {
			lanes = append(lanes, lane)
		}
	}
	more := len(lanes) > most
	lanes = lanes[:min(len(lanes), most)]
	meanwhile()
	w.is.Load(w.now, since, lanes, more)
}

// begins has a message of a lane begin if it may.
func (w *lanesTwin) begins(lane uint64) {
	if w.flight[lane] { // the one before it in its sequence is being parked
		return
	}
	step, _, since := w.is.Look(w.now, lane)
	if step == LaneAsks {
		step = w.is.Heard(w.now, lane, since, w.parked[lane], time.Duration(w.rnd.IntN(2))*time.Minute)
	}
	if step == LaneRuns && w.parked[lane] > 0 {
		w.Fatalf("a message runs ahead of %d of lane %d", w.parked[lane], lane)
	}
	if step == LaneRuns && w.rnd.IntN(2) == 0 || step == LaneBehind {
		w.is.Parks(lane)
		w.flight[lane] = true
	}
}

// step has something happen.
func (w *lanesTwin) step() {
	lane := w.lane()
	w.now += time.Duration(w.rnd.IntN(400)) * time.Millisecond
	switch w.rnd.IntN(6) {
	case 0, 1:
		w.begins(lane)
	case 2: // what was being parked is, and its item is let go of
		if w.flight[lane] {
			w.parked[lane]++
			delete(w.flight, lane)
			w.is.Parked(lane)
		}
	case 3: // a worker runs the first
		w.parked[lane] = max(w.parked[lane]-1, 0)
	case 4: // an owner of before has parked what is met here
		if !w.flight[lane] && w.rnd.IntN(10) == 0 {
			w.parked[lane]++
			w.is.Mark(lane)
		}
	case 5:
		w.loads(1+w.rnd.IntN(40), func() {})
	}
	if w.is.Free() {
		for lane, n := range w.parked {
			if n > 0 {
				w.Fatalf("nothing is said to be parked, and %d of lane %d are", n, lane)
			}
		}
	}
}

// What may be parked is known of more lanes than have messages parked, and of no fewer, whatever happens between a question and its
// answer.
func TestLanesKnowMore(t *testing.T) {
	for seed := range uint64(300) {
		w := &lanesTwin{T: t, rnd: rand.New(rand.NewPCG(seed, 1)), parked: map[uint64]int{}, flight: map[uint64]bool{}}
		for range w.rnd.IntN(40) { // by owners of before
			w.parked[w.lane()]++
		}
		w.loads(1+w.rnd.IntN(60), func() {})
		for range 400 {
			w.step()
			if w.rnd.IntN(50) == 0 {
				w.is.loadAt = 0
				w.is.all = w.is.all || w.rnd.IntN(2) == 0
				w.loads(1+w.rnd.IntN(60), func() {
					for range w.rnd.IntN(4) {
						lane := w.lane()
						w.begins(lane)
						if w.flight[lane] && w.rnd.IntN(2) == 0 {
							w.parked[lane]++
							delete(w.flight, lane)
							w.is.Parked(lane)
						}
					}
				})
			}
		}
	}
}

// A key of which nothing is parked any more is free at the next look, one with many or with a long wait keeps what comes, and one that is
// soon over holds it.
func TestLanesFollow(t *testing.T) {
	var l Lanes
	if _, is := l.ToLoad(0); !is || l.Loaded() || l.Free() {
		t.Fatal("nothing was asked yet")
	}
	l.Load(0, 0, []uint64{1, 2}, false)
	if step, _, _ := l.Look(0, 3); step != LaneRuns {
		t.Errorf("of another key: %d", step)
	}
	for _, c := range []struct {
		messages int
		wait     time.Duration
		want     LaneStep
	}{{1, 0, LaneHolds}, {100, time.Second, LaneHolds}, {101, 0, LaneBehind}, {1, time.Second + 1, LaneBehind}, {0, 0, LaneRuns}} {
		l.Load(0, l.changes, []uint64{1}, false)
		_, _, since := l.Look(0, 1)
		if step := l.Heard(0, 1, since, c.messages, c.wait); step != c.want {
			t.Errorf("%d messages, the first waits %s: %d, want %d", c.messages, c.wait, step, c.want)
		}
		next, wait, _ := l.Look(laneBelief-1, 1)
		later, _, _ := l.Look(laneBelief, 1)
		switch c.want {
		case LaneBehind:
			if next != LaneBehind || wait != c.wait || later != LaneAsks {
				t.Errorf("then %d for %s, and %d", next, wait, later)
			}
		case LaneHolds:
			if next != LaneAsks {
				t.Errorf("then %d", next)
			}
		case LaneRuns:
			if next != LaneRuns || !l.Free() {
				t.Errorf("then %d", next)
			}
		}
	}
	l.Load(0, l.changes, nil, true)
	if step, _, _ := l.Look(0, 77); step != LaneAsks || l.Free() {
		t.Errorf("of more than are known: %d", step)
	}
	if _, is := l.ToLoad(laneReload - 1); is {
		t.Error("it is asked again at once")
	}
	if since, is := l.ToLoad(laneReload); is {
		l.Load(laneReload, since, nil, false)
	}
	if !l.Free() {
		t.Error("all are free")
	}
}
