package memory

import (
	"slices"
	"strconv"
	"time"

	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
)

// ranges drops segments that have expired and logs in which nothing is left, dissolves ranges that were abandoned, and
// counts the messages of the others. The ledger is locked.
func (p *pass) ranges(now time.Time) {
	l := p.ledger
	for log, g := range l.logs {
		l.dissolve(g, now)
		g.segments = slices.DeleteFunc(g.segments, func(s ranges.Segment) bool {
			over := s.Expiry.Before(now)
			if !over && !s.Rows {
				p.tally.Add(g.info.Scope, ledger.Succeeded, s.Messages)
			}
			return over
		})
		for _, r := range g.open {
			p.open(g, r, now)
		}
		if len(g.segments) == 0 && len(g.open) == 0 {
			l.token = max(l.token, g.token)
			delete(l.logs, log)
		}
	}
}

// open counts the messages of a range.
func (p *pass) open(g *rangeLog, r *openRange, now time.Time) {
	pending, abandoned, age := r.Pending(), int64(0), max(now.Sub(r.At), 0)
	if expiry := r.At.Add(r.Window); expiry.Before(now) {
		abandoned = pending
		listed := 0
		for offset := range r.Open() {
			if listed++; listed > ledger.MaxAbandoned {
				break
			}
			p.tally.Abandon(ledger.Abandoned{Scope: g.info.Scope, ID: g.id(offset), At: r.At, Expiry: expiry})
		}
	}
	if pending > 0 {
		p.tally.AddPending(g.info.Scope, ledger.AgeBucket(age), pending, abandoned, age)
	}
	p.tally.Add(g.info.Scope, ledger.Succeeded, r.Messages-pending)
}

// dissolve ends ranges whose owners left or died some time ago, so that their messages are seen, and their owners go.
func (l *Ledger) dissolve(g *rangeLog, now time.Time) {
	nobody := owner{ledger: l}
	q := ranges.Query{Info: g.info}
	for token, r := range g.open {
		if r.owner.fate != live && now.Sub(r.At) > ranges.AbandonAfter {
			q.Tokens = append(q.Tokens, token)
		}
	}
	if len(q.Tokens) > 0 {
		facts := nobody.facts(g, &q, now)
		change := ranges.Abandoned(&facts)
		nobody.change(g, &change, now)
	}
}

// cut takes off what a finished segment has below the log's start, so that rows there are not needed any more. Nothing is
// cut out of an open range: its owner counts on what InTx has put there.
func (g *rangeLog) cut(now time.Time) {
	low := g.start.Below(now)
	for _, r := range g.open {
		low = min(low, r.From)
	}
	for i, s := range g.segments {
		if !s.Rows && s.From < low && low < s.To {
			g.segments[i] = s.Above(low)
		}
	}
}

// dropLog drops all that is known of a log.
func (l *Ledger) dropLog(log ranges.Log) {
	if g := l.logs[log]; g != nil {
		for _, r := range g.open {
			r.owner.rows--
			l.rows.forget(r.owner)
		}
		delete(l.logs, log)
	}
}

// id is the readable id of a record.
func (g *rangeLog) id(offset int64) []byte {
	return strconv.AppendInt([]byte(g.info.Prefix), offset, 10)
}
