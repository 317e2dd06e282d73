package ranges

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/ackledger/ackledger/ledger"
)

func released(log Log, offset int64) ledger.Settlement {
	return ledger.Settlement{Ticket: ledger.NewTicket(JoinSum(log, offset), 1), Kind: ledger.Release}
}

// A settlement that was refused for certain says nothing of its range: the next one of its message may say something else. One
// whose answer is unknown may have been carried out, so its word stays.
func TestSettleThatFailedIsTakenBack(t *testing.T) {
	for name, c := range map[string]struct {
		first  func(Log, int64) ledger.Settlement
		err    error
		second func(Log, int64) ledger.Settlement
		lost   bool
		left   int64 // messages of the range at the end
	}{
		"a success, then given back":          {first: success1, err: errAway, second: released, left: 9},
		"given back, then a success":          {first: released, err: errAway, second: success1, left: 10},
		"an unknown success stays":            {first: success1, err: ledger.MarkUnknown(errAway), second: released, left: 10},
		"what was perhaps given back is lost": {first: released, err: ledger.MarkUnknown(errAway), second: success1, lost: true, left: 9},
	} {
		s, o, logs := scripted("0")
		s.updateErr = c.err
		if _, err := o.Settle(t.Context(), []ledger.Settlement{c.first(logs[0], 3)}); !errors.Is(err, errAway) {
			t.Errorf("%s: %v", name, err)
		}
		s.updateErr = nil
		errs, err := o.Settle(t.Context(), []ledger.Settlement{c.second(logs[0], 3)})
		if err != nil || ledger.IsLost(errs[0]) != c.lost {
			t.Errorf("%s: told %v, %v", name, errs, err)
		}
		if got := o.logs[logs[0]].open[1].Messages; got != c.left {
			t.Errorf("%s: the range has %d messages, want %d", name, got, c.left)
		}
	}
}

func success1(log Log, offset int64) ledger.Settlement { return success(log, offset, 1) }

// Logs are written in their order, whatever the order of the settlements and claims is: two calls that lock the same logs in the
// database do not wait for each other in a circle. Each log is in a call once.
func TestLogsAreWrittenInTheirOrder(t *testing.T) {
	partitions := []string{"0", "1", "2", "3", "4"}
	s, o, logs := scripted(partitions...)
	var settlements []ledger.Settlement
	var claims, known []ledger.Entry
	for range 2 {
		for i, p := range partitions {
			settlements = append(settlements, success1(logs[i], int64(len(settlements)/5)))
			known = append(known, entry(p, int64(20+len(known)/5)))
			claims = append(claims, entry("new "+p, int64(20+len(claims)/5)))
		}
	}
	if _, err := o.Settle(t.Context(), settlements); err != nil {
		t.Fatal(err)
	}
	inOrder := func(what string, got []Log) {
		t.Helper()
		if len(got) != len(logs) || !slices.IsSortedFunc(got, func(a, b Log) int { return bytes.Compare(a[:], b[:]) }) {
			t.Errorf("%s: %x", what, got)
		}
	}
	inOrder("settled", logsOf(s.queries))
	s.queries = nil
	claimOf(t, o, known...)
	var opened []Log
	for i := range s.opened {
		opened = append(opened, s.opened[i].Log)
	}
	inOrder("opened", opened)
	s.queries = nil
	claimOf(t, o, claims...)
	inOrder("looked at", logsOf(s.queries))
	if len(o.saves.of)+len(o.looks.of) != 0 {
		t.Error("turns are left")
	}
}

func logsOf(queries []Query) (out []Log) {
	for i := range queries {
		out = append(out, queries[i].Info.Log)
	}
	return out
}

// A call has the turns of all of its logs, not of the first one alone.
func TestCallsTakeTheTurnsOfAllTheirLogs(t *testing.T) {
	_, o, logs := scripted("0", "1")
	want := sortLogs(slices.Clone(logs))
	var entries []ledger.Entry
	var in []ledger.Settlement
	for i, p := range []string{"0", "0", "1", "0"} {
		e, log := recordOf(p, int64(i))
		entries, in = append(entries, e), append(in, success1(log, int64(i)))
	}
	if got := (&claiming{owner: o, entries: entries, out: make([]ledger.Claim, 4)}).check(); !slices.Equal(got, want) {
		t.Errorf("a claim: %x, want %x", got, want)
	}
	if got := (&settling{owner: o, in: in, out: make([]error, 4)}).check(); !slices.Equal(got, want) {
		t.Errorf("a settlement: %x, want %x", got, want)
	}
}

