package flow

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"pgregory.net/rapid"
)

// twin plays the flow around a scheduler, and keeps beside it the dumbest book there is: every item ever offered, in
// order. What must hold is checked against the book after each step.
type twin struct {
	s   *sched
	now time.Duration
	all []*Item
}

func newTwin(rules ...Rule) *twin { return &twin{s: newSched(1, rules...)} }

func (w *twin) add(sequence, key string) *Item {
	it := &Item{OrderingKey: sequence, Size: int64(len(w.all) % 7)}
	it.Key = ledger.Key{Scope: "twin", ID: []byte(key)}
	w.all = append(w.all, it)
	w.s.add(it)
	return it
}

func (w *twin) in(phases ...phase) []*Item {
	var out []*Item
	for _, it := range w.all {
		if slices.Contains(phases, it.phase) {
			out = append(out, it)
		}
	}
	return out
}

// release does what the flow does at the end of each event.
func (w *twin) release() {
	for _, it := range w.s.toRelease {
		if it.phase == claimed {
			w.s.setPhase(it, settling)
		}
	}
	w.s.toRelease = w.s.toRelease[:0]
}

func (w *twin) claim(n int, headsOnly bool) { w.s.takeClaims(n, headsOnly, nil) }

// answer plays the claim table: 0 run, 1 busy, 2 done, 3 suspect, 4 the call failed, 5 spent.
func (w *twin) answer(it *Item, what int, wait time.Duration) {
	switch what {
	case 0:
		if it.solo {
			w.s.setPhase(it, claimed)
			w.s.setPhase(it, running)
			return
		}
		w.s.won(it)
	case 1:
		w.s.hold(it, w.now+wait)
	case 2:
		w.s.remove(it)
	case 3:
		w.s.setPhase(it, queued)
		it.solo = true
		w.s.requeue(it)
	case 4:
		w.s.requeue(it)
	case 5:
		w.s.setPhase(it, settling)
	}
}

func (w *twin) start() {
	for w.s.readyQ.len() > 0 {
		if it := w.s.readyQ.pop(); it.phase == claimed && it.isHead() {
			w.s.setPhase(it, running)
			return
		}
	}
}

func (w *twin) solo() {
	for w.s.suspectQ.len() > 0 {
		if it := w.s.suspectQ.pop(); it.phase == suspect && it.isHead() && w.s.grab(it) {
			w.s.setPhase(it, claiming)
			return
		}
	}
}

// settled plays the ledger's answer to a settlement: 0 terminal, 1 released with a backoff, 2 released at once.
func (w *twin) settled(it *Item, what int, wait time.Duration) {
	switch what {
	case 0:
		w.s.remove(it)
	case 1:
		w.s.hold(it, w.now+wait)
	case 2:
		w.s.requeue(it)
	}
}

// earlier returns the unfinished items before it in its sequence, from the book.
func (w *twin) earlier(it *Item) []*Item {
	var out []*Item
	for _, o := range w.all {
		if o == it {
			break
		}
		if it.OrderingKey != "" && o.OrderingKey == it.OrderingKey && o.phase != finished {
			out = append(out, o)
		}
	}
	return out
}

func (w *twin) check(t interface{ Fatalf(string, ...any) }) {
	held, bytes, ahead, waits, taken := 0, int64(0), 0, 0, 0
	inHand := map[string]*Item{}
	for _, it := range w.all {
		if it.phase == finished {
			continue
		}
		held++
		bytes += it.Size
		before := w.earlier(it)
		switch it.phase {
		case claiming, claimed:
			ahead++
		case waiting, suspect:
			waits++
		}
		if it.phase >= claiming && it.phase <= running && len(before) == 0 && !it.solo {
			taken++
		}
		if it.phase >= claiming && it.phase <= settling {
			if other := inHand[string(it.Key.ID)]; other != nil {
				t.Fatalf("key %s is in hand twice, in phases %d and %d", it.Key.ID, other.phase, it.phase)
			}
			inHand[string(it.Key.ID)] = it
		}
		if it.phase == running && len(before) > 0 {
			t.Fatalf("an item of sequence %q runs before %d earlier ones", it.OrderingKey, len(before))
		}
		if it.phase == claimed && len(before) > 0 && before[0].isWaiting() {
			t.Fatalf("an item of sequence %q stays claimed behind a head that waits", it.OrderingKey)
		}
	}
	s := w.s
	got := []int64{int64(s.held), s.bytes.Total(), int64(s.ahead), int64(s.waitCount), int64(s.taken), int64(s.inflight.n)}
	want := []int64{int64(held), bytes, int64(ahead), int64(waits), int64(taken), int64(len(inHand))}
	if !slices.Equal(got, want) {
		t.Fatalf("held, bytes, ahead, waiting, taken, keys: scheduler says %v, the book %v", got, want)
	}
}

