package flow

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ackledger/ackledger/internal/backoff"
	"github.com/ackledger/ackledger/ledger"
)

// A settlement counts with all that it carries.
func TestSizeOfASettlement(t *testing.T) {
	dead := &ledger.Archive{Body: make([]byte, 70), Headers: []ledger.Header{{Name: "name", Value: make([]byte, 26)}}}
	for name, c := range map[string]struct {
		more *ledger.Settlement
		want int
	}{
		"nothing":           {nil, 0},
		"a result":          {&ledger.Settlement{Result: make([]byte, 7)}, 7},
		"a dead letter":     {&ledger.Settlement{Dead: dead}, 100},
		"both":              {&ledger.Settlement{Dead: dead, Result: make([]byte, 7)}, 107},
		"a settlement bare": {&ledger.Settlement{}, 0},
	} {
		if got := (&Settlement{More: c.more}).size(); got != c.want {
			t.Errorf("%s: %d bytes, want %d", name, got, c.want)
		}
	}
}

// What succeeded behind another of its sequence is settled with it, and with the result that was set.
func TestEarlySuccessesKeepTheirResults(t *testing.T) {
	for _, result := range []string{"", "result"} {
		f := joined(Config{Concurrency: 1})
		a, b := plainItem("l", "a"), plainItem("l", "b")
		for _, it := range []*Item{a, b} {
			f.s.add(it)
			it.sess = f.sess
			f.s.setPhase(it, running)
		}
		var more *ledger.Settlement
		if result != "" {
			more = &ledger.Settlement{Kind: ledger.Succeed, Result: []byte(result)}
		}
		if f.succeed(b, more); f.settleQ.len() != 0 || b.phase != running {
			t.Fatalf("%q: what is behind is settled before its head, in phase %d", result, b.phase)
		}
		f.succeed(a, nil)
		var batch Batch
		if !f.NextSettle(0, &batch) || len(batch.Items) != 2 || batch.Items[1].Item != b || b.phase != settling || b.rest().early != nil {
			t.Fatalf("%q: %d together, the second in phase %d", result, len(batch.Items), b.phase)
		}
		if full := batch.Items[1].Full(); full.Kind != ledger.Succeed || string(full.Result) != result || (batch.Items[1].More == nil) != (result == "") {
			t.Errorf("%q: it is settled as %+v", result, full)
		}
	}
}

// A call has as many settlements as the ledger takes, also of one sequence.
func TestEarlySuccessesFillACallAndNoMore(t *testing.T) {
	f := joined(Config{Concurrency: 1})
	a, b := plainItem("l", "a"), plainItem("l", "b")
	f.s.add(a)
	f.s.add(b)
	a.phase, b.phase, b.more().early = settling, running, &early{}
	full := make([]Settlement, SettleBatch)
	full[SettleBatch-1] = Settlement{Item: a, Kind: ledger.Succeed}
	if got, _ := f.takeEarly(full, 0); len(got) != SettleBatch || b.rest().early == nil {
		t.Errorf("%d go into a call of at most %d", len(got), SettleBatch)
	}
	if got, _ := f.takeEarly(full[1:], 0); len(got) != SettleBatch || b.rest().early != nil {
		t.Errorf("%d go into a call with room for one more of %d; it would be settled twice: %v", len(got), SettleBatch, b.rest().early != nil)
	}
}

// What waited to head its sequence is settled, with what it came to, when it does.
func TestEarlySuccessIsSettledWhenItHeadsItsSequence(t *testing.T) {
	f := joined(Config{Concurrency: 1})
	a, b := plainItem("l", "a"), plainItem("l", "b")
	for _, it := range []*Item{a, b} {
		f.enlist(it)
		f.s.add(it)
		it.sess = f.sess
		f.s.setPhase(it, running)
	}
	more := &ledger.Settlement{Kind: ledger.Succeed, Result: []byte("r")}
	f.succeed(b, more)
	f.finish(a, Verdict{Ack: true})
	commands(f)
	if f.settleQ.len() != 1 || b.rest().early != nil || b.phase != settling {
		t.Fatalf("%d are settled, phase %d", f.settleQ.len(), b.phase)
	}
	if s := f.settleQ.pop(); s.Item != b || s.More != more {
		t.Errorf("it is settled as %+v", s)
	}
}

