package memory_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// record asks for an offset of one log at an epoch; first is the log's first offset (0: not known).
func record(epoch int32, offset, first int64) ledger.Entry {
	return ledger.Entry{
		Key: ledger.Key{Scope: "s", ID: []byte("t-0-" + strconv.FormatInt(offset, 10)),
			Pos: &ledger.Position{Log: "log", Epoch: epoch, Offset: offset, Prev: offset - 1, First: first}},
		Delivery: []byte("d"), Window: time.Hour, Ranged: true,
	}
}

func claimAll(t *testing.T, o ledger.Owner, entries []ledger.Entry, want ledger.Answer) []ledger.Claim {
	t.Helper()
	claims, err := o.Claim(t.Context(), entries)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range claims {
		if c.Answer != want || c.Err != nil {
			t.Fatalf("claim %d of %d: %+v, want %v", i, len(claims), c, want)
		}
	}
	return claims
}

func succeedAll(t *testing.T, o ledger.Owner, claims []ledger.Claim) {
	t.Helper()
	settlements := make([]ledger.Settlement, len(claims))
	for i, c := range claims {
		settlements[i] = ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed}
	}
	errs, err := o.Settle(t.Context(), settlements)
	if err != nil {
		t.Fatal(err)
	}
	for i, err := range errs {
		if err != nil {
			t.Fatalf("settle %d: %v", i, err)
		}
	}
}

func segments(t *testing.T, l *memory.Ledger, e ledger.Entry) *ledger.Neighbours {
	t.Helper()
	r, err := l.Get(t.Context(), e.Key)
	if err != nil {
		return nil
	}
	return r.In
}

// The row of a message that failed once and then succeeded goes ten minutes later, and its range speaks for it.
func TestRanges_Fold(t *testing.T) {
	c := newClock()
	l := memory.New(memory.WithClock(c.Now))
	o := join(t, l)
	m := record(0, 7, 0)
	run := claim(t, o, m, ledger.Run)
	settle(t, o, ledger.Settlement{Ticket: run.Ticket, Kind: ledger.Release, Count: true})
	settle(t, o, ledger.Settlement{Ticket: claim(t, o, m, ledger.Run).Ticket, Kind: ledger.Succeed})
	if l.Len() != 1 {
		t.Fatalf("%d rows", l.Len())
	}
	c.pass(11 * time.Minute)
	sweep(t, l)
	if l.Len() != 0 || segments(t, l, m) == nil {
		t.Fatalf("%d rows, in %+v", l.Len(), segments(t, l, m))
	}
	claim(t, o, m, ledger.Done)
	c.pass(2 * time.Hour)
	sweep(t, l)
	claim(t, o, m, ledger.Run) // its window is over
}

// What is left of a range that is taken over joins what was finished beside it, however little of it was asked about.
func TestRanges_TakenOverJoinsWhatLiesBeside(t *testing.T) {
	l := memory.New()
	o, taker := join(t, l), join(t, l)
	var all []ledger.Entry
	for offset := range int64(15) {
		all = append(all, record(0, offset, 0))
	}
	succeedAll(t, o, claimAll(t, o, all[:5], ledger.Run))
	held := claimAll(t, o, all[5:10], ledger.Run)
	succeedAll(t, taker, claimAll(t, taker, all[10:], ledger.Run))
	succeedAll(t, o, held[3:])
	l.Declare(o.ID())
	claim(t, taker, all[7], ledger.Run)
	if in := segments(t, l, all[1]); in == nil || in.From != 0 || in.To != 15 {
		t.Errorf("in %+v, want one segment of 15", in)
	}
}

// A failed message stays as long as a segment has its offset: without its row, the segment would swallow the replay.
func TestRanges_FailedRowStays(t *testing.T) {
	c := newClock()
	l := memory.New(memory.WithClock(c.Now))
	o := join(t, l)
	m := record(0, 7, 0)
	dead := &ledger.Archive{Key: m.Key, Delivery: m.Delivery, Keep: 50 * time.Hour}
	settle(t, o, ledger.Settlement{Ticket: claim(t, o, m, ledger.Run).Ticket, Kind: ledger.Fail, Dead: dead})
	for range 40 { // neighbours keep the segment alive
		c.pass(30 * time.Minute)
		n := record(0, 8+int64(c.Now().Unix()/1800%100_000), 0)
		succeedAll(t, o, claimAll(t, o, []ledger.Entry{n}, ledger.Run))
		sweep(t, l)
	}
	m.Delivery = []byte("the copy that was sent again")
	claim(t, o, m, ledger.Run)
}

