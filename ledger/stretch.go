package ledger

import (
	"context"
	"errors"
)

// Stretch is records of one log that were delivered one after the other, asked for as one: see [StretchOwner].
type Stretch struct {
	// First is the entry of the first record. It is Ranged, and says everything but its key of the others, too.
	First Entry
	// Last is the offset of the last record.
	Last int64
	// Gaps are the offsets in between at which nothing was delivered, in ascending order.
	Gaps []Gap
}

// Gap is the offsets From <= o < To, From < To.
type Gap struct{ From, To int64 }

// Messages is the number of records.
func (s *Stretch) Messages() int64 {
	n := s.Last - s.First.Key.Pos.Offset + 1
	for _, g := range s.Gaps {
		n -= g.To - g.From
	}
	return n
}

// StretchDone says that the first records of a stretch succeeded, up to that with the offset Last, so many of them.
type StretchDone struct {
	Ticket   Ticket // of the first record
	Last     int64
	Messages int64
}

// ErrParts is the answer to a StretchDone of which the ledger has to know message by message: nothing of it is settled
// by this call, and each is to be settled by itself.
var ErrParts = errors.New("ledger: the stretch is to be settled message by message")

// StretchOwner is an [Owner] that can claim and settle records that lie side by side without a look at each, where it
// knows enough. Both methods are a short way, and never the only one: a caller goes on with Claim and Settle where they
// say so. They may be called concurrently with everything else.
type StretchOwner interface {
	LateOwner
	// ClaimStretches claims each stretch as a whole, as Claim would answer [Run] with one token and attempt 1 for each of
	// its records, or leaves it alone: token zero. A ticket of a record is [NewTicket] of its key's sum and the token. The
	// error is as that of Claim: with [Unknown] true some may have been claimed, and their messages are asked for with
	// Claim, once ctx's deadline has passed.
	ClaimStretches(ctx context.Context, stretches []Stretch) (tokens []uint64, err error)
	// SettleStretches settles successes without results. The errors are as those of Settle, one for each, and [ErrParts].
	SettleStretches(ctx context.Context, done []StretchDone) ([]error, error)
}
