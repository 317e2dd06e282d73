package ranges

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// Ranges were opened, and the rows' answer is an error for certain: the call as a whole may have been carried out.
func TestClaimAfterAnOpeningIsUnknown(t *testing.T) {
	s, o, _ := scripted("0")
	s.rowsErr = errAway
	plain := ledger.Entry{Key: ledger.Key{Scope: "scope", ID: []byte("a")}, Delivery: []byte("d"), Window: time.Hour}
	if _, err := o.Claim(t.Context(), []ledger.Entry{entry("0", 10), plain}); !ledger.Unknown(err) || !errors.Is(err, errAway) {
		t.Errorf("%v, want an unknown answer", err)
	}
	s.rowsErr = ledger.ErrLost
	if _, err := o.Claim(t.Context(), []ledger.Entry{entry("0", 20), plain}); !ledger.IsLost(err) {
		t.Errorf("%v, want ErrLost", err)
	}
	s.rowsErr = errAway
	if _, err := o.Claim(t.Context(), []ledger.Entry{plain, plain}); err == nil || ledger.Unknown(err) {
		t.Errorf("%v, of rows alone: want the store's own", err)
	}
}

// An opening that failed is the call's error: nothing is looked for after it, and the log is looked at the next time.
func TestClaimWhoseOpeningFailed(t *testing.T) {
	s, o, logs := scripted("0")
	s.openErr = errAway
	if _, err := o.Claim(t.Context(), []ledger.Entry{entry("0", 10)}); !errors.Is(err, errAway) || len(s.queries) != 0 {
		t.Errorf("%v, %d looks", err, len(s.queries))
	}
	if o.logs[logs[0]].known {
		t.Error("the log is taken for known")
	}
}

// A gap that begins below what is known is not taken for finished: something may lie in it.
func TestClaimTakesNoGapFromBelowTheTop(t *testing.T) {
	for prev, from := range map[int64]int64{9: 10, 10: 11, 5: 12, -1: 12} {
		s, o, _ := scripted("0")
		e := entry("0", 12)
		e.Key.Pos.Prev = prev
		claimOf(t, o, e)
		if got := s.opened[0].Change.Open[0].Span; got != (Span{from, 13}) {
			t.Errorf("after offset %d: the range is %v, want it from %d", prev, got, from)
		}
	}
}

// What was seen of a log that another transaction has locked is nothing: the log is not known by it.
func TestClaimInALockedLog(t *testing.T) {
	s, o, logs := scripted("0")
	o.logs[logs[0]].known = false
	s.facts = func(*Query) Facts { return Facts{Locked: true} }
	if claims := claimOf(t, o, entry("0", 10)); claims[0].Answer != ledger.Busy || o.logs[logs[0]].known {
		t.Errorf("%+v, known %v", claims[0], o.logs[logs[0]].known)
	}
}

// What a claim finds finished in a range of ours is noted there: an InTx whose end was not known had committed.
func TestClaimNotesWhatIsFinished(t *testing.T) {
	s, o, logs := scripted("0")
	s.facts = func(*Query) Facts {
		return Facts{Version: 1, Token: 1, Top: 10, Segments: []Segment{{Span: Span{3, 4}}}}
	}
	if claims := claimOf(t, o, entry("0", 3)); claims[0].Answer != ledger.Done || !o.logs[logs[0]].open[1].Done.Has(3) {
		t.Errorf("%+v, done %v", claims[0], o.logs[logs[0]].open[1].Done.Spans())
	}
}

// A message of ours that has left its range for a row, as a claim finds, is settled by its row from then on.
func TestClaimNotesWhatHasLeft(t *testing.T) {
	s, o, logs := scripted("0")
	s.facts = func(*Query) Facts {
		return Facts{Version: 1, Token: 1, Top: 10, HasRow: func(offset int64) bool { return offset == 3 }}
	}
	claimOf(t, o, entry("0", 3))
	if r := o.logs[logs[0]].open[1]; !r.moved.Has(3) || !r.Done.Has(3) {
		t.Errorf("moved %v, done %v", r.moved.Spans(), r.Done.Spans())
	}
	if _, err := o.Settle(t.Context(), []ledger.Settlement{success1(logs[0], 3)}); err != nil || len(s.settled) != 1 {
		t.Errorf("%d rows were settled, %v", len(s.settled), err)
	}
}

// A message whose row is there is asked for as one that gets none if that goes meanwhile; what comes before it in the call is not.
func TestClaimOfARowThatIsThereMakesNone(t *testing.T) {
	s, o, _ := scripted("0")
	s.facts = func(*Query) Facts {
		return Facts{Version: 1, Token: 1, Top: 10, HasRow: func(offset int64) bool { return offset == 3 }}
	}
	plain := ledger.Entry{Key: ledger.Key{Scope: "scope", ID: []byte("a")}, Delivery: []byte("d"), Window: time.Hour}
	claimOf(t, o, plain, entry("0", 3), plain)
	want := map[string]bool{"a": false, "t-0-3": true}
	if len(s.claimed) != 3 || len(s.only) != 3 {
		t.Fatalf("%d entries, only %v", len(s.claimed), s.only)
	}
	for i, e := range s.claimed {
		if s.only[i] != want[string(e.Key.ID)] {
			t.Errorf("%s: only %v", e.Key.ID, s.only[i])
		}
	}
}

