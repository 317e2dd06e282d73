package ledger

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"time"
)

// GroupConfig bounds the batches that [Group] makes. Zero values mean the defaults.
type GroupConfig struct {
	// Items is how many entries or settlements one flush carries at most. For ledgers whose statements should stay
	// shorter, or may grow longer. Default 2,000.
	Items int
	// Bytes is how much one flush carries at most: ids, results, archives. One larger item travels alone. For databases
	// with small messages or little memory. Default 8 MiB.
	Bytes int
	// Flushes is how many flushes of claims, and as many of settlements, are in flight at once. For databases with
	// connections to spare, or with a single writer (1). Default 2.
	Flushes int
	// OneFlush says that at present a flush may have to wait for the one before it: then it is not sent until that is over, and
	// carries more. For owners that take calls one by one which concern the same log. It must not block. Default: never.
	OneFlush func() bool
	// Queue is how many items wait or are in flight at most, of either kind; further callers block. Bytes are bounded in
	// proportion. For processes with very many handlers. Default 8 * Items.
	Queue int
	// Settled gets a call's settlements and their answers, once the others in its flushes have theirs, on the caller's goroutine
	// and context. It may wait, and answer anew. For stores that ask again for what others hold. Default: nothing.
	Settled func(ctx context.Context, settlements []Settlement, answers []error)
	// Timeout is a flush's own deadline; it is not the callers' deadline, since one flush serves many. For slow networks.
	// Default 10 s.
	Timeout time.Duration
}

func (c GroupConfig) withDefaults() GroupConfig {
	c.Items = positive(c.Items, 2000)
	c.Bytes = positive(c.Bytes, 8<<20)
	c.Flushes = positive(c.Flushes, 2)
	c.Queue = positive(c.Queue, 8*c.Items)
	c.Timeout = positive(c.Timeout, 10*time.Second)
	return c
}

func positive[T int | time.Duration](x, otherwise T) T {
	if x <= 0 {
		return otherwise
	}
	return x
}

// Group returns an owner that makes batches of o's concurrent calls: what is asked while the flushes in flight are full
// goes together into the next one. There is no idle timer, so a lone call goes straight through. Beat and Leave are not
// grouped.
//
// What Owner promises holds for each caller. A caller whose context ends is answered at once, and holds nobody: with
// [Unknown] false if none of its items was sent, else with Unknown true. An error of a whole flush goes to every caller
// in it. A key is never in two flushes of claims at once, and after a claim with an unknown answer it is not asked again
// before that flush's deadline has passed, when what was sent can change nothing any more.
//
// The bytes of a call are copied, so the caller owns its slices when the call returns, although the flush may go on.
func Group(o Owner, cfg GroupConfig) Owner {
	cfg = cfg.withDefaults()
	g := &grouped{Owner: o, settled: cfg.Settled}
	seed := maphash.MakeSeed()
	g.claims = newGroup(cfg, o.Claim, copyEntries, entrySize, func(e *Entry) uint64 { return entryHash(seed, e) })
	g.claims.distinct = true
	g.settles = newGroup(cfg, o.Settle, copySettlements, settlementSize, ticketHash)
	return g
}

// Unwrap returns the owner beneath [Group], or o itself. InTx needs it: the fence belongs to a store's own owner.
func Unwrap(o Owner) Owner {
	for {
		g, ok := o.(interface{ Unwrap() Owner })
		if !ok {
			return o
		}
		o = g.Unwrap()
	}
}

// Ungroup returns the owner beneath [Group], if o is one that Group returned, or o itself. It is for callers whose calls
// are large batches already, with keys that are in no other call at that moment: nothing is copied and merged for them.
func Ungroup(o Owner) Owner {
	if g, ok := o.(*grouped); ok {
		return g.Owner
	}
	return o
}

type grouped struct {
	Owner   // ID, Beat and Leave pass straight through
	claims  *group[Entry, Claim]
	settles *group[Settlement, error]
	settled func(context.Context, []Settlement, []error)
}

