package ledgertest

import (
	"math/rand/v2"
	"strconv"
	"sync"

	"github.com/ackledger/ackledger/ledger"
)

// rangeCases are what only ranges have.
var rangeCases = []testCase{
	{"Ranges_CrashOfHalfARange", rangeCrash},
	{"Ranges_RebalanceInTheMiddle", rangeRebalance},
	{"Ranges_PoisonAmongThousands", rangePoison},
	{"Ranges_OutOfOrderOverSeveral", rangeOutOfOrder},
	{"Ranges_LongGap", rangeGap},
	{"Ranges_EpochAndTruncation", rangeEpoch},
	{"Ranges_Resets", rangeResets},
	{"Ranges_SettledWhileTakenOver", rangeSettledMeanwhile},
	{"Ranges_RowAndRangeOfOneOffset", rangeRow},
	{"Ranges_ManyBecomeOne", rangeMerge},
	{"Ranges_RepeatedInOneCall", rangeTwice},
	{"Ranges_BothKindsOfWorkers", rangeBothKinds},
	{"Ranges_SwitchedToAndFro", rangeSwitch},
	{"Ranges_HandlersCommitAtOnce", rangeCommits},
	{"Ranges_CommitAgainstTakeOver", rangeCommitTaken},
	{"Ranges_RedrivenRowStays", rangesRedrivenStays},
	{"Ranges_Stretches", rangeStretches},
	{"Ranges_StretchesOfAStranger", rangeStretchesOfAStranger},
	{"Ranges_StretchesInTx", rangeStretchesInTx},
	{"Ranges_StretchesMet", rangeStretchesMet},
	{"Ranges_StretchesOfALaterStart", rangeStretchesOfALaterStart},
	{"Ranges_StretchesMetInTx", rangeStretchesMetInTx},
	{"Ranges_StretchesMetUnknown", rangeStretchesMetUnknown},
	{"Ranges_StretchesMetAtOnce", rangeStretchesMetAtOnce},
	{"Ranges_StretchesStorm", rangeStretchesStorm},
}

// at asks for the record of an offset of one log, delivered after prev (-1: not known).
func (e *env) at(epoch int32, offset, prev int64) ledger.Entry {
	m := e.entry("any")
	m.Key = ledger.Key{Scope: e.scope, ID: []byte("topic-0-" + strconv.FormatInt(offset, 10)),
		Pos: &ledger.Position{Log: "cluster topic-uuid 0", Epoch: epoch, Offset: offset, Prev: prev}}
	m.Delivery = []byte(strconv.Itoa(int(epoch)) + "/" + strconv.FormatInt(offset, 10))
	m.Fingerprint = ledger.BodyFingerprint(m.Delivery)
	return m
}

// span asks for the records from <= offset < to.
func (e *env) span(from, to int64) (all []ledger.Entry) {
	for o := from; o < to; o++ {
		all = append(all, e.at(0, o, o-1))
	}
	return all
}

// allRun claims all, and checks that all run.
func (e *env) allRun(o ledger.Owner, all []ledger.Entry) []ledger.Claim {
	e.Helper()
	return e.answers(o, all, func(int) ledger.Answer { return ledger.Run })
}

func (e *env) answers(o ledger.Owner, all []ledger.Entry, want func(i int) ledger.Answer) []ledger.Claim {
	e.Helper()
	claims := e.claimAll(o, all)
	for i, c := range claims {
		if c.Answer != want(i) {
			e.Fatalf("claim %d of %d (%s): %+v, want %v", i, len(all), all[i].Key.ID, c, want(i))
		}
	}
	return claims
}

// hold settles all, and checks that all hold.
func (e *env) hold(o ledger.Owner, claims []ledger.Claim, how func(ledger.Claim) ledger.Settlement) {
	e.Helper()
	settlements := make([]ledger.Settlement, len(claims))
	for i, c := range claims {
		settlements[i] = how(c)
	}
	for i, err := range e.settleAll(o, settlements) {
		if err != nil {
			e.Fatalf("%v %d of %d: %v", settlements[i].Kind, i, len(claims), err)
		}
	}
}

// rangeCrash: an owner dies with half a range finished: what is finished is done, the rest counts one crash.
func rangeCrash(e *env) {
	a, b := e.owner(), e.owner()
	all := e.span(100, 140)
	claims := e.allRun(a, all)
	var finished []ledger.Claim
	for i := 0; i < len(claims); i += 2 {
		finished = append(finished, claims[i])
	}
	e.hold(a, finished, succeed)
	e.declare(a)
	taken := e.answers(b, all, func(i int) ledger.Answer { return []ledger.Answer{ledger.Done, ledger.Run}[i%2] })
	for i, c := range taken {
		if i%2 == 1 && (c.Crashes != 1 || !c.TookOver || c.Token <= claims[i].Token) {
			e.Fatalf("taken over: %+v, was %+v", c, claims[i])
		}
	}
	if err := e.settle(a, succeed(claims[1])); !ledger.IsLost(err) {
		e.Fatalf("the dead owner settles: %v", err)
	}
}

