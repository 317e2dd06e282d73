package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// A worker whose hands are full of large messages says so: nothing is polled, and nothing is wrong.
func TestCrowdOfLargeMessagesIsWarnedOf(t *testing.T) {
	e, _ := watched(t)
	e.s.bytes.Limit = 1000
	for n, warned := range []bool{false, false, true} {
		if got := strings.Contains(fmt.Sprint(e.Health().Warnings), "larger than a quarter of Options.MaxHeldBytes"); got != warned {
			t.Errorf("with %d large messages in hand: warned %v", n, got)
		}
		e.s.bytes.Add(1100)
	}
}

// Where what is ours and does not begin must not stay ours, what is taken back from a handler is given back to the ledger.
func TestTakenBackIsReleasedUnderPark(t *testing.T) {
	for _, park := range []bool{false, true} {
		e, _ := watched(t)
		e.opt.Park = park
		var items []*Item
		for _, id := range []string{"a", "b", "c"} {
			it := plainItem("", id)
			e.s.add(it)
			it.phase = running
			items = append(items, it)
		}
		c := e.newChunk(items, false, nil)
		c.next.Store(1) // the first has begun
		e.takeBack(c)
		if given, ready := e.settleQ.len(), e.s.readyQ.len(); given+ready != 2 || (given == 2) != park || items[0].phase != running {
			t.Errorf("park %v: %d are given back, %d are ready for others", park, given, ready)
		}
	}
}

// A handler that waited for the shared limiter while its messages were taken back does not begin, and keeps nobody from the limiter.
func TestTakenBackBehindTheLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, err := consumer.Options{Name: "n", Rate: 1000, Limiter: consumer.NewLimiter(1)}.WithDefaults()
		if err != nil {
			t.Fatal(err)
		}
		e := idle(t, o)
		e.starts = t.Context()
		if err := o.Limiter.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		c := e.newChunk([]*Item{plainItem("", "a")}, false, nil)
		got := make(chan error)
		go func() { got <- e.acquire(c) }()
		synctest.Wait()
		c.next.Store(takenBack)
		o.Limiter.Release()
		if err := <-got; !errors.Is(err, errTakenBack) {
			t.Errorf("it begins: %v", err)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := o.Limiter.Acquire(short); err != nil {
			t.Errorf("the limiter is kept: %v", err)
		}
	})
}

// A ledger that says that the session is lost is believed at once.
func TestLostSettlementLosesTheSession(t *testing.T) {
	e, _ := watched(t)
	o, err := memory.New().Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	sess := &session{owner: o, ended: make(chan struct{})}
	e.sess, e.up = sess, true
	if err, answered := e.untilAnswered(sess, 1, func(context.Context) error { return ledger.ErrLost }); !ledger.IsLost(err) || !answered || !sess.lost {
		t.Errorf("%v, answered %v, lost %v", err, answered, sess.lost)
	}
}

// A call has as many settlements as the ledger takes, also of one lane.
func TestEarlySuccessesFillACallAndNoMore(t *testing.T) {
	e, _ := watched(t)
	a, b := plainItem("l", "a"), plainItem("l", "b")
	e.s.add(a)
	e.s.add(b)
	a.phase, b.phase, b.extra().early = settling, running, &early{}
	full := make([]settlement, settleBatch)
	full[settleBatch-1] = settlement{item: a, kind: ledger.Succeed}
	if got, _ := e.takeEarly(full, 0); len(got) != settleBatch || b.rest().early == nil {
		t.Errorf("%d go into a call of at most %d", len(got), settleBatch)
	}
	if got, _ := e.takeEarly(full[1:], 0); len(got) != settleBatch || b.rest().early != nil {
		t.Errorf("%d go into a call with room for one more of %d; it would be settled twice: %v", len(got), settleBatch, b.rest().early != nil)
	}
}

