package memory_test

import (
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// A stamp that names the highest offset there can be, in one call with its neighbours.
func TestRanges_HighestOffset(t *testing.T) {
	for _, offset := range []int64{math.MaxInt64 - 1, math.MaxInt64} {
		l := memory.New()
		a, b := join(t, l), join(t, l)
		succeedAll(t, a, claimAll(t, a, []ledger.Entry{record(0, 5, 0), record(0, 6, 0)}, ledger.Run))
		claimAll(t, a, []ledger.Entry{record(0, 7, 0)}, ledger.Run)
		forged := record(0, offset, 0)
		forged.Ranged, forged.StampToken, forged.Key.Pos.Prev = false, 1, -1
		claims, err := b.Claim(t.Context(), []ledger.Entry{record(0, 5, 0), record(0, 6, 0), record(0, 7, 0), forged})
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []ledger.Answer{ledger.Done, ledger.Done, ledger.Busy} {
			if claims[i].Answer != want {
				t.Errorf("forged %d: claim %d: %v, want %v", offset, i, claims[i].Answer, want)
			}
		}
		t.Logf("forged: %+v", claims[3])
	}
}

// A record failed, its copy was replayed and succeeded; then its place in the log is trimmed. The copy comes again.
func TestRanges_ReplayedCopyAgainAfterTrim(t *testing.T) {
	for _, ranged := range []bool{false, true} {
		c := newClock()
		l := memory.New(memory.WithClock(c.Now))
		o := join(t, l)
		with := func(m ledger.Entry) ledger.Entry {
			m.Window, m.Ranged = 24*time.Hour, m.Ranged && ranged
			return m
		}
		pass := func(d time.Duration) {
			for ; d > 0; d -= 20 * time.Second {
				c.pass(20 * time.Second)
				if _, err := o.Beat(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			sweep(t, l)
		}
		m := with(record(0, 7, 0))
		run := claim(t, o, m, ledger.Run)
		settle(t, o, ledger.Settlement{Ticket: run.Ticket, Kind: ledger.Fail,
			Dead: &ledger.Archive{Key: m.Key, Delivery: m.Delivery, Keep: 72 * time.Hour}})
		pass(time.Minute)
		cp := m
		cp.Ranged, cp.StampToken, cp.Delivery = false, run.Token, []byte("copy at 2000")
		settle(t, o, ledger.Settlement{Ticket: claim(t, o, cp, ledger.Run).Ticket, Kind: ledger.Succeed})
		claim(t, o, cp, ledger.Done)
		pass(30 * time.Minute)
		claim(t, o, cp, ledger.Done)
		pass(2 * time.Hour)
		succeedAll(t, o, claimAll(t, o, []ledger.Entry{with(record(1, 2001, 1000))}, ledger.Run))
		pass(time.Minute)
		b := join(t, l)
		claims, err := b.Claim(t.Context(), []ledger.Entry{cp}) // the group was reset, or the worker died before its commit
		if err != nil || claims[0].Answer != ledger.Done {
			t.Errorf("ranged %v: the copy again: %+v, %v", ranged, claims[0], err)
		}
	}
}

// Rows below the log's start stayed for ever, of messages that nobody can finish any more, since the one segment that had
// them was still growing.
func TestRanges_AbandonedGoes(t *testing.T) {
	c := newClock()
	l := memory.New(memory.WithClock(c.Now), memory.WithKeep(time.Hour))
	o := join(t, l)
	grow := func(offset, first int64) {
		t.Helper()
		c.pass(20 * time.Second)
		if _, err := o.Beat(t.Context()); err != nil {
			t.Fatal(err)
		}
		succeedAll(t, o, claimAll(t, o, []ledger.Entry{record(0, offset, first)}, ledger.Run))
	}
	claims := claimAll(t, o, []ledger.Entry{record(0, 0, 0), record(0, 1, 0), record(0, 2, 0)}, ledger.Run)
	settle(t, o, ledger.Settlement{Ticket: claims[0].Ticket, Kind: ledger.Release, Count: true})
	settle(t, o, ledger.Settlement{Ticket: claims[1].Ticket, Kind: ledger.Fail,
		Dead: &ledger.Archive{Key: record(0, 1, 0).Key, Delivery: []byte("d"), Keep: time.Hour}})
	succeedAll(t, o, claims[2:])
	at := int64(3)
	for ; at < 1000; at++ { // for more than five hours, with the log's start known and below
		grow(at, 1)
		if at%100 == 0 {
			sweep(t, l)
		}
	}
	if r := sweep(t, l); l.Len() != 1 || r.Abandoned != 0 { // the one at 0 has gone
		t.Fatalf("%d rows, %+v", l.Len(), r)
	}
	if r, err := l.Get(t.Context(), record(0, 1, 0).Key); err != nil || r.State != ledger.Failed || r.In != nil {
		t.Fatalf("%+v, %v", r, err)
	}
	grow(at, 500)
	for ; at < 1150; at++ {
		grow(at+1, 500)
	}
	sweep(t, l) // not yet an hour: a slow worker may have what lies below
	if in := segments(t, l, record(0, 1, 0)); in != nil || l.Len() != 1 {
		t.Fatalf("%d rows, %+v", l.Len(), in)
	}
	claim(t, o, record(0, 499, 0), ledger.Done)
	for ; at < 1400; at++ {
		grow(at+1, 500)
	}
	sweep(t, l)
	if in := segments(t, l, record(0, 500, 0)); in == nil || in.From != 500 || l.Len() != 0 {
		t.Fatalf("%d rows, %+v", l.Len(), in)
	}
	if s := scopeStats(t, l); s.Succeeded != at+1-500 || s.Failed+s.Pending != 0 {
		t.Errorf("%+v, want %d succeeded", s, at+1-500)
	}
}

func scopeStats(t *testing.T, l *memory.Ledger) ledger.ScopeStats {
	t.Helper()
	s, err := l.Stats(t.Context())
	if err != nil || len(s.Scopes) != 1 {
		t.Fatalf("%+v, %v", s, err)
	}
	return s.Scopes[0]
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A compacted log: a poll's records lie far apart.
func TestRanges_GapsCostMemory(t *testing.T) {
	l := memory.New()
	o := join(t, l)
	before := heap()
	prev := int64(-1)
	var keep []ledger.Claim
	for poll := range int64(5) {
		var all []ledger.Entry
		for i := range int64(2000) {
			m := record(0, (poll*2000+i)*1000, 0)
			m.Key.Pos.Prev = prev
			prev = m.Key.Pos.Offset
			all = append(all, m)
		}
		keep = append(keep, claimAll(t, o, all, ledger.Run)...)
	}
	if used := heap() - before; used > 32<<20 {
		t.Errorf("10,000 records in hand take %d MB", used>>20)
	}
	runtime.KeepAlive(keep)
	runtime.KeepAlive(o)
}