// Segments below the log's start go, those of other epochs as well, but not at once: a slow worker may have what lies there.
func TestRanges_EpochsDoNotPileUp(t *testing.T) {
	c := newClock()
	l := memory.New(memory.WithClock(c.Now))
	o := join(t, l)
	const years = 100
	for epoch := range int32(years) { // a restart, and a window that is much longer than the log is kept
		m := record(epoch, int64(epoch)*10, 0)
		m.Window = 90 * 24 * time.Hour
		succeedAll(t, o, claimAll(t, o, []ledger.Entry{m}, ledger.Run))
	}
	latest := record(years, years*10, years*10)
	succeedAll(t, o, claimAll(t, o, []ledger.Entry{latest}, ledger.Run))
	claim(t, o, record(3, 30, 0), ledger.Done)
	c.pass(2 * time.Hour)
	again := record(years, years*10+1, years*10+1)
	if _, err := o.Beat(t.Context()); err != nil {
		t.Fatal(err)
	}
	claimAll(t, o, []ledger.Entry{again}, ledger.Run)
	for epoch := range int32(years) {
		if in := segments(t, l, record(epoch, int64(epoch)*10, 0)); in != nil {
			t.Fatalf("epoch %d is still held: %+v", epoch, *in)
		}
	}
}

// A range whose owner is gone, and for whose messages nobody asks, is dissolved by the sweep.
func TestRanges_AbandonedAreDissolved(t *testing.T) {
	c := newClock()
	l := memory.New(memory.WithClock(c.Now))
	o := join(t, l)
	claims := claimAll(t, o, []ledger.Entry{record(0, 0, 0), record(0, 1, 0), record(0, 2, 0)}, ledger.Run)
	succeedAll(t, o, claims[1:2])
	if err := o.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, wait := range []time.Duration{0, time.Hour} {
		c.pass(wait)
		sweep(t, l)
		if l.Len() != 0 {
			t.Fatalf("%d rows after %s", l.Len(), wait)
		}
	}
	c.pass(time.Second)
	if r := sweep(t, l); l.Len() != 2 || r.Abandoned != 2 {
		t.Fatalf("%d rows, %+v", l.Len(), r)
	}
	if r := sweep(t, l); r.Abandoned != 2 {
		t.Fatalf("%+v", r)
	}
	b := join(t, l)
	claimAll(t, b, []ledger.Entry{record(0, 0, 0), record(0, 2, 0)}, ledger.Run)
}

// A worker with a row for each message goes by what it bound to rows long ago; another one, with ranges, must find it bound,
// however long ago that was.
func TestRanges_BindingsLastAsLongAsTheyAreUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the ledger's time and the owner's
		l := memory.New()
		rows, ranged := join(t, l), join(t, l)
		one := func(offset int64) []ledger.Entry {
			m := record(0, offset, 0)
			m.Ranged = false
			return []ledger.Entry{m}
		}
		for offset := range int64(200) {
			succeedAll(t, rows, claimAll(t, rows, one(offset), ledger.Run))
			time.Sleep(time.Minute)
			sweep(t, l)
		}
		claimAll(t, ranged, []ledger.Entry{record(0, 500, 0)}, ledger.Run)
		if r, err := l.Get(t.Context(), record(0, 500, 0).Key); err != nil || r.In != nil {
			t.Fatalf("a range was made of what is bound to rows: %+v, %v", r, err)
		}
		claimAll(t, rows, one(500), ledger.Busy)
	})
}

// A log that went and came back is not taken for the one before by an owner that slept meanwhile.
func TestRanges_LogComesBack(t *testing.T) {
	c := newClock()
	l := memory.New(memory.WithClock(c.Now))
	a, b := join(t, l), join(t, l)
	succeedAll(t, a, claimAll(t, a, []ledger.Entry{record(0, 0, 0)}, ledger.Run))
	c.pass(2 * time.Hour)
	sweep(t, l)
	if segments(t, l, record(0, 0, 0)) != nil {
		t.Fatal("the segment stays")
	}
	succeedAll(t, b, claimAll(t, b, []ledger.Entry{record(0, 0, 0)}, ledger.Run))
	claimAll(t, b, []ledger.Entry{record(0, 1, 0), record(0, 2, 0)}, ledger.Run)
	claimAll(t, a, []ledger.Entry{record(0, 1, 0)}, ledger.Busy)
}

func BenchmarkRanges(b *testing.B) {
	const batch = 5000
	l := memory.New()
	o, err := l.Join(b.Context(), time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	keys := ledger.LogKeys{Scope: "s", Log: "log"}
	entries, settlements := make([]ledger.Entry, batch), make([]ledger.Settlement, batch)
	positions, ids := make([]ledger.Position, batch), make([][]byte, batch)
	b.ReportAllocs()
	n := int64(0)
	for ; b.Loop(); n += batch {
		for i := range entries {
			offset := n + int64(i)
			positions[i] = ledger.Position{Log: "log", Offset: offset, Prev: offset - 1}
			ids[i] = strconv.AppendInt(append(ids[i][:0], "t-0-"...), offset, 10)
			entries[i] = ledger.Entry{Key: keys.Key(ids[i], &positions[i]), Delivery: ids[i], Window: time.Hour, Ranged: true}
		}
		claims, err := o.Claim(b.Context(), entries)
		if err != nil {
			b.Fatal(err)
		}
		for i, c := range claims {
			settlements[i] = ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed}
		}
		if _, err := o.Settle(b.Context(), settlements); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/message")
}
