package ranges

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"pgregory.net/rapid"
)

// A stretch opens the range that a look at each of its records opens.
func TestStretchIsWhatALookFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		top := rapid.Int64Range(0, 50).Draw(t, "top")
		c := Change{Version: 7, Token: 3, Top: top}
		if rapid.Bool().Draw(t, "something far above") {
			c.Top, c.Room = 1<<40, Span{top, 1 << 40}
		}
		facts := Facts{Version: 7, Token: 3, Top: c.Top, Room: c.Room, HasRow: func(int64) bool { return false }}
		if top > 0 {
			facts.Segments = []Segment{{Span: Span{0, top}}}
		}
		at := top + rapid.Int64Range(0, 5).Draw(t, "gap before")
		prev := rapid.SampledFrom([]int64{-1, at - 1, max(top-1, -1), max(top-3, -1)}).Draw(t, "prev")
		s := ledger.Stretch{First: ledger.Entry{Ranged: true, Window: time.Hour, Key: ledger.Key{
			Scope: "s", ID: []byte("x"), Pos: &ledger.Position{Log: "l", Offset: at, Prev: prev},
		}}}
		asks := []Ask{{Offset: at, Prev: prev, Ranged: true}}
		for range rapid.IntRange(0, 20).Draw(t, "more") {
			next := at + 1 + rapid.SampledFrom([]int64{0, 0, 0, 1, 7, maxGap}).Draw(t, "gap")
			if next > at+1 {
				s.Gaps = append(s.Gaps, ledger.Gap{From: at + 1, To: next})
			}
			asks = append(asks, Ask{Offset: next, Prev: at, Ranged: true, Index: len(asks)})
			at = next
		}
		s.Last = at
		answers, want := Look(&facts, asks, time.Hour)
		if !Stretch(&c, &s) {
			t.Fatalf("it leaves it alone: %+v", s)
		}
		if len(want.Open) != 1 || !reflect.DeepEqual(c.Open, want.Open) || c.Token != want.Token || c.Top != want.Top || c.Room != want.Room || c.Version != want.Version {
			t.Fatalf("%+v\nwant %+v", c, want)
		}
		for i, a := range answers {
			if a.Verdict != Fresh || a.Token != c.Token {
				t.Fatalf("record %d: %+v", i, a)
			}
		}
	})
}

