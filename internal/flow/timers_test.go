package flow

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// dumbTimer is a timer in a list that is searched from its beginning each time.
type dumbTimer struct {
	at   time.Duration
	name int
}

// dumbTimers does what is due, as far as it goes: the earliest first, of two at one time the one that was made first.
type dumbTimers struct {
	list []dumbTimer // in the order in which they were made
	did  []int
}

func (d *dumbTimers) run(now time.Duration, more map[int]dumbTimer) time.Duration {
	for {
		first := -1
		for i, t := range d.list {
			if first < 0 || t.at < d.list[first].at {
				first = i
			}
		}
		if first < 0 {
			return never
		}
		t := d.list[first]
		if t.at > now {
			return t.at
		}
		d.list = slices.Delete(d.list, first, first+1)
		d.did = append(d.did, t.name)
		if next, ok := more[t.name]; ok {
			d.list = append(d.list, next)
		}
	}
}

// Against a list, with few times so that many are the same, and with timers that make another when they are due:
//   - what is due is done in the order of its time, of two at one time in the order in which they were made;
//   - what is not due is not done, and nothing is done twice;
//   - what a timer makes that is due at once is done in the same run;
//   - run and next say when the next one is due; never if there is none;
//   - what is removed is not done, and removing what was done changes nothing;
//   - what was done is not kept in memory.
func TestTimersAgainstAList(t *testing.T) {
	t.Parallel()
	ties, made := 0, 0
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 17))
		var q timers
		var twin dumbTimers
		var did []int
		handles := map[int]*timer{}
		more, names, now := map[int]dumbTimer{}, 0, time.Duration(0)
		var add func(dumbTimer)
		add = func(d dumbTimer) {
			handles[d.name] = q.add(d.at, func(at time.Duration) {
				if at != now {
					t.Fatalf("seed %d: a timer is told that it is %s at %s", seed, at, now)
				}
				did = append(did, d.name)
				if next, ok := more[d.name]; ok {
					add(next)
				}
			})
		}
		draw := func() dumbTimer {
			names++
			return dumbTimer{now + time.Duration(r.IntN(12)-3), names}
		}
		for range 300 {
			if names > 0 && r.IntN(8) == 0 {
				name := 1 + r.IntN(names)
				twin.list = slices.DeleteFunc(twin.list, func(o dumbTimer) bool { return o.name == name })
				q.remove(handles[name])
			}
			if r.IntN(3) > 0 {
				d := draw()
				ties += len(slices.DeleteFunc(slices.Clone(twin.list), func(o dumbTimer) bool { return o.at != d.at }))
				if r.IntN(4) == 0 {
					more[d.name] = draw()
					made++
				}
				twin.list = append(twin.list, d)
				add(d)
				continue
			}
			now += time.Duration(r.IntN(5))
			want := twin.run(now, more)
			q.run(now)
			if got := q.next(); got != want {
				t.Fatalf("seed %d: the next is due at %s, want %s", seed, got, want)
			}
			if !slices.Equal(did, twin.did) {
				t.Fatalf("seed %d: done %v, want %v", seed, did, twin.did)
			}
			for _, old := range q.heap[len(q.heap):cap(q.heap)] {
				if old != nil {
					t.Fatalf("seed %d: what was done is kept", seed)
				}
			}
		}
	}
	if ties < 1000 || made < 1000 {
		t.Errorf("%d ties, %d made by others: too little happened", ties, made)
	}
}

// A flow wakes for what waits and for its timers alike: when it has been woken, nothing is due.
func TestWakeDoesAllThatIsDue(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 19))
		f := New(Config{})
		due, done, now := map[time.Duration]int{}, 0, time.Duration(0)
		var items []*Item
		for i := range 30 {
			at := time.Duration(1 + r.IntN(50))
			due[at]++
			if r.IntN(2) == 0 {
				f.timers.add(at, func(time.Duration) { done++ })
				continue
			}
			it := plainItem("", string(rune('a'+i)))
			f.s.enter(it)
			f.s.hold(it, at)
			items = append(items, it)
		}
		for len(due) > 0 {
			earliest := never
			for at := range due {
				earliest = min(earliest, at)
			}
			if at, ok := f.NextWake(); !ok || at != earliest {
				t.Fatalf("seed %d: wakes at %s, %v, want %s", seed, at, ok, earliest)
			}
			now = earliest + time.Duration(r.IntN(5))
			f.Wake(now)
			left := 0
			for at, n := range due {
				if at <= now {
					delete(due, at)
				} else {
					left += n
				}
			}
			woken := done
			for _, it := range items {
				if it.phase == queued {
					woken++
				}
			}
			if woken != 30-left {
				t.Fatalf("seed %d: %d were due by %s, want %d", seed, woken, now, 30-left)
			}
		}
		if _, ok := f.NextWake(); ok {
			t.Fatalf("seed %d: wakes for nothing", seed)
		}
	}
}
