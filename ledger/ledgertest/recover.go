package ledgertest

import (
	"errors"
	"slices"
	"testing"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// RunRecover is the conformance suite of [ledger.Recoverer]. The ledger that open returns must be an Operator, hold ranges, and be
// nobody else's, since a recovery ends all lives.
func RunRecover(t *testing.T, open Open) {
	e := begin(t, open)
	l, ok := e.Ledger.(interface {
		ledger.Recoverer
		ledger.Identified
	})
	if !ok {
		t.Fatalf("%T is no Recoverer with an id", e.Ledger)
	}
	before := e.owner()
	running, failedOnce := e.entry("running"), e.entry("failed")
	own := e.want(before, running, ledger.Run)
	token := e.failed(before, failedOnce).Token
	ranged := e.claimAll(before, inRange(e.span(0, 4)...))
	e.holds(before, succeed(ranged[0]))

	root, epoch := storage.EpochOf(idOf(e, l))
	for n := 1; n <= 2; n++ {
		id := idOf(e, l)
		refusedRecoveries(e, l, id, epoch)
		got, err := l.Recover(e.ctx, ledger.Recovery{ID: id, Epoch: epoch + 1, By: by})
		if err != nil {
			t.Fatal(err)
		}
		if epoch++; got.ID != idOf(e, l) || got.ID == storage.InEpoch(id, epoch, 0) || got.Owners < 1 || got.Messages < 1 || got.Ranges < 1 {
			t.Fatalf("recovered: %+v, the id is %q", got, idOf(e, l))
		}
		if is, now := storage.EpochOf(got.ID); is != root || now != epoch {
			t.Errorf("the id %q is read as %q in epoch %d", got.ID, is, now)
		}
		e.lost(before, succeed(own))
		before, own, ranged = recovered(e, epoch, running, failedOnce, token, ranged)
	}
	notes := all(e, e.op().Audits(e.ctx, ledger.AuditFilter{Action: ledger.ActionRecover}))
	if len(notes) != 2 || notes[0].By != by {
		t.Errorf("audited as %+v", notes)
	}
}

// recovered checks what an epoch begins with: what was in hand is free, uncounted, and has a token of this epoch. Its owner claims it.
func recovered(e *env, epoch int, running, failedOnce ledger.Entry, token uint64, was []ledger.Claim) (ledger.Owner, ledger.Claim, []ledger.Claim) {
	e.Helper()
	o := e.owner()
	behind := e.want(o, inRange(e.at(0, int64(100*epoch), -1))[0], ledger.Run) // the log goes on
	own := e.want(o, running, ledger.Run)
	again := e.claimAll(o, inRange(e.span(0, 4)...))
	fresh := inRange(e.at(int32(epoch), 0, -1))[0] // a log that is made anew
	for _, c := range append(slices.Clone(again[1:]), behind, own, e.want(o, fresh, ledger.Run)) {
		if c.Answer != ledger.Run || c.Token <= storage.TokenFloor(epoch) || c.Token > storage.TokenFloor(epoch+1) || c.Crashes != 0 {
			e.Errorf("in epoch %d: %+v", epoch, c)
		}
	}
	if again[0].Answer != ledger.Done || len(was) != len(again) {
		e.Errorf("what had succeeded: %+v", again[0])
	}
	if s := e.status(failedOnce)[0]; s.State != ledger.Failed || s.Token != token {
		e.Errorf("what had failed with token %d: %+v", token, s)
	}
	return o, own, again
}

// refusedRecoveries: of another ledger, of an epoch that was, and by nobody.
func refusedRecoveries(e *env, l ledger.Recoverer, id string, epoch int) {
	e.Helper()
	for _, r := range []ledger.Recovery{{ID: id, Epoch: epoch, By: by}, {ID: id, Epoch: ledger.MaxEpoch + 1, By: by}, {ID: id, Epoch: epoch + 1}} {
		if _, err := l.Recover(e.ctx, r); !isInvalid(err) {
			e.Errorf("%+v: %v", r, err)
		}
	}
	if _, err := l.Recover(e.ctx, ledger.Recovery{ID: "another", Epoch: epoch + 1, By: by}); !errors.Is(err, ledger.ErrChanged) {
		e.Errorf("another ledger's: %v", err)
	}
}

// inRange lets entries be held in ranges.
func inRange(entries ...ledger.Entry) []ledger.Entry {
	for i := range entries {
		entries[i].Ranged = true
	}
	return entries
}

func idOf(e *env, l ledger.Identified) string {
	e.Helper()
	id, err := l.ID(e.ctx)
	if err != nil || !storage.IsLedgerID(id) {
		e.Fatalf("the id is %q, %v", id, err)
	}
	return id
}

func isInvalid(err error) bool {
	_, ok := errors.AsType[*ledger.InvalidError](err)
	return ok
}
