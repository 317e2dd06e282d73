package sim

import (
	"bytes"
	"errors"
	"time"

	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
)

// twin is a ledger of rows that is told what the real one is asked, and says what the real one must answer, be it from rows or from
// ranges. It knows no more of owners than the worker does: whether a peer has declared an overdue one dead follows from the first answer
// that shows it. Of messages in ranges it leaves open how much a token grows, and it knows no body of them.
type twin struct {
	rows   map[[ledger.KeySize]byte]*row
	ranges map[claimedRange]bool // that were claimed
}

// claimedRange is a range of a log.
type claimedRange struct {
	log   ranges.Log
	token uint64
}

// row is what is known of a message. It says nothing about one whose window may be over.
type row struct {
	began    time.Duration // of its window
	body     ledger.Fingerprint
	state    ledger.State
	token    uint64
	owner    *session // nil: nobody
	due      time.Duration
	ended    time.Duration // when it succeeded
	attempts int
	crashes  int
	errors   int
	takes    int  // claims, since it was new or began anew
	ranged   bool // the last one was in a range
	back     bool // it was given back there, as if never claimed
	loose    bool // it may lie in a range
	moved    bool // it may have got a row there that nobody was told of
	care     bool // the ledger has it whole
	unsure   bool // a call about it was torn: nothing is known of it any more
	result   []byte
	filed    map[string]bool // deliveries that failed for good
}

// Bounds of the claim table.
const (
	window  = time.Hour
	suspect = 2 // crashes
	guilty  = 5
	folded  = 10 * time.Minute // a row stays for which a range speaks
)

func newTwin() twin {
	return twin{rows: map[[ledger.KeySize]byte]*row{}, ranges: map[claimedRange]bool{}}
}

// opened notes a range.
func (t *twin) opened(key ledger.Key, token uint64) {
	log, _ := ranges.SplitSum(key.Sum())
	t.ranges[claimedRange{log, token}] = true
}

// fates are what may have become of an owner, as another one sees it.
func (s *session) fates(now time.Duration) []ledger.Holder {
	end := ledger.Live
	if s.left {
		end, now = ledger.Left, s.leftAt
	}
	switch {
	case s.fate != ledger.Nobody && s.swept:
		return []ledger.Holder{s.fate, ledger.Left}
	case s.fate != ledger.Nobody:
		return []ledger.Holder{s.fate}
	case now > s.ledgerUntil:
		return []ledger.Holder{end, ledger.Dead}
	}
	return []ledger.Holder{end}
}

// forget notes that it is not known what was written of a message.
func (t *twin) forget(d delivery) {
	x := t.rows[d.key.Sum()]
	if x == nil {
		x = &row{state: ledger.Pending, filed: map[string]bool{}}
		t.rows[d.key.Sum()] = x
	}
	x.unsure = true
}

// silent says that nothing is known of a row: it may be gone, or a call about it has failed.
func (x *row) silent(now time.Duration) bool { return x == nil || x.unsure || now > x.began+window }

// mustBeOver checks an answer that says that an owner is lost.
func (p *process) mustBeOver(sess *session, err error) {
	if ledger.IsLost(err) && !p.mayLose(sess) {
		p.breaks(none, "an owner is lost once its lease is over: %s is told %v, %s before", p, err, sess.ledgerUntil-p.now)
	}
}

// mayLose says whether a session's owner may be told that it is lost: its lease is over, by its own clock if the ledger has none, or then
// it is gone.
func (p *process) mayLose(sess *session) bool {
	if p.cfg.Watched && (p.now > sess.until || !p.alive) {
		return true
	}
	return sess.left || p.now > sess.ledgerUntil
}

// mustClaim checks what the ledger has answered to a claim.
func (p *process) mustClaim(sess *session, c *flow.Claim, entries []ledger.Entry, answers []ledger.Claim) {
	asked := map[[ledger.KeySize]byte]bool{}
	for i := range entries {
		e, is, d := &entries[i], &answers[i], of(c.Items[i])
		switch key := e.Key.Sum(); {
		case is.Err != nil:
		case !asked[key] && p.waits(e, is):
			asked[key] = true
		case (sess.left || sess.fate != ledger.Nobody) && !p.cfg.Watched:
			p.breaks(d.message, "an owner that has ended claims nothing: %s gets %+v", p, *is)
		case asked[key]:
			(&row{}).must(p, d, &ledger.Claim{Answer: ledger.Busy}, is)
		default:
			asked[key] = true
			p.mustClaimOne(sess, d, e, is)
		}
	}
}

