package history_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// What histories have found, each reduced to the few calls that show it. All of it was in ranges: an owner went by what it
// had meant to write there, or did not yet know what another call of its own had written.

// found is a ledger with one owner that holds two neighbours of a log in one range.
type found struct {
	*testing.T
	*memory.Ledger
	plan    plan
	owner   ledger.Owner
	tickets []ledger.Ticket
}

func newFound(t *testing.T) *found {
	t.Helper()
	f := &found{T: t, Ledger: memory.New(), plan: plan{Scope: t.Name(), Keys: 2, Ranged: true}}
	f.owner = f.join()
	for _, c := range f.claim(f.owner, 0, 1) {
		f.tickets = append(f.tickets, c.Ticket)
	}
	return f
}

func (f *found) join() ledger.Owner {
	f.Helper()
	o, err := f.Join(f.Context(), time.Minute)
	if err != nil {
		f.Fatal(err)
	}
	return o
}

func (f *found) claim(o ledger.Owner, keys ...int) []ledger.Claim {
	f.Helper()
	claims, err := o.Claim(f.Context(), f.entries(keys...))
	if err != nil {
		f.Fatal(err)
	}
	return claims
}

func (f *found) entries(keys ...int) []ledger.Entry {
	var entries []ledger.Entry
	for _, key := range keys {
		entries = append(entries, f.plan.entry(&op{Key: key, Delivery: 1}))
	}
	return entries
}

func (f *found) settle(kind ledger.SettleKind) error {
	f.Helper()
	s := f.plan.settlement(&op{Settle: kind, Delivery: 1}, f.tickets[0])
	errs, err := f.owner.Settle(f.Context(), []ledger.Settlement{s})
	if err == nil {
		err = errs[0]
	}
	return err
}

// want asks for a message as another owner.
func (f *found) want(key int, answer ledger.Answer, state ledger.State) {
	f.Helper()
	if c := f.claim(f.join(), key)[0]; c.Answer != answer || c.Outcome.State != state {
		f.Errorf("message %d: %+v, want %v %v", key, c, answer, state)
	}
}

// A success that was refused, nobody being reachable, was written nevertheless by the next settlement of that message: a
// failure, which was answered as if it held, and was in no archive.
func TestRefusedSettleChangesNothing(t *testing.T) {
	f := newFound(t)
	f.FailBefore(func(context.Context, memory.Op) error { return errDown })
	if err := f.settle(ledger.Succeed); err == nil || ledger.Unknown(err) {
		t.Fatalf("settle: %v, want it refused", err)
	}
	f.FailBefore(nil)
	if err := f.settle(ledger.Fail); err != nil {
		t.Fatal(err)
	}
	f.want(0, ledger.Done, ledger.Failed)
}

// A release that was lost on its way made the next settlement be answered "lost", while the ledger still held the message
// for this very owner: nobody ran it any more, until the owner's end.
func TestLostReleaseIsMadeUpFor(t *testing.T) {
	f := newFound(t)
	f.FailBefore(func(context.Context, memory.Op) error { return ledger.MarkUnknown(errRequestLost) })
	if err := f.settle(ledger.Release); !ledger.Unknown(err) {
		t.Fatalf("settle: %v, want it unknown", err)
	}
	f.FailBefore(nil)
	if err := f.settle(ledger.Succeed); !ledger.IsLost(err) {
		t.Fatalf("settle: %v, want ErrLost: it may have been given back", err)
	}
	f.want(0, ledger.Run, 0)
}

// A message was asked for again, the answer was lost, and it had left its range for a row: a success of the first ticket was
// then written into the range, answered as if it held, and forgotten, since the row counts.
func TestSettleAfterALostClaim(t *testing.T) {
	f := newFound(t)
	f.FailAfter(func(context.Context, memory.Op) error { return errAnswerLost })
	if _, err := f.owner.Claim(t.Context(), f.entries(0)); !ledger.Unknown(err) {
		t.Fatalf("claim: %v, want it unknown", err)
	}
	f.FailAfter(nil)
	err := f.settle(ledger.Succeed)
	if err != nil && !ledger.IsLost(err) {
		t.Fatal(err)
	}
	if c := f.claim(f.join(), 0)[0]; (c.Answer == ledger.Done) != (err == nil) {
		t.Errorf("settled: %v, but then %+v", err, c)
	}
}

