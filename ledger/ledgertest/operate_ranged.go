package ledgertest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// rangedEntries are n neighbours of one partition, which the ledger may hold in a range.
func (e *env) rangedEntries(n int) []ledger.Entry {
	entries := make([]ledger.Entry, n)
	for i := range entries {
		id := fmt.Appendf(nil, "topic-4-%d", i)
		entries[i] = ledger.Entry{
			Key: ledger.Key{Scope: e.scope, ID: id, Pos: &ledger.Position{
				Log: "log of " + e.scope, Epoch: 1, Offset: int64(i), Prev: int64(i) - 1}},
			Fingerprint: ledger.BodyFingerprint(id), Delivery: append([]byte("delivery of "), id...), Window: window, Ranged: true,
		}
	}
	return entries
}

// runs counts the entries that run when they come again, and releases them.
func (e *env) runs(o ledger.Owner, entries []ledger.Entry) (ran string) {
	e.Helper()
	var back []ledger.Settlement
	for i, c := range e.claimAll(o, entries) {
		switch c.Answer {
		case ledger.Run:
			ran += " " + strconv.Itoa(i)
			back = append(back, release(c))
		case ledger.Done:
		default:
			e.Errorf("message %d: %+v", i, c)
		}
	}
	for _, err := range e.settleAll(o, back) {
		if err != nil {
			e.Fatal(err)
		}
	}
	return ran
}

// Messages that are held in a range are reopened by their offsets or ids, those with a row of their own among them, and
// nothing beside them.
func reopenRanged(e *env) {
	o := e.owner()
	entries := e.rangedEntries(30)
	claims := e.claimAll(o, entries)
	var done []ledger.Settlement
	for i, c := range claims {
		switch i {
		case 12: // has a row, and succeeds by a replay
			done = append(done, fail(c, entries[i]))
		case 14: // has a row for its result
			s := succeed(c)
			s.Result = []byte("r")
			done = append(done, s)
		default:
			done = append(done, succeed(c))
		}
	}
	for i, err := range e.settleAll(o, done) {
		if err != nil {
			e.Fatalf("settle %d: %v", i, err)
		}
	}
	again := entries[12]
	again.Delivery, again.StampToken = []byte("copy"), claims[12].Token
	e.holds(o, succeed(e.want(o, again, ledger.Run)))
	e.leave(o)
	o = e.owner()

	for i, s := range e.status(entries...) {
		if s.State != ledger.Succeeded {
			e.Errorf("message %d: %+v", i, s)
		}
	}
	if found, err := e.op().Find(e.ctx, e.scope, entries[7].Key.ID); err != nil || len(found) != 1 || found[0].State != ledger.Succeeded {
		e.Errorf("find of what a range holds: %+v, %v", found, err)
	}
	e.refusesReopen(o, entries)
	if r := e.reopen(ledger.ReopenRequest{Filter: e.fromTen(), DryRun: true}); r.Matched != 10 || r.Reopened != 0 {
		e.Errorf("dry run: %+v", r)
	}
	if r := e.reopen(ledger.ReopenRequest{Filter: e.fromTen()}); r.Reopened != 10 || r.Skipped != 0 {
		e.Errorf("reopened: %+v", r)
	}
	if got, want := e.runs(o, entries), " 10 11 12 13 14 15 16 17 18 19"; got != want {
		e.Errorf("reopened by offset:%s, want%s", got, want)
	}
	if r := e.reopen(ledger.ReopenRequest{Filter: ledger.Filter{IDs: [][]byte{entries[3].Key.ID, []byte("topic-4-99"), []byte("x")}}}); r.Reopened != 1 {
		e.Errorf("reopened by id: %+v", r)
	}
	e.succeedAll(o, append(entries[10:20:20], entries[3]))
	e.leave(o)
	if got := e.runs(e.owner(), entries); got != "" {
		e.Errorf("after they succeeded again:%s run", got)
	}
	audits := e.audits()
	if n := len(audits); n < 3 {
		e.Errorf("%d audit rows", n)
	}
	if !slices.ContainsFunc(audits, func(r ledger.AuditRecord) bool {
		return string(r.Key.ID) == "topic-4-10" && strings.Contains(r.Detail, "offsets 10 to 19")
	}) {
		e.Errorf("no audit row says which offsets were reopened: %+v", audits)
	}
	for i, span := range map[int]int64{3: 1, 9: 0, 10: 10, 15: 10, 19: 10} { // the row of all says so of each
		key, n := entries[i].Key, 0
		for r, err := range e.op().Audits(e.ctx, ledger.AuditFilter{Key: &key, Action: ledger.ActionReopen}) {
			if err != nil {
				e.Fatal(err)
			}
			if n++; r.By != by || r.Span != span {
				e.Errorf("offset %d was reopened by %+v", i, r)
			}
		}
		if n != int(min(span, 1)) {
			e.Errorf("offset %d: %d audit rows of %d offsets", i, n, span)
		}
	}
}

