package ledgertest

import (
	"math/rand/v2"
	"sync"

	"github.com/ackledger/ackledger/ledger"
)

// inLog asks for the records from <= offset < to of the log of a leader epoch, as one and each by itself.
func (e *env) inLog(epoch int32, from, to int64) (s ledger.Stretch, all []ledger.Entry) {
	for o := from; o < to; o++ {
		all = append(all, e.at(epoch, o, o-1))
	}
	return ledger.Stretch{First: all[0], Last: to - 1}, all
}

func (e *env) stretchOwner() ledger.StretchOwner {
	e.Helper()
	return ledger.Ungroup(e.owner()).(ledger.StretchOwner)
}

// met claims a stretch of a log that its owner does not know, and of which nothing is there.
func (e *env) met(o ledger.StretchOwner, s ledger.Stretch) uint64 {
	e.Helper()
	tokens := e.claimStretches(o, s)
	if tokens[0] == 0 {
		e.Fatalf("a log that is new: nothing of %+v is claimed", s)
	}
	return tokens[0]
}

func answered(a ledger.Answer) func(int) ledger.Answer { return func(int) ledger.Answer { return a } }

// rangeStretchesMet: what is claimed as one of a log that its owner does not know is as what it claims later: given back it is nobody's,
// settled it is done, and its owner's death is counted.
func rangeStretchesMet(e *env) {
	a, b := e.stretchOwner(), e.stretchOwner()
	s, all := e.inLog(1, 10, 20)
	s.First.Key.Pos.Prev = 6 // what lies between was never delivered
	first := e.met(a, s)
	e.answers(b, all, answered(ledger.Busy))
	e.hold(a, e.claimsOf(all, first), release)
	again := e.allRun(b, all)
	if again[0].Token <= first || again[0].Attempt != 1 || again[0].Crashes != 0 {
		e.Errorf("%+v after token %d", again[0], first)
	}
	e.hold(b, again, succeed)
	e.answers(a, all, answered(ledger.Done))
	e.answers(a, []ledger.Entry{e.at(1, 8, 6)}, answered(ledger.Done)) // that was never delivered
	e.lost(a, succeed(e.claimsOf(all, first)[3]))

	dies := e.owner()
	s, all = e.inLog(2, 0, 10)
	token := e.met(ledger.Ungroup(dies).(ledger.StretchOwner), s)
	e.declare(dies)
	for i, c := range e.allRun(b, all) {
		if c.Crashes != 1 || !c.TookOver || c.Token <= token {
			e.Fatalf("%d: taken over: %+v, had token %d", i, c, token)
		}
	}
	e.settleStretchLost(ledger.Ungroup(dies).(ledger.StretchOwner), e.done(s, token))

	leaves := e.owner()
	s, all = e.inLog(3, 0, 10)
	token = e.met(ledger.Ungroup(leaves).(ledger.StretchOwner), s)
	e.leave(leaves)
	for i, c := range e.allRun(b, all) {
		if c.Crashes != 0 || c.Token <= token {
			e.Fatalf("%d: what was left: %+v, had token %d", i, c, token)
		}
	}
}

// rangeStretchesOfALaterStart: where a log begins later than its owner knows, it is met again, and its records go on as one.
func rangeStretchesOfALaterStart(e *env) {
	o, other := e.stretchOwner(), e.stretchOwner()
	var last uint64
	for i, first := range []int64{0, 5, 5, 25, 30} {
		s, all := e.inLog(1, int64(i)*10, int64(i+1)*10)
		s.First.Key.Pos.First = first
		token := e.met(o, s)
		if token <= last {
			e.Errorf("token %d after %d", token, last)
		}
		last = token
		e.answers(other, all, answered(ledger.Busy))
		e.settleStretch(o, e.done(s, token), nil)
		e.answers(other, all, answered(ledger.Done))
	}
	_, all := e.inLog(1, 0, 50)
	e.answers(other, all, answered(ledger.Done)) // what lies below stays for an hour
}

// rangeStretchesMetInTx: what was claimed as one of a log that was not known is committed with its effects, and once.
func rangeStretchesMetInTx(e *env) {
	if e.InTx == nil {
		return
	}
	o, other := e.owner(), e.stretchOwner()
	s, all := e.inLog(1, 10, 30)
	s.First.Key.Pos.Prev = 6
	token := e.met(ledger.Ungroup(o).(ledger.StretchOwner), s)
	claims := e.claimsOf(all, token)
	for i, c := range claims[:3] {
		ctx, _ := e.attempt(o, c)
		if err := e.InTx(ctx, e.effect(all[i])); err != nil {
			e.Fatalf("InTx: %v", err)
		}
		e.wantEffects(all[i], 1)
	}
	ctx, _ := e.attempt(o, claims[0])
	if err := e.InTx(ctx, e.effect(all[0])); err == nil {
		e.Error("what had committed has committed again")
	}
	e.wantEffects(all[0], 1)
	e.answers(other, all[:3], answered(ledger.Done))
	e.answers(other, all[3:], answered(ledger.Busy))
	e.hold(o, claims[3:5], release)
	ctx, _ = e.attempt(o, claims[3])
	if err := e.InTx(ctx, e.effect(all[3])); !ledger.IsLost(err) {
		e.Errorf("InTx of what was given back: %v", err)
	}
	e.declare(o)
	e.answers(other, all[:3], answered(ledger.Done))
	for i, c := range e.allRun(other, all[3:]) {
		if want := min(max(i-1, 0), 1); c.Crashes != want {
			e.Errorf("%d: %+v, want %d crashes", i, c, want)
		}
	}
	e.wantEffects(all[3], 0)
}