// finishAll lets everything succeed, and fails if something does not come to its turn.
func (w *twin) finishAll(t interface{ Fatalf(string, ...any) }) {
	for round := 0; w.s.held > 0; round++ {
		if round > 20*len(w.all)+100 {
			t.Fatalf("forgotten: %d items are held, in phases %v", w.s.held, w.phases())
		}
		w.now += time.Hour
		w.s.wake(w.now)
		w.claim(3, round%2 == 0)
		w.solo()
		for _, it := range w.in(claiming) {
			w.answer(it, 0, 0)
		}
		w.release()
		w.check(t)
		w.checkRules(t)
		w.start()
		for _, it := range w.in(running, settling) {
			w.settled(it, 0, 0)
		}
		w.release()
		w.check(t)
	}
	if len(w.s.sequences) > 0 || w.s.inflight.n > 0 || len(w.s.waits) > 0 || !w.s.rules.empty() {
		t.Fatalf("left behind: %d sequences, %d keys, %d waits", len(w.s.sequences), w.s.inflight.n, len(w.s.waits))
	}
}

func (w *twin) phases() map[phase]int {
	m := map[phase]int{}
	for _, it := range w.all {
		m[it.phase]++
	}
	return m
}

func TestSchedulerAgainstItsBook(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newTwin(bookRules[rapid.IntRange(0, len(bookRules)-1).Draw(t, "rules")]()...)
		pick := func(list []*Item) *Item {
			if len(list) == 0 {
				t.Skip("none")
			}
			return list[rapid.IntRange(0, len(list)-1).Draw(t, "which")]
		}
		wait := func() time.Duration { return time.Duration(rapid.IntRange(0, 20).Draw(t, "wait")) * time.Second }
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) { w.release(); w.check(t); w.checkRules(t) },
			"offer": func(t *rapid.T) {
				for range rapid.IntRange(1, 4).Draw(t, "n") {
					sequence := rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "sequence")
					w.add(sequence, fmt.Sprint("key ", rapid.IntRange(0, 30).Draw(t, "key")))
				}
			},
			"claim": func(t *rapid.T) {
				w.claim(rapid.IntRange(1, 6).Draw(t, "n"), rapid.Bool().Draw(t, "heads only"))
			},
			"answer": func(t *rapid.T) {
				w.answer(pick(w.in(claiming)), rapid.IntRange(0, 5).Draw(t, "answer"), wait())
			},
			"win":   func(t *rapid.T) { w.answer(pick(w.in(claiming)), 0, 0) },
			"start": func(t *rapid.T) { w.start() },
			"solo":  func(t *rapid.T) { w.solo() },
			"take back": func(t *rapid.T) {
				it := pick(w.in(running))
				w.s.setPhase(it, claimed)
				if it.isHead() {
					w.s.readyQ.pushFront(it)
				}
			},
			"end": func(t *rapid.T) { w.s.setPhase(pick(w.in(running)), settling) },
			"settled": func(t *rapid.T) {
				w.settled(pick(w.in(settling)), rapid.IntRange(0, 2).Draw(t, "how"), wait())
			},
			"uncertain": func(t *rapid.T) { w.s.hold(pick(w.in(running)), w.now+wait()) },
			"pass":      func(t *rapid.T) { w.now += wait(); w.s.wake(w.now) },
			"drop":      func(t *rapid.T) { w.s.remove(pick(w.in(queued, waiting, suspect))) },
			"revoke":    func(t *rapid.T) { w.s.setPhase(pick(w.in(claimed)), settling) },
			"lose":      func(t *rapid.T) { w.s.requeue(pick(w.in(claimed))) },
		})
		w.finishAll(t)
	})
}

