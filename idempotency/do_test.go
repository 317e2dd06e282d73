package idempotency

import (
	"errors"
	"testing"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger/memory"
)

// Whoever waits for a request that the engine has let go of is told that nothing was done: so it must not begin afterwards.
func TestWhatIsLetGoOfDoesNotBegin(t *testing.T) {
	t.Parallel()
	r, err := New(memory.New(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := &call{ctx: t.Context(), bad: make(chan struct{}), ended: make(chan flow.Verdict, 1)}
	if out, err := r.outcome(c, flow.Verdict{}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("%+v, %v", out, err)
	}
	if c.state.Load() != abandoned || alive(&engine.Item{Ref: c}) {
		t.Error("it may still begin")
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
		k, other := flightKey{}, flightKey{body: [16]byte{1}}
		x, lead := f.join(k)
		same, follows := f.join(k)
		if _, alone := f.join(other); !lead || follows || same != x || !alone {
			t.Errorf("%s: it leads %t and %t, one with another body %t", c.name, lead, follows, alone)
		}
		f.land(k, x, Outcome{Result: Result{Body: []byte("paid")}, Attempt: 3}, c.err, c.keepFailed)
		<-x.done
		told, is := errors.AsType[*FailedError](x.err)
		if x.kept != c.kept || c.kept && (string(x.out.Result.Body) != "paid" || !x.out.Replayed || x.out.Attempt != 0 || is != (c.err != nil)) || is && (told.Err != nil || told.Text != "declined") {
			t.Errorf("%s: %+v", c.name, x)
		}
		if _, lead := f.join(k); !lead || len(f.all) != 2 {
			t.Errorf("%s: it is still in progress", c.name)
		}
	}
}
