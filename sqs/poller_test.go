package sqs

import (
	"testing"
	"time"
)

func TestDemand(t *testing.T) {
	for _, tt := range []struct {
		name string
		s    situation
		want int
	}{
		{"idle", situation{slots: 16, room: 10_000, wanted: 1}, 10},
		{"one poll is enough", situation{slots: 16, room: 10_000, wanted: 1, open: 1, asked: 10}, 0},
		{"a second one", situation{slots: 16, room: 10_000, wanted: 2, open: 1, asked: 10}, 6},
		{"one free handler", situation{slots: 16, lanes: 15, room: 10_000, wanted: 4}, 1},
		{"all handlers are busy", situation{slots: 16, lanes: 16, room: 10_000, wanted: 4}, 0},
		{"fast handlers", situation{slots: 16, lanes: 16, ahead: 100, room: 10_000, wanted: 4, open: 3, asked: 30}, 10},
		{"more in hand than slots", situation{slots: 4, lanes: 30, room: 10_000, wanted: 4}, 0},
		{"little room", situation{slots: 16, room: 3, wanted: 1}, 3},
		{"no room", situation{slots: 16, room: 0, wanted: 1}, 0},
		{"room is spoken for", situation{slots: 16, room: 10, wanted: 2, open: 1, asked: 10}, 0},
		{"over its room", situation{slots: 16, room: -5, wanted: 1}, 0},
		{"nothing is known", situation{}, 0},
	} {
		if got := tt.s.demand(); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestPollersGrowAndShrink(t *testing.T) {
	p, now := newPoller(8, 1000), time.Now()
	wide := situation{slots: 1000, room: 1000}
	open := func() (n int) {
		for {
			if got, _ := p.ask(wide, 1<<30, now); got == 0 {
				return n
			}
			n++
		}
	}
	total := open()
	for _, want := range []int{1, 2, 8, 8} {
		if p.open != want {
			t.Fatalf("%d polls are open, want %d", p.open, want)
		}
		for range p.open {
			p.answered(10, 10, 10_000)
		}
		total = open()
	}
	if total != 8 {
		t.Fatalf("%d polls were opened, want 8", total)
	}
	for range 8 {
		p.answered(10, 0, 0)
	}
	if n := open(); n != 1 {
		t.Errorf("%d polls for an empty queue, want 1", n)
	}
}

func TestPollsThatFailWait(t *testing.T) {
	p, now := newPoller(8, 1000), time.Now()
	wide := situation{slots: 1000, room: 1000}
	var waits []time.Duration
	for range 12 {
		n, _ := p.ask(wide, 1<<30, now)
		if n == 0 {
			t.Fatal("no poll although the wait is over")
		}
		p.failed(n, now)
		n, wait := p.ask(wide, 1<<30, now)
		if n != 0 {
			t.Fatal("a poll right after one that failed")
		}
		waits = append(waits, wait)
		now = now.Add(wait)
	}
	if waits[0] < 100*time.Millisecond || waits[11] < 5*time.Second || waits[11] > 10*time.Second {
		t.Errorf("waits %v, want them to grow from 100 ms to 5 to 10 s", waits)
	}
}

func TestBytesHoldPollsBack(t *testing.T) {
	p, now := newPoller(8, 1000), time.Now()
	wide := situation{slots: 1000, room: 1000}
	n, _ := p.ask(wide, 1, now)
	p.answered(n, n, int64(n)<<20)
	if n, _ := p.ask(wide, 0, now); n != 0 {
		t.Errorf("a poll for %d messages without room for a byte", n)
	}
	first, _ := p.ask(wide, 1<<20, now)
	second, _ := p.ask(wide, 1<<20, now)
	if first == 0 || second != 0 {
		t.Errorf("polls for %d and %d messages of 1 MiB with room for one", first, second)
	}
}

func TestFastHandlersAreReceivedAheadFor(t *testing.T) {
	p, now := newPoller(8, 50), time.Now()
	p.since = now
	full := situation{slots: 16, lanes: 16, room: 1000}
	if n, _ := p.ask(full, 1<<30, now); n != 0 {
		t.Fatalf("a poll for %d messages though all handlers are busy", n)
	}
	now = now.Add(time.Second)
	p.done(40, now) // 40 in a second: 10 ahead
	if n, _ := p.ask(full, 1<<30, now); n != 10 {
		t.Errorf("a poll for %d messages, want 10", n)
	}
}

// A worker with all its polls open looks at nothing until one of them ends, however fast its handlers are; the end of
// each wakes it, that of one that failed beside others too.
func TestOpenPollsLeaveTheLoopAlone(t *testing.T) {
	p, now := newPoller(2, 1000), time.Now()
	wide := situation{slots: 1000, room: 1000}
	woken := func() bool {
		select {
		case <-p.wake:
			return true
		default:
			return false
		}
	}
	if p.done(1, now); !p.wants() || !woken() {
		t.Fatal("no poll is open and none is wanted")
	}
	n, _ := p.ask(wide, 1<<30, now)
	if p.done(1, now); p.wants() || woken() {
		t.Fatal("the only poll wanted is open and the loop is woken")
	}
	if p.answered(n, n, 0); !p.wants() || !woken() {
		t.Fatal("a poll ended with messages and no other is wanted")
	}
	for p.wants() {
		if n, _ := p.ask(wide, 1<<30, now); n == 0 {
			t.Fatal("a poll is wanted and not asked for")
		}
	}
	if p.done(1, now); p.open != 2 || woken() {
		t.Fatalf("%d polls are open, want 2, and the loop left alone", p.open)
	}
	for i := range 2 {
		if p.failed(10, now); !woken() {
			t.Errorf("failed poll %d wakes nobody", i)
		}
	}
	if !p.wants() {
		t.Error("no poll is open and none is wanted")
	}
}
