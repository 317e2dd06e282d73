package main

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
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

// On a terminal the table stands in one place: each is drawn over the one before.
func TestTheTableIsDrawnOverItself(t *testing.T) {
	var out strings.Builder
	p := &progress{out: &out, live: true}
	v := view{brokers: []row{{broker: "sqs", charged: 1, orders: 4}, {broker: "kafka", charged: 4, orders: 4, caught: 7}}, kill: 2}
	p.at(v)
	first := out.String()
	p.at(v)
	if again := strings.TrimPrefix(out.String(), first); again != "\x1b[4A"+first {
		t.Errorf("drawn again as %q", again)
	}
	if lines := strings.Count(first, "\n"); lines != 4 || !strings.Contains(first, "1 of 4") || !strings.Contains(first, strings.Repeat("█", barWidth)+" ") {
		t.Errorf("%d lines:\n%s", lines, first)
	}
}

// Elsewhere a line tells of each tenth, once.
func TestALineTellsOfEachTenth(t *testing.T) {
	var out strings.Builder
	p := &progress{out: &out}
	for _, n := range []int{0, 1, 1, 5, 10} {
		p.at(view{brokers: []row{{orders: 10, charged: n}}})
	}
	if got, want := out.String(), "charged 1 of 10\ncharged 5 of 10\ncharged 10 of 10\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestThePageShowsTheLedger(t *testing.T) {
	p, err := startPage(t.Context(), memory.New())
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(text), "ackledger") {
		t.Errorf("%s: %v\n%s", answer.Status, err, text)
	}
	if err := p.close(); err != nil {
		t.Error(err)
	}
}
