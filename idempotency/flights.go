package idempotency

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ackledger/ackledger/ledger"
)

// flights are the requests that are in progress in this process: of equal ones, one asks the ledger, and the others wait for what it
// learns. Asked by each, the ledger would answer them one after the other. The engine asks the ledger for no second call of a key in
// hand: so one with another body waits here until the ledger has answered, and then is a mismatch, or asks for itself.
type flights struct {
	mu  sync.Mutex
	all map[[ledger.KeySize]byte][]*flight // one for each body: mostly one
}

// flightKey is what makes two requests one.
type flightKey struct {
	key  [ledger.KeySize]byte
	body ledger.Fingerprint
}

func newFlights() flights { return flights{all: map[[ledger.KeySize]byte][]*flight{}} }

// flight is one request, and what came of it.
type flight struct {
	flightKey
	told  chan error    // why it is not to begin: one error at most
	state atomic.Int32  // what it waits for
	heard chan struct{} // closed when the ledger has said who has the key, or the flight has landed

	// Guarded by the lock of the flights.
	answered bool // heard is closed
	ours     bool // this process has claimed the key: the ledger knows it with this body

	done chan struct{} // closed when the rest may be read
	kept bool          // it holds for whoever waited; else one of them asks now
	out  Outcome
	err  error
}

// What a flight waits for.
const (
	turn    int32 = iota // the ledger's answer, or a place among the functions that run
	another              // the same request, which runs: here, or elsewhere as the ledger says
	strange              // nothing: the ledger knows the key with another body
)

// meeting is what a request meets when it joins.
type meeting int

const (
	meetsNobody  meeting = iota // the flight begins with it, and it is to land it
	meetsEqual                  // the flight is an equal request's, and the ledger has said who has the key
	meetsUnknown                // the ledger has not said who has the key, which the flight asks for, with this body or another one
	meetsOther                  // the ledger knows the key with another body
)

// join returns the flight that the request is in, or waits for.
func (f *flights) join(k flightKey) (*flight, meeting) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var unknown *flight
	for _, x := range f.all[k.key] {
		switch {
		case x.body == k.body && x.answered:
			return x, meetsEqual
		case x.body == k.body:
			return x, meetsUnknown
		case x.agrees(k.body):
		case x.ours:
			return x, meetsOther
		case !x.answered:
			unknown = x
		}
	}
	if unknown != nil {
		return unknown, meetsUnknown
	}
	x := &flight{flightKey: k, told: make(chan error, 1), heard: make(chan struct{}), done: make(chan struct{})}
	f.all[k.key] = append(f.all[k.key], x)
	return x, meetsNobody
}

// agrees says whether two bodies are no mismatch.
func (k *flightKey) agrees(body ledger.Fingerprint) bool {
	return k.body.IsZero() || body.IsZero() || k.body.Agrees(body)
}

// answered notes that the ledger has said who has the flight's key: this process, or another one. What has another body than ours is
// told.
func (f *flights) answered(x *flight, ours bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	x.hear()
	if x.ours = ours; !ours {
		return
	}
	for _, y := range f.all[x.key] {
		if !x.agrees(y.body) {
			y.tell(ErrMismatch)
		}
	}
}

// hear lets those go on who have another body.
func (x *flight) hear() {
	if !x.answered {
		x.answered = true
		close(x.heard)
	}
}

// tell says why it is not to begin, unless that was said.
func (x *flight) tell(why error) {
	select {
	case x.told <- why:
	default:
	}
}

// met says whether it was told that it has another body than what runs here.
func (x *flight) met() bool {
	select {
	case why := <-x.told:
		return errors.Is(why, ErrMismatch)
	default:
		return false
	}
}

// land ends a flight. What is kept is a success, or a failure that repetitions get, too; not what a transaction has committed: that is
// what repetitions get, whatever the function has returned since.
func (f *flights) land(x *flight, out Outcome, err error, keepFailed, committed bool) {
	failed, is := errors.AsType[*FailedError](err)
	if x.kept = !committed && (err == nil || is && keepFailed); x.kept {
		x.out = Outcome{Result: out.Result, Replayed: true}
		if is {
			x.err = &FailedError{Text: failed.Text}
		}
	}
	f.mu.Lock()
	if rest := slices.DeleteFunc(f.all[x.key], func(y *flight) bool { return y == x }); len(rest) > 0 {
		f.all[x.key] = rest
	} else {
		delete(f.all, x.key)
	}
	close(x.done)
	x.hear()
	f.mu.Unlock()
}