// Settlements go in calls of one session, of so many and so many bytes at most, each once and in order; what is larger than
// that alone goes alone.
func TestCallsOfSettlementsAgainstAList(t *testing.T) {
	t.Parallel()
	full, alone := 0, 0
	for seed := range uint64(24) {
		r := rand.New(rand.NewPCG(seed, 43))
		f := joined(Config{Concurrency: 1})
		sessions := []*Session{f.sess, {}}
		var list []Settlement
		sess, largest := f.sess, []int{0, 5000, settleBytes / 3, 2 * settleBytes}[r.IntN(4)]
		array := make([]byte, 2*settleBytes)
		for range 1 + r.IntN(4*SettleBatch) {
			if r.IntN(3000) == 0 {
				sess = sessions[r.IntN(2)]
			}
			s := Settlement{Item: &Item{state: state{phase: settling}}, Session: sess, Kind: ledger.Succeed}
			if largest > 0 {
				s.More = &ledger.Settlement{Kind: ledger.Succeed, Result: array[:r.IntN(largest)]}
			}
			list = append(list, s)
			f.settleQ.push(s)
		}
		var batch Batch
		for f.NextSettle(0, &batch) {
			bytes := 0
			for i := range batch.Items {
				bytes += batch.Items[i].size()
				if batch.Items[i] != list[i] || batch.Items[i].Session != batch.Session() {
					t.Fatalf("seed %d: settlement %d of a call is out of its order, or of another session", seed, i)
				}
			}
			n := len(batch.Items)
			if n > SettleBatch || n != batch.Messages() || n > 1 && bytes > settleBytes || f.settling != n {
				t.Fatalf("seed %d: %d settlements of %d bytes in a call that counts as %d", seed, n, bytes, f.settling)
			}
			if n < len(list) && n < SettleBatch && list[n].Session == batch.Session() && bytes+list[n].size() <= settleBytes {
				t.Fatalf("seed %d: a call of %d has room for the next", seed, n)
			}
			if n == SettleBatch {
				full++
			}
			if bytes > settleBytes {
				alone++
			}
			list = list[n:]
			f.SettleOver(0, &batch)
		}
		if len(list) != 0 || f.settling != 0 {
			t.Fatalf("seed %d: %d are left, %d under way", seed, len(list), f.settling)
		}
	}
	if full < 5 || alone < 5 {
		t.Errorf("%d full calls, %d of one that is too large: too little happened", full, alone)
	}
}

// A settlement that is refused again is repeated later each time, and those that wait for a suspect do not wait for it.
func TestRefusedSettlementsBackOff(t *testing.T) {
	f := joined(Config{Concurrency: 1, Backoff: backoff.Policy{Base: time.Second, Max: time.Hour}})
	it := plainItem("", "a")
	it.phase, it.more().awaited = settling, true
	s := &Settlement{Item: it, Kind: ledger.Fail, More: &ledger.Settlement{}}
	var waits []time.Duration
	now, told := time.Duration(0), 0
	for n := range 4 {
		f.keep(now, s, errors.New("refused"), false)
		c := commands(f)
		if told += len(c.Concluded); told == 1 && n == 0 && c.Concluded[0] != it {
			t.Errorf("another is concluded")
		}
		at, ok := f.NextWake()
		if f.Wake(at - 1); !ok || f.settleQ.len() != n {
			t.Fatalf("it is repeated too early: %d times", f.settleQ.len())
		}
		if f.Wake(at); f.settleQ.len() != n+1 {
			t.Fatalf("it is not repeated: %d times", f.settleQ.len())
		}
		waits, now = append(waits, at-now), at
	}
	for i := 1; i < len(waits); i++ {
		if waits[i] < waits[i-1]*3/2 {
			t.Errorf("it is repeated after %v, want longer each time", waits)
		}
	}
	if told != 1 {
		t.Errorf("who waits for the suspect is told %d times, want once", told)
	}
}

// What is released is held for as long as that is allowed, and let go of otherwise.
func TestHolds(t *testing.T) {
	for _, c := range []struct {
		most, after time.Duration
		held        bool
	}{
		{0, 0, true}, {0, time.Hour, true}, {time.Second, 0, true}, {time.Second, time.Second, true}, {time.Second, time.Second + 1, false},
		{-1, 0, false}, {-1, time.Hour, false},
	} {
		f := joined(Config{Concurrency: 1, HoldMax: c.most})
		it := plainItem("", "a")
		f.enlist(it)
		f.s.add(it)
		f.s.setPhase(it, settling)
		if f.released(0, it, c.after); (it.phase != finished) != c.held {
			t.Errorf("HoldMax %s, after %s: phase %d", c.most, c.after, it.phase)
		}
	}
}