// mustClaimOne checks an answer about one message.
func (p *process) mustClaimOne(sess *session, d delivery, e *ledger.Entry, is *ledger.Claim) {
	if is.Ranged {
		p.twin.opened(e.Key, is.Token)
	}
	x := p.twin.rows[e.Key.Sum()]
	switch {
	case x == nil:
		x = &row{began: p.now, state: ledger.Pending, body: e.Fingerprint, loose: p.cfg.Ranged, filed: map[string]bool{}}
		p.twin.rows[e.Key.Sum()] = x
		want := &ledger.Claim{Answer: ledger.Run, Attempt: 1, Token: 1, First: true}
		if p.cfg.Ranged {
			want.Token = max(is.Token, 1)
		}
		x.must(p, d, want, is)
		x.mustRange(p, d, e, is)
	case x.silent(p.now):
		return
	case x.owner == nil || x.owner == sess:
		x.must(p, d, x.claimed(sess, e, p.now, ledger.Nobody, is), is)
	default:
		x.mustAs(p, d, sess, e, is)
	}
	x.take(sess, p.now, is)
}

// mustAs checks an answer about what another owner has: something that may have become of that owner explains it.
func (x *row) mustAs(p *process, d delivery, sess *session, e *ledger.Entry, is *ledger.Claim) {
	var fits []ledger.Holder
	all := x.owner.fates(p.now)
	for _, fate := range all {
		if same(x.claimed(sess, e, p.now, fate, is), is) {
			fits = append(fits, fate)
		}
	}
	switch {
	case len(fits) == 0:
		x.must(p, d, x.claimed(sess, e, p.now, all[0], is), is)
	case len(fits) == 1 && fits[0] != ledger.Live:
		x.owner.fate = fits[0]
	}
}

// claimed is what a claim is to be answered, which was answered.
func (x *row) claimed(sess *session, e *ledger.Entry, now time.Duration, fate ledger.Holder, is *ledger.Claim) *ledger.Claim {
	want := x.decided(sess, e, now, fate)
	if want.Held && x.owner.life != nil { // what a watch knows
		want.Wait = is.Wait
	}
	switch {
	case want.Token == 0:
	case (x.back || x.loose && x.moved) && !e.Ranged && !e.Copy: // claims by row do not ask what a log had that was dropped
		want.Token, want.First = is.Token, is.First
	case x.loose:
		want.Token = max(want.Token, is.Token)
		want.First = want.First || x.back && is.First
		if x.moved {
			want.First = is.First
		}
	}
	return want
}

// decided is claimed for a message with a row.
func (x *row) decided(sess *session, e *ledger.Entry, now time.Duration, fate ledger.Holder) *ledger.Claim {
	done := &ledger.Claim{Answer: ledger.Done, Outcome: ledger.Outcome{State: x.state, Result: x.result}}
	pending := x.state == ledger.Pending
	switch {
	case x.filed[string(e.Delivery)]:
		return done
	case !x.loose && x.body != e.Fingerprint:
		return &ledger.Claim{Answer: ledger.Mismatch}
	case x.state == ledger.Succeeded:
		return done
	case pending && x.care && !e.Parked:
		return &ledger.Claim{Answer: ledger.InCare}
	case pending && fate == ledger.Live:
		return &ledger.Claim{Answer: ledger.Busy, Held: true, Wait: max(x.owner.ledgerUntil-now, 0)}
	case pending && x.due > now:
		return &ledger.Claim{Answer: ledger.Busy, Wait: x.due - now}
	}
	crashes, tookOver := x.crashes, pending && (fate == ledger.Dead || fate == ledger.Left)
	if tookOver && fate == ledger.Dead {
		crashes++
	}
	parked := e.Park && pending && (tookOver || x.owner == sess && x.token > 1)
	switch {
	case pending && (crashes >= guilty || parked):
		return &ledger.Claim{Answer: ledger.Spent, Token: x.token + 1, Crashes: crashes, Uncertain: parked && crashes < guilty, TookOver: tookOver}
	case crashes >= suspect && !e.Solo:
		return &ledger.Claim{Answer: ledger.Busy, Suspect: true}
	case !pending && (e.Parked || e.StampToken != x.token && (e.StampToken > 0 || e.KeepFailed)):
		return done
	case !pending:
		return &ledger.Claim{Answer: ledger.Run, Attempt: 1, Token: x.token + 1, Crashes: min(crashes, suspect)}
	}
	first := x.owner == sess && x.takes == 1 && (x.ranged || x.token == 1)
	return &ledger.Claim{Answer: ledger.Run, Attempt: x.attempts + 1, Token: x.token + 1, Crashes: crashes, First: first, TookOver: tookOver}
}

