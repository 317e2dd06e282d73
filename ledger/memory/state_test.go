package memory

import (
	"testing"
	"time"

	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
)

// The rows that lie in a log when it is made stay rows: all of its own, for as long as the last of them is kept, and no other log's.
func TestNewLogIsBoundOverItsRows(t *testing.T) {
	l := New()
	info := ranges.Info{Log: ranges.Log{1}, Scope: "s", Prefix: "t-0-"}
	if g := l.newLog(info, l.begin); g.top != 0 || len(g.segments) != 0 {
		t.Errorf("of no row: top %d, %+v", g.top, g.segments)
	}
	for offset, window := range map[int64]time.Duration{7: time.Hour, 20: 3 * time.Hour, 12: 2 * time.Hour} {
		l.rows.add(ranges.JoinSum(info.Log, offset), &ledger.Entry{}).expiry = window
	}
	l.rows.add(ranges.JoinSum(ranges.Log{2}, 500), &ledger.Entry{}).expiry = 9 * time.Hour
	g := l.newLog(info, l.begin)
	want := ranges.Segment{Span: ranges.Span{From: 7, To: 21}, Rows: true, Since: l.begin, Until: l.begin, Expiry: l.begin.Add(3 * time.Hour)}
	if g.top != 21 || len(g.segments) != 1 || g.segments[0] != want {
		t.Errorf("top %d, %+v, want %+v", g.top, g.segments, want)
	}
}

// An InTx commits what is still its owner's: nothing that was settled, given back, or is not in its range.
func TestFencedIsWhatIsStillOurs(t *testing.T) {
	l := New()
	o, other := &owner{ledger: l}, &owner{ledger: l}
	log := ranges.Log{1}
	r := &openRange{owner: o, Range: ranges.Range{Span: ranges.Span{From: 10, To: 20}, Token: 1}}
	r.Done.Add(ranges.Span{From: 12, To: 13})
	r.Back.Add(ranges.Span{From: 15, To: 16})
	l.logs[log] = &rangeLog{open: map[uint64]*openRange{1: r}}
	fence := func(from, to int64) *ranges.Fenced {
		f := &ranges.Fenced{Log: log, Token: 1}
		f.Offsets.Add(ranges.Span{From: from, To: to})
		return f
	}
	for name, c := range map[string]struct {
		fence *ranges.Fenced
		want  bool
	}{
		"ours":                  {fence(10, 12), true},
		"the last one":          {fence(19, 20), true},
		"done":                  {fence(12, 13), false},
		"with one that is":      {fence(11, 14), false},
		"given back":            {fence(15, 16), false},
		"beyond the range":      {fence(19, 21), false},
		"of another range":      {&ranges.Fenced{Log: log, Token: 2}, false},
		"of a log that is gone": {&ranges.Fenced{Log: ranges.Log{2}, Token: 1}, false},
	} {
		if got := o.fenced(c.fence); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if other.fenced(fence(10, 12)) {
		t.Error("another owner's range was fenced")
	}
}

// The owner of a range is forgotten with it, whether it was settled or its log was dropped.
func TestOwnersAreForgottenWithTheirRanges(t *testing.T) {
	for name, end := range map[string]func(*Ledger, *owner, *rangeLog){
		"closed":  func(l *Ledger, o *owner, g *rangeLog) { o.change(g, &ranges.Change{Close: []uint64{1}}, l.begin) },
		"dropped": func(l *Ledger, _ *owner, g *rangeLog) { l.dropLog(g.info.Log) },
	} {
		l := New()
		o := &owner{ledger: l, fate: live}
		l.rows.join(o)
		g := l.newLog(ranges.Info{Log: ranges.Log{1}}, l.begin)
		o.change(g, &ranges.Change{Open: []ranges.Range{{Span: ranges.Span{To: 10}, Token: 1}}}, l.begin)
		o.fate = left
		l.rows.forget(o)
		if l.rows.owners[o.slot] != o {
			t.Fatalf("%s: forgotten before its range is", name)
		}
		end(l, o, g)
		forgotten := l.rows.owners[o.slot] == nil
		l.rows.forget(o) // once more changes nothing
		if !forgotten || o.rows != 0 || l.rows.owners[o.slot] != nil || len(l.rows.spare) != 1 {
			t.Errorf("%s: %d rows name it, %d places are free", name, o.rows, len(l.rows.spare))
		}
	}
}

// Names of scopes are kept once.
func TestScopesAreKeptOnce(t *testing.T) {
	rows := newRows()
	for i, name := range []string{"a", "b", "a", "b", "a"} {
		if n := rows.scope(name); n != uint32(i%2) {
			t.Errorf("%s is number %d", name, n)
		}
	}
	if len(rows.names) != 2 {
		t.Errorf("%d names for 2", len(rows.names))
	}
}

// A failed row that is kept for its state alone keeps no error, result or delivery; its generation it keeps.
func TestStripLeavesTheGeneration(t *testing.T) {
	for generation, more := range map[int]int{0: 0, 3: 1} {
		l := New()
		e, sum := entryOf(1)
		r := l.rows.add(sum, e)
		r.state = ledger.Failed
		*l.rows.extra(r) = extra{generation: generation, failed: []byte("d"), result: []byte("r")}
		l.strip(sum, r)
		if rest := l.rows.rest(r); rest.generation != generation || rest.failed != nil || rest.result != nil || len(l.rows.more) != more {
			t.Errorf("generation %d: %+v, %d rows have more", generation, rest, len(l.rows.more))
		}
	}
}
