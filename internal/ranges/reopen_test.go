package ranges_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/internal/ranges"
)

func span(from, to int64) ranges.Span { return ranges.Span{From: from, To: to} }

// Cut takes out what is finished, keeps what a row stands for, and leaves ranges that are open alone.
func TestCut(t *testing.T) {
	finished := func(from, to, messages int64) ranges.Segment {
		return ranges.Segment{Span: span(from, to), Messages: messages}
	}
	for name, c := range map[string]struct {
		facts        ranges.Facts
		rows         string // of offsets
		span         ranges.Span
		want         string // dropped, then what is put
		cut, skipped int64
	}{
		"nothing there": {span: span(0, 10), want: "[]"},
		"the middle":    {facts: ranges.Facts{Segments: []ranges.Segment{finished(0, 100, 100)}}, span: span(40, 50), want: "[0] 0-40:40 50-100:50", cut: 10},
		"all of it":     {facts: ranges.Facts{Segments: []ranges.Segment{finished(40, 50, 7)}}, span: span(0, 100), want: "[40]", cut: 10},
		"with gaps":     {facts: ranges.Facts{Segments: []ranges.Segment{finished(0, 100, 60)}}, span: span(90, 200), want: "[0] 0-90:50", cut: 10},
		"two of them": {facts: ranges.Facts{Segments: []ranges.Segment{finished(0, 10, 10), finished(20, 30, 10)}}, span: span(5, 25),
			want: "[0 20] 0-5:5 25-30:5", cut: 10},
		"beside rows": {facts: ranges.Facts{Segments: []ranges.Segment{finished(0, 10, 10)}}, rows: " 4 5 ", span: span(3, 8),
			want: "[0] 0-3:3 4-6:2 8-10:2", cut: 3},
		"rows alone":     {facts: ranges.Facts{Segments: []ranges.Segment{finished(0, 10, 10)}}, rows: " 4 5 ", span: span(4, 6), want: "[]"},
		"bound to rows":  {facts: ranges.Facts{Segments: []ranges.Segment{{Span: span(0, 10), Rows: true}}}, span: span(0, 10), want: "[]"},
		"locked":         {facts: ranges.Facts{Locked: true}, span: span(0, 10), want: "[]", skipped: 10},
		"an InTx's part": {facts: ranges.Facts{Segments: []ranges.Segment{finished(0, 10, 10)}, Ranges: []ranges.Range{{Span: span(8, 20)}}}, span: span(5, 10), want: "[0] 0-5:5 8-10:2", cut: 3, skipped: 2},
	} {
		c.facts.Version, c.facts.Token, c.facts.Top, c.facts.Now = 5, 6, 1000, time.UnixMicro(77)
		c.facts.HasRow = func(o int64) bool { return strings.Contains(c.rows, fmt.Sprintf(" %d ", o)) }
		change, cut, skipped := ranges.Cut(&c.facts, c.span)
		got := fmt.Sprint(change.Drop)
		for _, s := range change.Put {
			got += fmt.Sprintf(" %d-%d:%d", s.From, s.To, s.Messages)
		}
		if got != c.want || cut != c.cut || skipped != c.skipped {
			t.Errorf("%s: %s, %d cut, %d skipped; want %s, %d, %d", name, got, cut, skipped, c.want, c.cut, c.skipped)
		}
		version, token := uint64(5), uint64(6)
		if c.cut > 0 {
			version, token = 6, 77 // above what rows that are gone may have had
		}
		if change.Version != version || change.Token != token || change.Top != 1000 || len(change.Rows)+len(change.Open)+len(change.Close) > 0 {
			t.Errorf("%s: %+v", name, change)
		}
	}
}

func TestKeyOf(t *testing.T) {
	info := ranges.Info{Log: ranges.Log{1}, Scope: "s", Prefix: "a-3-"}
	for id, want := range map[string]int64{"a-3-17": 17, "a-3-0": 0, "a-3-": -1, "a-3--1": -1, "a-3-01": -1, "a-33-1": -1, "b-3-1": -1, "a-3-+1": -1} {
		key, ok := info.KeyOf([]byte(id))
		if ok != (want >= 0) || ok && key.Sum() != ranges.JoinSum(info.Log, want) {
			t.Errorf("%q: %v, %v", id, key, ok)
		}
	}
}