// same compares what an answer says, but for its errors and its ticket.
func same(a, b *ledger.Claim) bool {
	return a.Answer == b.Answer && a.Attempt == b.Attempt && a.Token == b.Token && a.Crashes == b.Crashes && a.Wait == b.Wait &&
		a.Held == b.Held && a.Suspect == b.Suspect && a.Uncertain == b.Uncertain && a.First == b.First && a.TookOver == b.TookOver &&
		a.Outcome.State == b.Outcome.State && bytes.Equal(a.Outcome.Result, b.Outcome.Result)
}

// must checks an answer.
func (x *row) must(p *process, d delivery, want, is *ledger.Claim) {
	if !same(want, is) {
		p.breaks(d.message, "the claim table answers: %s gets %+v, not %+v", p, *is, *want)
	}
	if n := len(is.Errors); is.Answer == ledger.Run && n != x.errorsOf(is) {
		p.breaks(d.message, "a claim tells what failed before: %s gets %d errors, not %d", p, n, x.errorsOf(is))
	}
}

// errorsOf is how many errors a run is told of: as many as were counted, unless it begins anew.
func (x *row) errorsOf(is *ledger.Claim) int {
	if x.state != ledger.Pending || is.First {
		return 0
	}
	return x.errors
}

// mustRange checks that what is new lies in a range, where all that is claimed may and nobody asked for rows ahead. When all of a log was
// reopened or given back, it may be dropped, and then rows lie between the rows that are left.
func (x *row) mustRange(p *process, d delivery, e *ledger.Entry, is *ledger.Claim) {
	ranged := e.Ranged && !e.Copy && e.StampToken == 0
	if ranged && !p.cfg.Mixed && p.anew == 0 && is.Answer == ledger.Run && !is.Ranged && !p.twin.betweenRows(e.Key) {
		p.breaks(d.message, "what is new lies in a range: %s gets %s, which has a row", p, d)
	}
}

// betweenRows says whether messages before and behind one have rows.
func (t *twin) betweenRows(key ledger.Key) bool {
	before, behind := false, false
	log, at := ranges.SplitSum(key.Sum())
	for sum, x := range t.rows {
		if of, offset := ranges.SplitSum(sum); of == log && x.takes > 0 && !x.ranged {
			before, behind = before || offset < at, behind || offset > at
		}
	}
	return before && behind
}

// take notes what the answer to a claim has written.
func (x *row) take(sess *session, now time.Duration, is *ledger.Claim) {
	if is.Answer != ledger.Run && is.Answer != ledger.Spent {
		return
	}
	if x.state != ledger.Pending {
		x.attempts, x.errors, x.began = 0, 0, now
	}
	x.takes++
	if is.First {
		x.takes = 1
	}
	x.state, x.owner, x.token, x.crashes, x.due, x.result = ledger.Pending, sess, is.Token, is.Crashes, 0, nil
	x.ranged, x.back, x.moved = is.Ranged, false, false
}

// mustClaimRange checks that a range is claimed where nothing is.
func (p *process) mustClaimRange(sess *session, of several, token uint64) {
	for _, d := range of.deliveries() {
		p.twin.opened(d.key, token)
		x := p.twin.rows[d.key.Sum()]
		if x == nil {
			x = &row{began: p.now, back: true, loose: true, filed: map[string]bool{}}
			p.twin.rows[d.key.Sum()] = x
		}
		if !x.silent(p.now) && (!x.back || token <= x.token) {
			p.breaks(d.message, "a range is claimed where nothing is: %s claims %s with token %d, which is %s with %d", p, d, token, x.state, x.token)
		}
		x.take(sess, p.now, &ledger.Claim{Answer: ledger.Run, Token: token, First: true, Ranged: true})
	}
}

