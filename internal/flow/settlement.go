package flow

import (
	"errors"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// Full is what the ledger is told. The item's ticket is the same for as long as it is being settled.
func (s *Settlement) Full() ledger.Settlement {
	set := ledger.Settlement{Kind: s.Kind}
	if s.More != nil {
		set = *s.More
	}
	set.Ticket, set.Fingerprint = s.Item.ticket, s.Item.Fingerprint
	return set
}

func (s *Settlement) size() int {
	if s.More == nil {
		return 0
	}
	n := len(s.More.Result)
	if s.More.Dead != nil {
		n += s.More.Dead.Size()
	}
	return n
}

// after is how long a released message waits.
func (s *Settlement) after() time.Duration {
	if s.More == nil {
		return 0
	}
	return s.More.After
}

// unharmed says whether the message is given back as if it had never been claimed.
func (s *Settlement) unharmed() bool {
	return s.Kind == ledger.Release && (s.More == nil || !s.More.Count && s.More.After == 0)
}

// Batch is one call of the ledger that settles: items, or ranges, of one session. Its arrays are used again.
type Batch struct {
	Items  []Settlement
	Ranges []*Range
	n      int

	parks bool          // it parks
	began time.Duration // then
}

// Session is the one that all of the batch are of.
func (b *Batch) Session() *Session {
	if len(b.Ranges) > 0 {
		return b.Ranges[0].sess
	}
	return b.Items[0].Session
}

// Messages says how many messages the batch settles.
func (b *Batch) Messages() int { return b.n }

func isInvalid(err error) bool {
	_, ok := errors.AsType[*ledger.InvalidError](err)
	return ok
}

func isParts(err error) bool { return errors.Is(err, ledger.ErrParts) }
