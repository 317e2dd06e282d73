package offsets_test

import (
	"slices"
	"testing"

	"github.com/ackledger/ackledger/internal/offsets"
	"pgregory.net/rapid"
)

// twin is the dumb version: every record ever delivered, in a sorted slice.
type twin struct {
	start   int64
	records []twinRecord
}

type twinRecord struct {
	offset int64
	epoch  int32
	done   bool
}

func (w *twin) prefix() int {
	i := slices.IndexFunc(w.records, func(r twinRecord) bool { return !r.done })
	if i < 0 {
		return len(w.records)
	}
	return i
}

func (w *twin) position() (int64, int32) {
	n := w.prefix()
	if n == 0 {
		return w.start, -1
	}
	return w.records[n-1].offset + 1, w.records[n-1].epoch
}

func TestTrackerAgreesWithASortedSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := rapid.Int64Range(0, 1<<40).Draw(t, "start")
		tracker, w := offsets.New(start, -1), &twin{start: start}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				last, _ := tracker.Last()
				offset := last + rapid.Int64Range(1, 5).Draw(t, "gap")
				epoch := rapid.Int32Range(-1, 9).Draw(t, "epoch")
				seq, ok := tracker.Add(offset, epoch)
				if !ok || seq != uint64(len(w.records)) {
					t.Fatalf("Add(%d) = %d, %t with %d records", offset, seq, ok, len(w.records))
				}
				w.records = append(w.records, twinRecord{offset: offset, epoch: epoch})
				if o, e := tracker.Last(); o != offset || e != epoch {
					t.Fatalf("last %d (epoch %d), want %d (epoch %d)", o, e, offset, epoch)
				}
			},
			"add again": func(t *rapid.T) {
				last, _ := tracker.Last()
				if seq, ok := tracker.Add(last-rapid.Int64Range(0, 5).Draw(t, "back"), 1); ok {
					t.Fatalf("an offset that does not grow was taken in as %d", seq)
				}
			},
			"finish": func(t *rapid.T) {
				seq := rapid.IntRange(0, len(w.records)+1).Draw(t, "seq") // one may be finished, or never given out
				fresh := seq < len(w.records) && !w.records[seq].done
				if fresh {
					w.records[seq].done = true
				}
				if got := tracker.Finish(uint64(seq)); got != fresh {
					t.Fatalf("Finish(%d) = %t, want %t", seq, got, fresh)
				}
			},
			"": func(t *rapid.T) { compare(t, tracker, w) },
		})
	})
}

func compare(t *rapid.T, tracker *offsets.Tracker, w *twin) {
	offset, epoch := tracker.Position()
	if wantOffset, wantEpoch := w.position(); offset != wantOffset || epoch != wantEpoch {
		t.Fatalf("position %d (epoch %d), want %d (epoch %d)", offset, epoch, wantOffset, wantEpoch)
	}
	n := w.prefix()
	if tracker.Span() != len(w.records)-n {
		t.Fatalf("span %d, want %d", tracker.Span(), len(w.records)-n)
	}
	oldest, held := tracker.Oldest()
	if held != (n < len(w.records)) || held && oldest != w.records[n].offset {
		t.Fatalf("oldest %d (%t) with a prefix of %d of %d", oldest, held, n, len(w.records))
	}
}

func TestAMillionBehindOneHeldRecord(t *testing.T) {
	const n = 1_000_000
	tracker := offsets.New(0, -1)
	for i := range int64(n) {
		tracker.Add(i, 3)
	}
	for seq := uint64(1); seq < n; seq++ {
		tracker.Finish(seq)
	}
	if at, _ := tracker.Position(); at != 0 || tracker.Span() != n {
		t.Fatalf("position %d, span %d", at, tracker.Span())
	}
	tracker.Finish(0)
	if at, epoch := tracker.Position(); at != n || epoch != 3 || tracker.Span() != 0 {
		t.Fatalf("position %d (epoch %d), span %d", at, epoch, tracker.Span())
	}
}

// Steady work allocates nothing: the array is reused.
func TestSteadyWorkAllocatesNothing(t *testing.T) {
	tracker := offsets.New(0, -1)
	next := int64(0)
	round := func() {
		first := uint64(next)
		for range 500 {
			tracker.Add(next, 0)
			next++
		}
		for seq := first; seq < uint64(next); seq++ {
			tracker.Finish(seq)
		}
	}
	round()
	if got := testing.AllocsPerRun(20, round); got != 0 {
		t.Errorf("%v allocations for 500 records", got)
	}
}

func BenchmarkTracker(b *testing.B) {
	tracker := offsets.New(0, -1)
	for i := range b.N {
		tracker.Add(int64(i), 0)
		if i >= 100 {
			tracker.Finish(uint64(i - 100))
		}
	}
}