// What a look binds to rows is not looked at again for a while.
func TestBoundOffsetsAreClaimedByTheirRows(t *testing.T) {
	s, o, logs := scripted("0")
	s.facts = func(*Query) Facts { return Facts{Now: time.Now(), Version: 1, Token: 1, Top: 10} }
	copied := entry("0", 50)
	copied.Ranged = false
	claimOf(t, o, copied)
	h := o.logs[logs[0]]
	if left := time.Until(h.bound); !h.rows.Has(50) || h.rows.Has(49) || left < 10*time.Minute || left > 15*time.Minute {
		t.Errorf("bound %v, for %s", h.rows.Spans(), left)
	}
	looks := len(s.queries)
	claimOf(t, o, copied)
	if len(s.queries) != looks || len(s.claimed) != 1 {
		t.Errorf("%d looks more, %d rows", len(s.queries)-looks, len(s.claimed))
	}
}

// While one of its logs' messages are settled, a claim of what lies in a range of ours waits, and says that it was not sent if it may
// not wait any longer. So does a claim of stretches while others are claimed.
func TestClaimsThatGaveUpWereNotSent(t *testing.T) {
	for name, c := range map[string]struct {
		turns func(*Owner) *turns
		call  func(context.Context, *Owner) error
	}{
		"asked for again": {func(o *Owner) *turns { return &o.saves }, func(ctx context.Context, o *Owner) error {
			_, err := o.Claim(ctx, []ledger.Entry{entry("0", 3)})
			return err
		}},
		"a claim": {func(o *Owner) *turns { return &o.looks }, func(ctx context.Context, o *Owner) error {
			_, err := o.Claim(ctx, []ledger.Entry{entry("0", 10)})
			return err
		}},
		"stretches": {func(o *Owner) *turns { return &o.looks }, func(ctx context.Context, o *Owner) error {
			_, err := o.ClaimStretches(ctx, []ledger.Stretch{{First: entry("0", 10), Last: 19}})
			return err
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, o, logs := scripted("0")
			if !c.turns(o).try(logs[0]) {
				t.Fatal("taken")
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			err := c.call(ctx, o)
			if !errors.Is(err, context.DeadlineExceeded) || ledger.Unknown(err) || !strings.Contains(err.Error(), "was not sent") {
				t.Errorf("%s: %v", name, err)
			}
			if len(s.queries)+len(s.opened) != 0 {
				t.Errorf("%s: %d looks, %d openings", name, len(s.queries), len(s.opened))
			}
			c.turns(o).give(logs)
			if len(o.saves.of)+len(o.looks.of) != 0 {
				t.Errorf("%s: turns are left", name)
			}
		})
	}
}

// A reopening keeps its lease however long it takes, and asks for it no more often than it must.
func TestReopeningBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{}
		r := Reopening{
			Request: ledger.ReopenRequest{Filter: ledger.Filter{Offsets: &ledger.OffsetRange{Last: 10*reopenChunk - 1}}},
			Join:    func(context.Context, time.Duration) (ledger.Owner, error) { return s, nil },
			Audit:   func(context.Context, []ledger.AuditRecord) error { return nil },
		}
		logs := []Finished{{Info: Info{Prefix: "t-0-"}, Segments: []Segment{{Span: Span{0, 10 * reopenChunk}}}}}
		var report ledger.ReopenReport
		began := time.Now()
		if err := r.Run(t.Context(), logs, &report); err != nil {
			t.Fatal(err)
		}
		var at []time.Duration
		for _, b := range s.beats {
			at = append(at, b.Sub(began))
		}
		if want := []time.Duration{16 * time.Second, 32 * time.Second, 48 * time.Second, 64 * time.Second}; !slices.Equal(at, want) {
			t.Errorf("beats at %v, want %v", at, want)
		}
		s.beatErr, s.beats = ledger.ErrLost, nil
		if err := r.Run(t.Context(), logs, &report); !ledger.IsLost(err) || len(s.beats) != 1 {
			t.Errorf("%v after %d beats, want the end at the first that fails", err, len(s.beats))
		}
	})
}

// slow is a store whose transactions take 8 seconds each.
type slow struct {
	Store
	beats   []time.Time
	beatErr error
}

func (s *slow) Update(context.Context, []Query, func(int, *Facts) Change) error {
	time.Sleep(8 * time.Second)
	return nil
}

func (s *slow) Beat(context.Context) (time.Duration, error) {
	s.beats = append(s.beats, time.Now())
	return reopenLease, s.beatErr
}

func (s *slow) Leave(context.Context) error { return nil }