// reopenCounts: a dry run selects what the run reopens, beside messages with a row of their own: one that failed, one that succeeded.
func reopenCounts(e *env) {
	o := e.owner()
	entries := e.rangedEntries(6)
	var done []ledger.Settlement
	for i, c := range e.claimAll(o, entries) {
		switch s := succeed(c); i {
		case 1:
			done = append(done, fail(c, entries[1]))
		case 3: // has a row for its result
			s.Result = []byte("r")
			fallthrough
		default:
			done = append(done, s)
		}
	}
	for i, err := range e.settleAll(o, done) {
		if err != nil {
			e.Fatalf("settle %d: %v", i, err)
		}
	}
	e.leave(o)
	filter := func(first, last int64, limit int) ledger.Filter {
		return ledger.Filter{Scope: e.scope, Limit: limit, Offsets: &ledger.OffsetRange{Partition: 4, First: first, Last: last}}
	}
	for _, c := range []struct {
		filter ledger.Filter
		want   int64
	}{
		{filter(0, 5, 0), 5}, {filter(0, 5, 2), 2}, {filter(1, 1, 0), 0}, {filter(3, 3, 0), 1}, {filter(0, 2, 0), 2},
		{ledger.Filter{IDs: [][]byte{entries[1].Key.ID, entries[3].Key.ID, entries[4].Key.ID}}, 2},
	} {
		if r := e.reopen(ledger.ReopenRequest{Filter: c.filter, DryRun: true}); r.Matched != c.want || r.Reopened != 0 {
			e.Errorf("dry run of %+v: %+v, want %d", c.filter, r, c.want)
		}
	}
	for _, c := range []struct {
		limit int
		want  int64
	}{{3, 3}, {0, 2}} {
		if r := e.reopen(ledger.ReopenRequest{Filter: filter(0, 5, c.limit)}); r.Matched != c.want || r.Reopened != c.want || r.Skipped != 0 {
			e.Errorf("reopened at most %d: %+v, want %d", c.limit, r, c.want)
		}
	}
	if r := e.reopen(ledger.ReopenRequest{Filter: filter(0, 5, 0), DryRun: true}); r.Matched != 0 {
		e.Errorf("dry run after the run: %+v", r)
	}
}

// fromTen are the messages of rangedEntries whose offsets are 10 to 19.
func (e *env) fromTen() ledger.Filter {
	return ledger.Filter{Scope: e.scope, Offsets: &ledger.OffsetRange{Partition: 4, First: 10, Last: 19}}
}

// refusesReopen shows that what cannot be cut out of ranges is refused by name, and changes nothing.
func (e *env) refusesReopen(o ledger.Owner, entries []ledger.Entry) {
	since := e.fromTen()
	since.From = time.Unix(1, 0)
	for field, r := range map[string]ledger.ReopenRequest{
		"ReopenRequest.Filter.Offsets": {Filter: ledger.Filter{Scope: e.scope}, By: by},
		"ReopenRequest.FreshKeys":      {Filter: e.fromTen(), FreshKeys: true, By: by},
		"ReopenRequest.Filter.From":    {Filter: since, By: by},
	} {
		_, err := e.op().Reopen(e.ctx, r)
		e.invalid(err, field)
	}
	if got := e.runs(o, entries); got != "" {
		e.Fatalf("what was refused reopened%s", got)
	}
}

// succeedAll claims messages that must run, and settles them.
func (e *env) succeedAll(o ledger.Owner, entries []ledger.Entry) {
	var succeeded []ledger.Settlement
	for i, c := range e.claimAll(o, entries) {
		if c.Answer != ledger.Run {
			e.Fatalf("%q: %+v", entries[i].Key.ID, c)
		}
		succeeded = append(succeeded, succeed(c))
	}
	for _, err := range e.settleAll(o, succeeded) {
		if err != nil {
			e.Fatal(err)
		}
	}
}
