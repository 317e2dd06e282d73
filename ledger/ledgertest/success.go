package ledgertest

import (
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// operateSuccesses: what has succeeded is read with its result, in the order of the keys, and nothing else is said to have.
func operateSuccesses(e *env) {
	reader, ok := e.Ledger.(ledger.SuccessReader)
	if !ok {
		e.Fatalf("%T is no SuccessReader", e.Ledger)
	}
	o := e.owner()
	entries := e.entries(6)
	e.want(o, entries[0], ledger.Run)
	e.failed(o, entries[1])
	with := succeed(e.want(o, entries[2], ledger.Run))
	with.Result = []byte("result")
	e.holds(o, with)
	e.holds(o, ledger.Settlement{Ticket: e.want(o, entries[3], ledger.Run).Ticket, Kind: ledger.Release, After: time.Hour})
	e.holds(o, succeed(e.want(o, entries[4], ledger.Run)))
	asked := []int{4, 5, 2, 0, 1, 3, 2}
	read := func() []ledger.Success {
		keys := make([]ledger.Key, len(asked))
		for i, n := range asked {
			keys[i] = entries[n].Key
		}
		out, err := reader.Successes(e.ctx, keys)
		if err != nil || len(out) != len(asked) {
			e.Fatalf("%v, %v", out, err)
		}
		return out
	}
	for i, s := range read() {
		n := asked[i]
		wantResult := map[int]string{2: `"result"`, 4: "nil"}[n]
		switch {
		case s.Succeeded != (wantResult != ""), s.Of(entries[n].Fingerprint) != s.Succeeded:
			e.Errorf("message %d: %+v", n, s)
		case s.Succeeded && (showBytes(s.Result) != wantResult || s.Fingerprint != entries[n].Fingerprint || s.Of(ledger.BodyFingerprint([]byte("another")))):
			e.Errorf("message %d: %+v", n, s)
		}
	}
	report, err := e.op().Reopen(e.ctx, ledger.ReopenRequest{Filter: ledger.Filter{Scope: e.scope, IDs: [][]byte{entries[2].Key.ID}}, By: by})
	if err != nil || report.Reopened != 1 {
		e.Fatalf("%+v, %v", report, err)
	}
	if s := read()[2]; s.Succeeded || s.Of(entries[2].Fingerprint) {
		e.Errorf("a message that was reopened: %+v", s)
	}
	if s, err := reader.Successes(e.ctx, nil); err != nil || len(s) != 0 {
		e.Errorf("of nothing: %v, %v", s, err)
	}
	_, err = reader.Successes(e.ctx, make([]ledger.Key, ledger.MaxSuccesses+1))
	e.invalid(err, "keys")
}
