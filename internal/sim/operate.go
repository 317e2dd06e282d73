package sim

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// mostReopened is how many messages of a world are reopened, and some more of the last time.
const mostReopened = 30

// operate has an operator look at a message now and then, and have some that succeeded run once more. What an operator reopens somebody
// sends again. It is none where there is a budget: see redrive.
func (w *world) operate() {
	all := slices.DeleteFunc(w.facts.all(), func(m message) bool { return w.facts.of(m).key.ID == nil }) // they have not come
	if len(all) > 0 {
		m := all[mix(w.cfg.Seed, uint64(w.now))%uint64(len(all))]
		w.mustKnow(m)
		if w.cfg.Budget == 0 && w.anew < mostReopened && w.trouble(reopened) {
			w.reopen(m)
		}
	}
	w.after(300*time.Millisecond, w.operate)
}

// reopen reopens a message, by its id or by its offset, which those of other epochs may share.
func (w *world) reopen(m message) {
	key := w.facts.of(m).key
	f := ledger.Filter{Scope: key.Scope, IDs: [][]byte{key.ID}}
	if key.Pos != nil && w.rnd.IntN(2) == 0 {
		last := key.Pos.Offset + w.rnd.Int64N(20)
		f.IDs, f.Offsets = nil, &ledger.OffsetRange{Partition: int32(m.partition), First: key.Pos.Offset, Last: last}
	}
	before := map[message]ledger.State{}
	for _, o := range w.facts.all() {
		before[o] = w.state(w.facts.of(o).key)
	}
	w.note(nil, "is to be reopened", m, 0)
	w.tearNext()
	report, err := w.ledger.Reopen(context.Background(), ledger.ReopenRequest{Filter: f, By: ledger.By{Actor: "sim"}})
	w.tear.in = 0
	if torn := w.tear.met && !w.tear.lock; (err != nil) != torn {
		w.breaks(m, "what has succeeded can be reopened, or an operator is told: %v", err)
	}
	done, kept := int64(0), int64(0)
	for _, o := range w.facts.all() {
		key := w.facts.of(o).key
		is := w.state(key)
		switch selects := selects(&f, key); {
		case is != before[o] && (!selects || before[o] != ledger.Succeeded):
			w.breaks(o, "what is reopened was to be: %s is %s, and was %s", o, is, before[o])
		case is != before[o]:
			done++
			w.beginsAnew(o, is)
		case selects && is == ledger.Succeeded && !w.inOpenRange(key):
			kept++
		}
	}
	if err != nil {
		return // what was done before is not told
	}
	if kept > report.Skipped {
		w.breaks(m, "what is to be reopened is, or skipped: %d are kept, %+v", kept, report)
	}
	if report.Reopened < done || report.Matched != report.Reopened+report.Skipped {
		w.breaks(m, "an operator is told what was done: %d were reopened, of which the report has %+v", done, report)
	}
}

// selects says whether a filter of ids or offsets selects a message.
func selects(f *ledger.Filter, key ledger.Key) bool {
	switch {
	case key.ID == nil || key.Scope != f.Scope:
		return false
	case f.Offsets == nil:
		return bytes.Equal(key.ID, f.IDs[0])
	}
	return f.Offsets.First <= key.Pos.Offset && key.Pos.Offset <= f.Offsets.Last
}

// inOpenRange says whether a message is finished in a range that is not: it cannot be reopened yet.
func (w *world) inOpenRange(key ledger.Key) bool {
	rec, err := w.ledger.Get(context.Background(), key)
	return err == nil && rec.In != nil && rec.In.Until.IsZero()
}

// beginsAnew notes that a message that succeeded may run again, and sends it again.
func (w *world) beginsAnew(m message, is ledger.State) {
	f := w.facts.of(m)
	w.anew++
	w.note(nil, "is reopened", m, 0)
	f.final, f.renewed = true, true
	f.failed, f.cut, f.fails, f.effects, f.running, f.recorded = false, false, 0, 0, nil, nil
	w.send(m, 0)
	if x := w.twin.rows[f.key.Sum()]; x != nil {
		x.reopen(w.now, is == 0)
	}
}

// reopen notes that a row is nobody's and new to all its deliveries, or, of a message that lay in a range, not there.
func (x *row) reopen(now time.Duration, gone bool) {
	token := x.token + 1
	if gone {
		token = x.token
	}
	*x = row{began: now, state: ledger.Pending, body: x.body, loose: x.loose, token: token, back: gone, unsure: x.unsure, filed: map[string]bool{}}
}