func (g *grouped) Unwrap() Owner { return g.Owner }

// Claim implements [Owner].
func (g *grouped) Claim(ctx context.Context, entries []Entry) ([]Claim, error) {
	return g.claims.do(ctx, entries)
}

// Settle implements [Owner].
func (g *grouped) Settle(ctx context.Context, settlements []Settlement) ([]error, error) {
	answers, err := g.settles.do(ctx, settlements)
	if err == nil && g.settled != nil {
		g.settled(ctx, settlements, answers)
	}
	return answers, err
}

var errShortAnswer = errors.New("ledger: the store answered another number of items than it was asked")

// entryHash tells keys apart for the sake of not asking one twice at a time. Two keys that share a hash wait for each
// other, and nothing else.
func entryHash(seed maphash.Seed, e *Entry) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	if p := e.Key.Pos; p != nil {
		var b [12]byte
		binary.LittleEndian.PutUint64(b[:], uint64(p.Offset))
		binary.LittleEndian.PutUint32(b[8:], uint32(p.Epoch))
		_, _ = h.WriteString(p.Log)
		_, _ = h.Write(b[:])
	} else {
		_, _ = h.Write(e.Key.ID)
	}
	_ = h.WriteByte(0)
	_, _ = h.WriteString(e.Key.Scope)
	return h.Sum64()
}

func ticketHash(s *Settlement) uint64 {
	sum := s.Ticket.Sum()
	return binary.LittleEndian.Uint64(sum[:8]) ^ binary.LittleEndian.Uint64(sum[8:])
}

func entrySize(e *Entry) int { return len(e.Key.Scope) + len(e.Key.ID) + len(e.Delivery) + 64 }

func settlementSize(s *Settlement) int {
	n := len(s.Result) + len(s.Failure.Error) + 64
	if s.Dead != nil {
		n += s.Dead.Size()
	}
	if s.Step != nil {
		n += len(s.Step.Name) + len(s.Step.Result)
	}
	return n
}

// copyEntries copies src with its bytes into dst, which may have been used before.
func copyEntries(dst []Entry, buf []byte, src []Entry) ([]Entry, []byte) {
	n := 0
	for i := range src {
		n += len(src[i].Key.ID) + len(src[i].Delivery)
	}
	buf = growTo(buf, n)
	for i := range src {
		e := src[i]
		buf, e.Key.ID = keepBytes(buf, e.Key.ID)
		buf, e.Delivery = keepBytes(buf, e.Delivery)
		if e.Key.Pos != nil {
			e.Key.Pos = new(*e.Key.Pos)
		}
		dst = append(dst, e)
	}
	return dst, buf
}

// copySettlements copies src with its bytes into dst, which may have been used before.
func copySettlements(dst []Settlement, buf []byte, src []Settlement) ([]Settlement, []byte) {
	n := 0
	for i := range src {
		n += len(src[i].Result)
	}
	buf = growTo(buf, n)
	for i := range src {
		s := src[i]
		buf, s.Result = keepBytes(buf, s.Result)
		if s.Dead != nil {
			s.Dead = new(s.Dead.Clone())
		}
		if s.Step != nil {
			s.Step = new(s.Step.Clone())
		}
		dst = append(dst, s)
	}
	return dst, buf
}

func growTo(buf []byte, n int) []byte {
	if buf == nil || cap(buf) < n { // never nil: a slice of nil is nil, and empty must stay empty
		return make([]byte, 0, n)
	}
	return buf[:0]
}

// keepBytes appends b to buf, which has room for it, and returns the copy. Nil stays nil and empty stays empty.
func keepBytes(buf, b []byte) (grown, kept []byte) {
	if b == nil {
		return buf, nil
	}
	from := len(buf)
	buf = append(buf, b...)
	return buf, buf[from:len(buf):len(buf)]
}