// rangeRebalance: what an owner gave back runs elsewhere while the rest of its range goes on.
func rangeRebalance(e *env) {
	a, b := e.owner(), e.owner()
	all := e.span(0, 60)
	claims := e.allRun(a, all)
	e.hold(a, claims[:20], succeed)
	e.hold(a, claims[40:], release)
	taken := e.allRun(b, all[40:])
	for i, c := range taken {
		if c.TookOver || c.Attempt != 1 || c.Token <= claims[40+i].Token {
			e.Fatalf("run: %+v, was %+v", c, claims[40+i])
		}
	}
	e.answers(b, all[20:40], func(int) ledger.Answer { return ledger.Busy })
	e.lost(a, succeed(claims[45]))
	e.hold(a, claims[20:40], succeed)
	e.hold(b, taken[:10], succeed)
	e.leave(b)
	e.hold(a, e.allRun(a, all[50:]), succeed)
	e.answers(a, all, func(int) ledger.Answer { return ledger.Done })
}

// rangePoison: one message of 5,000 kills its process: a bounded number of crashes, and the others are handled once.
func rangePoison(e *env) {
	const n, poison = 5000, 4990
	all, handled := e.span(0, n), make([]int, n)
	crashes, solo := 0, false
	for left := n; left > 0; {
		o := e.owner()
		died := false
		var claims []ledger.Claim
		if !solo {
			claims = e.claimAll(o, all)
		} else { // one after the other
			claims = make([]ledger.Claim, n)
			for i := range all {
				if handled[i] == 0 {
					m := all[i]
					m.Solo = true
					claims[i] = e.claim(o, m)
				}
			}
		}
		var settlements []ledger.Settlement
		for i, c := range claims {
			switch {
			case c.Suspect:
				solo = true
			case c.Answer == ledger.Spent:
				e.holds(o, fail(c, all[i]))
				handled[i]++
				left--
			case c.Answer == ledger.Run && i == poison:
				died = true
			case c.Answer == ledger.Run && (!died || solo):
				settlements = append(settlements, succeed(c))
				handled[i]++
				left--
			}
		}
		for i, err := range e.settleAll(o, settlements) {
			if err != nil {
				e.Fatalf("settle %d: %v", i, err)
			}
		}
		if died {
			e.declare(o)
			crashes++
		}
		if crashes > ledger.CrashLimit {
			e.Fatalf("%d crashes", crashes)
		}
	}
	for i, times := range handled {
		if times != 1 {
			e.Fatalf("message %d was handled %d times", i, times)
		}
	}
	if r := e.record(all[poison]); r.State != ledger.Failed || crashes != ledger.CrashLimit {
		e.Fatalf("%d crashes; row: %s", crashes, summary(r))
	}
}

// wantOne checks that the ledger holds the records from <= offset < to as one finished segment.
func (e *env) wantOne(from, to int64) {
	e.Helper()
	r := e.record(e.at(0, from, -1))
	if r.State != ledger.Succeeded || r.In == nil || r.In.From != from || r.In.To != to || r.In.Until.Before(r.In.Since) {
		e.Fatalf("%s in %+v, want succeeded from %d to %d", summary(r), r.In, from, to)
	}
}

func rangeOutOfOrder(e *env) {
	o, b := e.owner(), e.owner()
	var claims []ledger.Claim
	for from := int64(0); from < 150; from += 50 {
		claims = append(claims, e.allRun(o, e.span(from, from+50))...)
	}
	rand.Shuffle(len(claims), func(i, j int) { claims[i], claims[j] = claims[j], claims[i] })
	for from := 0; from < 150; from += 30 {
		e.hold(o, claims[from:from+30], succeed)
	}
	e.wantOne(0, 150)
	e.answers(b, e.span(0, 150), func(int) ledger.Answer { return ledger.Done })
}

// rangeGap: what was never delivered between two records belongs to the range of the second.
func rangeGap(e *env) {
	o := e.owner()
	e.hold(o, e.allRun(o, []ledger.Entry{e.at(0, 7, -1)}), succeed)
	e.hold(o, e.allRun(o, []ledger.Entry{e.at(0, 100_008, 7), e.at(0, 100_010, 100_008)}), succeed)
	e.wantOne(7, 100_011)
	e.want(o, e.at(0, 50_000, 49_999), ledger.Done)
}

