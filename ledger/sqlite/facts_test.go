package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
)

// inLedger runs fn with a fresh ledger, and an owner as [driver.Ledger] has it below its ranges.
func inLedger(t *testing.T, fn func(context.Context, *Ledger, ranges.Store) error) {
	t.Helper()
	l, err := Open(t.Context(), Fresh(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	o, err := l.Join(t.Context(), time.Minute)
	if err == nil {
		err = fn(t.Context(), l, o.(*ranges.Owner).Store)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// inLogs runs fn for each case with a new log of its own, whose top is 100, and what is written into it first.
func inLogs[C any](t *testing.T, cases map[string]C, there func(C) ranges.Change, fn func(t *testing.T, o ranges.Store, info ranges.Info, c C) error) {
	t.Helper()
	inLedger(t, func(ctx context.Context, _ *Ledger, o ranges.Store) error {
		n := byte(0)
		for name, c := range cases {
			n += 2 // the log behind it is nobody's
			t.Run(name, func(t *testing.T) {
				info := ranges.Info{Log: ranges.Log{n}, Scope: "test", Name: "log", Prefix: "log-"}
				change := there(c)
				change.Top = 100
				err := o.Update(ctx, []ranges.Query{{Info: info}}, func(int, *ranges.Facts) ranges.Change { return change })
				if err == nil {
					err = fn(t, o, info, c)
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		return nil
	})
}

// look reads the facts of one log.
func look(ctx context.Context, o ranges.Store, q ranges.Query) (facts ranges.Facts, err error) {
	err = o.Update(ctx, []ranges.Query{q}, func(_ int, f *ranges.Facts) ranges.Change {
		facts = *f // which are the call's: others use its arrays again
		facts.Ranges, facts.Segments = slices.Clone(f.Ranges), slices.Clone(f.Segments)
		return ranges.Change{Version: f.Version, Token: f.Token, Top: f.Top}
	})
	return facts, err
}

func span(from, to int64) ranges.Span { return ranges.Span{From: from, To: to} }

func segment(from, to int64) ranges.Segment {
	return ranges.Segment{Span: span(from, to), Messages: to - from, Expiry: time.Now().Add(time.Hour)}
}

// TestRoomEndsAtWhatComesNext: what lies in the room of a log is claimed without another look, so the room ends where a segment,
// a range or a row begins. One that is too large would run again what is done.
func TestRoomEndsAtWhatComesNext(t *testing.T) {
	t.Parallel()
	type room struct {
		there ranges.Change
		row   int64 // the offset of a row; 0: none; below 0: offset 0 of the next log
		query ranges.Query
		want  ranges.Span
	}
	inLogs(t, map[string]room{
		"nothing":                      {query: ranges.Query{Room: true}, want: span(20, 100)},
		"not asked":                    {},
		"asked at the top":             {query: ranges.Query{Room: true, Span: span(90, 100)}},
		"a segment":                    {there: ranges.Change{Put: []ranges.Segment{segment(50, 60)}}, query: ranges.Query{Room: true}, want: span(20, 50)},
		"a segment before":             {there: ranges.Change{Put: []ranges.Segment{segment(5, 10)}}, query: ranges.Query{Room: true}, want: span(20, 100)},
		"a segment that ends here":     {there: ranges.Change{Put: []ranges.Segment{segment(5, 20)}}, query: ranges.Query{Room: true}, want: span(20, 100)},
		"a segment that begins here":   {there: ranges.Change{Put: []ranges.Segment{segment(20, 25)}}, query: ranges.Query{Room: true}},
		"a segment that reaches here":  {there: ranges.Change{Put: []ranges.Segment{segment(5, 21)}}, query: ranges.Query{Room: true}},
		"the nearest of two segments":  {there: ranges.Change{Put: []ranges.Segment{segment(50, 60), segment(70, 80)}}, query: ranges.Query{Room: true}, want: span(20, 50)},
		"a range":                      {there: ranges.Change{Open: []ranges.Range{{Span: span(60, 70), Token: 1}}}, query: ranges.Query{Room: true}, want: span(20, 60)},
		"a range before":               {there: ranges.Change{Open: []ranges.Range{{Span: span(5, 20), Token: 1}}}, query: ranges.Query{Room: true}, want: span(20, 100)},
		"a range that reaches here":    {there: ranges.Change{Open: []ranges.Range{{Span: span(5, 21), Token: 1}}}, query: ranges.Query{Room: true}},
		"a row":                        {row: 40, query: ranges.Query{Room: true}, want: span(20, 40)},
		"a row here":                   {row: 20, query: ranges.Query{Room: true}},
		"a row before":                 {row: 19, query: ranges.Query{Room: true}, want: span(20, 100)},
		"a row of the next log":        {row: -1, query: ranges.Query{Room: true}, want: span(20, 100)},
		"a row, and a segment nearer":  {row: 40, there: ranges.Change{Put: []ranges.Segment{segment(30, 35)}}, query: ranges.Query{Room: true}, want: span(20, 30)},
		"a row, and a segment further": {row: 40, there: ranges.Change{Put: []ranges.Segment{segment(50, 55)}}, query: ranges.Query{Room: true}, want: span(20, 40)},
	}, func(c room) ranges.Change {
		if c.row > 0 {
			c.there.Rows = []ranges.Row{{Offset: c.row, Nobody: true}}
		}
		return c.there
	}, func(t *testing.T, o ranges.Store, info ranges.Info, c room) error {
		if c.row < 0 {
			other := info
			other.Log[0]++
			err := o.Update(t.Context(), []ranges.Query{{Info: other}}, func(int, *ranges.Facts) ranges.Change {
				return ranges.Change{Rows: []ranges.Row{{Nobody: true}}}
			})
			if err != nil {
				return err
			}
		}
		if c.query.Info = info; c.query.Span.Len() == 0 {
			c.query.Span = span(10, 20)
		}
		facts, err := look(t.Context(), o, c.query)
		if err == nil && facts.Room != c.want {
			t.Errorf("the room is %v, want %v", facts.Room, c.want)
		}
		return err
	})
}

// TestFactsReachAsFarAsRanges: a range that ends is merged with the segments at both of its ends, so all of these are read for
// each range that a plan is about.
func TestFactsReachAsFarAsRanges(t *testing.T) {
	t.Parallel()
	there := ranges.Change{
		Top:  100,
		Open: []ranges.Range{{Span: span(10, 20), Token: 1}, {Span: span(30, 40), Token: 2}, {Span: span(60, 70), Token: 3}},
		Put:  []ranges.Segment{segment(5, 10), segment(40, 45), segment(55, 60), segment(80, 90)},
	}
	type reach struct {
		query            ranges.Query
		ranges, segments []int64 // where they begin
	}
	inLogs(t, map[string]reach{
		"a span in one range":    {ranges.Query{Span: span(12, 13)}, []int64{10}, []int64{5}},
		"a span over two ranges": {ranges.Query{Span: span(12, 31)}, []int64{10, 30}, []int64{5, 40}},
		"one token":              {ranges.Query{Tokens: []uint64{3}}, []int64{60}, []int64{55}},
		"two tokens":             {ranges.Query{Tokens: []uint64{1, 2}}, []int64{10, 30}, []int64{5, 40}},
		"two tokens, the last":   {ranges.Query{Tokens: []uint64{2, 3}}, []int64{30, 60}, []int64{40, 55}},
		"no range":               {ranges.Query{Span: span(82, 83)}, nil, []int64{80}},
	}, func(reach) ranges.Change { return there }, func(t *testing.T, o ranges.Store, info ranges.Info, c reach) error {
		c.query.Info = info
		facts, err := look(t.Context(), o, c.query)
		if err != nil {
			return err
		}
		var begin []int64
		for i := range facts.Ranges {
			begin = append(begin, facts.Ranges[i].From)
			if facts.Ranges[i].Holder != ledger.Mine {
				t.Errorf("range %d is held by %v", facts.Ranges[i].From, facts.Ranges[i].Holder)
			}
		}
		wantAll(t, "ranges", begin, c.ranges)
		begin = nil
		for _, s := range facts.Segments {
			begin = append(begin, s.From)
		}
		wantAll(t, "segments", begin, c.segments)
		return nil
	})
}

func wantAll(t *testing.T, what string, got, want []int64) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s from %v, want those from %v", what, got, want)
	}
}

// TestMessagesAreLookedUpByID: a list by ids in one scope goes by their keys. The row is where a list of the whole table does not
// come by.
func TestMessagesAreLookedUpByID(t *testing.T) {
	t.Parallel()
	inLedger(t, func(ctx context.Context, l *Ledger, o ranges.Store) error {
		entries := []ledger.Entry{
			{Key: ledger.Key{Scope: "test", ID: []byte("a")}, Delivery: []byte("1"), Window: time.Hour},
			{Key: ledger.Key{Scope: "test", ID: []byte("b")}, Delivery: []byte("2"), Window: time.Hour},
		}
		if _, err := o.Claim(ctx, entries); err != nil {
			return err
		}
		if err := l.store.main.do(ctx, func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE ackledger_message SET num = -5 WHERE id = CAST('a' AS BLOB)")
			return err
		}); err != nil {
			return err
		}
		found := 0
		for m, err := range l.Messages(ctx, ledger.Filter{Scope: "test", IDs: [][]byte{[]byte("a"), []byte("c")}}) {
			if err != nil {
				return err
			}
			if found++; string(m.ID) != "a" {
				t.Errorf("found %q", m.ID)
			}
		}
		if found != 1 {
			t.Errorf("found %d messages, want one", found)
		}
		return nil
	})
}

// TestDeadLettersAreLookedUpByID: a list by ids goes by their index, and reads nothing else.
func TestDeadLettersAreLookedUpByID(t *testing.T) {
	t.Parallel()
	inLedger(t, func(ctx context.Context, l *Ledger, _ ranges.Store) error {
		text, args := lettersSQL(&ledger.Filter{IDs: [][]byte{[]byte("a"), []byte("b")}}, "", time.Now().UnixMicro(), 500)
		found := false
		err := query(ctx, l.store.read, "EXPLAIN QUERY PLAN "+text, args, func(rows scanner) error {
			var id, parent, unused int
			var step string
			err := rows.Scan(&id, &parent, &unused, &step)
			found = found || strings.HasPrefix(step, "SEARCH a USING INDEX ackledger_archive_id (id=?")
			return err
		})
		if !found {
			t.Errorf("%s\nis not looked up by id", text)
		}
		return err
	})
}

// TestLetterPurgedMeanwhile: a letter that is purged between its page and its body is left out, and the others stay what they are.
func TestLetterPurgedMeanwhile(t *testing.T) {
	t.Parallel()
	inLedger(t, func(ctx context.Context, l *Ledger, o ranges.Store) error {
		for _, id := range []string{"a", "b", "c"} {
			e := ledger.Entry{Key: ledger.Key{Scope: "test", ID: []byte(id)}, Delivery: []byte(id), Window: time.Hour}
			claims, err := o.Claim(ctx, []ledger.Entry{e})
			if err != nil {
				return err
			}
			errs, err := o.Settle(ctx, []ledger.Settlement{{Ticket: claims[0].Ticket, Kind: ledger.Fail,
				Dead: &ledger.Archive{Key: e.Key, Delivery: e.Delivery, Kind: ledger.KindError, Keep: time.Hour, Body: []byte("body " + id)}}})
			if err = errors.Join(append(errs, err)...); err != nil {
				return err
			}
		}
		var page []driver.DeadLetter
		err := l.store.View(ctx, driver.Call{Op: driver.Read}, func(r driver.Reader) (err error) {
			page, err = r.DeadLetters("", time.Now(), &ledger.Filter{Body: true}, 500)
			return err
		})
		if err != nil {
			return err
		}
		if _, err := l.Purge(ctx, ledger.PurgeRequest{Filter: ledger.Filter{IDs: [][]byte{[]byte("b")}}, By: ledger.By{Actor: "tester"}}); err != nil {
			return err
		}
		err = l.store.View(ctx, driver.Call{Op: driver.Read}, func(r driver.Reader) (err error) {
			page, err = r.Bodies(page)
			return err
		})
		var bodies []string
		for i := range page {
			bodies = append(bodies, string(page[i].Key.ID)+": "+string(page[i].Body))
		}
		if want := []string{"a: body a", "c: body c"}; !slices.Equal(bodies, want) {
			t.Errorf("%q, want %q", bodies, want)
		}
		return err
	})
}

// TestClaimOfNothingTellsOfTheOwner: a claim without entries still says that its owner is dead.
func TestClaimOfNothingTellsOfTheOwner(t *testing.T) {
	t.Parallel()
	inLedger(t, func(ctx context.Context, l *Ledger, o ranges.Store) error {
		if claims, err := o.Claim(ctx, nil); err != nil || len(claims) != 0 {
			t.Errorf("%v, %v", claims, err)
		}
		if err := o.Leave(ctx); err != nil {
			return err
		}
		if _, err := o.Claim(ctx, nil); !ledger.IsLost(err) {
			t.Errorf("%v, want that the owner is lost", err)
		}
		return nil
	})
}

// TestCloseClosesAll: nothing of a closed ledger can be asked any more, so no handle on the files is left.
func TestCloseClosesAll(t *testing.T) {
	t.Parallel()
	l, err := Open(t.Context(), Fresh(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for name, db := range map[string]*sql.DB{"read": l.store.read, "tx": l.store.tx, "main": l.store.main.db, "owners": l.store.owners.db} {
		if db.PingContext(t.Context()) == nil {
			t.Errorf("%s is open", name)
		}
	}
}

// TestLargestSharedCall: a call shares another's transaction up to a number of items, and no call that came later than asked for.
func TestLargestSharedCall(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		n      uint64
		items  int
		shares bool
	}{
		"largest": {1, sharedItems, true}, "too large": {1, sharedItems + 1, false}, "too late": {2, 1, false},
	} {
		w := writer{sharers: []*sharer{{n: c.n, items: c.items}}}
		if shares := w.next(1) != nil; shares != c.shares {
			t.Errorf("%s: %v, want %v", name, shares, c.shares)
		}
	}
}

// TestTurnIsGivenUpWithItsTime: who waits for the turn to write until its time is up has not got it, and is busy; who was
// cancelled is not.
func TestTurnIsGivenUpWithItsTime(t *testing.T) {
	t.Parallel()
	turn := newTurn()
	if err := turn.take(t.Context()); err != nil {
		t.Fatal(err)
	}
	late, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := turn.take(late); !errors.Is(err, ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("late: %v, want ErrBusy", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := turn.take(gone); !errors.Is(err, context.Canceled) || errors.Is(err, ErrBusy) {
		t.Errorf("cancelled: %v", err)
	}
	turn.give()
	if err := turn.take(gone); err != nil { // a free one is taken even then
		t.Errorf("a free turn: %v", err)
	}
}
