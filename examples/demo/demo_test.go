package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/ackledger/ackledger/ledger"
)

func TestAPlanHasEveryKindOfMessage(t *testing.T) {
	const n = 100
	messages := plan("sqs", n, rand.New(rand.NewPCG(1, 2)))
	orders, bad := wanted(messages)
	if len(orders) != n || len(bad) != badPerBroker || len(messages) != n+n/duplicateEvery+badPerBroker {
		t.Errorf("%d messages: %d orders, %d bad", len(messages), len(orders), len(bad))
	}
}

// The audit is what makes the demo a proof: it must see each way in which an order can go wrong.
func TestTheAuditSeesWhatIsWrong(t *testing.T) {
	orders := map[string]message{"a": {id: "a"}, "b": {id: "b"}, "c": {id: "c"}}
	for name, c := range map[string]struct {
		counts map[string]int
		want   verdict
	}{
		"all well":      {map[string]int{"a": 1, "b": 1, "c": 1}, verdict{once: 3}},
		"one missing":   {map[string]int{"a": 1, "b": 1}, verdict{once: 2, missing: 1}},
		"one twice":     {map[string]int{"a": 1, "b": 2, "c": 1}, verdict{once: 2, twice: 1}},
		"one of nobody": {map[string]int{"a": 1, "b": 1, "c": 1, "d": 1}, verdict{once: 3, unknown: 1}},
	} {
		got := audit(orders, c.counts)
		if got != c.want || got.ok() != (name == "all well") {
			t.Errorf("%s: got %+v (ok: %v), want %+v", name, got, got.ok(), c.want)
		}
	}
}

// The same on the real table: without a unique constraint a double is seen.
func TestADoubleChargeIsSeenInTheTable(t *testing.T) {
	db, err := openCharges(t.Context(), t.TempDir()+"/charges.db")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, id := range []string{"a", "b", "b"} {
		if _, err := db.ExecContext(t.Context(), insertCharge, "sqs", id, 100); err != nil {
			t.Fatal(err)
		}
	}
	counts, err := countCharges(t.Context(), db, "sqs")
	if err != nil || counts["a"] != 1 || counts["b"] != 2 {
		t.Errorf("got %v, %v", counts, err)
	}
}

type archive map[string]ledger.Record

func (a archive) Get(_ context.Context, key ledger.Key) (ledger.Record, error) {
	r, ok := a[string(key.ID)]
	if !ok {
		return r, ledger.ErrNotFound
	}
	return r, nil
}

func TestTheAuditOfTheArchiveSeesWhatIsWrong(t *testing.T) {
	bad := map[string]message{"a": {id: "a", body: []byte("<a/>")}}
	kept := func(s ledger.State, bodies ...string) archive {
		r := ledger.Record{State: s}
		for _, b := range bodies {
			r.Archived = append(r.Archived, ledger.ArchiveRecord{Archive: ledger.Archive{Body: []byte(b)}})
		}
		return archive{"a": r}
	}
	if n, err := auditArchive(t.Context(), kept(ledger.Failed, "<a/>"), "", bad); n != 1 || err != nil {
		t.Errorf("all well: got %d, %v", n, err)
	}
	for name, a := range map[string]archive{
		"no row": {}, "not failed": kept(ledger.Succeeded, "<a/>"), "not archived": kept(ledger.Failed),
		"archived twice": kept(ledger.Failed, "<a/>", "<a/>"), "cut": kept(ledger.Failed, "<a"),
	} {
		n, err := auditArchive(t.Context(), a, "", bad)
		if n != 0 || err == nil || errors.Is(err, ledger.ErrNotFound) != (name == "no row") {
			t.Errorf("%s: got %d, %v", name, n, err)
		}
	}
}

// What is short in the demo is not so short that a worker warns of it.
func TestTheSettingsAreWise(t *testing.T) {
	o, err := options(reporter{}, groupName).WithDefaults()
	if got := o.Warnings(0); err != nil || len(got) > 0 {
		t.Errorf("%v, %q", err, got)
	}
}