// A sequence whose items are dropped while it stands in the claim queue must not be claimed from: it has no head.
func TestEmptiedSequenceInTheClaimQueue(t *testing.T) {
	for _, headsOnly := range []bool{false, true} {
		w := newTwin()
		it := w.add("a", "1")
		w.claim(1, headsOnly)
		w.s.hold(it, w.now)
		w.s.wake(w.now) // listed, and the sequence still gated
		w.s.remove(it)
		w.claim(1, headsOnly)
		w.check(t)
	}
}

// Dropped items must not stay in memory because nobody takes them out of the queues while all handlers are busy.
func TestQueuesForgetDroppedItems(t *testing.T) {
	w := newTwin()
	for round := range 50 {
		first := len(w.all)
		for i := range 1000 {
			w.add("", fmt.Sprint(round, " ", i))
		}
		for _, it := range w.all[first:] {
			w.s.remove(it)
		}
	}
	if n := w.s.claimQ.len(); n > 2048 {
		t.Fatalf("%d entries for %d items", n, w.s.held)
	}
	w.check(t)
}

// That something stopped wanting a slot is remembered until the flow has told: what comes after it does not undo it.
func TestEasedStaysUntilItIsTold(t *testing.T) {
	s := newSched(1)
	a, b := plainItem("", "a"), plainItem("", "b")
	s.add(a)
	s.add(b)
	s.takeClaims(10, false, nil)
	if s.eased {
		t.Error("eased by claims")
	}
	for i, it := range []*Item{a, b} {
		if s.hold(it, time.Second); !s.eased {
			t.Errorf("not eased by %d that wait", i+1)
		}
	}
	if s.wake(2 * time.Second); !s.eased {
		t.Error("what was due has undone it")
	}
}

// Queues drop what went on meanwhile once most of them is that, and keep what is still to come, in order.
func TestPruneKeepsWhatIsStillToCome(t *testing.T) {
	const stale = 2000
	s := newSched(1)
	add := func(i int, p phase) *Item {
		it := plainItem("", fmt.Sprint(i))
		it.phase = p
		return it
	}
	for i := range stale {
		s.claimQ.push(slot{item: add(i, finished)}, i%2 == 0)
		s.claimQ.push(slot{sequence: &sequence{}}, false) // all its items were let go of
		s.readyQ.push(add(i, finished))
		s.doubtQ.push(add(i, queued)) // known by now
		s.suspectQ.push(add(i, queued))
	}
	one, ready, maybe, alone := add(0, queued), add(0, claimed), add(0, queued), add(0, suspect)
	maybe.maybe = true
	listed := &sequence{head: one}
	s.claimQ.push(slot{item: one}, false)
	s.claimQ.push(slot{sequence: listed}, true)
	s.readyQ.push(ready)
	s.doubtQ.push(maybe)
	s.suspectQ.push(alone)
	s.prune()
	if s.claimQ.len() != 2 || s.readyQ.len() != 1 || s.doubtQ.len() != 1 || s.suspectQ.len() != 1 {
		t.Fatalf("left: %d to claim, %d ready, %d in doubt, %d suspect", s.claimQ.len(), s.readyQ.len(), s.doubtQ.len(), s.suspectQ.len())
	}
	if s.claimQ.pop().sequence != listed || s.claimQ.pop().item != one || s.readyQ.pop() != ready || s.doubtQ.pop() != maybe || s.suspectQ.pop() != alone {
		t.Error("others are left than are still to come")
	}
	for i := range 100 { // few: not worth it
		s.readyQ.push(add(i, finished))
	}
	if s.prune(); s.readyQ.len() != 100 {
		t.Errorf("%d are left of a short queue", s.readyQ.len())
	}
}
