package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
)

// logRecords are records of log "a".
type logRecords struct{ n, made int }

func (r *logRecords) Len() int                         { return r.n }
func (r *logRecords) Offset(i int) int64               { return int64(i) }
func (r *logRecords) Size(int) int64                   { return 1 }
func (r *logRecords) SentAt(int) time.Time             { return time.Time{} }
func (r *logRecords) Lane(int) Lane                    { return Lane{} }
func (r *logRecords) Messages(int, []consumer.Message) {}
func (r *logRecords) Items(from, to int) (out []*Item) {
	r.made += to - from
	for i := from; i < to; i++ {
		it := &Item{Msg: &consumer.Message{}}
		it.Key = ledger.Key{Scope: "s", ID: []byte{byte(i)}, Pos: &ledger.Position{Log: "a", Offset: int64(i)}}
		out = append(out, it)
	}
	return out
}

// answers is an owner that answers for stretches what it is told to.
type answers struct {
	ledger.StretchOwner
	token uint64
	err   error
	again error // of items
	asked func()
}

func (a *answers) ID() string { return "owner" }

func (a *answers) ClaimStretches(context.Context, []ledger.Stretch) ([]uint64, error) {
	a.asked()
	return []uint64{a.token}, a.err
}

// Claim fails.
func (a *answers) Claim(context.Context, []ledger.Entry) ([]ledger.Claim, error) {
	a.asked()
	return nil, a.again
}

// askingFor is an engine, not started, whose handlers are fast, and that is to claim a stretch of so many records.
func askingFor(t *testing.T, a *answers, n int) (*Engine, *logRecords, *claimCall) {
	t.Helper()
	e, _ := watched(t)
	e.joins(a)
	e.runs(plainItem("first"), flow.Outcome{})
	e.settles(0, nil)
	records := &logRecords{n: n}
	key := records.Items(0, 1)[0].Key
	e.OfferStretch(&Stretch{Records: records, Claim: ledger.Stretch{First: ledger.Entry{Key: key}, Last: int64(n - 1)}})
	call := &claimCall{}
	if !e.claimer.next(call) || len(call.Ranges) != 1 {
		t.Fatalf("%d stretches, %d items are to be claimed, want one stretch", len(call.Ranges), len(call.Items))
	}
	records.made = 0
	return e, records, call
}

// What the ledger leaves alone, or refuses to answer for, is asked for message by message.
func TestStretchesThatAreNotOursAreAskedForOneByOne(t *testing.T) {
	for _, a := range []*answers{{}, {err: errors.New("away")}} {
		a.asked = func() {}
		e, records, call := askingFor(t, a, 30)
		if ok := e.claimer.askRanges(call); ok != (a.err == nil) || records.made != 30 || e.Load().Held != 30 {
			t.Errorf("%v: %v, %d are made, %+v in hand", a.err, ok, records.made, e.Load())
		}
		e.do(func(f *flow.Flow, now time.Duration) {
			f.ClaimOver(&call.Claim)
			f.Reachable(now, true)
		})
		if n := e.claims(ledger.Claim{Answer: ledger.Run, Attempt: 1}); n != 30 {
			t.Errorf("%v: %d are asked for, want 30", a.err, n)
		}
	}
}

// A stretch that is ours is claimed as a whole: nothing is made of its records before a handler takes them.
func TestStretchThatIsOursStaysWhole(t *testing.T) {
	a := &answers{token: 7, asked: func() {}}
	e, records, call := askingFor(t, a, 30)
	if !e.claimer.askRanges(call) || records.made != 0 || e.flow.Ready() != 1 {
		t.Fatalf("%d are made, %d ready", records.made, e.flow.Ready())
	}
	c := e.pool.take(nil)
	key := records.Items(3, 4)[0].Key
	if c == nil || len(c.runs) != 30 || c.runs[3].item != nil {
		t.Fatalf("%+v is taken", c)
	}
	a3, _ := ledger.AttemptFrom(&c.runs[3])
	if d := c.runs[3].asked().delivery; a3.Ticket() != ledger.NewTicket(key.Sum(), 7) || d.Key != key.Sum() || d.Token != 7 {
		t.Errorf("%+v, %+v", a3, d)
	}
}

// A claim of stretches without an answer is repeated, one by one, once the sent one can change nothing any more, and a moment later.
func TestUnansweredStretchesAreAskedForLater(t *testing.T) {
	for again, taken := range map[error]bool{errors.New("away"): false, ledger.ErrLost: true} {
		synctest.Test(t, func(t *testing.T) {
			var asked []time.Time
			a := &answers{err: ledger.MarkUnknown(errors.New("no answer")), again: again}
			a.asked = func() { asked = append(asked, time.Now()) }
			e, _, call := askingFor(t, a, 2)
			defer e.life.giveUp()
			if e.claimer.askRanges(call) != taken || len(asked) != 2 {
				t.Fatalf("%v: asked %d times, want 2, and that the ledger took the call: %v", again, len(asked), taken)
			}
			if waited := asked[1].Sub(asked[0]); waited < callTimeout(&e.opt)+50*time.Millisecond {
				t.Errorf("asked again after %s, what was sent counts for %s", waited, callTimeout(&e.opt))
			}
		})
	}
}