// mustSettleRange checks that what has succeeded as one was all its owner's still.
func (p *process) mustSettleRange(sess *session, of several, token uint64) {
	for _, d := range of.deliveries() {
		x := p.twin.rows[d.key.Sum()]
		if x.silent(p.now) || p.facts.of(d.message).renewed { // an owner remembers what its ranges had
			continue
		}
		if x.token != token || x.state != ledger.Succeeded && x.owner != sess || x.state == ledger.Failed {
			p.breaks(d.message, "what succeeds as one is its owner's: %s settles %s with token %d, which is %s with %d", p, d, token, x.state, x.token)
		}
		x.state, x.owner = ledger.Succeeded, nil
		if is := p.state(d.key); is != ledger.Succeeded {
			p.breaks(d.message, "what is settled has happened: %s settles %s as one of several, which is %s", p, d, is)
		}
	}
}

// mustSettle checks what the ledger has answered to a settlement.
func (p *process) mustSettle(sess *session, d delivery, s *ledger.Settlement, is error) {
	x := p.twin.rows[s.Ticket.Sum()]
	if _, ok := errors.AsType[*ledger.InvalidError](is); ok || x.silent(p.now) {
		return
	}
	want := ledger.ErrLost
	switch {
	case is != nil && !ledger.IsLost(is) && p.tear.met: // a lock was not free
		x.moved = true
		return
	case s.Ticket.IsMismatch():
		if s.Kind == ledger.Fail {
			want, x.filed[string(s.Dead.Delivery)] = nil, true
		}
	case x.loose && (x.back || x.owner != sess && (s.Kind == ledger.Release || p.facts.of(d.message).renewed)),
		x.loose && s.Ticket.Token() != x.token && p.facts.of(d.message).renewed:
		return // an owner remembers what its ranges had as given back, or finished before it was reopened
	case p.cfg.Watched && x.loose && s.Ticket.Token() != x.token && (s.Kind == ledger.Release || !p.alive):
		return // it comes again, and nobody hears what its owner remembers
	case s.Ticket.Token() != x.token:
	case x.state == ledger.Pending && x.owner == sess:
		want = nil
		if s.Kind == ledger.Release && !s.Count && s.After <= 0 && is == nil {
			p.answers.back(x.ranged && x.takes == 1)
		}
		x.settle(s, p.now)
	case x.state == ledger.Succeeded && x.loose && p.now-x.ended > p.seconds(folded):
		return // its row may have gone, and what speaks for it then knows no token
	case x.state == ledger.Succeeded,
		x.state == ledger.Failed && s.Kind == ledger.Fail && x.filed[string(s.Dead.Delivery)],
		x.state == ledger.Pending && x.owner == nil && (s.Kind == ledger.Release || s.Kind == ledger.Park && x.care):
		want = nil
	}
	if (want == nil) != (is == nil) || want != nil && !ledger.IsLost(is) {
		p.breaks(d.message, "the settle rules answer: %s is told %v, not %v", p, is, want)
	}
}

// settle notes what a settlement has written.
func (x *row) settle(s *ledger.Settlement, now time.Duration) {
	x.owner, x.due = nil, 0
	switch s.Kind {
	case ledger.Succeed:
		x.state, x.result, x.ended, x.care = ledger.Succeeded, s.Result, now, false
	case ledger.Fail:
		x.state, x.result, x.care = ledger.Failed, s.Result, false
		x.filed[string(s.Dead.Delivery)] = true
	case ledger.Release, ledger.Park:
		x.back = x.ranged && s.Kind == ledger.Release && !s.Count && s.After <= 0
		x.care = x.care || s.Kind == ledger.Park
		if s.After > 0 {
			x.due = now + s.After
		}
		if s.Count {
			x.attempts++
			x.errors++
		}
	}
}

// mustCommit checks that a transaction has committed only what was its own still.
func (p *process) mustCommit(sess *session, d delivery, t ledger.Ticket, result []byte) {
	x := p.twin.rows[t.Sum()]
	if x.silent(p.now) {
		return
	}
	if x.state != ledger.Pending || x.owner != sess || x.token != t.Token() {
		p.breaks(d.message, "a fence commits what is its own: %s commits %s with token %d, the row has %d, %s", p, d, t.Token(), x.token, x.state)
	}
	x.settle(&ledger.Settlement{Kind: ledger.Succeed, Result: result}, p.now)
}