// What leaves its range is asked for alone: no InTx may be at its end meanwhile. What succeeds is not.
func TestOnlyWhatLeavesItsRangeIsAlone(t *testing.T) {
	for name, c := range map[string]struct {
		s     func(Log, int64) ledger.Settlement
		alone bool
	}{
		"a success":  {success1, false},
		"given back": {released, true},
		"to a row": {func(log Log, offset int64) ledger.Settlement {
			s := success1(log, offset)
			s.Result = []byte("r")
			return s
		}, true},
	} {
		s, o, logs := scripted("0")
		if _, err := o.Settle(t.Context(), []ledger.Settlement{c.s(logs[0], 3)}); err != nil || s.queries[0].Alone != c.alone {
			t.Errorf("%s: alone %v, %v", name, s.queries[0].Alone, err)
		}
	}
}

// Behind the segment that was written last a range is closed the short way: what is bound to rows is no such segment.
func TestTailIsTheLatestFinishedSegment(t *testing.T) {
	l := &logSave{held: &held{open: map[uint64]*open{}}, change: Change{Put: []Segment{{Span: Span{0, 10}}, {Span: Span{20, 30}, Rows: true}}}}
	if l.note(); l.tail != (Span{0, 10}) {
		t.Errorf("%v", l.tail)
	}
}

// A range that was written as over, and that another transaction held, is looked at again: it is ripe. One with messages left is not.
func TestNoteSaysWhatIsRipe(t *testing.T) {
	for done, want := range map[Span]bool{{0, 10}: true, {0, 9}: false} {
		r := &open{Range: Range{Token: 1, Span: Span{0, 10}, Done: setOf(done)}, dirty: true}
		l := &logSave{held: &held{open: map[uint64]*open{1: r}}, tokens: []uint64{1}, change: Change{Alter: []Range{r.Range}}}
		if got := l.note(); got != want || r.dirty {
			t.Errorf("done %v: ripe %v, dirty %v", done, got, r.dirty)
		}
	}
}

// A range that was closed the short way is not there any more, and a settlement that is repeated is told that it stands, once
// no row knows its token.
func TestClosedTheShortWayIsRemembered(t *testing.T) {
	log := Log{1}
	s := newClosing(log)
	s.closed = true
	h := s.owner.logs[log]
	for repeats := range 2 {
		if errs, err := s.owner.Settle(t.Context(), []ledger.Settlement{success(log, 10, 1)}); err != nil || errs[0] != nil {
			t.Errorf("told %v, %v", errs, err)
		}
		if len(h.open) != 0 || len(h.past) != 1 || h.tail != (Span{0, 11}) || len(s.asked) != repeats {
			t.Errorf("%d open, %d past, tail %v, rows asked %v", len(h.open), len(h.past), h.tail, s.asked)
		}
	}
}

// Of the ranges that were closed the latest thousand are remembered.
func TestPastIsBounded(t *testing.T) {
	h := &held{open: map[uint64]*open{}, past: map[uint64]past{}}
	for token := uint64(1); token <= maxPast+5; token++ {
		h.open[token] = &open{}
		h.close(token)
	}
	_, oldest := h.past[6]
	_, gone := h.past[5]
	if len(h.past) != maxPast || len(h.closed) != maxPast || !oldest || gone {
		t.Errorf("%d are remembered, %d in order, the sixth %v, the fifth %v", len(h.past), len(h.closed), oldest, gone)
	}
}

// A claim that finds messages done elsewhere notes it, and a range of which nothing is left is ripe.
func TestDoneElsewhereMakesARangeRipe(t *testing.T) {
	_, o, logs := scripted("0")
	h := o.logs[logs[0]]
	for offset := range int64(10) {
		if o.ripe.Load() != 0 {
			t.Fatalf("ripe after %d of 10", offset)
		}
		o.finished(h, offset)
		o.finished(h, offset) // known
	}
	if o.ripe.Load() != 1 || !h.open[1].inTx {
		t.Errorf("ripe %d", o.ripe.Load())
	}
}

// A range that is gone was closed by an earlier write of its owner, or others have it. A look at some of its messages closes it if all the
// others are settled, and only then.
func TestARangeThatALookDidNotClose(t *testing.T) {
	for done, lost := range map[Span]bool{{1, 10}: false, {1, 9}: true} {
		_, o, logs := scripted("0")
		r := o.logs[logs[0]].open[1]
		r.Done = setOf(done)
		e, _ := recordOf("0", 0)
		end, err := (&claiming{owner: o, logs: []*logClaim{{held: o.logs[logs[0]], log: logs[0], asks: []Ask{{Offset: 0}}}}, entries: []ledger.Entry{e}}).alone(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		end()
		if _, gone := Save(&Facts{}, []Saved{{Token: 1, Known: r.known}}); (len(gone) > 0) != lost {
			t.Errorf("settled %v: lost %v, want %t", done, gone, lost)
		}
	}
}