// What is kept is repeated no more once it is forgotten, and is released at once if the broker wants it back meanwhile; a wait
// is no longer than an item is held.
func TestForgottenSettlementsAreNotRepeated(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(f *Flow, it *Item)
		want []ledger.SettleKind
	}{
		"stays":    {func(*Flow, *Item) {}, []ledger.SettleKind{ledger.Fail}},
		"forgets":  {func(f *Flow, it *Item) { f.forget(it) }, nil},
		"gives up": {func(f *Flow, it *Item) { f.giveUpKept(it) }, []ledger.SettleKind{ledger.Release}},
	} {
		f := joined(Config{Concurrency: 1, Backoff: backoff.Policy{Base: time.Minute, Max: time.Hour}, HoldMax: time.Second})
		it := plainItem("", "a")
		f.s.add(it)
		f.s.setPhase(it, settling)
		f.keep(0, &Settlement{Item: it, Kind: ledger.Fail, More: &ledger.Settlement{}}, errors.New("refused"), false)
		c.end(f, it)
		f.Wake(time.Second)
		var got []ledger.SettleKind
		for f.settleQ.len() > 0 {
			got = append(got, f.settleQ.pop().Kind)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: settled as %v, want %v", name, got, c.want)
		}
		if f.giveUpKept(it); f.settleQ.len() != 0 {
			t.Errorf("%s: what is on its way already is given up", name)
		}
	}
}

// The dead letter of a mismatch that is archived counts as held until it is published, as any other.
func TestFiledLettersAreHeld(t *testing.T) {
	f := joined(Config{Concurrency: 1, Target: true, Cipher: true})
	it := plainItem("", "a")
	f.s.add(it)
	f.enlist(it)
	f.s.setPhase(it, settling)
	s := &Settlement{
		Item: it, Kind: ledger.Fail, More: &ledger.Settlement{Dead: &ledger.Archive{Body: []byte("sealed")}}, Whole: &ledger.Archive{},
	}
	f.publishFiled(s)
	if _, waits, _ := f.Held(); waits != 1 || f.letters.len() != 1 {
		t.Fatalf("%d held, %d waiting", waits, f.letters.len())
	}
	next, ok := f.NextLetter()
	if !ok || next.More.Dead != s.Whole || string(s.More.Dead.Body) != "sealed" || !next.Filed {
		t.Errorf("what is published is sealed, or what is archived is not: %+v, %+v", next.More.Dead, s.More.Dead)
	}
	f.Published(0, &next, nil)
	if _, waits, _ := f.Held(); waits != 0 || it.phase != finished || s.Filed {
		t.Errorf("%d held, phase %d, the settlement itself is filed: %v", waits, it.phase, s.Filed)
	}
	if len(f.out) != 1 || !f.out[0].Verdict.Ack {
		t.Errorf("the broker is told %+v", f.out)
	}
}

// A row that is locked is asked for again a moment later, up to a tenth of a second; each by itself.
func TestLockedRowsAreSettledAgain(t *testing.T) {
	f := joined(Config{Concurrency: 1})
	var batch Batch
	for i := range 100 {
		it := plainItem("", fmt.Sprint(i))
		f.s.add(it)
		it.sess = f.sess
		f.s.setPhase(it, running)
		f.succeed(it, nil)
	}
	f.NextSettle(0, &batch)
	f.Settled(time.Second, &batch, slices.Repeat([]error{errors.New("locked")}, 100), nil)
	if f.Wake(time.Second + lockedRest/2 - 1); f.settleQ.len() != 0 {
		t.Errorf("%d are repeated at once", f.settleQ.len())
	}
	if f.Wake(time.Second + 3*lockedRest/4); f.settleQ.len() < 20 || f.settleQ.len() > 80 {
		t.Errorf("%d of 100 are repeated by half of the time: they are not spread", f.settleQ.len())
	}
	if f.Wake(time.Second + lockedRest); f.settleQ.len() != 100 {
		t.Errorf("%d of 100 are repeated", f.settleQ.len())
	}
}

// What is locked behind the head of its sequence goes with the head, when that is settled again, and not before it.
func TestLockedRowsOfASequenceGoTogether(t *testing.T) {
	f := joined(Config{Concurrency: 1})
	var items []*Item
	for i := range 3 {
		it := plainItem("l", fmt.Sprint(i))
		f.s.add(it)
		it.sess = f.sess
		f.s.setPhase(it, running)
		items = append(items, it)
	}
	for i := range items {
		f.succeed(items[len(items)-1-i], nil)
	}
	var batch Batch
	if !f.NextSettle(0, &batch) || len(batch.Items) != 3 {
		t.Fatalf("%d go together", len(batch.Items))
	}
	f.Settled(0, &batch, slices.Repeat([]error{errors.New("locked")}, 3), nil)
	if f.SettleOver(0, &batch); f.NextSettle(0, &batch) {
		t.Fatalf("%d are settled before their head", len(batch.Items))
	}
	if f.Wake(lockedRest); !f.NextSettle(0, &batch) || len(batch.Items) != 3 || batch.Items[0].Item != items[0] || batch.Items[2].Item != items[2] {
		t.Errorf("%d go together, want 3 in their order", len(batch.Items))
	}
}
