package sqlite_test

import (
	"math"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

// A stamp that names the highest offset there can be spoils what its neighbours are asked for with it.
func TestRanges_HighestOffset(t *testing.T) {
	t.Parallel()
	l, _ := openAt(t, sqlite.Fresh(t), nil)
	a, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	claims, err := a.Claim(t.Context(), records(5, 8))
	if err != nil {
		t.Fatal(err)
	}
	errs, err := a.Settle(t.Context(), []ledger.Settlement{{Ticket: claims[0].Ticket, Kind: ledger.Succeed}})
	if err != nil || errs[0] != nil {
		t.Fatal(errs, err)
	}
	b, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	forged := record(math.MaxInt64)
	forged.Ranged, forged.StampToken, forged.Key.Pos.Prev = false, 1, -1
	claims, err = b.Claim(t.Context(), append(records(5, 8), forged))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []ledger.Answer{ledger.Done, ledger.Busy, ledger.Busy} {
		if claims[i].Answer != want {
			t.Errorf("offset %d: %v, want %v", 5+i, claims[i].Answer, want)
		}
	}
}

// The row of a message that failed, and succeeded when it was sent again, stays for its window: its copy may come again
// when the segment that covers it has been trimmed.
func TestRanges_RedrivenRowStays(t *testing.T) {
	t.Parallel()
	l, _ := openAt(t, sqlite.Fresh(t), nil)
	o, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	m := record(7)
	for range 2 {
		claims, err := o.Claim(t.Context(), []ledger.Entry{m})
		if err != nil || claims[0].Answer != ledger.Run {
			t.Fatal(claims, err)
		}
		s := ledger.Settlement{Ticket: claims[0].Ticket, Kind: ledger.Succeed}
		if m.Ranged {
			s.Kind, s.Dead = ledger.Fail, &ledger.Archive{Key: m.Key, Delivery: m.Delivery, Keep: 2 * m.Window}
		}
		if errs, err := o.Settle(t.Context(), []ledger.Settlement{s}); err != nil || errs[0] != nil {
			t.Fatal(errs, err)
		}
		m.Ranged, m.StampToken, m.Delivery = false, claims[0].Token, []byte("copy")
	}
	r, err := l.Get(t.Context(), m.Key)
	if left := time.Until(r.Expiry); err != nil || r.State != ledger.Succeeded || left < m.Window/2 {
		t.Errorf("%v, goes in %s, %v; its window is %s", r.State, left, err, m.Window)
	}
}
