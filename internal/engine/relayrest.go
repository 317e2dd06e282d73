package engine

import (
	"sync"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// relayRest is how long a lane rests at most in which something lies of which nothing is due. What is published for it meanwhile waits so
// long at most.
const relayRest = time.Second

// laterDues keeps, from one turn at a lane to the next, when the first message is due that was put off.
type laterDues struct {
	mu   sync.Mutex
	next map[ledger.Lane]time.Time // without their tokens
}

func (d *laterDues) of(lane ledger.Lane) time.Time {
	lane.Token = 0
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.next[lane]
}

func (d *laterDues) note(lane ledger.Lane, at time.Time) {
	lane.Token = 0
	d.mu.Lock()
	defer d.mu.Unlock()
	d.next[lane] = at
}

// undue is what a turn knows of messages of its lane that are due later.
type undue struct {
	sent bool      // the turn had something to send
	next time.Time // when the first of them is due that this process put off; zero: it put none off
}

// put notes what was put off. What was due since has been asked for again: it counts no more.
func (u *undue) put(failed []ledger.SendFailure, now time.Time) {
	for _, f := range failed {
		if at := now.Add(f.After); u.next.IsZero() || !u.next.After(now) || at.Before(u.next) {
			u.next = at
		}
	}
}

// rest is how long a lane rests of which nothing is due: until the first message is, as far as that is known, and not for long. A lane that
// a turn found without anything that is due has messages all the same, since only such lanes are taken. A lane that may be empty rests no
// longer than a look at all lanes takes.
func (u *undue) rest(interval time.Duration, now time.Time) time.Duration {
	known := u.next.After(now)
	switch {
	case known:
		return max(interval, min(u.next.Sub(now), relayRest))
	case u.sent:
		return interval
	}
	return max(interval, relayRest)
}
