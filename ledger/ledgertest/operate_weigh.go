package ledgertest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ackledger/ackledger/ledger"
)

// weigh asks for what of the scope is archived.
func (e *env) weigh(enough int64) int64 {
	e.Helper()
	m, ok := e.Ledger.(ledger.ArchiveMeter)
	if !ok {
		e.Fatalf("%T is no ArchiveMeter", e.Ledger)
	}
	n, err := m.ArchivedBytes(e.ctx, e.scope, enough)
	if err != nil {
		e.Fatalf("archived bytes: %v", err)
	}
	return n
}

// What is archived of a scope is known about, grows by what is archived, and falls by what is purged; other scopes' is not in it.
func archivedBytes(e *env) {
	const all = 1 << 40
	if n := e.weigh(all); n != 0 {
		e.Errorf("nothing is archived: %d bytes", n)
	}
	o := e.owner()
	other := e.entry("other")
	other.Key = ledger.Key{Scope: e.scope + "/other", ID: []byte("other")}.Known()
	e.failed(o, other)
	const deliveries, body = 1200, 200 // more than stores look at in one statement
	entries := make([]ledger.Entry, deliveries)
	for i := range entries {
		entries[i] = e.entry(fmt.Sprint("failed ", i))
	}
	var want int64
	for part := range slices.Chunk(entries, 600) {
		var fails []ledger.Settlement
		for i, c := range e.claimAll(o, part) {
			s := fail(c, part[i])
			s.Dead.Body, s.Dead.Group = make([]byte, body), "group"
			s.Dead.Headers = []ledger.Header{{Name: "h", Value: []byte("value")}}
			s.Dead.Errors = []ledger.AttemptError{{Attempt: 1, Kind: ledger.KindError, Error: strings.Repeat("e", 100)}}
			want += s.Dead.Weight()
			fails = append(fails, s)
		}
		for _, err := range e.settleAll(o, fails) {
			if err != nil {
				e.Fatalf("settle: %v", err)
			}
		}
	}
	had := e.weigh(all)
	if had < want*9/10 || had > want*11/10 {
		e.Errorf("%d bytes are archived, want about %d", had, want)
	}
	if n := e.weigh(1000); n < 1000 {
		e.Errorf("it stops at %d bytes, before the 1000 that are enough", n)
	}
	var gone ledger.Filter
	for i := range 20 {
		gone.IDs = append(gone.IDs, entries[i].Key.ID)
	}
	if r := e.purge(ledger.PurgeRequest{Filter: gone}); r.Purged != 20 {
		e.Fatalf("purged: %+v", r)
	}
	left := had * (deliveries - 20) / deliveries
	if n := e.weigh(all); n < left-had/500 || n > left+had/500 {
		e.Errorf("%d bytes are archived after 20 of %d deliveries are purged, want about %d", n, deliveries, left)
	}
}
