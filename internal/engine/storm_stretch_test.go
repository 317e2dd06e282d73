package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// stretchLink is a link's owner that takes stretches.
type stretchLink struct{ *linkOwner }

func (o *stretchLink) AsksLate() {}

func (o *stretchLink) ClaimStretches(ctx context.Context, s []ledger.Stretch) (tokens []uint64, err error) {
	err = o.link.ask(memory.Claim, func() (err error) {
		var some []ledger.Stretch
		var of []int
		for i := range s {
			if !o.link.leaves() {
				some, of = append(some, s[i]), append(of, i)
			}
		}
		got, err := o.Owner.(ledger.StretchOwner).ClaimStretches(ctx, some)
		tokens = make([]uint64, len(s))
		for at, i := range of {
			if err == nil {
				tokens[i] = got[at]
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return tokens, nil
}

func (o *stretchLink) SettleStretches(ctx context.Context, d []ledger.StretchDone) (errs []error, err error) {
	err = o.link.ask(memory.Settle, func() (err error) {
		var some []ledger.StretchDone
		var of []int
		errs = make([]error, len(d))
		for i := range d {
			if errs[i] = ledger.ErrParts; !o.link.leaves() {
				some, of = append(some, d[i]), append(of, i)
			}
		}
		got, err := o.Owner.(ledger.StretchOwner).SettleStretches(ctx, some)
		for at, i := range of {
			if err == nil {
				errs[i] = got[at]
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return errs, nil
}

// leaves says whether the ledger leaves a stretch to the short way's caller.
func (l *link) leaves() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dice != nil && l.dice.IntN(8) == 0
}

// stormLog is a log: its messages' ids are its name and their offset.
type stormLog string

func (l stormLog) key(offset int64) ledger.Key {
	return ledger.Key{Scope: scope, ID: fmt.Appendf(nil, "%s-%d", l, offset), Pos: &ledger.Position{
		Log: string(l), Epoch: l.epoch(offset), Offset: offset, Prev: -1,
	}}
}

// epoch is a record's leader epoch: all logs but "a" have a new leader now and then.
func (l stormLog) epoch(offset int64) int32 {
	if l == "a" {
		return 0
	}
	return int32(offset / 250)
}

// stormRecords are records of one log.
type stormRecords struct {
	log     stormLog
	offsets []int64
	offers  []*offering
	lane    func(id string) string
	epoch   int32
}

func (r *stormRecords) Len() int                 { return len(r.offsets) }
func (r *stormRecords) Offset(i int) int64       { return r.offsets[i] }
func (r *stormRecords) SentAt(int) (t time.Time) { return t }
func (r *stormRecords) Lane(int) engine.Lane     { return engine.Lane{} }

func (r *stormRecords) body(i int) []byte {
	return fmt.Appendf(nil, "body of %s-%d", r.log, r.offsets[i])
}
func (r *stormRecords) Size(i int) int64 { return int64(len(r.body(i))) }

func (r *stormRecords) Messages(first int, to []consumer.Message) {
	for i := range to {
		to[i] = consumer.Message{ID: fmt.Sprintf("%s-%d", r.log, r.offsets[first+i]), Source: "source", Body: r.body(first + i)}
	}
}

func (r *stormRecords) Items(from, to int) (out []*engine.Item) {
	for i := from; i < to; i++ {
		key := r.log.key(r.offsets[i])
		key.Pos.Epoch += r.epoch
		if i > 0 {
			key.Pos.Prev = r.offsets[i-1]
		}
		m := &consumer.Message{ID: string(key.ID), Source: "source", Body: r.body(i)}
		out = append(out, &engine.Item{
			Item: flow.Item{
				OrderingKey: r.lane(m.ID),
				Identity:    engine.Identity{Key: key, Fingerprint: ledger.BodyFingerprint(m.Body), Ranged: true},
			},
			Msg: m, Delivery: key.ID, Ref: r.offers[i],
			Original: func(*engine.Item) engine.Content { return engine.Content{Body: r.body(i)} },
		})
	}
	return out
}

// stretch is what a worker offers of the records.
func (r *stormRecords) stretch() *engine.Stretch {
	first := r.Items(0, 1)[0]
	st := &engine.Stretch{Records: r, Ordered: true, Claim: ledger.Stretch{
		First: ledger.Entry{Key: first.Key, Delivery: first.Delivery, Ranged: true, Window: 48 * time.Hour}, Last: r.offsets[len(r.offsets)-1],
	}}
	for i := 1; i < len(r.offsets); i++ {
		if from, to := r.offsets[i-1]+1, r.offsets[i]; from < to {
			st.Claim.Gaps = append(st.Claim.Gaps, ledger.Gap{From: from, To: to})
		}
	}
	return st
}

// key is a message's.
func (s *storm) key(id string) ledger.Key {
	if !s.stretches {
		return item(id, "").Key
	}
	offset, _ := strconv.ParseInt(id[2:], 10, 64)
	return stormLog(id[:1]).key(offset)
}

// deliverStretches gives the records of a log that nobody has to one worker, in their order, most of them as stretches, and
// now and then some that somebody has. It is called under the lock, and gives it back.
func (s *storm) deliverStretches(taken map[string]bool) {
	var offers []func()
	for _, log := range []stormLog{"a", "b", "c"} {
		w := s.workers[s.rng.IntN(len(s.workers))]
		again := s.calm || s.rng.IntN(10) == 0
		var some []int64
		flush := func() {
			if len(some) == 0 {
				return
			}
			r := &stormRecords{log: log, offsets: some, lane: s.lane}
			for _, o := range some {
				r.offers = append(r.offers, s.offered(w, fmt.Sprintf("%s-%d", log, o)))
			}
			some = nil
			if s.rng.IntN(8) == 0 {
				offers = append(offers, func() { w.Offer(r.Items(0, r.Len())) })
				return
			}
			s.stretchy += r.Len()
			st := r.stretch()
			st.Ordered = !s.together
			offers = append(offers, func() { w.OfferStretch(st) })
		}
		for _, id := range s.ids[:s.sent] {
			if id[0] != log[0] {
				continue
			}
			if (s.acked[id] || taken[id]) && (s.calm || !again || s.rng.IntN(3) > 0) {
				continue
			}
			offset, _ := strconv.ParseInt(id[2:], 10, 64)
			if n := len(some); n > 0 && (some[n-1]+3 < offset || log.epoch(some[n-1]) != log.epoch(offset) || s.rng.IntN(40) == 0) {
				flush()
			}
			some = append(some, offset)
		}
		flush()
	}
	s.mu.Unlock()
	for _, offer := range offers {
		offer()
	}
}

// The same storm for records of logs that are offered in stretches: whatever comes up in the middle of one, none is lost,
// done twice at once, acknowledged too early or out of its lane's order.
func TestStormOfStretches(t *testing.T) { stormOfStretches(t, false) }

// The same for batch handlers, whose records have no order.
func TestStormOfStretchesInBatches(t *testing.T) { stormOfStretches(t, true) }

func stormOfStretches(t *testing.T, together bool) {
	t.Helper()
	seeds := 24
	if os.Getenv("ACKLEDGER_LONG") != "" {
		seeds = 3000
	}
	whole := make([]int, seeds)
	t.Run("seeds", func(t *testing.T) {
		for seed := range seeds {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := &storm{
						t: t, l: memory.New(), rng: rand.New(rand.NewPCG(uint64(seed), 3)), dice: rand.New(rand.NewPCG(uint64(seed), 4)),
						acked: map[string]bool{}, failures: map[string]int{}, finished: map[string]int{}, out: map[*offering]bool{},
						stretches: true, together: together, slow: []int{30, 300, 3000, 1 << 30}[seed%4], failing: []int{10, 100, 1000}[seed%3],
					}
					for i := range 900 {
						s.ids = append(s.ids, fmt.Sprintf("%c-%d", "abc"[i%3], i))
					}
					s.rage(150)
					s.check()
					whole[seed] = s.whole
				})
			})
		}
	})
	if n := slices.Max(whole); n == 0 {
		t.Error("no stretch came back whole: nothing was tested")
	}
	t.Logf("records that came back in stretches, by seed: %v", whole)
}
