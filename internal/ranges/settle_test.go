package ranges

import (
	"context"
	"errors"
	"testing"

	"github.com/ackledger/ackledger/ledger"
)

// closing is a store whose row settlement with token 7 is lost and whose others hold. While ranges are written the short way,
// and that does not come about, a claim takes a message out of its range and closes it. Where it comes about there are no rows.
type closing struct {
	Store
	owner  *Owner
	log    Log
	forget bool // the range, once it is closed: a thousand others were closed since
	asked  [][]ledger.Settlement
	failed error // of Update
	closed bool  // what Close answers
}

func (s *closing) Close(context.Context, []Closing) ([]bool, error) {
	if s.closed {
		return []bool{true}, nil
	}
	s.owner.mu.Lock()
	defer s.owner.mu.Unlock()
	h := s.owner.logs[s.log]
	h.open[1].moved.Add(Span{10, 11})
	h.close(1)
	if s.forget {
		delete(h.past, 1)
	}
	return []bool{false}, nil
}

func (s *closing) Update(_ context.Context, queries []Query, plan func(int, *Facts) Change) error {
	for i := range queries {
		plan(i, &Facts{})
	}
	return s.failed
}

func (s *closing) Settle(_ context.Context, settlements []ledger.Settlement) ([]error, error) {
	s.asked = append(s.asked, settlements)
	errs := make([]error, len(settlements))
	for i := range settlements {
		if s.closed || settlements[i].Ticket.Token() == 7 {
			errs[i] = ledger.ErrLost
		}
	}
	return errs, nil
}

func newClosing(log Log) *closing {
	s := &closing{log: log}
	s.owner = NewOwner(s, ledger.DefaultLimits, new(Counts))
	s.owner.logs[log] = &held{
		tail: Span{0, 10}, open: map[uint64]*open{1: {Range: Range{Span: Span{10, 11}, Token: 1, Messages: 1}}}, past: map[uint64]past{},
	}
	return s
}

func success(log Log, offset int64, token uint64) ledger.Settlement {
	return ledger.Settlement{Ticket: ledger.NewTicket(JoinSum(log, offset), token), Kind: ledger.Succeed}
}

// A message that leaves its range during the call joins those that have rows, behind them. Each settlement is told what
// became of its own row: "lost" of one was told to another, and that one was acknowledged.
func TestSettleTellsEachItsOwnRow(t *testing.T) {
	log := Log{1}
	s := newClosing(log)
	errs, err := s.owner.Settle(t.Context(), []ledger.Settlement{success(log, 10, 1), success(log, 50, 7)})
	if err != nil || errs[0] != nil || !ledger.IsLost(errs[1]) {
		t.Fatalf("told %v, %v; want nothing wrong with the first, and the second lost", errs, err)
	}
	if len(s.asked) != 1 || len(s.asked[0]) != 2 {
		t.Fatalf("asked %v", s.asked)
	}
}

// What became of the range is not remembered: what was settled is left to its row, which knows, and a stretch to its parts.
func TestSettleInAForgottenRange(t *testing.T) {
	log := Log{1}
	s := newClosing(log)
	s.forget = true
	if errs, err := s.owner.Settle(t.Context(), []ledger.Settlement{success(log, 10, 1)}); err != nil || errs[0] != nil {
		t.Errorf("told %v, %v", errs, err)
	}
	if len(s.asked) != 1 {
		t.Errorf("its row was not asked: %v", s.asked)
	}
	s = newClosing(log)
	s.forget = true
	c := &settling{owner: s.owner, whole: []ledger.StretchDone{{Ticket: ledger.NewTicket(JoinSum(log, 10), 1), Last: 10, Messages: 1}},
		out: make([]error, 1), by: map[Log]*logSave{}}
	if err := c.saveAll(t.Context()); err != nil || !errors.Is(c.out[0], ledger.ErrParts) {
		t.Errorf("told %v, %v; want its parts", c.out[0], err)
	}
}

// A range was closed the short way, and what followed failed for certain: the call as a whole may have been carried out.
func TestSettleAfterACloseIsUnknown(t *testing.T) {
	log, other := Log{1}, Log{2}
	s := newClosing(log)
	s.closed, s.failed = true, errors.New("away")
	s.owner.logs[other] = &held{open: map[uint64]*open{3: {Range: Range{Span: Span{0, 2}, Token: 3, Messages: 2}}}, past: map[uint64]past{}}
	_, err := s.owner.Settle(t.Context(), []ledger.Settlement{success(log, 10, 1), success(other, 0, 3)})
	if !ledger.Unknown(err) {
		t.Fatalf("%v, want an unknown answer", err)
	}
	s.failed = ledger.ErrLost
	if _, err = s.owner.Settle(t.Context(), []ledger.Settlement{success(other, 0, 3)}); !ledger.IsLost(err) {
		t.Fatalf("%v, want ErrLost", err)
	}
}

// A range that was closed the short way is open no more, and remembered for settlements that come twice.
func TestClosedRangeIsPast(t *testing.T) {
	log := Log{1}
	s := newClosing(log)
	s.closed = true
	if errs, err := s.owner.Settle(t.Context(), []ledger.Settlement{success(log, 10, 1)}); err != nil || errs[0] != nil {
		t.Fatalf("told %v, %v", errs, err)
	}
	if h := s.owner.logs[log]; len(h.open) != 0 || h.past[1].span != (Span{10, 11}) {
		t.Errorf("open: %v, past: %v", h.open, h.past)
	}
}

// What leaves its range for a row, or is given back, is left where it is if it has succeeded meanwhile: an InTx of it had
// committed, which the store shows as a segment, or as done.
func TestSave_LeavesWhatHasSucceeded(t *testing.T) {
	for name, facts := range map[string]func() *Facts{
		"in a segment": func() *Facts { return mine(Set{}, Segment{Span: Span{12, 13}}) },
		"done":         func() *Facts { return mine(setOf(Span{12, 13})) },
	} {
		c, lost := Save(facts(), []Saved{{Token: 1, Done: setOf(Span{12, 14}), Rows: []Row{{Offset: 12}, {Offset: 13}}, Messages: 10}})
		if len(lost) != 0 || len(c.Rows) != 1 || c.Rows[0].Offset != 13 || len(c.Alter) != 1 || !c.Alter[0].Done.Covers(Span{12, 14}) {
			t.Errorf("%s, to rows: %+v, lost %v", name, c, lost)
		}
	}
	back := []Saved{{Token: 1, Back: setOf(Span{12, 14}), Messages: 8}}
	for range 2 { // a plan may be asked again
		c, lost := Save(mine(setOf(Span{12, 13})), back)
		if len(lost) != 0 || len(c.Alter) != 1 || c.Alter[0].Back.Count() != 1 || !c.Alter[0].Back.Has(13) || c.Alter[0].Messages != 9 {
			t.Errorf("given back: %+v, lost %v", c, lost)
		}
	}
	// What was given back may be another's success by now.
	if c, _ := Save(mine(Set{}, Segment{Span: Span{5, 13}}), back); len(c.Alter) != 1 || c.Alter[0].Back.Count() != 2 {
		t.Errorf("given back, and done by another: %+v", c)
	}
}

// mine are the facts of one range.
func mine(done Set, segments ...Segment) *Facts {
	return &Facts{Segments: segments, Ranges: []Range{{Span: Span{10, 20}, Token: 1, Holder: ledger.Mine, Done: done}}}
}

func setOf(spans ...Span) (s Set) {
	for _, span := range spans {
		s.Add(span)
	}
	return s
}
