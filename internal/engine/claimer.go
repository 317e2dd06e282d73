package engine

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/internal/killpoint"
	"github.com/ackledger/ackledger/ledger"
	"go.uber.org/zap"
)

// claimer claims in the ledger what the flow wants claimed.
type claimer struct {
	*kernel
	lease    *lease
	opt      *consumer.Options
	archives *archives
	heard    func(*Item, *ledger.Claim) // nil: nobody wants to know
}

// claimCall is what a goroutine's claims use again and again.
type claimCall struct {
	flow.Claim
	entries []ledger.Entry
	alone   []bool
}

// loop claims what is claimable, in batches, ahead of the handlers.
func (c *claimer) loop() {
	failed := 0
	var call claimCall
	for c.next(&call) {
		var ok bool
		if len(call.Ranges) > 0 {
			ok = c.askRanges(&call)
		} else {
			ok = c.ask(&call, false)
		}
		c.mu.Lock()
		c.flow.ClaimOver(&call.Claim)
		c.unlock()
		clear(call.Ranges)
		failed = c.lease.rest(failed, ok)
	}
}

// next waits for something to claim; false: the engine closes.
func (c *claimer) next(call *claimCall) bool {
	return c.await(c.wait.claim, func() bool { return c.flow.NextClaim(c.now(), &call.Claim) })
}

// ask claims items until the ledger has answered for them, or they cannot be ours. It returns false if the ledger did
// not take the call.
func (c *claimer) ask(call *claimCall, solo bool) bool {
	sess := sessionOf(call.Session)
	c.fill(sess, call, solo)
	defer func() { clear(call.Items); clear(call.entries) }()
	for n := 1; ; n++ {
		var answers []ledger.Claim
		deadline, err := c.call(sess, func(ctx context.Context) (err error) {
			answers, err = sess.owner.Claim(ctx, call.entries)
			return err
		})
		if err == nil {
			c.answered(call, answers)
			return true
		}
		if !c.asksAgain(sess, &call.Claim, n, deadline, err) {
			return ledger.IsLost(err)
		}
	}
}

// call makes one call that claims, and tells the lease what came of it. What was sent changes nothing after the deadline.
func (c *claimer) call(sess *session, claim func(context.Context) error) (deadline time.Time, err error) {
	sent := time.Now()
	deadline = sent.Add(callTimeout(c.opt))
	ctx, cancel := context.WithDeadline(c.lease.gone, deadline)
	defer cancel()
	err = claim(ctx)
	c.tel.claim.Record(context.Background(), time.Since(sent).Seconds(), c.tel.attrs)
	if ledger.IsLost(err) {
		c.lease.lose(sess)
		return deadline, err
	}
	if err == nil {
		killpoint.At(killpoint.Claimed)
	}
	c.lease.note(err)
	return deadline, err
}

// asksAgain says whether to ask for items again whose n-th claim failed. If its answer was lost, some may be ours: then it waits
// until that can change no more, and asks again, or never, if the session is left meanwhile, which frees them.
func (c *claimer) asksAgain(sess *session, claim *flow.Claim, n int, deadline time.Time, err error) bool {
	if !ledger.IsLost(err) && ledger.Unknown(err) {
		c.do(func(f *flow.Flow, _ time.Duration) { f.Unanswered(claim) })
		c.lease.nap(time.Until(deadline))
		c.lease.nap(outage(n))
		if !c.lease.over(sess) {
			return true
		}
	}
	c.do(func(f *flow.Flow, _ time.Duration) { f.Unclaimed(claim) })
	return false
}

// fill makes what the ledger is asked. A suspect that the broker has back is asked for alone, too: it has its place as long as
// it may be ours. What was never asked for alone was not taken if it is suspect.
func (c *claimer) fill(sess *session, call *claimCall, solo bool) {
	call.alone = call.alone[:0]
	c.mu.Lock()
	for _, it := range call.Items {
		call.alone = append(call.alone, solo || it.Dropped() && it.Solo())
	}
	c.mu.Unlock()
	call.entries = call.entries[:0]
	for i, f := range call.Items {
		it := f.Of.(*Item)
		if !sess.late {
			it.complete()
		}
		window := cmp.Or(it.Window, c.opt.Window)
		call.entries = append(call.entries, ledger.Entry{
			Key: it.Key, Fingerprint: it.Fingerprint, Delivery: it.Delivery, StampToken: it.StampToken, Copy: it.Copy,
			Ranged: it.Ranged, Late: it.Late, Window: window, Solo: call.alone[i], Park: c.opt.Park, KeepFailed: c.opt.KeepFailed,
			Parked: it.Parked,
		})
	}
}

// answered hands the ledger's answers to the flow.
func (c *claimer) answered(call *claimCall, answers []ledger.Claim) {
	c.tel.answered(answers)
	var dead []*ledger.Archive
	for i, f := range call.Items {
		it, a := f.Of.(*Item), &answers[i]
		if a.Err != nil {
			c.log.Error("the ledger refuses the message", zap.String("message_id", it.Msg.ID), zap.Error(a.Err))
		}
		if a.Answer == ledger.InCare {
			it.inCare()
		}
		if c.heard != nil {
			c.heard(it, a)
		}
		if it.errors = nil; len(a.Errors) > 0 {
			it.errors = new(a.Errors)
		}
		if flow.NeedsArchive(f, a) {
			if dead == nil {
				dead = make([]*ledger.Archive, len(call.Items))
			}
			dead[i] = c.archives.unrun(it, a)
		}
	}
	c.do(func(f *flow.Flow, now time.Duration) { f.Claimed(now, &call.Claim, answers, dead) })
}

// askRanges claims ranges, and those of their messages one by one that this is not to be known of. It returns false if the
// ledger did not take the call.
func (c *claimer) askRanges(call *claimCall) bool {
	sess := sessionOf(call.Session)
	asks := make([]ledger.Stretch, len(call.Ranges))
	for i, r := range call.Ranges {
		asks[i] = r.Claim
	}
	var tokens []uint64
	deadline, err := c.call(sess, func(ctx context.Context) (err error) {
		tokens, err = sess.ranges.ClaimStretches(ctx, asks)
		return err
	})
	if err == nil {
		var ours int64
		c.do(func(f *flow.Flow, now time.Duration) { ours = f.ClaimedRanges(now, &call.Claim, tokens) })
		c.tel.ran(ours)
		return true
	}
	items := flow.Claim{Session: call.Session}
	c.do(func(f *flow.Flow, now time.Duration) { items.Items = f.AskEach(now, call.Ranges) })
	if !c.asksAgain(sess, &items, 1, deadline, err) {
		return ledger.IsLost(err)
	}
	ok := true
	for some := range slices.Chunk(items.Items, flow.ClaimBatch) {
		ok = c.ask(&claimCall{Claim: flow.Claim{Session: call.Session, Items: some}}, false) && ok
	}
	return ok
}
