package idempotency

import (
	"errors"
	"sync"

	"github.com/ackledger/ackledger/ledger"
)

// flights are the requests that are in progress in this process: of equal ones, one asks the ledger, and the others wait for what it
// learns. Asked by each, the ledger would answer them one after the other.
type flights struct {
	mu  sync.Mutex
	all map[flightKey]*flight
	// running are the bodies of those whose function runs: the ledger knows the key with that body. The engine asks the ledger for no
	// second call of a key that runs here, so that another body would wait, and not be told that it is a mismatch.
	running map[[ledger.KeySize]byte]ledger.Fingerprint
}

// flightKey is what makes two requests one. One with another body asks for itself, and learns that it is a mismatch.
type flightKey struct {
	key  [ledger.KeySize]byte
	body ledger.Fingerprint
}

func newFlights() flights {
	return flights{all: map[flightKey]*flight{}, running: map[[ledger.KeySize]byte]ledger.Fingerprint{}}
}

// flight is one request, and what came of it.
type flight struct {
	done chan struct{} // closed when the rest may be read
	kept bool          // it holds for whoever waited; else one of them asks now
	out  Outcome
	err  error
}

// join returns the request's flight; lead: it began with this call, which is to land it.
func (f *flights) join(k flightKey) (x *flight, lead bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if x = f.all[k]; x != nil {
		return x, false
	}
	x = &flight{done: make(chan struct{})}
	f.all[k] = x
	return x, true
}

// run notes that a request's function runs, until its flight lands.
func (f *flights) run(k flightKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running[k.key] = k.body
}

// mismatch says whether the key's function runs with another body.
func (f *flights) mismatch(k flightKey) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	body, is := f.running[k.key]
	return is && !body.IsZero() && !k.body.IsZero() && !body.Agrees(k.body)
}

// land ends a flight. What is kept is a success, or a failure that repetitions get, too.
func (f *flights) land(k flightKey, x *flight, out Outcome, err error, keepFailed bool) {
	failed, is := errors.AsType[*FailedError](err)
	if x.kept = err == nil || is && keepFailed; x.kept {
		x.out = Outcome{Result: out.Result, Replayed: true}
		if is {
			x.err = &FailedError{Text: failed.Text}
		}
	}
	f.mu.Lock()
	delete(f.all, k)
	if f.running[k.key] == k.body { // only one flight has both
		delete(f.running, k.key)
	}
	f.mu.Unlock()
	close(x.done)
}