// rangeEpoch: a truncated log uses its offsets again under a higher epoch: they are new, and the lower ones stay known.
func rangeEpoch(e *env) {
	o := e.owner()
	e.hold(o, e.allRun(o, e.span(0, 10)), succeed)
	higher := []ledger.Entry{e.at(1, 5, 4), e.at(1, 6, 5), e.at(1, 7, 6)}
	claims := e.allRun(o, higher)
	if claims[0].Token != 1 {
		e.Fatalf("another epoch's record: %+v", claims[0])
	}
	e.hold(o, claims[:2], succeed)
	e.declare(o)
	b := e.owner()
	e.answers(b, higher, func(i int) ledger.Answer { return []ledger.Answer{ledger.Done, ledger.Done, ledger.Run}[i] })
	e.answers(b, e.span(0, 10), func(int) ledger.Answer { return ledger.Done })
}

// rangeResets: a group that is reset to the beginning, the end, or between finds new records there, and knows the others.
func rangeResets(e *env) {
	a, b := e.owner(), e.owner()
	e.hold(a, e.allRun(a, e.span(100, 120)), succeed)
	e.hold(b, e.allRun(b, e.span(500, 510)), succeed) // to the end
	first := e.span(0, 20)
	first[0].Key.Pos.Prev = -1
	e.hold(a, e.allRun(a, first), succeed) // to the beginning
	e.answers(b, e.span(95, 125), func(i int) ledger.Answer {
		if i >= 5 && i < 25 {
			return ledger.Done
		}
		return ledger.Run
	})
	e.answers(a, e.span(500, 510), func(int) ledger.Answer { return ledger.Done })
}

// rangeSettledMeanwhile: a range is settled while it is taken over: each message is settled or taken over, never both.
func rangeSettledMeanwhile(e *env) {
	for round := range int64(10) {
		a, b := e.owner(), e.owner()
		all := e.span(round*100, round*100+10)
		claims := e.allRun(a, all)
		e.declare(a)
		var errs []error
		var whole, errB error
		var taken []ledger.Claim
		var wg sync.WaitGroup
		wg.Go(func() {
			settlements := make([]ledger.Settlement, len(claims))
			for i, c := range claims {
				settlements[i] = succeed(c)
			}
			errs, whole = a.Settle(e.ctx, settlements)
		})
		wg.Go(func() { taken, errB = b.Claim(e.ctx, all) })
		wg.Wait()
		if errB != nil || whole != nil && !ledger.IsLost(whole) {
			e.Fatalf("settle %v, claim %v", whole, errB)
		}
		for i, c := range taken {
			if held := whole == nil && errs[i] == nil; held && c.Answer == ledger.Run {
				e.Fatalf("message %d is settled and runs again", i)
			}
			if c.Answer == ledger.Run {
				e.holds(b, succeed(c))
			}
		}
	}
}

// rangeRow: a row wins over the range that covers its offset, and its range speaks for the message when it is gone.
func rangeRow(e *env) {
	o, b := e.owner(), e.owner()
	claims := e.allRun(o, e.span(0, 5))
	late := release(claims[2])
	late.After = window / 2
	e.holds(o, late)
	e.hold(o, []ledger.Claim{claims[0], claims[1], claims[3], claims[4]}, succeed)
	if c := e.want(b, e.at(0, 2, 1), ledger.Busy); c.Wait <= 0 {
		e.Fatalf("busy: %+v", c)
	}
	if r := e.record(e.at(0, 2, 1)); r.State != ledger.Pending || r.In != nil || r.Due.IsZero() {
		e.Fatalf("row: %s", summary(r))
	}
	e.wantOne(0, 5)
	e.want(b, e.at(0, 3, 2), ledger.Done)
}

// rangeMerge: however many ranges were opened, one segment is left.
func rangeMerge(e *env) {
	o := e.owner()
	const batches, size = 200, 20
	for i := range int64(batches) {
		e.hold(o, e.allRun(o, e.span(i*size, (i+1)*size)), succeed)
	}
	e.wantOne(0, batches*size)
}

func rangeTwice(e *env) {
	o := e.owner()
	all := append(e.span(0, 5), e.span(3, 8)...)
	claims := e.answers(o, all, func(i int) ledger.Answer {
		if i == 5 || i == 6 {
			return ledger.Busy
		}
		return ledger.Run
	})
	e.hold(o, append(claims[:5:5], claims[7:]...), succeed)
	e.wantOne(0, 8)
}
