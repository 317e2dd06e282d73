package postgres_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
)

// shortWay counts which way claims take.
type shortWay struct {
	ranges.Store
	looks, opened atomic.Int64
}

func (s *shortWay) Update(ctx context.Context, queries []ranges.Query, plan func(int, *ranges.Facts) ranges.Change) error {
	if len(queries[0].Tokens) == 0 {
		s.looks.Add(1)
	}
	return s.Store.Update(ctx, queries, plan)
}

func (s *shortWay) Open(ctx context.Context, openings []ranges.Opening) ([]bool, error) {
	opened, err := s.Store.Open(ctx, openings)
	for _, ok := range opened {
		if ok {
			s.opened.Add(1)
		}
	}
	return opened, err
}

// A stamp names an offset far above the log's end. From then on each claim of the log locked it and looked at it, two round
// trips and four statements in the place of one, for as long as the leader epoch lasted.
func TestPitfall128_StampFarAhead(t *testing.T) {
	t.Parallel()
	for name, old := range map[string]bool{"18": false, "14": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testStampFarAhead(t, newBench(t, variant{old: old}))
		})
	}
}

func testStampFarAhead(t *testing.T, b *bench) {
	store := &shortWay{Store: ledger.Unwrap(join(t, b, time.Minute)).(ranges.Store)}
	o := ranges.NewOwner(store, ledger.DefaultLimits, new(ranges.Counts))
	next := int64(0)
	finish := func(n int) {
		t.Helper()
		succeedAll(t, o, claimsOf(t, o, records("s", 0, next, n), ledger.Run))
		next += int64(n)
	}
	finish(10)
	finish(10)
	for i, c := range []struct {
		offset int64
		token  uint64
	}{{ledger.MaxOffset, 7}, {1 << 40, 0}, {1000, 7}, {990, 0}} {
		copied := records("s", 0, c.offset, 1)
		copied[0].Ranged, copied[0].Copy, copied[0].StampToken, copied[0].Key.Pos.Prev = false, true, c.token, -1
		copied[0].Delivery = fmt.Append(nil, "copy ", i)
		succeedAll(t, o, claimsOf(t, o, copied, ledger.Run))
		finish(10) // somebody has put something at new offsets: a look
		looks, opened := store.looks.Load(), store.opened.Load()
		for range 10 {
			finish(10)
		}
		tokens, err := o.ClaimStretches(t.Context(), []ledger.Stretch{{First: records("s", 0, next, 1)[0], Last: next + 9}})
		if err != nil || tokens[0] == 0 {
			t.Errorf("after a stamp for offset %d a stretch is not claimed: %v, %v", c.offset, tokens, err)
		}
		claims := claimsOf(t, o, records("s", 0, next+10, 10), ledger.Run)
		succeedAll(t, o, claims)
		errs, err := o.SettleStretches(t.Context(), []ledger.StretchDone{{
			Ticket: ledger.NewTicket(records("s", 0, next, 1)[0].Key.Sum(), tokens[0]), Last: next + 9, Messages: 10}})
		if err != nil || errs[0] != nil {
			t.Fatal(errs, err)
		}
		next += 20
		if n := store.looks.Load() - looks; n != 0 || store.opened.Load()-opened != 12 {
			t.Errorf("after a stamp for offset %d, 12 claims took %d looks and %d short ways", c.offset, n, store.opened.Load()-opened)
		}
	}
	for next < 1100 { // past two of the copies, whose places are theirs
		n := 10
		switch {
		case next == 990 || next == 1000:
			claimsOf(t, o, records("s", 0, next, 1), ledger.Done)
			next++
			continue
		case next < 990:
			n = int(min(10, 990-next))
		case next < 1000:
			n = int(1000 - next)
		}
		finish(n)
	}
	if n := b.number(t, "SELECT count(*) FROM ackledger.message"); n != 4 {
		t.Errorf("%d rows, want those of the copies", n)
	}
	if n := b.number(t, "SELECT sum(messages) FROM ackledger.segment WHERE kind = 1"); int64(n) != next-2 {
		t.Errorf("%d messages are finished, want %d", n, next-2)
	}
}

// TestRoomBesideAnOpenRange: below a copy far ahead claims go the short way, though an older range is still in hand.
func TestRoomBesideAnOpenRange(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	store := &shortWay{Store: ledger.Unwrap(join(t, b, time.Minute)).(ranges.Store)}
	o := ranges.NewOwner(store, ledger.DefaultLimits, new(ranges.Counts))
	claimsOf(t, o, records("s", 0, 0, 10), ledger.Run)
	copied := records("s", 0, 1000, 1)
	copied[0].Ranged, copied[0].Copy, copied[0].Key.Pos.Prev = false, true, -1
	succeedAll(t, o, claimsOf(t, o, copied, ledger.Run))
	claimsOf(t, o, records("s", 0, 10, 10), ledger.Run)
	looks := store.looks.Load()
	for i := range int64(3) {
		claimsOf(t, o, records("s", 0, 20+10*i, 10), ledger.Run)
	}
	if n := store.looks.Load() - looks; n != 0 || store.opened.Load() < 3 {
		t.Errorf("%d looks, %d short ways", n, store.opened.Load())
	}
}