// While messages are asked for again their range is taken apart: a settlement at that moment found no range, and was
// answered "lost" although its owner lives and holds the message.
func TestSettleDuringAClaim(t *testing.T) {
	f := newFound(t)
	carriedOut, goOn := make(chan struct{}), make(chan struct{})
	f.FailAfter(func(_ context.Context, call memory.Op) error {
		if call == memory.Claim {
			f.FailAfter(nil)
			close(carriedOut)
			<-goOn
		}
		return nil
	})
	claimed := make(chan error, 1)
	go func() {
		_, err := f.owner.Claim(t.Context(), f.entries(0, 1))
		claimed <- err
	}()
	<-carriedOut
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	s := f.plan.settlement(&op{Settle: ledger.Fail, Delivery: 1}, f.tickets[0])
	if _, err := f.owner.Settle(ctx, []ledger.Settlement{s}); ledger.IsLost(err) || ledger.Unknown(err) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a settlement in the middle of a claim: %v, want that it waits", err)
	}
	close(goOn)
	if err := <-claimed; err != nil {
		t.Fatal(err)
	}
}

// A range's tokens count the claims of a log, so they do not tell a first claim from a take-over: asked again under Park, a
// first claim whose answer was lost is parked, which is the safe side. The model said that this cannot be; of a claim whose
// token is known it still says so.
func TestParkAfterALostFirstClaim(t *testing.T) {
	f := newFound(t)
	f.claim(f.owner, 0)
	f.FailAfter(func(context.Context, memory.Op) error { return errAnswerLost })
	e := f.plan.entry(&op{Key: 2, Delivery: 1})
	if _, err := f.owner.Claim(t.Context(), []ledger.Entry{e}); !ledger.Unknown(err) {
		t.Fatalf("claim: %v, want it unknown", err)
	}
	f.FailAfter(nil)
	e.Park = true
	again, err := f.owner.Claim(t.Context(), []ledger.Entry{e})
	if err != nil || again[0].Answer != ledger.Spent || !again[0].Uncertain {
		t.Fatalf("%+v %v, want it parked", again, err)
	}

	parked := op{Call: 30, Return: 40, Kind: doClaim, Owner: "a", Delivery: 1, Park: true,
		Got: &answer{Answer: ledger.Spent, Token: again[0].Ticket.Token(), Uncertain: true}}
	for _, first := range []struct {
		op
		allowed bool
	}{
		{op{Call: 20, Return: never}, true},
		{op{Call: 20, Return: 25, Got: &answer{Answer: ledger.Run, Token: 1, Attempt: 1}}, false},
	} {
		first.Kind, first.Owner, first.Delivery = doClaim, "a", 1
		join := op{Return: 10, Lease: int64(time.Minute), Kind: doJoin, Owner: "a", Key: allKeys}
		r := record{plan: plan{Keys: 1, Ranged: true}, ops: []*op{&join, &first.op, &parked}, site: &site{}}
		if wrong, _ := r.check(); (wrong == nil) != first.allowed {
			t.Errorf("parked after %v: allowed %t, want %t", &first.op, wrong == nil, first.allowed)
		}
	}
}

