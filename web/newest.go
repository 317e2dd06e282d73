package web

import (
	"slices"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

const (
	windowRows  = 2 * pageRows     // of a window; one with more is split
	firstWindow = time.Minute      // before now
	instant     = time.Microsecond // stores keep no less
	instantRows = 10_000           // of one instant, which cannot be split
	maxWidth    = 100 * 365 * 24 * time.Hour
)

// newest reads a page of dead letters before a mark, the youngest first. A ledger lists the oldest first, by the time: so this asks for
// windows of time, each before the last one. One with too many in it is asked again for its latest part, as wide as a window's number
// took at its beginning; before one with few comes a wider one. When the time is up, next is where it ended.
func (v *visit) newest(f ledger.Filter, before string) (rows []ledger.DeadLetter, next string, err error) {
	end, last := f.To, time.Time{} // the first window has no end of its own: clocks differ
	if end.IsZero() {
		end = time.Now()
	} else {
		last = end
	}
	var from mark
	if before != "" {
		if from, err = readMark(before); err != nil {
			return nil, "", err
		}
		end = from.at.Add(instant)
		last = end
	}
	begin := f.From
	if begin.IsZero() {
		begin = time.Unix(0, 0)
	}
	f.Cipher = v.o.Cipher
	for width := firstWindow; begin.Before(end) && len(rows) <= pageRows; {
		f.From, f.To = end.Add(-width), last
		if f.From.Before(begin) {
			f.From = begin
		}
		part, dense, err := v.window(f, end.Sub(f.From) <= instant)
		if err != nil {
			return rows, placed(end.Add(-instant)), err
		}
		if dense > 0 {
			width = min(max(end.Sub(f.From)/4, instant), dense)
			continue
		}
		slices.Reverse(part)
		if at := slices.IndexFunc(part, func(d ledger.DeadLetter) bool { return from.names(&d) }); at >= 0 {
			part = part[at+1:]
		}
		rows = append(rows, part...)
		end, last, width = f.From, f.From, min(width*4, maxWidth)
	}
	if len(rows) > pageRows {
		next, rows = markOf(&rows[pageRows-1]), rows[:pageRows]
	}
	return rows, next, nil
}

// window reads what was archived between two times. If that is too much for one look, dense says how long as many as are read took.
func (v *visit) window(f ledger.Filter, whole bool) (part []ledger.DeadLetter, dense time.Duration, err error) {
	f.Limit = windowRows + 1
	if whole {
		f.Limit = instantRows
	}
	n, first := 0, time.Time{}
	for d, err := range v.op.DeadLetters(v.ctx(), f) {
		if err != nil {
			return nil, 0, err
		}
		if n++; n == 1 {
			first = d.At
		}
		if n > windowRows && !whole {
			return nil, max(d.At.Sub(first), instant), nil
		}
		if v.can(Read, d.Key.Scope) {
			part = append(part, d)
		}
	}
	return part, 0, nil
}
