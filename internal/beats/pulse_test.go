package beats_test

import (
	"testing"
	"time"

	"github.com/ackledger/ackledger/internal/beats"
)

func TestPulse(t *testing.T) {
	const lease = 30 * time.Second
	start := time.Unix(1700000000, 0)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	p := beats.NewPulse(lease, start)
	for s := 10; s < 30; s += 10 {
		p.Confirmed(at(s), at(s))
		if p.MaySeal(at(s)) {
			t.Fatalf("seals after %d s", s)
		}
	}
	p.Confirmed(at(30), at(30))
	if !p.MaySeal(at(30)) {
		t.Fatal("does not seal after a whole lease")
	}
	if p.MaySeal(at(61)) {
		t.Fatal("seals although its own lease is over")
	}
	p.Missed(at(40)) // an outage: everyone has a lease's time to return first
	p.Confirmed(at(50), at(50))
	if p.MaySeal(at(69)) {
		t.Fatal("seals 29 s after a missed beat")
	}
	p.Confirmed(at(69), at(69))
	if !p.MaySeal(at(70)) {
		t.Fatal("does not seal a lease after a missed beat")
	}
	p.Confirmed(at(90), at(100)) // answered after the lease before it (99 s) was over
	p.Confirmed(at(110), at(110))
	if p.MaySeal(at(129)) {
		t.Fatal("seals 29 s after a late answer")
	}
	p.Confirmed(at(129), at(129))
	if !p.MaySeal(at(130)) {
		t.Fatal("does not seal a lease after a late answer")
	}
}