// What PostgreSQL archives of a mismatch while its message is reopened is not in the reopen's snapshot, and is known still when
// the message is to run again: as if it had been archived afterwards, although a reader has seen it before. The message runs,
// and what the mismatch brought is in the archive.
func TestMismatchDuringReopen(t *testing.T) {
	for _, c := range []struct{ during, snapshots, allowed bool }{
		{during: true, snapshots: true, allowed: true},
		{during: true}, {snapshots: true},
	} {
		begin := int64(25)
		if c.during {
			begin = 10
		}
		ops := []*op{
			{Return: 1, Kind: doJoin, Owner: "a", Key: allKeys, Lease: int64(time.Minute)},
			{Call: 2, Return: 3, Kind: doClaim, Owner: "a", Delivery: otherBody, Got: &answer{Answer: ledger.Run, Token: 1, Attempt: 1}},
			{Call: 4, Return: 5, Kind: doSettle, Settle: ledger.Succeed, Owner: "a", From: "a", Token: 1},
			{Call: 6, Return: 7, Kind: doClaim, Owner: "a", Delivery: 1, Got: &answer{Answer: ledger.Mismatch}},
			{Call: 11, Return: 20, Kind: doSettle, Settle: ledger.Fail, Mismatch: true, Owner: "a", From: "a", Delivery: 1},
			{Call: 21, Return: 40, Kind: doGet, Row: &view{State: ledger.Succeeded, Token: 1, Archive: 1}},
			{Client: 1, Call: begin, Return: 50, Kind: doReopen, Done: true},
			{Call: 60, Return: 61, Kind: doClaim, Owner: "a", Delivery: 1, Got: &answer{Answer: ledger.Done, State: ledger.Pending}},
			{Call: 62, Return: 63, Kind: doClaim, Owner: "a", Delivery: otherBody, Got: &answer{Answer: ledger.Run, Token: 3, Attempt: 1}},
		}
		r := record{plan: plan{Keys: 1}, ops: ops, site: &site{snapshots: c.snapshots}}
		if wrong, _ := r.check(); (wrong == nil) != c.allowed {
			t.Errorf("a mismatch stays known after a reopen, %+v: allowed %t", c, wrong == nil)
		}
	}
}

// Where peers watch each other, an owner that is asked to leave is lost to its own process at once, and to others when its item says so. A
// settlement into its range was lost, and then another owner was told that it lives.
func TestSettleWhileLeaving(t *testing.T) {
	for _, c := range []struct{ during, watched, allowed bool }{
		{during: true, watched: true, allowed: true},
		{during: true}, {watched: true},
	} {
		end := int64(10)
		if c.during {
			end = 50
		}
		ops := []*op{
			{Return: 1, Kind: doJoin, Owner: "a", Key: allKeys, Lease: int64(time.Minute)},
			{Return: 1, Kind: doJoin, Owner: "b", Key: allKeys, Lease: int64(time.Minute)},
			{Call: 2, Return: 3, Kind: doClaim, Owner: "a", Delivery: 1, Got: &answer{Answer: ledger.Run, Token: 1, Attempt: 1}},
			{Client: 1, Call: 5, Return: end, Kind: doLeave, Owner: "a", Key: allKeys},
			{Call: 20, Return: 21, Kind: doSettle, Settle: ledger.Succeed, Owner: "a", From: "a", Token: 1, Lost: true},
			{Call: 30, Return: 31, Kind: doClaim, Owner: "b", Delivery: 1, Got: &answer{Answer: ledger.Busy, Wait: time.Second}},
		}
		r := record{plan: plan{Keys: 1, Ranged: true}, ops: ops, site: &site{watched: c.watched}}
		if wrong, _ := r.check(); (wrong == nil) != c.allowed {
			t.Errorf("lost while it is seen to live, %+v: allowed %t", c, wrong == nil)
		}
	}
}

