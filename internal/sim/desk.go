package sim

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
)

// desk is where requests come from instead of a broker's messages: callers, each of whom asks some process to do a request once
// (package idempotency), and asks again until it has its answer. A request is a message to everything else in the world.
type desk struct {
	*world
	requests []*request
	callers  []*caller
	open     int // callers that have no answer yet
}

// request is what is to be done once.
type request struct {
	desk *desk
	message
	key    ledger.Key
	bodies [2]ledger.Fingerprint // that callers send with its key
	calls  []*call               // in which it was asked for

	known  bool            // the ledger has a row
	body   int             // that it was made with
	past   []held          // what the ledger had of it, one after the other
	made   map[string]bool // answers of runs that ended well
	effect []byte          // the answer of the run whose effect is committed
}

// held is what the ledger has of a request from a moment on.
type held struct {
	at     time.Duration
	state  ledger.State
	token  uint64
	owned  bool
	by     *call // that has claimed it
	result []byte
}

// caller wants one request to be done.
type caller struct {
	of   *request
	body int
	at   *process // that it asks; nil: none
	done bool
}

// asRunner makes of a worker's configuration that of a runner (idempotency.New), in a world of callers.
func (w *world) asRunner(c *flow.Config) {
	if w.cfg.Callers > 0 {
		c.HoldMax, c.AskMax, c.Told = -1, 500*time.Millisecond, true
		c.Backoff.Base, c.Backoff.Max = runnerRest, runnerRest
	}
}

// runnerRest is the rest before a request that has failed may run again.
const runnerRest = time.Millisecond

func newDesk(w *world) *desk {
	d := &desk{world: w}
	for part := range w.cfg.Partitions {
		for n := range w.cfg.Messages {
			q := &request{desk: d, message: message{part, int64(n)}, made: map[string]bool{}}
			q.key = ledger.Key{Scope: scopeOf(q.message), ID: []byte("request-" + q.String())}
			for body := range q.bodies {
				q.bodies[body] = ledger.BodyFingerprint(fmt.Appendf(nil, "%s, body %d", q, body))
			}
			d.requests = append(d.requests, q)
		}
	}
	w.report.Messages = len(d.requests)
	return d
}

// begin has callers come for each request: some at once, others when it may be done.
func (d *desk) begin() {
	for _, q := range d.requests {
		at := d.between(0, 8*time.Second)
		for range 1 + d.rnd.IntN(d.cfg.Callers) {
			body := 0
			if d.trouble(forged) {
				body = 1
			}
			d.come(q, body, at)
			if d.rnd.IntN(2) == 0 {
				at += d.between(0, 8*time.Second)
			} else {
				at += d.between(0, 20*time.Millisecond)
			}
		}
	}
}

// come has another caller come for a request.
func (d *desk) come(q *request, body int, in time.Duration) {
	k := &caller{of: q, body: body}
	d.callers, d.open = append(d.callers, k), d.open+1
	d.after(in, k.asks)
}

// again has a caller come for a request that was reopened.
func (d *desk) again(m message) {
	q := d.requests[m.partition*d.cfg.Messages+int(m.offset)]
	q.look(nil)
	q.effect = nil
	d.come(q, q.body, d.latency())
}

func (d *desk) join(p *process) source {
	return &runner{process: p, desk: d, flights: map[flightKey]*flight{}, running: map[message]int{}}
}

// gone has those ask elsewhere that were connected to a process.
func (d *desk) gone(p *process) {
	for _, k := range d.callers {
		if k.at == p {
			k.comesBack()
		}
	}
}

func (d *desk) done() bool { return d.open == 0 }

func (d *desk) left() string {
	return fmt.Sprintf("%d of %d callers have no answer", d.open, len(d.callers))
}

// asks asks a process, once there is one.
func (k *caller) asks() {
	w := k.of.desk
	p := w.workers[w.rnd.IntN(len(w.workers))].process
	if p == nil || p.source == nil {
		w.after(w.between(50*time.Millisecond, 500*time.Millisecond), k.asks)
		return
	}
	k.at = p
	p.wake(func() { p.source.(*runner).do(k) })
}

func (k *caller) comesBack() {
	k.at = nil
	k.of.desk.after(k.of.desk.between(20*time.Millisecond, 2*time.Second), k.asks)
}

// hears is what the caller makes of what it is told.
func (k *caller) hears(what reply) {
	switch what {
	case gotAnswer, gotFailure, gotMismatch:
		k.done, k.at = true, nil
		k.of.desk.open--
	default:
		k.comesBack()
	}
}

// look notes what the ledger has of a request, after a call about it; nil: no claim can have been among that.
func (q *request) look(by *call) {
	rec, err := q.desk.ledger.Get(context.Background(), q.key)
	if err != nil {
		return
	}
	s := held{at: q.desk.now, state: rec.State, token: rec.Token, owned: rec.Owner != "", result: rec.Result}
	if n := len(q.past); n > 0 {
		last := &q.past[n-1]
		if last.state == s.state && last.token == s.token && last.owned == s.owned && bytes.Equal(last.result, s.result) {
			return
		}
		if last.token == s.token {
			by = last.by
		}
	}
	s.by = by
	q.past = append(q.past, s)
	q.known, q.body = true, slices.Index(q.bodies[:], rec.Fingerprint)
	if s.state == ledger.Succeeded {
		q.mustBeMade(&s)
	}
}

// sees notes what the ledger has of the request that a delivery is of.
func (p *process) sees(d delivery) {
	if c, is := d.of.(*call); is {
		c.of.look(c)
	}
}