// rangeStretchesMetUnknown: a first claim whose answer was lost is asked for again, message by message, and nobody else gets any of it.
func rangeStretchesMetUnknown(e *env) {
	if e.Lose == nil {
		return
	}
	o, other := e.stretchOwner(), e.stretchOwner()
	for epoch := range int32(4) {
		s, all := e.inLog(epoch, 0, 10)
		known, others := e.inLog(epoch+100, 0, 10)
		e.settleStretch(o, e.done(known, e.met(o, known)), nil)
		next, behind := e.inLog(epoch+100, 10, 20)
		e.Lose(true)
		if _, err := o.ClaimStretches(e.ctx, []ledger.Stretch{s, next}); !ledger.Unknown(err) {
			e.Fatalf("a lost answer reads %v", err)
		}
		e.Lose(false)
		e.answers(other, all, answered(ledger.Busy))
		e.allRun(other, behind)
		claims := e.allRun(o, all)
		e.answers(other, all, answered(ledger.Busy))
		e.hold(o, claims[:5], succeed)
		e.hold(o, claims[5:], release)
		e.answers(other, all[:5], answered(ledger.Done))
		e.hold(other, e.allRun(other, all[5:]), succeed)
		e.answers(other, others, answered(ledger.Done))
		more, rest := e.inLog(epoch, 10, 20)
		if tokens := e.claimStretches(o, more); tokens[0] > 0 {
			e.settleStretch(o, e.done(more, tokens[0]), nil)
			e.answers(other, rest, answered(ledger.Done))
		}
	}
}

// metLogs are how many logs members meet at once, and metRecords what they ask for of each.
const metLogs, metRecords = 6, 20

// rangeStretchesMetAtOnce: of members that meet the same logs at the same time, in any order and either way, one has a log's records.
func rangeStretchesMetAtOnce(e *env) {
	const members = 5
	var owners []ledger.StretchOwner
	for range members {
		owners = append(owners, e.stretchOwner())
	}
	for round := range int32(e.rounds(20)) {
		tokens := make([][metLogs]uint64, members)
		var all sync.WaitGroup
		for i, o := range owners {
			all.Go(func() { tokens[i] = meetAll(e, o, round*metLogs, i == 0) })
		}
		all.Wait()
		if e.Failed() {
			return
		}
		for log := range int32(metLogs) {
			s, entries := e.inLog(round*metLogs+log, 0, metRecords)
			has := -1
			for i := range owners {
				if tokens[i][log] > 0 && has >= 0 {
					e.Fatalf("both %d and %d have a log, with tokens %d and %d", has, i, tokens[has][log], tokens[i][log])
				}
				if tokens[i][log] > 0 {
					has = i
				}
			}
			if has < 0 { // its lock was not to be had
				continue
			}
			other := owners[(has+1)%members]
			e.answers(other, entries, answered(ledger.Busy))
			e.settleStretch(owners[has], e.done(s, tokens[has][log]), nil)
			e.answers(other, entries, answered(ledger.Done))
		}
	}
}

// meetAll claims the same records of all logs from an epoch on, in some order, and returns its tokens.
func meetAll(e *env, o ledger.StretchOwner, from int32, each bool) (tokens [metLogs]uint64) {
	order := rand.Perm(len(tokens))
	var asks []ledger.Stretch
	var entries []ledger.Entry
	for _, log := range order {
		s, all := e.inLog(from+int32(log), 0, metRecords)
		asks, entries = append(asks, s), append(entries, all...)
	}
	if each {
		claims, err := o.Claim(e.ctx, entries)
		if err != nil {
			e.Errorf("claim: %v", err)
			return tokens
		}
		for i, c := range claims {
			if c.Token != claims[i/metRecords*metRecords].Token {
				e.Errorf("record %d of a log: %+v, and the first %+v", i%metRecords, c, claims[i/metRecords*metRecords])
			}
			tokens[order[i/metRecords]] = c.Token
		}
		return tokens
	}
	got, err := o.ClaimStretches(e.ctx, asks)
	if err != nil {
		e.Errorf("stretches: %v", err)
		return tokens
	}
	for i, log := range order {
		tokens[log] = got[i]
	}
	return tokens
}
