package history_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// plan is one history, drawn from a seed: who calls what, not when.
type plan struct {
	Seed    uint64
	Number  int
	Scope   string
	Keys    int
	Clients int // goroutines of the test
	Others  int // goroutines of each other process
	Ops     int // of each client
	Ranged  bool
	Lease   time.Duration
}

// draw makes the plan of a history. With others, clients of other processes take part.
func draw(seed uint64, number int, scope string, ranged, others bool) plan {
	chance := rand.New(rand.NewPCG(seed, uint64(number)))
	p := plan{
		Seed: seed, Number: number, Scope: fmt.Sprintf("%s %d", scope, number), Keys: 1 + chance.IntN(3),
		Clients: 2 + chance.IntN(3), Ranged: ranged, Lease: time.Minute,
	}
	if others {
		p.Clients, p.Others = 2, 1
	}
	p.Ops = (20 + chance.IntN(40)) / (p.Clients + 2*p.Others)
	return p
}

// chance is the luck of one client.
func (p *plan) chance(client int) *rand.Rand {
	return rand.New(rand.NewPCG(p.Seed, uint64(p.Number)<<16|uint64(client+1)))
}

// key is one of the plan's messages. In ranges they are neighbours in one log, with a gap.
func (p *plan) key(i int) ledger.Key {
	if !p.Ranged {
		return ledger.Key{Scope: p.Scope, ID: strconv.AppendInt([]byte("message-"), int64(i), 10)}
	}
	pos := &ledger.Position{Log: "cluster topic-uuid " + p.Scope, Offset: int64(i), Prev: int64(i) - 1}
	if i == 2 {
		pos.Offset = 4
	}
	return ledger.Key{Scope: p.Scope, ID: strconv.AppendInt([]byte("topic-0-"), pos.Offset, 10), Pos: pos}
}

// prints are the fingerprints of the bodies.
var prints = []ledger.Fingerprint{ledger.BodyFingerprint([]byte("x")), ledger.BodyFingerprint([]byte("y"))}

// The deliveries: 0 is that of no settlement, the last but one comes with another body, the last one is the end's.
const (
	deliveries = 4
	otherBody  = 4
	lastCopy   = 5
)

// bodyOf is the body that a delivery comes with: a copy of a message does not change.
func bodyOf(delivery int) int {
	if delivery == otherBody {
		return 1
	}
	return 0
}

// delivery draws one; in ranges a mismatch is not seen, so all have one body.
func (p *plan) delivery(chance *rand.Rand) int {
	switch n := chance.IntN(20); {
	case n < 11:
		return 1
	case n < 15:
		return 2
	case n < 18 || p.Ranged:
		return 3
	}
	return otherBody
}

func deliveryName(delivery int) []byte {
	return strconv.AppendInt([]byte("delivery-"), int64(delivery), 10)
}

// entry asks for one message by one of its deliveries.
func (p *plan) entry(o *op) ledger.Entry {
	return ledger.Entry{
		Key: p.key(o.Key), Fingerprint: prints[bodyOf(o.Delivery)], Delivery: deliveryName(o.Delivery), Window: time.Hour,
		StampToken: o.Stamp, Solo: o.Solo, Park: o.Park, Ranged: p.Ranged,
	}
}

// settlement carries a settle call's words.
func (p *plan) settlement(o *op, ticket ledger.Ticket) ledger.Settlement {
	s := ledger.Settlement{Ticket: ticket, Kind: o.Settle, After: o.After, Count: o.Count}
	if o.Result != "" {
		s.Result = []byte(o.Result)
	}
	if o.Count {
		s.Failure = ledger.AttemptError{Attempt: 1, Kind: ledger.KindError, Error: "again", At: time.Unix(1_700_000_000, 0)}
	}
	if o.Settle == ledger.Fail {
		s.Dead = &ledger.Archive{
			Key: p.key(o.Key), Fingerprint: prints[bodyOf(o.Delivery)], Delivery: deliveryName(o.Delivery), Kind: ledger.KindTerminal,
			Body: []byte("body"), Source: "source", Attempts: 1, SentAt: time.Unix(1_700_000_000, 0), Keep: 24 * time.Hour,
		}
	}
	return s
}

// told is an answer in the words of histories.
func told(c *ledger.Claim) *answer {
	return &answer{
		Answer: c.Answer, Token: c.Token, Attempt: c.Attempt, Crashes: c.Crashes, Generation: c.Generation, Errors: len(c.Errors),
		Wait: c.Wait, Suspect: c.Suspect, Uncertain: c.Uncertain, TookOver: c.TookOver, State: c.Outcome.State,
		Result: string(c.Outcome.Result),
	}
}
