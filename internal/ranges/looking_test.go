package ranges

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// A message with a row, in what is bound to rows, gets its row again if that goes meanwhile, unless it may have been in a range once.
func TestLookInWhatIsBoundToRows(t *testing.T) {
	now := time.Unix(1000, 0)
	bound := []Segment{{Span: Span{0, 100}, Rows: true, Until: now, Expiry: now.Add(time.Hour)}}
	for name, c := range map[string]struct {
		token  uint64 // above 0: the log had ranges
		ranged bool
		row    bool
		want   Verdict
	}{
		"with a row":                     {row: true, want: ToRow},
		"without one":                    {want: ToRow},
		"with one, not to be in a range": {token: 1, row: true, want: ToRow},
		"with one, perhaps in a range":   {token: 1, ranged: true, row: true, want: InRow},
		"without, perhaps in a range":    {token: 1, ranged: true, want: InRow},
	} {
		f := Facts{Now: now, Top: 100, Token: c.token, Segments: bound, HasRow: func(int64) bool { return c.row }}
		if got, _ := Look(&f, []Ask{{Offset: 5, Prev: -1, Ranged: c.ranged}}, time.Hour); got[0].Verdict != c.want {
			t.Errorf("%s: verdict %d, want %d", name, got[0].Verdict, c.want)
		}
	}
}

// Each segment that is bound to rows and was met is renewed, once, when half of its time is over.
func TestLookRenewsEachBindingOnce(t *testing.T) {
	now := time.Unix(100_000, 0)
	old := now.Add(-TrimAfter)
	f := Facts{Now: now, Top: 100, HasRow: func(int64) bool { return false }, Segments: []Segment{
		{Span: Span{0, 10}, Rows: true, Until: old, Expiry: now.Add(time.Minute)},
		{Span: Span{20, 30}, Rows: true, Until: old, Expiry: now.Add(time.Minute)},
		{Span: Span{40, 50}, Rows: true, Until: now, Expiry: now.Add(time.Hour)}, // young
	}}
	var asks []Ask
	for _, offset := range []int64{1, 2, 21, 22, 41, 42} {
		asks = append(asks, Ask{Offset: offset, Prev: -1})
	}
	_, c := Look(&f, asks, time.Hour)
	if want := []Span{{0, 10}, {20, 30}, {40, 50}}; !slices.Equal(c.Bound, want) {
		t.Errorf("bound %v, want %v", c.Bound, want)
	}
	if len(c.Put) != 2 || !slices.Equal(c.Drop, []int64{0, 20}) {
		t.Fatalf("dropped %v, put %+v", c.Drop, c.Put)
	}
	for _, s := range c.Put {
		if !s.Until.Equal(now) || !s.Expiry.Equal(now.Add(time.Hour)) {
			t.Errorf("%+v is not renewed", s)
		}
	}
}

// A gap before a record is taken for finished if nothing at all is known of it, and only then.
func TestLookTakesAGapThatNothingIsKnownOf(t *testing.T) {
	held := func(from, to int64) []Range { return []Range{{Span: Span{from, to}, Token: 1, Holder: ledger.Live}} }
	for name, c := range map[string]struct {
		ranges   []Range
		segments []Segment
		from     int64
	}{
		"nothing":                 {from: 5},
		"a range in it":           {ranges: held(7, 8), from: 10},
		"a range beside it":       {ranges: held(0, 5), from: 5},
		"a segment in it":         {segments: []Segment{{Span: Span{7, 8}}}, from: 10},
		"a segment beside it":     {segments: []Segment{{Span: Span{0, 5}}}, from: 5},
		"a binding to rows there": {segments: []Segment{{Span: Span{7, 8}, Rows: true}}, from: 10},
	} {
		f := Facts{Token: 1, Ranges: c.ranges, Segments: c.segments, HasRow: func(int64) bool { return false }}
		_, change := Look(&f, []Ask{{Offset: 10, Prev: 4, Ranged: true}}, time.Hour)
		if got := change.Open[0].Span; got != (Span{c.from, 11}) {
			t.Errorf("%s: the range is %v, want it from %d", name, got, c.from)
		}
	}
}

// A replayed copy is bound to rows by itself: it says nothing about its neighbours.
func TestLookBindsACopyAlone(t *testing.T) {
	for lone, to := range map[bool]int64{true: 11, false: 10 + rowStride} {
		f := Facts{HasRow: func(int64) bool { return false }}
		_, c := Look(&f, []Ask{{Offset: 10, Prev: -1, Lone: lone}}, time.Hour)
		if len(c.Bound) != 1 || c.Bound[0] != (Span{10, to}) || c.Top != to {
			t.Errorf("alone %v: bound %v, top %d", lone, c.Bound, c.Top)
		}
	}
}

// Of two segments that become one the earliest beginning counts, and the latest end and expiry, in either order.
func TestSegmentsThatTouchBecomeOne(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	a := Segment{Span: Span{0, 10}, Messages: 8, Since: at(1), Until: at(5), Expiry: at(20)}
	b := Segment{Span: Span{10, 15}, Messages: 5, Since: at(2), Until: at(6), Expiry: at(30)}
	want := Segment{Span: Span{0, 15}, Messages: 13, Since: at(1), Until: at(6), Expiry: at(30)}
	if got := join(a, b); got != want {
		t.Errorf("%+v", got)
	}
	if got := join(b, a); got != want {
		t.Errorf("the other way round: %+v", got)
	}
}

// What is no stored set is an error, whatever is wrong with it.
func TestDecodeSetRefuses(t *testing.T) {
	for name, b := range map[string][]byte{
		"a distance that is cut":  {0x80},
		"a distance without size": {1},
		"a size that is cut":      {1, 0x80},
		"an empty span":           {1, 0},
		"too large a distance":    {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 1},
		"an end beyond all":       {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 2},
		"a later one":             {1, 1, 1, 0},
	} {
		if s, err := DecodeSet(b, 0); err == nil {
			t.Errorf("%s: %v", name, s.Spans())
		}
	}
	if s, err := DecodeSet([]byte{1, 2, 3, 4}, 10); err != nil || fmt.Sprint(s.Spans()) != "[{11 13} {16 20}]" {
		t.Errorf("%v, %v", s.Spans(), err)
	}
}
