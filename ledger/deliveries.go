package ledger

import (
	"context"
	"time"
)

// DeliveryCounter is a ledger that keeps the counts of deliveries that workers make. The stores of this module are.
type DeliveryCounter interface {
	// CountDeliveries adds to what [Stats] says of each scope; the scopes are distinct, and Since is not read. Any number of
	// processes may add at once. After an error for which [Unknown] is true it may have added: who repeats it then counts
	// twice. After any other it added nothing; a scope that is empty or longer than [MaxScope] is refused with an
	// [*InvalidError]. A ctx without a deadline gets one of 10 s.
	CountDeliveries(ctx context.Context, more []Deliveries) error
}

// Deliveries counts what the deliveries of one scope were. Retries, take-overs and redrives are none of it.
//
// A worker adds its own with its heartbeats, at most once with each, and with its end. What it had not added when its process
// died is lost, and so is what it added last if the answer was lost. No addition counts twice. A message of a range that is
// given back leaves no trace there, and is new at its next claim: so the first claim of a message in a range counts when the
// message is finished or has failed once, and one that dies with its worker before that is lost, too. What an operator reopens
// in a range is new again.
type Deliveries struct {
	Scope    string
	Since    time.Time // when the first were counted, on the database's clock
	Misses   int64     // first claims of messages, but for those that were given back without a trace ([Claim.Ranged])
	Hits     int64     // duplicates: the message was finished before
	Timeouts int64     // given back to the broker while a live owner had the message
}

// DedupRate is the share of duplicates in messages that were new or duplicates, from 0 to 1; 0 before the first.
func (d *Deliveries) DedupRate() float64 { return dedupRate(d.Misses, d.Hits) }

func dedupRate(misses, hits int64) float64 {
	if hits <= 0 || misses+hits <= 0 {
		return 0
	}
	return float64(hits) / float64(misses+hits)
}