// mustKnow checks what the ledger says of a message to people.
func (w *world) mustKnow(m message) {
	key := w.facts.of(m).key
	x := w.twin.rows[key.Sum()]
	if x.silent(w.now) {
		return
	}
	rec, err := w.ledger.Get(context.Background(), key)
	if x.back {
		if err == nil && (rec.State != ledger.Pending || rec.Owner != "") {
			w.breaks(m, "the ledger tells what it has: %s was given back, and is %s of %q", m, rec.State, rec.Owner)
		}
		return
	}
	owner := ""
	if x.owner != nil {
		owner = x.owner.owner.ID()
	}
	got := fmt.Sprintf("%s, token %d of %q, %d attempts, %d crashes, %d errors", rec.State, rec.Token, rec.Owner, rec.Attempts, rec.Crashes, len(rec.Errors))
	want := fmt.Sprintf("%s, token %d of %q, %d attempts, %d crashes, %d errors", x.state, x.token, owner, x.attempts, x.crashes, x.errors)
	if rec.In != nil && x.state == ledger.Succeeded { // it says no more
		got, _, _ = strings.Cut(got, ",")
		want, _, _ = strings.Cut(want, ",")
	}
	if err != nil || got != want {
		w.breaks(m, "the ledger tells what it has: %s is %s, %v, not %s", m, got, err, want)
	}
}

// mustCount checks what the ledger counts, right after a sweep, in scopes of which all is known. What was reopened in a range may count
// for offsets that were never delivered, and rows in ranges with gaps for messages there, as far as spans can tell.
func (w *world) mustCount() {
	gaps := w.cfg.Ranged && w.cfg.Moods[gap]+w.cfg.Moods[control] > 0
	if w.anew > 0 && gaps {
		return
	}
	want, silent := map[string]*ledger.ScopeStats{}, map[string]bool{}
	for _, m := range w.facts.all() {
		key := w.facts.of(m).key
		x := w.twin.rows[key.Sum()]
		if key.ID == nil || x == nil {
			continue
		}
		if want[key.Scope] == nil {
			want[key.Scope] = &ledger.ScopeStats{}
		}
		switch c := want[key.Scope]; {
		case x.silent(w.now) || x.moved && x.back:
			silent[key.Scope] = true
		case x.back:
		case x.state == ledger.Pending:
			c.Pending++
		case x.state == ledger.Succeeded:
			c.Succeeded++
		default:
			c.Failed++
		}
	}
	stats, err := w.ledger.Stats(context.Background())
	if err != nil {
		w.breaks(none, "the ledger can be counted: %v", err)
		return
	}
	for _, s := range stats.Scopes {
		c := want[s.Scope]
		if c == nil || silent[s.Scope] {
			continue
		}
		if gaps {
			c.Succeeded = s.Succeeded
		}
		if s.Pending == 0 && s.OldestPending+s.PendingAgeP99 != 0 {
			w.breaks(none, "the ledger counts what it has: nothing of %s is pending, and the oldest is %s old", s.Scope, s.OldestPending)
		}
		if s.Pending != c.Pending || s.Succeeded != c.Succeeded || s.Failed != c.Failed {
			w.breaks(none, "the ledger counts what it has: %d pending, %d succeeded, %d failed of %s, not %d, %d, %d", s.Pending, s.Succeeded, s.Failed,
				s.Scope, c.Pending, c.Succeeded, c.Failed)
		}
	}
}

// mustBeClosed checks the end of a world in which no owner was lost and no answer: with their next beat owners close the ranges that are
// over. A release that waited for a lock in vain may be due still, of a message that its log has lost: nobody waits for that.
func (w *world) mustBeClosed() {
	for _, k := range [...]kind{refused, requestLost, answerLost, callLate, tearing, mishap, deadly} {
		if w.cfg.Moods[k] > 0 || w.cfg.Moods[contended] > 0 && w.cfg.Moods[truncated] > 0 {
			return
		}
	}
	for _, k := range w.workers {
		if p := k.process; p != nil && p.sess != nil {
			if _, err := p.sess.owner.Beat(context.Background()); err != nil {
				w.breaks(none, "a live owner beats: that of %s does not, %v", p, err)
			}
		}
	}
	for _, m := range w.facts.all() {
		if key := w.facts.of(m).key; key.ID != nil && w.inOpenRange(key) {
			w.breaks(m, "what is over is closed: %s lies in an open range", m)
		}
	}
}