// An operator's reopening ended the range of an owner that was declared dead before its time, and a message of it became a row. The owner's
// process took it to be live, and the range to be over since it had asked for another message of it: what it gave back was given back.
// Whoever came next took the row from the dead owner.
func TestReleaseIntoARangeThatIsGone(t *testing.T) {
	for _, c := range []struct{ declared, allowed bool }{{true, true}, {}} {
		ops := []*op{
			{Return: 1, Kind: doJoin, Owner: "a", Key: allKeys, Lease: int64(time.Minute)},
			{Return: 1, Kind: doJoin, Owner: "b", Key: allKeys, Lease: int64(time.Minute)},
			{Call: 4, Return: 5, Kind: doClaim, Owner: "a", Delivery: 1, Got: &answer{Answer: ledger.Run, Token: 1, Attempt: 1}},
			{Call: 6, Return: 7, Kind: doSettle, Settle: ledger.Release, Owner: "a", From: "a", Token: 1},
			{Call: 8, Return: 9, Kind: doClaim, Owner: "b", Delivery: 1,
				Got: &answer{Answer: ledger.Run, Token: 2, Attempt: 1, Crashes: 1, TookOver: true}},
		}
		if c.declared {
			ops = append(ops, &op{Call: 2, Return: 3, Kind: doDeclare, Owner: "a", Key: allKeys})
		}
		r := record{plan: plan{Keys: 1, Ranged: true}, ops: ops, site: &site{watched: true}}
		if wrong, _ := r.check(); (wrong == nil) != c.allowed {
			t.Errorf("taken over after it was given back, declared dead %t: allowed %t", c.declared, wrong == nil)
		}
	}
}

// A message and its archive are two items, and are read one after the other. One was reopened between the two: what held it was told,
// though its delivery was archived before, and it was free to take after. Nothing was written, so whoever was told comes again.
func TestBusyBeforeAReopen(t *testing.T) {
	for _, c := range []struct{ during, watched, allowed bool }{
		{during: true, watched: true, allowed: true},
		{during: true}, {watched: true},
	} {
		begin := int64(60)
		if c.during {
			begin = 11
		}
		ops := []*op{
			{Return: 1, Kind: doJoin, Owner: "a", Key: allKeys, Lease: int64(time.Minute)},
			{Return: 1, Kind: doJoin, Owner: "b", Key: allKeys, Lease: int64(time.Minute)},
			{Call: 2, Return: 3, Kind: doClaim, Owner: "a", Delivery: 1, Got: &answer{Answer: ledger.Run, Token: 1, Attempt: 1}},
			{Call: 4, Return: 5, Kind: doSettle, Settle: ledger.Fail, Owner: "a", From: "a", Token: 1, Delivery: 1},
			{Call: 6, Return: 7, Kind: doClaim, Owner: "a", Delivery: 2, Got: &answer{Answer: ledger.Run, Token: 2, Attempt: 1}},
			{Client: 1, Call: 10, Return: 50, Kind: doClaim, Owner: "b", Delivery: 1, Got: &answer{Answer: ledger.Busy, Wait: time.Second}},
			{Call: 12, Return: 13, Kind: doSettle, Settle: ledger.Succeed, Owner: "a", From: "a", Token: 2},
			{Client: 2, Call: begin, Return: 70, Kind: doReopen, Done: true},
			{Call: 80, Return: 81, Kind: doClaim, Owner: "b", Delivery: 1, Got: &answer{Answer: ledger.Run, Token: 4, Attempt: 1}},
		}
		r := record{plan: plan{Keys: 1}, ops: ops, site: &site{watched: c.watched}}
		if wrong, _ := r.check(); (wrong == nil) != c.allowed {
			t.Errorf("busy with what was archived, %+v: allowed %t", c, wrong == nil)
		}
	}
}

// A claim's request came twice, and the second was answered: it had found the message to be its own, and a token was skipped. More than one is
// not, nor any by a store that is asked once.
func TestTokenOfARequestThatCameTwice(t *testing.T) {
	for _, c := range []struct {
		token            uint64
		watched, allowed bool
	}{{2, true, true}, {2, false, false}, {3, true, false}} {
		ops := []*op{
			{Return: 1, Kind: doJoin, Owner: "a", Key: allKeys, Lease: int64(time.Minute)},
			{Call: 2, Return: 3, Kind: doClaim, Owner: "a", Delivery: 1, Got: &answer{Answer: ledger.Run, Token: c.token, Attempt: 1}},
		}
		r := record{plan: plan{Keys: 1}, ops: ops, site: &site{watched: c.watched}}
		if wrong, _ := r.check(); (wrong == nil) != c.allowed {
			t.Errorf("token %d of a first claim, watched %t: allowed %t", c.token, c.watched, wrong == nil)
		}
	}
}