// Stretches of two sessions are settled by a call each, and those that were split meanwhile by none.
func TestStretchesOfASessionAreSettledTogether(t *testing.T) {
	e, _ := watched(t)
	done := func(log string, n int, sess *session) *Stretch {
		st := &Stretch{log: log, whole: true, n: n, sess: sess, phase: running}
		e.s.addStretch(st)
		e.settleStretch(st)
		return st
	}
	mine, other := &session{}, &session{}
	a, b, c, d := done("a", 10, mine), done("b", 20, other), done("c", 30, mine), done("d", 40, mine)
	d.whole = false
	for _, c := range []struct {
		want []*Stretch
		left int
	}{{[]*Stretch{a, c}, 20}, {[]*Stretch{b}, 0}, {nil, 0}} {
		if got := e.takeDone(); !slices.Equal(got, c.want) || e.doneRecords != c.left {
			t.Errorf("%d go together, %d records are left, want %d and %d", len(got), e.doneRecords, len(c.want), c.left)
		}
	}
}

// A handler's goroutine takes as many records of a stretch as a share of bytes lets it, and no more.
func TestPiecesAreBoundedByBytes(t *testing.T) {
	s := newSched()
	for size, want := range map[int64]int{chunkBytes / 2: 2, chunkBytes/2 - 1: 3, chunkBytes: 1, 1: 4} {
		st := &Stretch{Records: sizedRecords{4, size}, log: "a", whole: true, n: 4, phase: claimed}
		s.stretchReady.push(st)
		if p := s.popPiece(10, false); p.to-p.from != want {
			t.Errorf("records of %d bytes: %d in a piece, want %d", size, p.to-p.from, want)
		}
	}
}

type sizedRecords struct {
	logRecords
	size int64
}

func (r sizedRecords) Size(int) int64 { return r.size }

// Claims run ahead by half of what they may at least, or by one that can begin at once.
func TestStretchesAreClaimedAheadByHalf(t *testing.T) {
	e := askingFor(t, &answers{})
	limit := 2 * e.opt.Concurrency
	e.offers("a", limit)
	for ahead, want := range map[int]int{0: limit, limit / 2: limit / 2, limit/2 + 1: 1, limit: 1} {
		if e.s.ahead = ahead; e.claimableStretches() != want {
			t.Errorf("%d are ahead: %d may be claimed, want %d", ahead, e.claimableStretches(), want)
		}
	}
	e.s.ahead = limit
	e.s.stretchReady.push(&Stretch{})
	if n := e.claimableStretches(); n != 0 {
		t.Errorf("%d may be claimed although others are ready", n)
	}
}

// What a split stretch is made of is copied from its records; during a drain it goes back to the broker.
func TestSplitOfAStretchThatWaits(t *testing.T) {
	for _, draining := range []bool{false, true} {
		e := askingFor(t, &answers{})
		e.draining = draining
		e.offers("a", 3)
		copied := 0
		e.s.lines["a"].stretches[0].Records = keptRecords{3, &copied}
		if e.split("a"); copied != 3 || (len(e.out) == 3) != draining || (e.s.claimQ.len() == 3) == draining {
			t.Errorf("draining %v: %d are copied, %d go back, %d wait", draining, copied, len(e.out), e.s.claimQ.len())
		}
	}
}

type keptRecords struct {
	logRecords
	copied *int
}

func (r keptRecords) Keep(*Item) { *r.copied++ }

// The clock is not asked again after a run that went well: the next one of its goroutine begins where it ended.
func TestNextRunBeginsAtTheEndOfTheLast(t *testing.T) {
	e, _ := watched(t)
	e.born = time.Now().Add(-time.Second)
	if at := (&run{e: e, ended: 1}).after(); at != 1 {
		t.Errorf("after a success: %s", at)
	}
	if at := (&run{e: e, ended: 1, end: &end{}}).after(); at <= 1 {
		t.Errorf("after a failure, which took its time to be judged: %s", at)
	}
}

// The provider of spans is looked for once.
func TestTracerIsRemembered(t *testing.T) {
	tel, tracer := &telemetry{}, noop.NewTracerProvider().Tracer("a")
	tel.global.Store(&tracer)
	if got := tel.tracing(); got != trace.Tracer(tracer) {
		t.Errorf("%v", got)
	}
}