// What is not wholly new, or not wholly of the log, is left to a look, and changes nothing.
func TestStretchIsLeftAlone(t *testing.T) {
	entry := func(offset int64) ledger.Entry {
		return ledger.Entry{Ranged: true, Window: time.Hour, Key: ledger.Key{Pos: &ledger.Position{Offset: offset, Prev: -1}}}
	}
	for name, s := range map[string]ledger.Stretch{
		"below the top":       {First: entry(9), Last: 20},
		"ends before it":      {First: entry(10), Last: 9},
		"beyond all offsets":  {First: entry(10), Last: ledger.MaxOffset + 1},
		"a gap too long":      {First: entry(10), Last: 5000, Gaps: []ledger.Gap{{From: 11, To: 12 + maxGap}}},
		"a gap at its start":  {First: entry(10), Last: 20, Gaps: []ledger.Gap{{From: 10, To: 12}}},
		"a gap at its end":    {First: entry(10), Last: 20, Gaps: []ledger.Gap{{From: 18, To: 21}}},
		"gaps out of order":   {First: entry(10), Last: 20, Gaps: []ledger.Gap{{From: 15, To: 16}, {From: 12, To: 13}}},
		"gaps that overlap":   {First: entry(10), Last: 20, Gaps: []ledger.Gap{{From: 12, To: 15}, {From: 14, To: 16}}},
		"a gap with no width": {First: entry(10), Last: 20, Gaps: []ledger.Gap{{From: 12, To: 12}}},
	} {
		c := Change{Version: 7, Token: 3, Top: 10}
		if Stretch(&c, &s) || !reflect.DeepEqual(c, Change{Version: 7, Token: 3, Top: 10}) {
			t.Errorf("%s: %+v", name, c)
		}
	}
	beside := Change{Version: 7, Token: 3, Top: 100, Room: Span{10, 30}}
	for name, s := range map[string]ledger.Stretch{
		"below the room":  {First: entry(9), Last: 20},
		"beyond the room": {First: entry(10), Last: 30},
		"below the top":   {First: entry(30), Last: 40},
	} {
		if c := beside; Stretch(&c, &s) || !reflect.DeepEqual(c, beside) {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// telling is a store in which each log is as facts say; made is what was planned.
type telling struct {
	Store
	facts Facts
	made  Change
}

func (s *telling) Update(_ context.Context, queries []Query, plan func(int, *Facts) Change) error {
	for i := range queries {
		for range 2 { // it may be called more than once
			s.made = plan(i, &s.facts)
		}
	}
	return nil
}

// A log that is not known is claimed from where nothing lies: not beside rows that are there, nor while another transaction has it.
func TestStretchesOfLogsThatAreNotKnown(t *testing.T) {
	for name, c := range map[string]struct {
		facts Facts
		token uint64
	}{
		"a new log":               {Facts{}, 1},
		"with ranges before":      {Facts{Version: 4, Token: 8, Top: 20}, 9},
		"with something above":    {Facts{Version: 4, Token: 8, Top: 21}, 0},
		"a new log with rows":     {Facts{Segments: []Segment{{Span: Span{15, 40}, Rows: true}}}, 0},
		"a new log, rows before":  {Facts{Segments: []Segment{{Span: Span{15, 20}, Rows: true}}}, 1},
		"another transaction's":   {Facts{Locked: true}, 0},
		"known, and locked by it": {Facts{Version: 4, Token: 8, Top: 20, Locked: true}, 0},
	} {
		s := &telling{facts: c.facts}
		o := NewOwner(s, ledger.DefaultLimits, new(Counts))
		first, log := recordOf("p", 20)
		tokens, err := o.ClaimStretches(t.Context(), []ledger.Stretch{{First: first, Last: 29}})
		if err != nil || tokens[0] != c.token || len(s.made.Open) != min(int(c.token), 1) || c.token == 0 && s.made.Version != c.facts.Version {
			t.Errorf("%s: tokens %v, %v, %+v is made", name, tokens, err, s.made)
		}
		if h := o.logs[log]; h.known == c.facts.Locked || len(h.open) != len(s.made.Open) {
			t.Errorf("%s: known %v, %d ranges", name, h.known, len(h.open))
		}
	}
}

// TestPitfall197_CountedTwice: stretches of logs that were not known were counted as first claims though the call came to nothing
// afterwards, and again when each of their messages was asked for.
func TestPitfall197_CountedTwice(t *testing.T) {
	s, o, _ := scripted("0")
	own := s.facts
	s.facts = func(q *Query) Facts {
		if q.Info.Prefix == "t-0-" {
			return own(q)
		}
		return Facts{}
	}
	known, _ := recordOf("0", 10)
	strange, log := recordOf("1", 0)
	asks := []ledger.Stretch{{First: strange, Last: 9}, {First: known, Last: 19}}
	s.openErr = errAway
	if _, err := o.ClaimStretches(t.Context(), asks); !ledger.Unknown(err) {
		t.Fatalf("%v, want an unknown answer: something was claimed", err)
	}
	if got := o.counts.Answered(); got != (ledger.Answered{}) || len(o.logs[log].open) != 1 {
		t.Errorf("%+v of a call that was not answered", got)
	}
	s.openErr = nil
	next, _ := recordOf("1", 10)
	tokens, err := o.ClaimStretches(t.Context(), []ledger.Stretch{{First: next, Last: 19}, {First: known, Last: 19}})
	if got := o.counts.Answered(); err != nil || tokens[0] != 2 || tokens[1] == 0 || got != (ledger.Answered{Decided: 20, First: 20}) {
		t.Errorf("tokens %v, %v: %+v", tokens, err, got)
	}
}
