package idempotency

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// Whoever waits for a request that the engine has let go of is told that nothing was done: so it must not begin afterwards.
func TestWhatIsLetGoOfDoesNotBegin(t *testing.T) {
	t.Parallel()
	r, err := New(memory.New(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := &call{ctx: t.Context(), flight: &flight{}, ended: make(chan flow.Verdict, 1)}
	if out, err := r.outcome(c, flow.Verdict{}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("%+v, %v", out, err)
	}
	if c.state.Load() != abandoned || alive(&engine.Item{Ref: c}) {
		t.Error("it may still begin")
	}
}

// Who is given back although another body runs here is told of that, be it that it does not wait.
func TestAnotherBodyIsToldWithTheVerdict(t *testing.T) {
	t.Parallel()
	r, err := New(memory.New(), Options{Refuse: true})
	if err != nil {
		t.Fatal(err)
	}
	for why, want := range map[error]error{ErrMismatch: ErrMismatch, ErrWaited: ErrUnavailable, nil: ErrUnavailable} {
		x := &flight{told: make(chan error, 1)}
		if why != nil {
			x.tell(why)
		}
		c := &call{ctx: t.Context(), flight: x, ended: make(chan flow.Verdict, 1)}
		if out, err := r.outcome(c, flow.Verdict{}); !errors.Is(err, want) {
			t.Errorf("told %v: %+v, %v", why, out, err)
		}
	}
}

// What the ledger has said of a request holds for who has waited for it, also where nothing starts any more.
func TestWaitedForAMismatch(t *testing.T) {
	t.Parallel()
	r, err := New(memory.New(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	x := &flight{}
	for state, want := range map[int32]error{turn: ErrUnavailable, another: ErrUnavailable, strange: ErrMismatch} {
		if x.state.Store(state); !errors.Is(r.waited(x), want) {
			t.Errorf("state %d: %v, want %v", state, r.waited(x), want)
		}
	}
}

// Of equal requests one asks, and the others get what it learned, if that holds for them.
func TestFlights(t *testing.T) {
	t.Parallel()
	failed := &FailedError{Text: "declined", Err: consumer.Terminal(errors.New("declined"))}
	for _, c := range []struct {
		name       string
		err        error
		keepFailed bool
		kept       bool
	}{
		{"succeeded", nil, true, true},
		{"failed for good", failed, true, true},
		{"failed for good, and is to run again", failed, false, false},
		{"to be run again", errors.New("away"), true, false},
		{"not known", ErrUnknown, true, false},
	} {
		f := newFlights()
		k, other := flightKey{}, flightKey{body: ledger.Fingerprint{1}} // one without a body agrees with all
		x, leads := f.join(k)
		same, follows := f.join(k)
		if _, alone := f.join(other); leads != meetsNobody || follows != meetsUnknown || same != x || alone != meetsNobody {
			t.Errorf("%s: they meet %d and %d, one with another body %d", c.name, leads, follows, alone)
		}
		f.land(x, Outcome{Result: Result{Body: []byte("paid")}, Attempt: 3}, c.err, c.keepFailed, false)
		<-x.done
		told, is := errors.AsType[*FailedError](x.err)
		if x.kept != c.kept || c.kept && (string(x.out.Result.Body) != "paid" || !x.out.Replayed || x.out.Attempt != 0 || is != (c.err != nil)) || is && (told.Err != nil || told.Text != "declined") {
			t.Errorf("%s: %+v", c.name, x)
		}
		if _, again := f.join(k); again != meetsNobody || len(f.all[k.key]) != 2 {
			t.Errorf("%s: it is still in progress", c.name)
		}
	}
}

// One with another body waits for what the ledger says of the first, and is told as soon as this process has the key, also if it has asked
// for itself since the key was elsewhere.
func TestFlightsOfAnotherBody(t *testing.T) {
	t.Parallel()
	f := newFlights()
	first, other, third := flightKey{body: ledger.BodyFingerprint([]byte("a"))}, flightKey{body: ledger.BodyFingerprint([]byte("b"))}, flightKey{body: ledger.BodyFingerprint([]byte("c"))}
	x, _ := f.join(first)
	if y, meets := f.join(other); y != x || meets != meetsUnknown {
		t.Errorf("nothing is heard of the first: the other meets %d", meets)
	}
	f.answered(x, false)
	<-x.heard
	y, meets := f.join(other)
	if y == x || meets != meetsNobody || len(y.told) != 0 {
		t.Errorf("the key is elsewhere: the other meets %d", meets)
	}
	f.answered(x, true)
	if same, meets := f.join(first); same != x || meets != meetsEqual {
		t.Errorf("the key is ours: an equal one meets %d", meets)
	}
	if len(x.told) != 0 || len(y.told) != 1 || !errors.Is(<-y.told, ErrMismatch) {
		t.Error("the key is ours: the other is not told, or the first is")
	}
	if _, meets := f.join(third); meets != meetsOther {
		t.Errorf("the key is ours: a third meets %d", meets)
	}
	f.land(y, Outcome{}, ErrMismatch, true, false)
	f.land(x, Outcome{}, ErrUnknown, true, false)
	if z, meets := f.join(third); meets != meetsNobody || len(f.all) != 1 {
		t.Errorf("both are over: a third meets %d: %+v", meets, z)
	}
	w, _ := f.join(flightKey{key: [ledger.KeySize]byte{1}})
	f.land(w, Outcome{}, ErrUnknown, true, false)
	<-w.heard
	if len(f.all) != 1 {
		t.Errorf("%d keys are in progress", len(f.all))
	}
}

// A ledger that cannot be read has requests claimed at once.
func TestPitfall161_UnreadLedger(t *testing.T) {
	t.Parallel()
	s := &sieve{repeats: &repeats{}, look: lookups{ledger: unreadable{}}, wait: time.Minute}
	for range 40 {
		s.note(true)
	}
	if s.passes() {
		t.Fatal("40 repetitions are not many")
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if known, _ := s.ended(gone, ledger.Key{}, ledger.Fingerprint{}, time.Hour); known != nil || s.passes() {
		t.Errorf("after a caller has gone: %+v, and requests are read first no more", known)
	}
	if known, _ := s.ended(t.Context(), ledger.Key{}, ledger.Fingerprint{}, time.Hour); known != nil || !s.passes() {
		t.Errorf("after a read that failed: %+v, and requests are read first", known)
	}
}

type unreadable struct{}

func (unreadable) Successes(context.Context, []ledger.Key) ([]ledger.Success, error) {
	return nil, errors.New("not read")
}
