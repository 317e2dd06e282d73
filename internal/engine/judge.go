package engine

import (
	"time"

	"github.com/ackledger/ackledger/internal/backoff"
	"github.com/ackledger/ackledger/ledger"
)

// Ended is how one run of a handler ended, for [Judge].
type Ended struct {
	Err    error // the handler's
	Cause  error // why its context was cancelled; nil: it was not
	State  ledger.AttemptState
	Outage bool // its transaction broke off with the database
}

// Next is what follows from it. The zero value is never acknowledged.
type Next struct {
	Settle ledger.SettleKind // zero: nothing is to be settled
	After  time.Duration
	Count  bool
	Ack    bool // settled already, by its transaction
	Ask    bool // whether the message is ours is not known, or it is not: claim it again
}

// Judge is the engine's verdict on one run, for those who check the rules without an engine (internal/model). It is pure.
// attempts is the limit, attempt the attempt's number, from 1; a failure that is to be repeated is so after a second.
func Judge(attempts int, e Ended, attempt int) Next {
	p := policy{attempts: attempts, backoff: backoff.Policy{Base: time.Second, Max: time.Second}}
	st := p.decide(outcome{err: e.Err, kind: ledger.KindError, cause: e.Cause, state: e.State, outage: e.Outage}, attempt, 1, 0)
	return Next{Settle: st.settle, After: st.after, Count: st.count, Ack: st.ack, Ask: st.ask}
}
