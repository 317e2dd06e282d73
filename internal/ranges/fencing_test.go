package ranges

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// fencedOf is the range of one record of a scripted owner, as a transaction sees it.
func fencedOf(t *testing.T, o *Owner, partition string, offset int64) *Fenced {
	t.Helper()
	sum, _ := recordOf(partition, offset)
	rows, fences := o.Fences([]ledger.Ticket{ledger.NewTicket(sum.Key.Sum(), 1)})
	if len(rows) != 0 || len(fences) != 1 {
		t.Fatalf("rows %v, fences %v", rows, fences)
	}
	return &fences[0]
}

// away is a settlement that takes a record out of its range.
func away(partition string, offset int64) []ledger.Settlement {
	e, _ := recordOf(partition, offset)
	return []ledger.Settlement{{Ticket: ledger.NewTicket(e.Key.Sum(), 1), Kind: ledger.Release, Count: true}}
}

// A settlement that changes what a range has stored waits for the transactions that go by what that was, for a second at most; later ones
// do not go by it any more. Those that were not waited for hear of it.
func TestSettlementsWaitForFences(t *testing.T) {
	for name, limit := range map[string]time.Duration{"they end": quietLimit / 2, "they do not": quietLimit} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, o, _ := scripted("0")
				f, other := fencedOf(t, o, "0", 1), fencedOf(t, o, "0", 2)
				if done, ok := o.BeginFence(f); !ok || done != nil {
					t.Fatalf("%v, %t", done, ok)
				}
				if _, ok := o.BeginFence(other); !ok {
					t.Fatal("not two at once")
				}
				if o.EndFence(other, true) {
					t.Error("nothing has changed")
				}
				settled := make(chan error, 1)
				began := time.Now()
				go func() {
					_, err := o.Settle(t.Context(), away("0", 3))
					settled <- err
				}()
				synctest.Wait()
				if len(s.queries) != 0 {
					t.Error("it was written at once")
				}
				if _, ok := o.BeginFence(other); ok {
					t.Error("one that comes later goes by what the range was")
				}
				time.Sleep(quietLimit / 2)
				if limit < quietLimit {
					o.EndFence(f, true)
				}
				if err := <-settled; err != nil || time.Since(began) != limit {
					t.Errorf("%v after %s, want %s", err, time.Since(began), limit)
				}
				if _, err := o.Settle(t.Context(), away("0", 4)); err != nil || time.Since(began) != limit {
					t.Errorf("the next one: %v after %s, want %s", err, time.Since(began), limit)
				}
				if limit == quietLimit && !o.EndFence(f, true) {
					t.Error("whom nobody waited for does not hear of it")
				}
			})
		})
	}
}

// What a range was opened with is what its fences go by: gaps, and nothing that was given back.
func TestFencesGoByWhatWasOpened(t *testing.T) {
	_, o, logs := scripted("0")
	h := o.logs[logs[0]]
	gaps := Range{Token: 2, Span: Span{10, 20}, Messages: 8, Done: Set{spans: []Span{{11, 13}}}}
	given := Range{Token: 3, Span: Span{20, 30}, Messages: 9, Back: Set{spans: []Span{{21, 22}}}}
	o.adopt(h, &Change{Open: []Range{gaps, given}}, nil, nil, nil)
	for token, want := range map[uint64]bool{2: true, 3: false} {
		done, ok := o.BeginFence(&Fenced{of: h.open[token]})
		if ok != want || want && string(done) != string(gaps.Done.Encode(10)) {
			t.Errorf("token %d: %x, %t", token, done, ok)
		}
	}
}

// A fence that did not meet its range as it was opened is the last that goes by that.
func TestAFenceThatWasNotMet(t *testing.T) {
	_, o, _ := scripted("0")
	f := fencedOf(t, o, "0", 1)
	for _, met := range []bool{true, false} {
		if _, ok := o.BeginFence(f); !ok {
			t.Fatal("it does not go by what the range was")
		}
		if o.EndFence(f, met) {
			t.Error("nothing has changed")
		}
	}
	if _, ok := o.BeginFence(f); ok {
		t.Error("the next one goes by it, too")
	}
}
