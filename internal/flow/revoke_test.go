package flow

import (
	"slices"
	"testing"
)

// What may have been ours is not once its session has ended: another one asks for it as for any other.
func TestNothingMayBeOursAfterTheSession(t *testing.T) {
	for _, p := range []phase{queued, waiting, suspect} {
		f := joined(Config{})
		it := plainItem("", "a")
		it.phase, it.maybe = p, true
		f.loseItem(it)
		if it.maybe || it.phase != p {
			t.Errorf("phase %d: it may be ours: %v, phase %d", p, it.maybe, it.phase)
		}
	}
}

// A drain whose time is up names what is still in hand: what the broker does not have back, and what still runs or is settled.
// What runs is cancelled.
func TestDrainNamesWhatIsInHand(t *testing.T) {
	f := joined(Config{})
	for id, c := range map[string]struct {
		told  bool
		phase phase
	}{"given back": {true, queued}, "runs": {true, running}, "is settled": {true, settling}, "waits": {false, waiting}, "began": {false, running}} {
		it := plainItem("", id)
		it.told, it.phase = c.told, c.phase
		if c.phase == running {
			it.dispatch = &Dispatch{Items: []*Item{plainItem("", "another"), it}}
		}
		f.enlist(it)
	}
	var ids, off []string
	f.CancelAll(func(it *Item) { ids = append(ids, string(it.Key.ID)) })
	if slices.Sort(ids); !slices.Equal(ids, []string{"began", "is settled", "runs", "waits"}) {
		t.Errorf("%q", ids)
	}
	for _, c := range commands(f).CallOff {
		id := string(c.Dispatch.Items[c.At].Key.ID)
		if off = append(off, id); c.Cause != Shutdown {
			t.Errorf("%s is cancelled for cause %d", id, c.Cause)
		}
	}
	if slices.Sort(off); !slices.Equal(off, []string{"began", "runs"}) {
		t.Errorf("%q are cancelled", off)
	}
}

// Whoever waits for room hears when the ledger answers again, and nothing when it goes on answering.
func TestLedgerThatIsBackIsTold(t *testing.T) {
	f := joined(Config{})
	for i, c := range []struct{ answers, was, told bool }{
		{false, true, false}, {false, false, false}, {true, false, true}, {true, true, false},
	} {
		was, is := f.Reachable(0, c.answers)
		if told := commands(f).Improved; told != c.told || was != c.was || is != c.answers {
			t.Errorf("%d: it answered %v, answers %v, told %v", i, was, is, told)
		}
	}
	f.LeaseLost(0, f.sess)
	commands(f)
	if _, is := f.Reachable(0, true); is || commands(f).Improved {
		t.Error("without a session a ledger that answers is enough")
	}
}

// Whoever waits for room hears that the worker is resumed.
func TestResumeIsTold(t *testing.T) {
	f := joined(Config{})
	f.Pause(0)
	if commands(f).Improved || f.MayStart() {
		t.Error("a pause is an improvement, or none")
	}
	if f.Resume(); !commands(f).Improved || !f.MayStart() {
		t.Error("nobody is told")
	}
}

// A drain waits for what the broker has back long since: what its handler uses is closed next.
func TestDrainWaitsForWhatTheBrokerHasBack(t *testing.T) {
	f := readied(Config{}, 1)
	d := f.newDispatch(0, f.takeReady(0))
	it := d.Items[0]
	f.Drop(0, everything, 0, nil)
	f.Wake(0)
	c := commands(f)
	if len(c.CallOff) != 1 || c.CallOff[0] != (CallOff{d, 0, Revoked}) || !it.told {
		t.Fatalf("when the grace is over %+v is called off, told %v", c.CallOff, it.told)
	}
	var told Telling
	for f.Tell(&told) {
		f.Told(&told)
	}
	if ended := commands(f).Ended; len(ended) != 1 {
		t.Fatalf("%d drops have ended when the broker knows, want the one", len(ended))
	}
	last := f.Drain(0, nil)
	var b Batch
	for i, step := range []func(){func() {}, func() { f.Ran(0, d, Outcome{}) }, func() { f.NextSettle(0, &b) }} {
		if step(); last.Ended() || len(commands(f).Ended) != 0 {
			t.Fatalf("%d: it has ended, and the message is in phase %d", i, it.phase)
		}
	}
	f.Settled(0, &b, []error{nil}, nil)
	if c := commands(f); !last.Ended() || len(c.Ended) != 1 || c.Ended[0] != last {
		t.Error("nothing is left, and it has not ended")
	}
}

// What the broker has back and may be ours is asked for as long as its session lasts; when that is lost it is let go of. In a drain
// all that is not ours is let go of, and what comes still goes back at once.
func TestWhatTheBrokerHasBackIsLetGoOf(t *testing.T) {
	f := joined(Config{})
	it := plainItem("", "a")
	f.enlist(it)
	f.s.add(it)
	it.sess, it.maybe, it.dropped = f.sess, true, true
	if f.giveBack(it); it.phase != queued || f.s.doubtQ.len() != 1 || len(f.out) != 1 || f.out[0].Verdict != (Verdict{Held: true}) {
		t.Errorf("what may be ours is in phase %d, %d in doubt, the broker is told %+v", it.phase, f.s.doubtQ.len(), f.out)
	}
	if f.LeaseLost(0, f.sess); it.phase != finished || len(f.out) != 1 || f.LeaseLost(0, it.sess) {
		t.Errorf("when the session is lost it is in phase %d, the broker is told %+v", it.phase, f.out)
	}
	drains := joined(Config{})
	drains.Drain(0, nil)
	late := plainItem("", "b")
	if drains.Offer(0, late); late.phase != finished || len(drains.out) != 1 || drains.out[0].Verdict.Ack {
		t.Errorf("what comes in a drain is in phase %d, the broker is told %+v", late.phase, drains.out)
	}
}

// A range that was not claimed is finished when a drain begins, and the drain ends once its worker has been told of it.
func TestDrainWaitsForWhatItFinishes(t *testing.T) {
	f := asking()
	offers(f, "log", 3)
	d := f.Drain(0, nil)
	var told Telling
	if commands(f); d.Ended() || !f.Tell(&told) || len(told.Finished) != 3 {
		t.Fatalf("ended: %v; %d are told", d.Ended(), len(told.Finished))
	}
	if f.Told(&told); !d.Ended() {
		t.Error("all is told, and the drain has not ended")
	}
}
